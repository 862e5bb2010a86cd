"""Words by dictionaries in Chinese, Japanese and Thai: which characters are one word, and how kanji are read."""

from __future__ import annotations

import importlib.util

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import over_rows

from ctc_align.config import Settings
from ctc_align.errors import UsageError
from ctc_align.extras import EXTRAS
from ctc_align.text import library_readings, words_of
from ctc_align.text.library_readings import Token, require_dictionary
from ctc_align.text.sounds import pronounced

TEXTS = st.text(
    st.sampled_from("ab漢字々〇三きゃっンーｶﾞไทยเา์ำﬁ１2.,!。（）「」'\"<i>[]-—/ \n\u200b\u0301👍"), max_size=40
)
needs_japanese = pytest.mark.skipif(EXTRAS["ja"].missing() != [], reason="needs the extra [ja]")
needs_thai = pytest.mark.skipif(EXTRAS["th"].missing() != [], reason="needs the extra [th]")


def cut(text: str, language: str) -> str:
    """Return the words, checked against the text, with a bar between them."""
    words = words_of(text, Settings(language=language, words_by="dictionary")).words
    assert [text[word.char_start : word.char_end] for word in words] == [word.text for word in words]
    assert "".join(word.text for word in words) == "".join(text.split())
    return "|".join(word.text for word in words)


def said(text: str, language: str) -> list[str | None]:
    words = words_of(text, Settings(language=language, words_by="dictionary"))
    return [word.phones for word in pronounced(words, language).words]


@over_rows(
    ("text", "language", "expected"),
    [
        ("我们认为，这个问题很重要！", "zh", "我们|认为，|这个|问题|很|重要！"),
        ("「北京大学」iPhone手机 3.5公里", "zh", "「北京大学」|iPhone|手机|3.5|公里"),
        ("Anna: 我们<i>认</i>为", "zh", "Anna:|我们|<i>|认</i>为"),
        ("She is in 北京 now", "en", "She|is|in|北京|now"),
        ("한국어 韓國", "ko", "한국어|韓|國"),
        ("ສະບາຍດີ", "lo", "ສ|ະ|ບ|າ|ຍ|ດີ"),
    ],
)
def test_chinese_words_and_scripts_without_a_dictionary(text: str, language: str, expected: str) -> None:
    assert cut(text, language) == expected


def test_a_long_run_is_cut_whole() -> None:
    assert cut("我们认为这个问题很重要。" * 800, "zh").count("我们|认为|") == 800


@settings(max_examples=200, deadline=None)
@given(text=TEXTS, language=st.sampled_from(["ja", "zh", "th", "en"]), length=st.integers(1, 3))
def test_every_character_is_in_one_word_wherever_a_dictionary_cuts(text: str, language: str, length: int) -> None:
    def pieces(run: str) -> list[Token]:
        return [Token(at, min(at + length, len(run)), "ア") for at in range(0, len(run), length)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library_readings, "_cutter", lambda extra: pieces)
        cut(text, language)


@needs_japanese
@over_rows(
    ("text", "language", "expected"),
    [
        ("お母さんは、「日本人」でTシャツを買う。", "ja", "お母さん|は、|「日本人」|で|Tシャツ|を|買う。"),
        ("iPhone 15を二十日に", "ja", "iPhone|15|を|二十|日|に"),
        ("The 東京タワー is high", "en", "The|東京|タワー|is|high"),
    ],
)
def test_japanese_words(text: str, language: str, expected: str) -> None:
    assert cut(text, language) == expected


@needs_japanese
def test_readings_of_kanji_are_the_dictionarys() -> None:
    expected = ["o k a s a n", "w a", "h a", "ɡ a", "i t a i"]
    assert said("お母さんは歯が痛い", "ja") == expected
    # っ and ん sound as the next word begins; a long vowel does not go across.
    assert said("学校へ行って新聞部", "ja") == ["ɡ a k o", "e", "i t", "e", "ʃ i m b u m", "b u"]
    words = words_of("学校は", Settings(language="ja", words_by="dictionary")).words
    assert [(word.spoken, word.reading) for word in words] == [("学校", "ガッコウ"), ("は", "ワ")]


@needs_thai
def test_thai_words_and_their_syllables() -> None:
    assert cut("ฉันไปโรงเรียน (ทุกวัน) 5,000บาท", "th") == "ฉัน|ไป|โรงเรียน|(ทุกวัน)|5,000|บาท"
    assert said("ว่าสนุก", "th") == ["w a", "s a n u k"]


def test_a_missing_dictionary_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    library_readings._cutter.cache_clear()
    for language, text in (("ja", "日本"), ("zh-TW", "中國"), ("th", "ไทย")):
        with pytest.raises(UsageError, match=rf"pip install 'ctc-align\[{language[:2]}\]'"):
            require_dictionary(language)
        with pytest.raises(UsageError, match=rf"pip install 'ctc-align\[{language[:2]}\]'"):
            words_of(text, Settings(language=language, words_by="dictionary"))
    require_dictionary("de")
    assert len(words_of("日本", Settings(language="ja")).words) == 2
