"""Goodness of pronunciation: which rival is heard at a token's place, and by how many nats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from made_models import LETTERS, planted, spelt

import ctc_align
from ctc_align.alignment.aligner import Aligner
from ctc_align.config import Settings
from ctc_align.types import AlignedToken, Emissions

DEMO = Path(ctc_align.__file__).parent / "demo"
RATING = Aligner(model=None, settings=Settings(gop=True, match="exact"))


def log_likelihood(emissions: Emissions, text: str, first: int, last: int) -> float:
    """CTC by PyTorch, over the frames `first` to `last`, exclusive."""
    scores = torch.from_numpy(emissions.array[first:last])[:, None]
    ids = torch.tensor([[LETTERS.index(letter) for letter in text]])
    return -torch.nn.functional.ctc_loss(
        scores, ids, (last - first,), (len(text),), reduction="sum"
    ).item()


def rate(emissions: Emissions, text: str) -> tuple[AlignedToken, ...]:
    return RATING.align(emissions, text).words[0].tokens


def test_a_letter_that_was_said_otherwise_is_heard_as_that_letter() -> None:
    emissions = planted(spelt("cade"))  # two blanks, then each letter for two frames and a blank
    c, a, b, e = rate(emissions, "cabe")
    assert [token.heard for token in (c, a, b, e)] == ["c", "a", "d", "e"]
    assert min(c.gop or 0, a.gop or 0, e.gop or 0) > 2
    # Between c and the end of the recording: the neighbours of b are a and e.
    frames = len(emissions)
    said, rival = (log_likelihood(emissions, text, 4, frames) for text in ("abe", "ade"))
    assert b.gop == pytest.approx(said - rival, abs=0.006)


def test_a_letter_that_was_left_out_is_heard_as_nothing() -> None:
    emissions = planted(spelt("cae"))
    gops = {token.token: token for token in rate(emissions, "cabe")}
    assert gops["b"].heard == ""
    assert (gops["b"].gop or 0) < -1
    # One sound may stand for two of a kind: nothing is missing.
    assert [token.heard for token in rate(planted(spelt("cabe")), "cabbe")].count("") == 0


def test_english_compares_with_native_speakers_only_when_asked() -> None:
    text = (DEMO / "demo.txt").read_text("utf-8")
    plain, rated = (
        Aligner("english", settings=Settings(tiers=tiers)).align(DEMO / "demo.flac", text)
        for tiers in ("", "phones,gop")
    )
    tokens = [token for word in rated.words for token in word.tokens]
    assert all(token.gop is None for word in plain.words for token in word.tokens)
    assert all((token.gop < 0) == (token.heard != token.token) for token in tokens)
    percentiles = [token.gop_percentile for token in tokens]
    assert 30 < np.median(percentiles) < 80
    assert np.mean(np.array(percentiles) < 10) < 0.2
    assert [word.start_s for word in rated.words] == [word.start_s for word in plain.words]
