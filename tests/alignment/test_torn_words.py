"""Words that CTC's best path tears apart, in recordings that are too long for a second search of all states."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ctc_align.alignment import ctc_path
from ctc_align.kernels import batching
from ctc_align.types import Emissions, Tokens

BLANK, CLASSES = 0, 5
SOUNDS = (1, 2, 3)


def torn(words: int = 12) -> tuple[torch.Tensor, Tokens]:
    """Log-probs in which the first sound of every word comes a second early, once more, a little likelier."""
    log_probs = torch.full((words * 200, CLASSES), -9.0)
    log_probs[:, BLANK] = -0.02
    for word in range(words):
        for k, sound in enumerate(SOUNDS):
            log_probs[word * 200 + 120 + 3 * k, sound] = -0.3
            log_probs[word * 200 + 120 + 3 * k, BLANK] = -3.0
        log_probs[word * 200 + 10, SOUNDS[0]], log_probs[word * 200 + 10, BLANK] = -0.1, -4.0
    ids, owners = SOUNDS * words, np.repeat(np.arange(words), len(SOUNDS))
    return log_probs, Tokens(ids, tuple(map(str, ids)), tuple(owners.tolist()))


def with_states(log_probs: torch.Tensor) -> Emissions:
    return Emissions(log_probs, ("", *"abcd"), 0.01, BLANK, states=torch.zeros(len(log_probs), 1))


def starts(log_probs: torch.Tensor, tokens: Tokens) -> list[int]:
    return batching.run([ctc_path.best_word_path(with_states(log_probs), tokens)])[0].spans.start.tolist()


@pytest.mark.parametrize("window_frames", [100, 500])
def test_in_windows_it_is_the_same(window_frames: int, monkeypatch: pytest.MonkeyPatch) -> None:
    log_probs, tokens = torn()
    everywhere = starts(log_probs, tokens)
    assert everywhere[:3] == [120, 123, 126]
    windows: list[int] = []
    usual = ctc_path.window_from

    def seen(first: int, *arguments: object) -> object:
        windows.append(first)
        return usual(first, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ctc_path, "window_from", seen)
    monkeypatch.setattr(ctc_path, "MOST_CELLS", 0)
    monkeypatch.setattr(ctc_path, "WINDOW_FRAMES", window_frames)
    monkeypatch.setattr(ctc_path, "NEAR_FRAMES", 400)
    assert starts(log_probs, tokens) == everywhere
    assert len(windows) >= 3


def test_a_wildcard_among_the_tokens_keeps_its_scores() -> None:
    log_probs, tokens = torn(2)
    ids = list(tokens.ids)
    ids[4] = ctc_path.lattice.WILDCARD
    scores = torch.full((len(log_probs),), -9.0)
    scores[323] = -0.1
    wild = Tokens(tuple(ids), tokens.labels, tokens.words)
    path = batching.run([ctc_path.best_word_path(with_states(log_probs), wild, wildcard=scores)])[0]
    assert path.spans.start.tolist() == [120, 123, 126, 320, 323, 326]
