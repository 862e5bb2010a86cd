"""The wildcard: it takes the speech that no word explains, and no other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ctc_align import kernels, lattice
from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.ctc_path import best_ctc_path, token_spans
from ctc_align.alignment.wildcard import wildcard_scores
from ctc_align.errors import KernelError
from ctc_align.kernels import batching
from ctc_align.lattice import WILDCARD
from ctc_align.text import split
from ctc_align.tokens.tokenizer import join, tokenize, tokenizer_for

BLANK = 0
SAID = [1, 2, 3, 4, 5, 6, 2, 4, 1]
STEP = 10


def heard(rng: np.random.Generator, labels: list[int], classes: int = 8) -> torch.Tensor:
    """Peaky log-probs (T, C): a label every STEP frames (frame 5, 15, …), right but not certain; blanks between."""
    x = rng.normal(size=(STEP * len(labels), classes))
    x[:, BLANK] += 8
    for place, label in enumerate(labels):
        frame = STEP * place + STEP // 2
        x[frame, BLANK] -= 6
        x[frame, label] += 8
    return torch.as_tensor(x).log_softmax(1)


def places(
    x: torch.Tensor, row: list[int], optional: list[bool] | None = None, penalty: float | None = None
) -> tuple[list[int], list[int]]:
    """First and last (exclusive) frame of each token of the row on the best path; -1 where it is left out."""
    given = {} if penalty is None else {"penalty": penalty}
    topology = lattice.ctc([row], BLANK, None if optional is None else [optional])
    path = kernels.best_path(x[None], topology, wildcard=wildcard_scores(x, BLANK, **given)[None])
    spans = token_spans(path.states[0].numpy(), topology.token[0], len(row))
    first, last = spans.start, spans.end
    return first.tolist(), last.tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("place", range(len(SAID) + 1))
def test_it_swallows_no_word_that_fits(place: int, seed: int) -> None:
    """A wildcard where nothing is missing leaves every token in its place, also those that may be left out."""
    x = heard(np.random.default_rng(seed), SAID)
    row = [*SAID[:place], WILDCARD, *SAID[place:]]
    expected = [STEP * k + STEP // 2 for k in range(len(SAID))]
    for optional in (None, [True] * len(row)):
        first, last = places(x, row, optional)
        assert first[:place] + first[place + 1 :] == expected
        assert last[:place] + last[place + 1 :] == [frame + 1 for frame in expected]


def test_without_a_penalty_it_would() -> None:
    x = heard(np.random.default_rng(0), SAID)
    first, _ = places(x, [*SAID[:4], WILDCARD, *SAID[4:]], [True] * (len(SAID) + 1), penalty=0.0)
    assert -1 in first


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("missing", [1, 3, 5])
def test_it_takes_what_no_word_explains(missing: int, seed: int) -> None:
    x = heard(np.random.default_rng(seed), SAID)
    row = [*SAID[:2], WILDCARD, *SAID[2 + missing :]]
    first, last = places(x, row)
    kept = [k for k in range(len(SAID)) if not 2 <= k < 2 + missing]
    assert first[:2] + first[3:] == [STEP * k + STEP // 2 for k in kept]
    assert first[2] <= STEP * 2 + STEP // 2
    assert last[2] > STEP * (1 + missing) + STEP // 2


@pytest.mark.parametrize("seed", range(5))
def test_words_that_were_not_said_are_left_to_it(seed: int) -> None:
    x = heard(np.random.default_rng(seed), [1, 2, 7, 3, 7, 4, 5])
    row = [1, 2, WILDCARD, 6, 6, 4, 5]
    first, last = places(x, row, [False, False, False, True, True, False, False])
    assert (first[3], first[4]) == (-1, -1)
    assert first[2] <= 25
    assert last[2] > 45


@pytest.mark.parametrize("blank", [0, 1, 3])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_scores(dtype: torch.dtype, blank: int) -> None:
    x = torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(0)).log_softmax(-1).to(dtype)
    x[0, 0, 0] = float("-inf")
    expected = x.clone()
    expected -= 1.5
    expected[..., blank] = x[..., blank]
    met = wildcard_scores(x, blank, 1.5)
    assert met.dtype == dtype
    assert torch.equal(met, expected.amax(-1))
    turned = x.transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(wildcard_scores(turned, blank, 1.5), met)
    assert wildcard_scores(x[..., :1]).tolist() == x[..., 0].tolist()
    assert wildcard_scores(x[:, :, :0]).shape == (2, 3, 0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (([[0.0]],), "expected a floating-point tensor (..., T, C), got none"),
        ((torch.zeros(3, 2, dtype=torch.int64),), "got torch.int64 of shape (3, 2)"),
        ((torch.zeros(3),), "got torch.float32 of shape (3,)"),
        ((torch.zeros(3, 2), 2), "blank: expected a class below 2, got 2"),
        ((torch.zeros(3, 2), -1), "got -1"),
        ((torch.zeros(3, 2), 0, -0.5), "penalty: expected nats, 0 or more, got -0.5"),
        ((torch.zeros(3, 2), 0, float("nan")), "got nan"),
    ],
)
def test_wrong_arguments(given: tuple, said: str) -> None:
    with pytest.raises(KernelError) as error:
        wildcard_scores(*given)
    assert said in str(error.value)


@pytest.mark.data
@pytest.mark.parametrize("missing", [1, 2])
@pytest.mark.long
def test_neighbours_of_an_unwritten_word_stay_where_they_are(missing: int, english: Aligner, speech_data: Path) -> None:
    """Recorded sentences, every second word: how far the words beside it move when a wildcard takes its place."""
    moved, covered = [], []
    for audio in sorted((speech_data / "gold-dev" / "corpus").rglob("*.wav"))[::2]:
        emissions = english.emissions(audio)
        x, blank = emissions.log_probs, emissions.blank
        words = split(audio.with_suffix(".txt").read_text("utf-8"))
        tokenizer = tokenizer_for(emissions.vocab, blank)
        word_tokens = tokenize(words, tokenizer)
        tokens = join(word_tokens, [0] * len(word_tokens), tokenizer.separator)
        ids, owner = np.array(tokens.ids), np.array(tokens.words)
        spikes = batching.run([best_ctc_path(x, ids.tolist(), blank)])[0].spans
        scores = wildcard_scores(x, blank)
        for word in range(1, len(word_tokens) - missing, 2):
            gone = (owner >= word) & (owner < word + missing)
            place = int(np.argmax(gone))
            topology = lattice.ctc([[*ids[:place], WILDCARD, *ids[place:][~gone[place:]]]], blank)
            path = kernels.best_path(x[None], topology, wildcard=scores[None])
            spans = token_spans(path.states[0].numpy(), topology.token[0], topology.token.max() + 1)
            first, last = spans.start, spans.end
            beside = (owner >= word - 1) & (owner <= word + missing) & ~gone
            moved.append(np.abs(np.delete(first, place)[beside[~gone]] - spikes.start[beside]).max())
            spoken = np.arange(spikes.start[gone][0], spikes.end[gone][-1])
            covered.append(np.mean((spoken >= first[place]) & (spoken < last[place])))
    assert len(moved) > 100
    # In frames of 10 ms. What was said in between is the wildcard's. (Of 153 words, or 126: a hundredth is one or two.)
    assert np.mean(np.array(moved) <= 2) >= 0.85
    assert np.mean(np.array(moved) <= 5) >= 0.88
    assert np.mean(covered) > 0.75
