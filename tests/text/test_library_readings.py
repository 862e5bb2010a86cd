"""Words by dictionaries, and in Latin letters: which characters are one word, and how they are
read."""

from __future__ import annotations

import builtins
import importlib.util
import json
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_models import tiny_folder
from rows import first_row_of, over_rows
from word_checks import assert_sound

from ctc_align.alignment.aligner import Aligner
from ctc_align.config import Settings
from ctc_align.errors import UsageError
from ctc_align.extras import EXTRAS
from ctc_align.text import library_readings, words_of
from ctc_align.text.library_readings import Token, require_dictionary
from ctc_align.text.sounds import pronounced
from ctc_align.text.transcript import has_spaceless
from ctc_align.types import Alignment, Words

TEXTS = st.text(
    st.sampled_from("ab漢字々〇三きゃっンーｶﾞไทยเา์ำﬁ１2.,!。（）「」'\"<i>[]-—/ \n\u200b\u0301👍"),
    max_size=40,
)
needs_japanese = pytest.mark.skipif(EXTRAS["ja"].missing() != [], reason="needs the extra [ja]")
needs_thai = pytest.mark.skipif(EXTRAS["th"].missing() != [], reason="needs the extra [th]")


def cut(text: str, language: str) -> str:
    """Return the words, checked against the text, with a bar between them."""
    words = words_of(text, Settings(language=language, words_by="dictionary"))
    assert_sound(words, text)
    return "|".join(word.text for word in words.words)


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
def test_chinese_words_and_scripts_without_a_dictionary(
    text: str, language: str, expected: str
) -> None:
    assert cut(text, language) == expected


def test_a_long_run_is_cut_whole() -> None:
    assert cut("我们认为这个问题很重要。" * 800, "zh").count("我们|认为|") == 800


@settings(max_examples=200)
@given(text=TEXTS, language=st.sampled_from(["ja", "zh", "th", "en"]), length=st.integers(1, 3))
def test_every_character_is_in_one_word_wherever_a_dictionary_cuts(
    text: str, language: str, length: int
) -> None:
    def pieces(run: str) -> list[Token]:
        return [Token(at, min(at + length, len(run)), "ア") for at in range(0, len(run), length)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library_readings, "_cutter", lambda extra: pieces)
        cut(text, language)


@needs_japanese
@over_rows(
    ("text", "language", "expected"),
    [
        (
            "お母さんは、「日本人」でTシャツを買う。",
            "ja",
            "お母さん|は、|「日本人」|で|Tシャツ|を|買う。",
        ),
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


needs_uroman = pytest.mark.skipif(
    library_readings.find_spec("uroman") is None, reason="needs the extra [romanize]"
)


def romans(text: str, language: str = "en", **more: str) -> list[tuple[str, str | None]]:
    return [
        (word.text, word.roman)
        for word in words_of(text, Settings(romanize=True, language=language, **more)).words
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
        (
            "「你好」,三百人。",
            "zh",
            [("「你", "ni"), ("好」,", "hao"), ("三", "san"), ("百", "bai"), ("人。", "ren")],
        ),
        ("二〇年", "zh", [("二", "er"), ("〇", "ling"), ("年", "nian")]),
        ("徐々に", "ja", [("徐々", "xuxu"), ("に", "ni")]),
        # Sounds that two characters make together are shared out among them.
        ("きゃって", "ja", [("き", "k"), ("ゃ", "ya"), ("っ", "t"), ("て", "te")]),
        ("เกิด", "th", [("เ", "k"), ("กิ", "oe"), ("ด", "t")]),
        # A letter that is not heard.
        ("ศุกร์", "th", [("ศุ", "su"), ("ก", "k"), ("ร์", "")]),
        ("ＡＢＣ ﬁn 𝒜", "xx", [("ＡＢＣ", "abc"), ("ﬁn", "fin"), ("𝒜", "a")]),
        (
            "so\u00adft 👍🏽 — l’été",
            "fr",
            [("so\u00adft", "soft"), ("👍🏽", ""), ("—", ""), ("l’été", "l'ete")],
        ),
        ("21 ٢١", "xx", [("21", "21"), ("٢١", "21")]),
        ("21", "de", [("21", "einundzwanzig")]),
    ],
)
def test_words_of_many_scripts(text: str, language: str, expected: list[tuple[str, str]]) -> None:
    assert romans(text, language) == expected


@needs_uroman
def test_runs_are_romanised_once_and_cut_at_spaces_if_there_are_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert romans("我们 认为", "zh", words_by="spaces") == [("我们", "women"), ("认为", "renwei")]
    assert [word for word, _ in romans("我们 认为", "zh")] == ["我", "们", "认", "为"]
    assert [word for word, _ in romans("ab 认为", "zh", words_by="characters")] == [
        "a",
        "b",
        "认",
        "为",
    ]
    text = "当时人们认为" * 200
    assert [roman for _, roman in romans(text, "zh")] == [
        "dang",
        "shi",
        "ren",
        "men",
        "ren",
        "wei",
    ] * 200
    asked: list[str] = []
    real = library_readings._edges
    monkeypatch.setattr(
        library_readings,
        "_edges",
        lambda text, *more, **named: asked.append(text) or real(text, *more, **named),
    )
    library_readings._romanized_run.cache_clear()
    for _ in range(3):
        romans("мяу кот мяу hello 12", "xx")
    assert asked == ["мяу", "кот"]


SCRIPTS = (
    "abcZßéİıſ'’-–.,!?\"«»()/&%$1234567890½²٣۴५൫๓፪"
    "абвЖщъёαβςΩאבשׁ\u05b8ابتعءـ\u064e\u0651می‌चषक्ष\u200dि़াংக்ஷௌකූกเไา์ำະຂົ់ក្ខែမြန်မာဘာ"
    "漢字々〇三百きゃっンーｶﾞ한글ㄱ\u1112\u1161\u11abქაԱաአማ𐐀𝒜𠮷👍🏽👨‍👩‍👧ﬁＡ１"
    "\u00ad\u200b\u200e\u2060\ufe0f\u0301\u3000 \t\n\u00a0"
)
ANY_TEXTS = st.one_of(st.text(st.sampled_from(SCRIPTS), max_size=40), st.text(max_size=25))


def check_words(text: str, **settings: object) -> None:
    words = words_of(text, Settings(**settings))  # type: ignore[arg-type]
    assert_sound(words, text)
    for word in words.words:
        for form in (word.spoken, word.lookup_text):
            assert form == " ".join(form.split())


@needs_uroman
@settings(max_examples=300)
@example(text="ー \u0301 เ์", language="th")
@example(text="٣٤ 三〇½² ²々²", language="zh-CN")
@given(text=ANY_TEXTS, language=st.sampled_from(["en", "ar", "zh-CN", "th", "ru", "hi", "xx"]))
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
@settings(max_examples=100)
@given(first=ANY_TEXTS, second=ANY_TEXTS)
def test_what_stands_across_a_space_makes_no_difference(first: str, second: str) -> None:
    """But for numbers and abbreviations, which see their neighbours: here is a language without
    any."""
    assert romans(f"{first} {second}", "xx") == romans(first, "xx") + romans(second, "xx")


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
        builtins,
        "__import__",
        lambda name, *more: pytest.fail(name) if name == "uroman" else real(name, *more),
    )
    words_of("кот", Settings())
    if library_readings.find_spec("uroman"):
        words_of("cat", Settings(romanize=True))


# Recorded sentences of seventeen languages, through a model that knows Latin letters and whose
# weights are random.

MMS = ("-", *"aienuotsrmkldghybpwcvjzf'qx")
LANGUAGES = (
    "ar",
    "de",
    "el",
    "es",
    "fa",
    "fr",
    "hi",
    "it",
    "ja",
    "ka",
    "pt",
    "ru",
    "ta",
    "th",
    "tr",
    "vi",
    "zh-CN",
)
SILENT = {"th": 0.1, "ja": 0.01}
"""Share of the words (single letters) that are not heard at most; 0 in the other languages."""


@pytest.fixture(scope="module")
def clips(speech_data: Path) -> dict[str, list[tuple[str, str]]]:
    """Twenty of each language: path and text."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in (speech_data / "languages" / "manifest.jsonl").read_text("utf-8").splitlines():
        clip = json.loads(line)
        if clip["source"].startswith("commonvoice"):
            audio = str(speech_data / "languages" / clip["audio"])
            found.setdefault(clip["language"], []).append((audio, clip["text"]))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("latin"), MMS, parts=0)


def check(alignment: Alignment, text: str) -> None:
    """Every character that is no space is in one word, in order, at its place; words that are said
    have times."""
    assert_sound(Words(alignment.text, alignment.words), text)  # type: ignore[arg-type]
    before = 0.0
    for word in alignment.words:
        if word.status == "aligned":
            assert before <= word.start_s < word.end_s <= alignment.duration_s
            before = word.end_s
            assert {letter for token in word.tokens for letter in token.token} <= set(MMS)
        else:
            assert word.status == "unspoken"
    assert alignment.unknown == 0
    if not has_spaceless(text):
        assert len(alignment.words) == len(text.split()) + len(re.findall(r"\S[,.…]+(?=\w)", text))


@pytest.mark.data
@needs_uroman
@pytest.mark.parametrize("language", [*first_row_of(LANGUAGES[:8]), *first_row_of(LANGUAGES[8:])])
def test_twenty_clips_of_each(
    language: str, clips: dict[str, list[tuple[str, str]]], folder: Path
) -> None:
    assert len(clips[language]) == 20
    aligner = Aligner(
        str(folder), settings=Settings(romanize=True, language=language, match="exact")
    )
    alignments = aligner.align_batch(clips[language], "return")
    silent, words = 0, 0
    for (audio, text), alignment in zip(clips[language], alignments):
        assert isinstance(alignment, Alignment), (audio, alignment)
        check(alignment, text)
        silent += sum(bool(word.spoken) and word.status == "unspoken" for word in alignment.words)
        words += len(alignment.words)
    assert silent <= SILENT.get(language, 0.0) * words
