"""Phones of the scripts of Asia and Africa: words a linguist knows, and what must hold of every text."""

from __future__ import annotations

import re
import unicodedata
from difflib import SequenceMatcher
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import first_row_of

from ctc_align.text.phone_sets import IPA_PHONES
from ctc_align.text.sounds import pronounced
from ctc_align.text.sounds.pieces import pieces
from ctc_align.text.transcript import split

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
    "ar": "كتاب=kətab الشمس=aʃəms والقلب=walqəlb هذا=haða مكتب=məktəb مُعَلِّم=muʔalim كِتَاب=kitab",
    "fa": "خانه=xɔne خواهر=xɔhər دوست=dust ایران=irɔn",
    "ur": "پاکستان=pakəstan تھا=ta نہیں=nəhi",
    "ug": "ئۇيغۇر=ujʁur",
    "ckb": "کوردستان=kurdstan",
    "he": "שלום=ʃəlom כלב=kələv הַסֵּפֶר=hasefeʁ",
    "yi": "גוטן=ɡutn מענטש=mɛntʃ",
    "th": "สวัสดี=sawatdi ถนน=tanon คนไทย=kontaɪ เพราะ=prɔ จันทร์=tʃan จริงๆ=tʃiŋtʃiŋ เด็กๆ=dekdek แต่ความ=tɛkwam",
    "lo": "ສະບາຍດີ=sabaɪdi ວຽງຈັນ=wiaŋtʃan ຄົນ=kon",
    "my": "မြန်မာ=mjanma ကျောင်း=tʃaʊn ရှမ်း=ʃan ထမင်း=tamin",
    "km": "ភាសា=piəsa ខ្មែរ=kmaɛ|kmɛ កម្ពុជា=kɔmputʃiə|kɔmpotʃiə",
    "dv": "ދިވެހި=divehi މިއަށް=miaʔ",
    "am": "አማርኛ=amarɨɲa|amarɲa ሰላም=səlam",
    "zh": "银行=inxaŋ 长城=tʃaŋtʃəŋ 學習=ʃyɛʃi 什么=ʃənmə 女儿=nyəɹ 二〇=əɹliŋ",
    "yue": "廣東話=ɡwɔŋdʊŋwa 你好=neɪhoʊ 㗎=ɡa",
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
    "th": "\u0e01-\u0e4e", "lo": "\u0e81-\u0ecd", "my": "\u1000-\u104f", "km": "\u1780-\u17d3",
    "dv": "\u0780-\u07b1", "am": "\u1200-\u135a",
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
        assert {phone for way in ways for phone in way} <= {*IPA_PHONES, *text, *unicodedata.normalize("NFD", text)}

    check()


TEXTS = {
    "hi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतंत्रता और समानता प्राप्त है",
    "bn": "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে",
    "pa": "ਸਾਰਾ ਮਨੁੱਖੀ ਪਰਿਵਾਰ ਆਪਣੀ ਮਹਿਮਾ ਸ਼ਾਨ ਅਤੇ ਹੱਕਾਂ ਦੇ ਪੱਖੋਂ ਜਨਮ ਤੋਂ ਹੀ ਆਜ਼ਾਦ ਹੈ",
    "or": "ସବୁ ମଣିଷ ଜନ୍ମକାଳରୁ ସ୍ୱାଧୀନ ସେମାନଙ୍କର ମର୍ଯ୍ୟାଦା ଓ ଅଧିକାର ସମାନ",
    "ta": "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்",
    "te": "ప్రతిపత్తిస్వత్వముల విషయమున మానవులెల్లరును జన్మతః స్వతంత్రులును సమానులును",
    "kn": "ಎಲ್ಲಾ ಮಾನವರೂ ಸ್ವತಂತ್ರರಾಗಿಯೇ ಜನಿಸಿದ್ದಾರೆ",
    "ml": "മനുഷ്യരെല്ലാവരും തുല്യാവകാശങ്ങളോടും അന്തസ്സോടും ജനിച്ചവരാണ്",
    "si": "සියලු මනුෂ්‍යයෝ නිදහස්ව උපත ලබා ඇත",
    "ar": "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق",
    "fa": "تمام افراد بشر آزاد به دنیا می آیند و از لحاظ حیثیت و حقوق با هم برابرند",
    "ur": "تمام انسان آزاد اور حقوق و عزت کے اعتبار سے برابر پیدا ہوئے ہیں",
    "he": "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם",
    "th": "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
    "lo": "ມະນຸດເກີດມາມີສິດເສລີພາບ ແລະສະເໝີໜ້າກັນໃນທາງກຽດຕິສັກ",
    "dv": "ހުރިހާ އިންސާނުން ވެސް އުފަންވަނީ މިނިވަންކަމުގައި",
    "am": "የሰው ልጅ ሁሉ ሲወለድ ነጻና በክብርና በመብትም እኩልነት ያለው ነው",
    "ko": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다",
    "ja": "すべてのひとはうまれながらにしてじゆうでありカタカナもよむ",
}
"""The first words of the Universal Declaration of Human Rights."""
_FLOORS = {"am": 0.8, "ar": 0.8, "fa": 0.8, "he": 0.75, "th": 0.75, "lo": 0.7, "ko": 0.75, "dv": 0.8}
_CLASSES = {
    "s": "tʃ dʒ ts dz s z ʃ ʒ θ", "t": "t d ʈ ɖ ð",
    "k": "k ɡ q x ɣ", "p": "p b", "r": "r ɹ ʁ", "n": "n ɲ ŋ", "v": "v w",
}  # fmt: skip
_OWN = {phone: letter for letter, phones in _CLASSES.items() for phone in phones.split()} | dict(zip("lmf", "lmf"))
_ROMAN = str.maketrans("cjxzdbgqw", "sssstpkkv", "yh")


@pytest.fixture(scope="module")
def uroman() -> Any:
    from uroman import Uroman

    return Uroman()


@pytest.mark.skipif(find_spec("uroman") is None, reason="uroman, the extra [romanize], is not installed")
@pytest.mark.parametrize("language", first_row_of(TEXTS))
def test_consonants_are_those_of_a_romanisation(language: str, uroman: Any) -> None:
    text = TEXTS[language]
    roman = re.sub("sh|ch|zh|kh", "s", uroman.romanize_string(text).lower())
    theirs = re.sub("[^a-z]|[aeiou]", "", roman).translate(_ROMAN)
    phones = [phone for word in text.split() for piece in pieces(word, language) for phone in piece.phones]
    own = "".join(_OWN.get(phone, "") for phone in phones)
    own, theirs = (re.sub(r"(.)\1+", r"\1", consonants) for consonants in (own, theirs))
    assert SequenceMatcher(None, own, theirs, autojunk=False).ratio() >= _FLOORS.get(language, 0.85), (own, theirs)


@pytest.mark.parametrize("language", ["yue", "zh-HK", "zh-Hant-HK", "zh_MO"])
def test_chinese_of_hong_kong_is_cantonese(language):
    assert pronounced(split("學", language=language), language).words[0].phones == "h ɔ k"
