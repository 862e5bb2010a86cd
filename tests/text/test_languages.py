"""Codes of languages, and the language of a text: no English text looks like another language."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from rows import over_rows

from ctc_align.cli.notes import language_notes
from ctc_align.errors import UsageError
from ctc_align.text.languages import (
    NAMES,
    UNKNOWN,
    known_language,
    likely_language,
    likely_other_language,
    script_of,
)

KNOWN = [
    *(
        "en",
        "eng",
        "en-GB",
        "en_US",
        "pt-BR",
        "zh-Hans-CN",
        "yue",
        "tlh",
        "kz",
        "EN",
        "sr-Latn",
        "azj-script_latin",
    ),
    *("English=en", "german=de", "Portuguese=pt"),
]
NO_LANGUAGES = {
    "xx": "but no such code is known",
    "klingon": "did you mean tlh (Klingon)?",
    "deutsch": "did you mean de (German)?",
    "Portugese": "did you mean pt (Portuguese)?",
    "jp": "did you mean ja (Japanese)?",
    "en-": "expected the code of a language",
    "e": "expected the code of a language",
    "english please": "expected the code of a language",
}


@over_rows("given", KNOWN)
def test_languages_that_there_are(given: str) -> None:
    language, _, code = given.partition("=")
    assert known_language(language) == (code or language)


@over_rows(("given", "says"), NO_LANGUAGES.items())
def test_languages_that_nothing_knows(given: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        known_language(given)
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"--language {given}: ")


def test_the_script_of_most_letters() -> None:
    for text, script in (
        ("Ελλάδα!", "Greek"),
        ("日本語です", "Japanese"),
        ("我是猫", "Chinese"),
        ("naïve ﬁ", "Latin"),
        ("…", ""),
    ):
        assert script_of(text) == script


GERMAN = (
    "Der Hund und die Katze sind nicht im Haus, aber sie sind auch nicht auf dem Dach, wenn es"
    " regnet."
)


def test_notes_where_text_and_model_are_of_different_languages(tmp_path: Path) -> None:
    assert language_notes(GERMAN, "english") == [
        "the transcript looks German and the model english is for English: times are rough at best;"
        " use --model universal, which covers all languages (ctc-align models lists others), or is it the"
        " wrong transcript?"
    ]
    assert language_notes(GERMAN, "torchaudio:VOXPOPULI_ASR_BASE_10K_DE") == []
    assert language_notes(GERMAN, "torchaudio:MMS_FA") == language_notes(GERMAN, None) == []
    assert language_notes(GERMAN[:12], "english") == [], "too short to tell"
    for model in ("auto", "universal"):
        assert language_notes(GERMAN, model, "en") == [
            "the transcript looks German, but --language is en: words and numbers are read as"
            " English; omit --language, or is it the wrong transcript?"
        ]
        for right_or_unclear in ("de", "deu", "", "lb", "en,de"):
            assert language_notes(GERMAN, model, right_or_unclear) == []
    mixed = (
        'She read the sign to me: "Der Hund und die Katze sind nicht im Haus", and we all laughed'
        " at it."
    )
    assert language_notes(mixed, "english") == []
    assert language_notes("Ja.", "english", "deu")[0].startswith(
        "--language is deu and the model english is for Engl"
    )
    for language in ("", "en", "eng", "en-GB", "English"):
        assert language_notes("Yes.", "english", language) == []
    (tmp_path / "model.toml").write_text('language = "de-AT"\n')
    english = (
        "It was the best of times, it was the worst of times, and we had everything before us, or"
        " so they said."
    )
    assert language_notes(GERMAN, str(tmp_path)) == []
    assert "looks English" in language_notes(english, str(tmp_path))[0]


@pytest.mark.data
def test_other_languages_are_told_and_no_english_text_is_taken_for_one(speech_data: Path) -> None:
    """Each in its own case and in capitals, and all of a source in stretches of twenty."""
    rows = [
        json.loads(line)
        for line in (speech_data / "english" / "manifest.jsonl").read_text().splitlines()
    ]
    texts = [row["text"] for row in rows]
    long = [" ".join(texts[place : place + 20]) for place in range(0, len(texts), 20)]
    assert len(texts) > 9000
    for text in (*texts, *map(str.upper, texts[::5]), *long):
        assert likely_language(text) in ("", "en"), text
    # Each stretch of eight sentences of the languages that there are texts of.
    by_language = defaultdict(list)
    for line in (speech_data / "languages" / "manifest.jsonl").read_text().splitlines():
        row = json.loads(line)
        by_language[row["language"]].append(row["text"])
    told = {
        code: {
            likely_language(" ".join(texts[place : place + 8]))
            for place in range(0, len(texts) - 7, 8)
        }
        for code, texts in by_language.items()
        if code in NAMES
    }
    assert told == {code: {code} for code in ("de", "es", "fr", "it", "pt", "tr", "vi")}
    assert all(
        likely_language(" ".join(texts)) == ""
        for code, texts in by_language.items()
        if code not in NAMES
    )


TEXTS = [
    (
        "Der Hund und die Katze sind nicht im Haus, aber auf dem Dach. " * 2_000,
        "de",
    ),  # long, as its parts are
    ("Ich habe heute leider keine Zeit für dich und deine Schwester.", "de"),
    (
        "Gisteren hebben we met de kinderen in het bos gewandeld en daarna pannenkoeken gegeten.",
        "nl",
    ),
    (
        "Mtoto alikwenda sokoni asubuhi kununua matunda pamoja na mama yake mzazi nyumbani kwao.",
        UNKNOWN,
    ),
    (
        "mi vidis grandan hundon kiu kuris rapide tra la ĝardeno de nia najbaro hieraŭ vespere",
        UNKNOWN,
    ),
    ("Привет!", UNKNOWN),
    ("Добрый вечер, как вы поживаете?", "ru"),
    ("我今天没有时间", "zh"),
    ("今日は時間がありません", "ja"),
    ("مرحبا بكم في بيتنا", "ar"),
    ("آیا این کتاب را خوانده‌اید؟", "fa"),
]
ENGLISH = [
    (
        "'Twas brillig, and the slithy toves did gyre and gimble in the wabe; all mimsy were the"
        " borogoves."
    ),
    "GARCIA, RODRIGUEZ AND MARTINEZ MET ZIMMERMANN IN SAN FRANCISCO, CALIFORNIA, ON TUESDAY",
    "La la la la la la, na na na na, hey hey hey, oh oh oh, da da dum, da da dum, shh, ooh la la",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z",
    "Wee, sleekit, cowrin, tim'rous beastie, O, what a panic's in thy breastie!",
    (
        "We ordered croissants, café au lait and crème brûlée at a little bistro near the"
        " Champs-Élysées"
    ),
    "Über-Kafka",
    "The letters α, β, γ and δ",
    "42",
    "",
]


@over_rows(("text", "language"), [*TEXTS, *((text, "") for text in ENGLISH)])
def test_other_languages_are_found_and_english_gives_no_false_alarm(
    text: str, language: str
) -> None:
    assert likely_other_language(text) == language
