"""Speech that no word explains, and words that are not there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ctc_align.alignment import fit as module
from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.fit import unexplained_sounds
from ctc_align.files import from_dict, to_dict
from ctc_align.types import AlignedWord, Emissions

DEMO = Path(__file__).resolve().parents[2] / "ctc_align" / "demo"
DEMO_AUDIO, DEMO_TEXT = DEMO / "demo.flac", DEMO / "demo.txt"


def emissions(speech: list[tuple[int, int]], frames: int = 200) -> Emissions:
    """States of one sound and silence, which fit as told."""
    states = torch.zeros(frames, 2)
    states[:, 0] = -5
    for first, last in speech:
        states[first:last, 0] = 5
    return Emissions(torch.zeros(frames, 2), ("-", "a"), 0.01, states=states)


def unexplained(emissions: Emissions, words: list[AlignedWord]) -> tuple[tuple[float, float], ...]:
    return tuple((start_s, end_s) for start_s, end_s, kind in unexplained_sounds(emissions, words) if kind == "speech")


def word(start_s: float, end_s: float) -> AlignedWord:
    return AlignedWord("a", "a", 0, 1, start_s=start_s, end_s=end_s, confidence=1.0)


def test_only_speech_between_words_is_told() -> None:
    heard = emissions([(10, 60), (80, 130), (150, 185)])
    assert unexplained(heard, [word(0.1, 0.6), word(0.8, 1.3)]) == ((1.5, 1.85),)
    assert unexplained(heard, [word(0.1, 0.6), word(1.5, 1.85)]) == ((0.8, 1.3),)
    assert unexplained(heard, []) == ((0.1, 0.6), (0.8, 1.3), (1.5, 1.85))


def test_what_is_short_or_no_clear_speech_is_not_told() -> None:
    assert unexplained(emissions([(50, 60)]), []) == ()
    quiet = emissions([(50, 120)])
    assert quiet.states is not None
    quiet.states[:, 0].clamp_(max=1.0)
    assert unexplained(quiet, []) == ()
    assert unexplained(replace(quiet, states=None), []) == ()


def test_times_begin_where_the_first_frame_does() -> None:
    heard = replace(emissions([(50, 120)]), first_frame_s=0.1)
    assert unexplained(heard, []) == ((0.6, 1.3),)
    assert unexplained(heard, [word(0.55, 1.4)]) == ()


def test_the_demo_without_some_of_its_words(english: Aligner) -> None:
    text = DEMO_TEXT.read_text("utf-8")
    whole = english.align(DEMO_AUDIO, text)
    assert whole.unexplained == ()
    assert min(one.confidence or 0.0 for one in whole.words) > 0.3
    missing = english.align(DEMO_AUDIO, text.split("where")[0])
    (*_, last) = missing.unexplained
    assert last[1] > whole.words[-1].start_s
    back = from_dict(json.loads(json.dumps(to_dict(missing))))
    assert np.allclose(back.unexplained, missing.unexplained, atol=1e-5)


def test_a_word_that_is_not_there_is_doubtful(english: Aligner) -> None:
    text = DEMO_TEXT.read_text("utf-8")
    whole = english.align(DEMO_AUDIO, text)
    wrong = english.align(DEMO_AUDIO, text.replace("alignment", "umbrellas"))
    assert (wrong.words[1].confidence or 0.0) < 0.5 * (whole.words[1].confidence or 0.0)
    marked = to_dict(replace(wrong, config={**wrong.config, "min_confidence": 0.3}))
    assert [one["text"] for one in marked["words"] if one.get("doubtful")] == ["umbrellas"]


@pytest.mark.parametrize(("setting", "value"), [("CLEARLY", 20.0), ("SHARE", 1.01), ("STATES_WINDOW_S", 5.0)])
def test_the_checks_would_notice(setting: str, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, setting, value)
    with pytest.raises(AssertionError):
        test_only_speech_between_words_is_told()
