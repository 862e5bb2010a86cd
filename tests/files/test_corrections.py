"""The latest of the files that a page, a browser, a corpus run and `realign` make of one alignment."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from sample_alignments import aligned, make_alignment

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
    assert all(
        "is left aside: it is of another text, or of another recording, than a.json" in n for n in works[0].notes()
    )
    assert latest_beside(other).path == other
    again = saved("a.hand-2.json", replace(BY_HAND, utterance="another"))
    assert [work.path for work in latest_works([path, other, again])] == [path, again], "of the other one the latest"
