"""Phones of the scripts of Asia and Africa: words a linguist knows, and what must hold of every text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctc_align.text.ipa import IPA_PHONES
from ctc_align.text.sounds.pieces import pieces

SAID = {
    "hi": "समझना=səmədʒna|səmdʒəna|səmdʒna लड़का=lərka कमल=kəməl हिंदी=hindi ज़मीन=zəmin पहला=pɛhla मैं=mɛ̃ ज्ञान=ɡjan",
    "mr": "मराठी=məraʈi",
    "ne": "नेपाल=nepal",
    "bn": "বাংলা=baŋla কলম=kɔlom সত্য=ʃɔto",
    "as": "অসম=ɔxɔm চাহ=sah",
    "pa": "ਪੰਜਾਬੀ=pəndʒabi|pəɲdʒabi ਘਰ=kər",
    "gu": "ગુજરાત=ɡudʒrat|ɡudʒərat",
    "or": "ଓଡ଼ିଆ=oria ଭାଷା=basa",
    "ta": "தமிழ்=tamiɹ அகம்=aɡam பக்கம்=pakam தங்கம்=taŋɡam ஃபோன்=fon",
    "te": "తెలుగు=teluɡu",
    "kn": "ಕನ್ನಡ=kanaɖa",
    "ml": "മലയാളം=malajalam അത്=adə",
    "si": "සිංහල=siŋhələ",
    "ar": "كتاب=kətab الشمس=aʃəms والقلب=walqəlb هذا=haða مكتب=məktəb مُعَلِّم=muʔalim",
    "fa": "خانه=xɔne خواهر=xɔhər دوست=dust ایران=irɔn",
    "ur": "پاکستان=pakəstan تھا=ta نہیں=nəhi",
    "ug": "ئۇيغۇر=ujʁur",
    "ckb": "کوردستان=kurdstan",
    "he": "שלום=ʃəlom כלב=kələv הַסֵּפֶר=hasefeʁ",
    "yi": "גוטן=ɡutn מענטש=mɛntʃ",
    "th": "สวัสดี=sawatdi ถนน=tanon คนไทย=kontaɪ ตลาด=talat เกิด=kət เพราะ=prɔ จันทร์=tʃan ต้นไม้=tonmaɪ แต่ความ=tɛkwam",
    "lo": "ສະບາຍດີ=sabaɪdi ວຽງຈັນ=wiaŋtʃan ຄົນ=kon",
    "dv": "ދިވެހި=divehi މިއަށް=miaʔ",
    "am": "አማርኛ=amarɨɲa|amarɲa ሰላም=səlam",
    "zh": "银行=inxaŋ 长城=tʃaŋtʃəŋ 學習=ʃyɛʃi 什么=ʃənmə 女儿=nyəɹ",
    "yue": "廣東話=ɡwɔŋdʊŋwa 你好=neɪhoʊ",
    "ja": "学校=ɡako 食べます=tabemasu 読んで=jonde 東京タワー=tokjotawaa 水を=mizuo これは=korewa はな=hana"
    " 人々=hitobito 発表=hapjo 私は=wataʃiwa",
    "ko": "한국어=hanɡuɡə 독립=toŋnip 같이=katʃi 좋아=tʃoa 大韓民國=tehanminɡuk",
}
"""Words and how they are said, alternatives parted by |."""


def said(word: str, language: str) -> str:
    return "".join(phone for piece in pieces(word, language) for phone in piece.phones)


@pytest.mark.parametrize("language", SAID)
def test_words_are_said_as_people_say_them(language: str) -> None:
    rules = [rule.split("=") for rule in unicodedata.normalize("NFC", SAID[language]).split()]
    wrong = {word: got for word, right in rules if (got := said(word, language)) not in right.split("|")}
    assert wrong == {}


BLOCKS = {
    "hi": "\u0900-\u097f", "as": "\u0980-\u09ff", "pa": "\u0a00-\u0a7f", "gu": "\u0a80-\u0aff", "or": "\u0b00-\u0b7f",
    "ta": "\u0b80-\u0bff", "te": "\u0c00-\u0c7f", "kn": "\u0c80-\u0cff", "ml": "\u0d00-\u0d7f", "si": "\u0d80-\u0dff",
    "th": "\u0e01-\u0e4e", "lo": "\u0e81-\u0ecd", "dv": "\u0780-\u07b1", "am": "\u1200-\u135a",
    "zh": "\u4e00-\u9fff", "yue": "\u4e00-\u9fff", "ja": "\u3041-\u9fff", "ko": "\u1100-\ud7a3",
    "ar": "\u0600-\u06ff", "fa": "\u0600-\u06ff", "ug": "\u0600-\u06ff", "ckb": "\u0620-\u06d3", "he": "\u05b0-\u05f4",
}  # fmt: skip


@pytest.mark.parametrize("language", BLOCKS)
def test_pieces_cover_any_text_without_gaps(language: str) -> None:
    low, high = map(ord, BLOCKS[language].split("-"))
    letters = [chr(code) for code in range(low, high + 1) if unicodedata.category(chr(code))[0] in "LM"]

    @settings(max_examples=150, deadline=None, database=None, derandomize=True)
    @given(st.text(letters, min_size=1, max_size=9))
    def check(text: str) -> None:
        found = pieces(text, language)
        assert [piece.start for piece in found] == [0, *(piece.end for piece in found[:-1])]
        assert found[-1].end == len(text)
        ways = [way for piece in found for way in (piece.phones, *piece.others)]
        assert {phone for way in ways for phone in way} <= {*IPA_PHONES, *text}

    check()
