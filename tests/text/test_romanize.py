"""Words of any script in Latin letters: every word once, in order, with its place, and letters that are its own."""

from __future__ import annotations

import builtins
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rows import over_rows

from ctc_align.config import Settings
from ctc_align.errors import UsageError
from ctc_align.text import library_readings, words_of

needs_uroman = pytest.mark.skipif(library_readings.find_spec("uroman") is None, reason="needs the extra [romanize]")


def romans(text: str, language: str = "en", **more: str) -> list[tuple[str, str | None]]:
    return [
        (word.text, word.roman) for word in words_of(text, Settings(romanize=True, language=language, **more)).words
    ]


@needs_uroman
@over_rows(
    ("text", "language", "expected"),
    [
        ("Straße, grün!", "de", [("Straße,", "strasse"), ("grün!", "gruen")]),
        ("Ну и как?", "ru", [("Ну", "nu"), ("и", "i"), ("как?", "kak")]),
        ("Τι ήθελες;", "el", [("Τι", "ti"), ("ήθελες;", "etheles")]),
        ("שָׁלוֹם עולם", "he", [("שָׁלוֹם", "shalom"), ("עולם", "'vlm")]),
        ("سألني إذا.", "ar", [("سألني", "salny"), ("إذا.", "itha")]),
        ("می‌توانم", "fa", [("می‌توانم", "mitvanm")]),
        ("राम कि", "hi", [("राम", "raam"), ("कि", "ki")]),
        ("İngiliz ödülü", "tr", [("İngiliz", "ingiliz"), ("ödülü", "oeduelue")]),
        ("ქართული", "ka", [("ქართული", "khartuli")]),
        ("한국어", "ko", [("한국어", "hangugeo")]),
        ("「你好」,三百人。", "zh", [("「你", "ni"), ("好」,", "hao"), ("三", "san"), ("百", "bai"), ("人。", "ren")]),
        ("二〇年", "zh", [("二", "er"), ("〇", "ling"), ("年", "nian")]),
        ("徐々に", "ja", [("徐々", "xuxu"), ("に", "ni")]),
        # Sounds that two characters make together are shared out among them.
        ("きゃって", "ja", [("き", "k"), ("ゃ", "ya"), ("っ", "t"), ("て", "te")]),
        ("เกิด", "th", [("เ", "k"), ("กิ", "oe"), ("ด", "t")]),
        # A letter that is not heard.
        ("ศุกร์", "th", [("ศุ", "su"), ("ก", "k"), ("ร์", "")]),
        ("ＡＢＣ ﬁn 𝒜", "xx", [("ＡＢＣ", "abc"), ("ﬁn", "fin"), ("𝒜", "a")]),
        ("so\u00adft 👍🏽 — l’été", "fr", [("so\u00adft", "soft"), ("👍🏽", ""), ("—", ""), ("l’été", "l'ete")]),
        ("21 ٢١", "xx", [("21", "21"), ("٢١", "21")]),
        ("21", "de", [("21", "einundzwanzig")]),
    ],
)
def test_words_of_many_scripts(text: str, language: str, expected: list[tuple[str, str]]) -> None:
    assert romans(text, language) == expected


@needs_uroman
def test_words_by_a_segmenters_spaces() -> None:
    assert romans("我们 认为", "zh", words_by="spaces") == [("我们", "women"), ("认为", "renwei")]
    assert [word for word, _ in romans("我们 认为", "zh")] == ["我", "们", "认", "为"]
    assert [word for word, _ in romans("ab 认为", "zh", words_by="characters")] == ["a", "b", "认", "为"]


SCRIPTS = (
    "abcZßéİıſ'’-–.,!?\"«»()/&%$1234567890½²٣۴५൫๓፪"
    "абвЖщъёαβςΩאבשׁ\u05b8ابتعءـ\u064e\u0651می‌चषक्ष\u200dि़াংக்ஷௌකූกเไา์ำະຂົ់ក្ខែမြန်မာဘာ"
    "漢字々〇三百きゃっンーｶﾞ한글ㄱ\u1112\u1161\u11abქაԱաአማ𐐀𝒜𠮷👍🏽👨‍👩‍👧ﬁＡ１"
    "\u00ad\u200b\u200e\u2060\ufe0f\u0301\u3000 \t\n\u00a0"
)
TEXTS = st.one_of(st.text(st.sampled_from(SCRIPTS), max_size=40), st.text(max_size=25))


def check_words(text: str, **settings: object) -> None:
    words = words_of(text, Settings(**settings)).words  # type: ignore[arg-type]
    place = 0
    for word in words:
        assert text[word.char_start : word.char_end] == word.text != ""
        assert not re.search(r"\s", word.text)
        assert text[place : word.char_start].strip() == ""
        place = word.char_end
        for form in (word.spoken, word.said):
            assert form == " ".join(form.split())
    assert text[place:].strip() == ""
    assert "".join(word.text for word in words) == "".join(text.split())


@needs_uroman
@settings(max_examples=300, deadline=None)
@example(text="ー \u0301 เ์", language="th")
@example(text="٣٤ 三〇½² ²々²", language="zh-CN")
@given(text=TEXTS, language=st.sampled_from(["en", "ar", "zh-CN", "th", "ru", "hi", "xx"]))
def test_every_word_comes_out_once_with_its_place(text: str, language: str) -> None:
    for by in ("auto", "spaces", "characters"):
        check_words(text, language=language, words_by=by)
        check_words(text, language=language, words_by=by, romanize=True)
    for word in words_of(text, Settings(language=language, romanize=True)).words:
        assert word.roman is not None
        assert word.spoken or not word.roman
        if word.spoken.isascii():
            assert word.roman == word.spoken


@needs_uroman
@settings(max_examples=100, deadline=None)
@given(first=TEXTS, second=TEXTS)
def test_what_stands_across_a_space_makes_no_difference(first: str, second: str) -> None:
    """But for numbers and abbreviations, which see their neighbours: here is a language without any."""
    assert romans(f"{first} {second}", "xx") == romans(first, "xx") + romans(second, "xx")


@needs_uroman
def test_a_long_run_without_spaces_is_cut() -> None:
    text = "当时人们认为" * 200
    assert [roman for _, roman in romans(text, "zh")] == ["dang", "shi", "ren", "men", "ren", "wei"] * 200


@needs_uroman
def test_each_run_is_romanised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = library_readings._edges
    monkeypatch.setattr(
        library_readings, "_edges", lambda text, *more, **named: asked.append(text) or real(text, *more, **named)
    )
    library_readings._romanized_run.cache_clear()
    for _ in range(3):
        romans("мяу кот мяу hello 12", "xx")
    assert asked == ["мяу", "кот"]


def test_without_uroman_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_readings, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'ctc-align\[romanize\]'"):
        words_of("кот", Settings(romanize=True))
    from ctc_align.alignment.aligner import Aligner

    with pytest.raises(UsageError, match=r"uroman is missing"):
        Aligner(None, settings=Settings(romanize=True))


def test_uroman_is_imported_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__
    monkeypatch.setattr(
        builtins, "__import__", lambda name, *more: pytest.fail(name) if name == "uroman" else real(name, *more)
    )
    words_of("кот", Settings())
    if library_readings.find_spec("uroman"):
        words_of("cat", Settings(romanize=True))
