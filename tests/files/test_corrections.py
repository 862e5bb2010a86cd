"""Words by hand: kept, or refused by name; and which of several files of an alignment has the latest corrections."""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rows import over_rows
from sample_alignments import aligned, make_alignment, talk_alignment

from ctc_align.errors import InputError
from ctc_align.files import FORMATS, Alignment, from_dict, rendered, to_dict
from ctc_align.files.corrections import latest_beside, latest_works

TALK = make_alignment((aligned("Hello,", 0.1, 0.4), aligned("you", 0.5, 0.7, 7)))
BY_HAND = replace(TALK, words=(replace(TALK.words[0], by="hand"), TALK.words[1]))


@pytest.fixture
def saved(tmp_path: Path):
    """Save an alignment; each that is saved is a second younger than the one before."""
    count = 0

    def save(name: str, alignment=BY_HAND) -> Path:
        nonlocal count
        count += 1
        path = tmp_path / name
        alignment.save(path, force=True)
        os.utime(path, (count, count))
        return path

    return save


@pytest.mark.parametrize(
    "name",
    ["a.corrected (1).json", "a.corrected(2).json", "a.corrected-2.json", "a.hand-3.json", "a.hand.aligned.json"],
)
def test_the_last_correction_goes_before_all_others(saved, name: str) -> None:
    before, corrected = saved("a.json", TALK), saved("a.corrected.json")
    assert latest_beside(before).path == corrected
    latest = saved(name)
    work = latest_beside(before)
    assert (work.path, set(work.replaced)) == (latest, {before, corrected})
    (note,) = work.notes()
    assert note == f"{latest} is used instead of a.json, a.corrected.json: it is the latest with corrections"
    assert [each.path for each in latest_works([corrected, before, latest])] == [latest]
    mended = saved("a.json")
    assert latest_beside(latest).path == mended, "corrected in its own file, later"


def test_what_is_of_another_text_recording_or_utterance_is_not_taken(saved) -> None:
    path, other = saved("a.json", TALK), saved("a.corrected.json", replace(BY_HAND, utterance="another"))
    text = saved("a.hand.json", replace(BY_HAND, text="Hello, you there"))
    longer = saved("a.corrected (1).json", replace(BY_HAND, duration_s=2.0))
    before = saved("a.before.json", TALK)
    works = list(latest_works([path, other, text, longer, before]))
    assert [work.path for work in works] == [path, other]
    assert set(works[0].outdated) == {text, longer}
    assert all("is ignored: it belongs to another text or recording than a.json" in n for n in works[0].notes())
    assert latest_beside(other).path == other
    again = saved("a.hand-2.json", replace(BY_HAND, utterance="another"))
    assert [work.path for work in latest_works([path, other, again])] == [path, again], "of the other one the latest"


def corrected() -> dict[str, Any]:
    """Return a JSON object: its first word by hand, a token of it too, its last one with nothing known but its time."""
    talk = talk_alignment()
    first, dash, second, last = talk.words
    first = replace(first, by="hand", tokens=(replace(first.tokens[0], by="hand"), *first.tokens[1:]))
    last = replace(last, by="hand", confidence=None, tokens=())
    return json.loads(json.dumps(to_dict(replace(talk, words=(first, dash, second, last)))))


def test_words_by_hand_come_back_and_every_format_writes_them() -> None:
    alignment = from_dict(corrected())
    first, _, second, last = alignment.words
    assert (first.by, first.tokens[0].by, first.tokens[1].by, second.by, last.by) == ("hand", "hand", "", "", "hand")
    assert last.confidence is None
    assert to_dict(alignment) == {**corrected(), "version": to_dict(alignment)["version"]}
    assert from_dict(to_dict(alignment)) == alignment
    assert "1 0.750 0.250 שלום 1.0000" in rendered(alignment, "ctm").decode()
    alignment: Alignment = from_dict(corrected())
    for format in FORMATS.keys() - {"smil"}:  # which needs a book
        assert rendered(alignment, format)


FAULTS: dict[str, tuple[Callable[[list[Any], dict[str, Any]], Any], str]] = {
    "a text that is another": (
        lambda words, data: words[2].update(text="13"),
        r"word 3 '13' \(0.400–0.700 s\): `text` has '12\"' at characters 11:14; a word that is changed must be",
    ),
    "spans that run back": (lambda words, data: words[1].update(char_start=7), "word 2 '—' begins at character 7,"),
    "a word that is nothing": (
        lambda words, data: words[3].update(start_s=1.0),
        r"'שלום!' \(1.000–1.000 s, by hand\) is empty",
    ),
    "a word beyond the end": (
        lambda words, data: words[3].update(end_s=1.01),
        "leaves the recording, which is 1.000 s long",
    ),
    "words that cross": (
        lambda words, data: words[2].update(end_s=0.76),
        r"'12\"' \(0.400–0.760 s\) and 'שלום!' \(0.750–1.000 s, by hand\) overlap: move",
    ),
    "a long word over two": (lambda words, data: words[2].update(start_s=0.05), "and '“Hello,”' .* overlap"),
    "tokens that cross": (lambda words, data: words[0]["tokens"][1].update(start_s=0.1), "its tokens cross each other"),
    "tokens outside": (lambda words, data: words[0].update(start_s=0.2), "its tokens cross each other or its edges"),
    "a token that is nothing": (
        lambda words, data: words[0]["tokens"][1].update(start_s=0.22),
        "its token 'e' is empty: move them, or give it",
    ),
    "a token in a word by nobody": (
        lambda words, data: words[2]["tokens"][0].update(by="hand"),
        "token 'a' of '12\"' .* is hand-corrected, its word is not",
    ),
    "by somebody else": (lambda words, data: words[2].update(by="eye"), r"words\[2\].by: expected one of hand"),
    "by hand and without times": (
        lambda words, data: words[1].update(by="hand"),
        r"words\[1\]: expected no times.*got by: take",
    ),
}


@over_rows("name", list(FAULTS))
def test_what_cannot_be_is_refused_by_name(name: str) -> None:
    spoil, message = FAULTS[name]
    data = copy.deepcopy(corrected())
    spoil(data["words"], data)
    with pytest.raises(InputError, match=f"^talk.json: .*{message}") as caught:
        from_dict(data, "talk.json")
    assert "\n" not in str(caught.value)


def test_nothing_is_asked_of_what_nobody_corrected() -> None:
    data = corrected()
    for word in data["words"]:
        word.pop("by", None)
        word["tokens"] = []
    data["words"][2].update(text="13", end_s=0.76)
    data["words"][3].update(confidence=0.5)
    assert from_dict(data).words[2].text == "13"
    data["words"][3].update(confidence=None)
    with pytest.raises(InputError, match=re.escape("words[3]: expected times and confidence")):
        from_dict(data)
