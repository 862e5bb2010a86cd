"""Texts in several languages: the sound chooses, or a mark says, the language of each word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from made_models import planted

import ctc_align
from ctc_align.alignment.realign import text_of
from ctc_align.config import Settings
from ctc_align.files import Style
from ctc_align.files.subtitles import parse_subtitles
from ctc_align.files.tiers import tiers_by_speaker
from ctc_align.text.languages import known_languages
from ctc_align.text.phone_sets import IPA_PHONES
from ctc_align.text.sounds import pronounced
from ctc_align.text.transcript import split, words_of
from ctc_align.types import Alignment, Emissions, LanguageSpan, Transcript

VOCAB = ("", *IPA_PHONES)
TEXT = "the house die Mutter 21"


def spoken_in(languages: Sequence[str]) -> Emissions:
    """The words of `TEXT`, each said as in its language."""
    path = [""] * 4
    for index, language in enumerate(languages):
        word = pronounced(split(TEXT, language=language), language).words[index]
        assert word.phones is not None
        for phone in word.phones.split(" | ")[0].split():
            path += [phone, phone, ""]
        path += [""] * 3
    return planted(path, VOCAB)


def align(emissions: Emissions, language: str, *marked: LanguageSpan) -> Alignment:
    settings = Settings(language=language, match="exact")
    aligner = ctc_align.Aligner(model=None, settings=settings)
    return aligner.align(emissions, Transcript(TEXT, languages=marked))


def shown(alignment: Alignment) -> list[str]:
    return [f"{word.text} {word.language}".strip() for word in alignment.words]


@pytest.mark.parametrize("language", ["en,de", "de,en"])
def test_the_sound_chooses_the_language_of_each_word(language: str) -> None:
    alignment = align(spoken_in(["en", "en", "de", "de", "de"]), language)
    assert shown(alignment) == ["the en", "house en", "die de", "Mutter de", "21 de"]
    assert alignment.words[4].spoken == "einundzwanzig"
    assert "".join(token.token for token in alignment.words[2].tokens) == "di"
    written = alignment.to_dict()["words"]
    assert [word["language"] for word in written] == ["en", "en", "de", "de", "de"]


def test_one_language_is_not_named() -> None:
    alignment = align(spoken_in(["en"] * 5), "en")
    assert shown(alignment) == TEXT.split()
    assert all("language" not in word for word in alignment.to_dict()["words"])


def test_a_mark_decides_against_the_sound_and_is_kept_for_the_next_alignment() -> None:
    marked = LanguageSpan(10, 20, "de")
    alignment = align(spoken_in(["en"] * 5), "en", marked)
    assert shown(alignment) == ["the", "house", "die de", "Mutter de", "21"]
    assert [token.token for token in alignment.words[2].tokens] == ["d", "i"]
    spans = text_of(alignment).languages
    assert [(span.char_start, span.char_end) for span in spans] == [(10, 13), (14, 20)]


def test_subtitles_mark_languages_up_to_the_end_of_their_cue() -> None:
    text = (
        "WEBVTT\n\n00:01.000 --> 00:02.000\nSo <lang.x de>die <i>Mutter</i></lang> <b>be\n\n"
        "00:03.000 --> 00:04.000\n<i lang='fr'>la <lang xq>mère</lang>\n\n"
        "00:05.000 --> 00:06.000\nit\n"
    )
    transcript = parse_subtitles(text, "a.vtt")
    words = words_of(transcript.text, Settings(), transcript.subtitles, transcript.languages).words
    said = [f"{word.spoken} {word.language}".strip() for word in words if word.spoken]
    assert said == ["so", "die de", "mutter de", "be", "la fr", "mère fr", "it"]


def test_a_tier_shows_runs_of_a_language(tmp_path: Path) -> None:
    alignment = align(spoken_in(["en", "en", "de", "de", "de"]), "en,de")
    style = Style(tiers="words,languages")
    tiers = tiers_by_speaker(alignment, style, 1000)
    rows = [(row.start, row.label) for row in tiers[1].rows]
    start_of = {row.label: row.start for row in tiers[0].rows}
    assert rows == [(start_of["the"], "en"), (start_of["die"], "de")]
    path = tmp_path / "table.csv"
    replace(alignment, config={**alignment.config, "tiers": "languages"}).save(path)
    cells = [line.split(",")[1:4] for line in path.read_text().splitlines()[1:]]
    assert cells == [["languages", "", "en"], ["languages", "", "de"]]


def test_lists_of_languages_are_codes_or_names() -> None:
    assert known_languages("English, de,en") == "en,de"
    with pytest.raises(ctc_align.UsageError, match="expected the code of a language"):
        known_languages("en,xqz")
