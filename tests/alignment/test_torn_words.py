"""Words that CTC's best path tears apart, in recordings that are too long for a second search of all states."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ctc_align.alignment import ctc_path
from ctc_align.kernels import batching
from ctc_align.types import Tokens

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


def starts(log_probs: torch.Tensor, tokens: Tokens) -> list[int]:
    return batching.run([ctc_path.best_word_path(log_probs, tokens, BLANK)])[0].spans.start.tolist()


@pytest.mark.parametrize("near_frames", [3000, 30])
def test_near_the_first_path_is_what_all_states_say(near_frames: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the band is too narrow for the words to come together, it is widened."""
    log_probs, tokens = torn()
    everywhere = starts(log_probs, tokens)
    assert everywhere[:3] == [120, 123, 126]
    asked = []
    usual = ctc_path.states_near

    def near(spans: ctc_path.Spans, frames: int, near_frames: int) -> np.ndarray:
        asked.append(near_frames)
        return usual(spans, frames, near_frames)

    monkeypatch.setattr(ctc_path, "states_near", near)
    monkeypatch.setattr(ctc_path, "MOST_CELLS", 0)
    monkeypatch.setattr(ctc_path, "NEAR_FRAMES", near_frames)
    assert starts(log_probs, tokens) == everywhere
    assert asked == ([3000] if near_frames == 3000 else [30, 120, 480])


def test_a_wildcard_among_the_tokens_keeps_its_scores() -> None:
    log_probs, tokens = torn(2)
    ids = list(tokens.ids)
    ids[4] = ctc_path.lattice.WILDCARD
    scores = torch.full((len(log_probs),), -9.0)
    scores[323] = -0.1
    path = batching.run(
        [ctc_path.best_word_path(log_probs, Tokens(tuple(ids), tokens.labels, tokens.words), BLANK, wildcard=scores)]
    )[0]
    assert path.spans.start.tolist() == [120, 123, 126, 320, 323, 326]
