"""CTC with too many states for all of them: what is left out changes no bit of the path, and
nothing of the sum."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from cpu_checks import best_path, on_threads, path_faults, poison
from kernel_problems import KINDS, Batch, scores

from ctc_align import kernels, lattice
from ctc_align.errors import KernelError
from ctc_align.kernels.cpu import cpu_backend, long_viterbi, pruned_search, rest_bounds
from ctc_align.kernels.cpu.problem import flat_problem

CLASSES = 7


@pytest.fixture(autouse=True)
def every_utterance_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_backend, "LONG_CELLS", 1)
    monkeypatch.setattr(cpu_backend, "MOST_NARROW_CHOICES", 0)
    monkeypatch.setattr(long_viterbi, "WHOLE_CHOICES_BYTES", 0)
    monkeypatch.setattr(pruned_search, "LEAST_CELLS", 1)
    monkeypatch.setattr(pruned_search, "STEP_FRAMES", 16)


def spoken(
    rng: np.random.Generator, tokens: int, sure: float, slow: float = 0.8
) -> tuple[np.ndarray, list[int]]:
    """Log-probs (T, C) of a text, whose class has about the share `sure` in each frame, and the
    text."""
    row = rng.integers(1, CLASSES, tokens)
    frames = [
        label
        for token in row
        for label in [0] * (1 + rng.poisson(slow)) + [token] * (1 + rng.poisson(slow))
    ]
    x = rng.gamma(0.3, size=(len(frames), CLASSES)) + 1e-4
    x *= (1 - sure) / x.sum(1, keepdims=True)
    x[np.arange(len(frames)), frames] += sure
    return np.log(x).astype(np.float32), row.tolist()


def batch(x: np.ndarray, row: list[int]) -> Batch:
    topology = lattice.ctc([row])
    return Batch(
        torch.from_numpy(np.asarray(x, np.float32))[None], torch.tensor([len(x)]), topology
    )


def cases() -> Iterator[tuple[str, Batch]]:
    """Sounds that say the text, or hardly, or something else for a while, or nothing; ties and
    zeros, too."""
    rng = np.random.default_rng(91)
    for sure in (0.9, 0.5, 0.1):
        yield f"sure by {sure}", batch(*spoken(rng, 120, sure))
    x, row = spoken(rng, 200, 0.8)
    x[150:330] = spoken(rng, 150, 0.8)[0][:180]
    yield "another text for a while", batch(x, row)
    yield (
        "half of the text is not said",
        batch(x, row[:60] + rng.integers(1, CLASSES, 100).tolist() + row[60:]),
    )
    yield "the same over and over", batch(np.tile(x[:60], (8, 1)), [*row[:14], 1, 1] * 8)
    for kind in KINDS[1:]:
        frames = int(rng.integers(60, 300))
        row = rng.integers(1, CLASSES, int(rng.integers(1, frames // 2))).tolist()
        yield (
            f"{kind}, {frames} frames, {len(row)} tokens",
            batch(scores(rng, frames, CLASSES, kind), row),
        )
    yield (
        "hardly longer than its text",
        batch(x[: len(row) + 9], [1 + k % 2 for k in range(len(row))]),
    )


@pytest.mark.long
def test_paths_and_sums_are_those_of_all_states(monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch)
    looked_at = {}
    for name, given in cases():
        right = best_path(given, None, "reference")
        expected = kernels.forward(
            given.log_probs, given.topology, given.lengths, backend="reference"
        )
        # Saved rows are thinned out; narrow beams find other paths, or none; bounds look at pairs
        # of tokens, or not.
        for saved, beams, paired in (
            (2**30, (500.0,), 64),
            (2**13, (2.0, 20.0), 0),
            (2**13, (0.1,), 64),
        ):
            monkeypatch.setattr(pruned_search, "SAVED_BYTES", saved)
            monkeypatch.setattr(pruned_search, "BEAMS", beams)
            monkeypatch.setattr(pruned_search, "MOST_PAIRED_CLASSES", paired)
            assert path_faults(given, None, right) == [], name
            scores = kernels.forward(given.log_probs, given.topology, given.lengths, backend="cpu")
            torch.testing.assert_close(scores, expected, rtol=1e-6, atol=1e-5, msg=name)
        looked_at[name] = cells_of(given)
    assert looked_at["sure by 0.9"] < looked_at["sure by 0.1"]


def test_other_numbers() -> None:
    given = batch(*spoken(np.random.default_rng(98), 90, 0.6))
    assert path_faults(given, dtype=torch.float64) == []


def cells_of(given: Batch) -> int:
    """States times frames that the search for the path looked at last."""
    inputs = flat_problem(given.log_probs.numpy(), given.topology, given.lengths.numpy(), None)
    states = np.full((1, given.log_probs.shape[1]), -1, np.int32)
    search = pruned_search.PrunedPath(inputs, 0, states, np.empty(1))
    search.find()
    return search.cells


def test_twice_the_text_is_twice_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the sound leaves no doubt: all states would be four times as many."""
    monkeypatch.setattr(pruned_search, "STEP_FRAMES", 64)
    cells = [
        cells_of(batch(*spoken(np.random.default_rng(92), tokens, 0.97))) for tokens in (2000, 4000)
    ]
    assert cells[1] < 2.2 * cells[0]
    assert cells[1] < 0.1 * pruned_search.cells(2 * 4000, 2 * 4000 + 1)


@pytest.mark.long
def test_several_at_once() -> None:
    rng = np.random.default_rng(93)
    made = [batch(*spoken(rng, tokens, 0.6)) for tokens in (50, 80, 20)]
    frames = max(each.log_probs.shape[1] for each in made)
    x = torch.full((3, frames, CLASSES), np.nan)
    for row, each in zip(x, made):
        row[: each.log_probs.shape[1]] = each.log_probs[0]
    together = Batch(
        x,
        torch.cat([each.lengths for each in made]),
        lattice.stack([each.topology for each in made]),
    )
    for threads in (1, 2):
        with on_threads(threads):
            assert path_faults(together) == []
            scores = kernels.forward(x, together.topology, together.lengths, backend="cpu")
    alone = [kernels.forward(each.log_probs, each.topology, backend="cpu") for each in made]
    assert scores.tolist() == torch.cat(alone).tolist()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_log_prob(value: float) -> None:
    x, row = spoken(np.random.default_rng(94), 60, 0.8)
    x[70, 3] = value
    assert path_faults(batch(x, row)) == []
    assert np.isnan(
        kernels.forward(torch.from_numpy(x)[None], lattice.ctc([row]), backend="cpu").item()
    )


def test_too_much_to_look_at_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sound and text have nothing to do with each other: every state matters."""
    rng = np.random.default_rng(95)
    given = batch(scores(rng, 900, CLASSES, "continuous"), rng.integers(1, CLASSES, 400).tolist())
    monkeypatch.setattr(pruned_search, "MOST_CELLS", 50_000)
    for run, what in ((kernels.best_path, "best path"), (kernels.forward, "sum over all paths")):
        with pytest.raises(
            KernelError,
            match=f"{what} of utterance 0: 900 frames x 801 states.*split both into parts",
        ):
            run(given.log_probs, given.topology, backend="cpu")
    monkeypatch.setattr(pruned_search, "MOST_CELLS", 10**7)
    assert path_faults(given) == []


@pytest.mark.parametrize("bound", ["of_best_path", "of_all_paths"])
def test_a_bound_that_is_too_low_is_seen(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks above fail where a number is not a bound."""
    usual = getattr(rest_bounds, bound)

    def low(*arguments: object) -> None:
        usual(*arguments)
        rest = arguments[-1]
        assert isinstance(rest, np.ndarray)
        rest[3:-1] -= 400.0

    monkeypatch.setattr(rest_bounds, bound, low)
    given = batch(*spoken(np.random.default_rng(96), 120, 0.5))
    scores = kernels.forward(given.log_probs, given.topology, backend="cpu")
    assert path_faults(given) or scores.item() == -np.inf


@pytest.mark.long
def test_bounds_hold_for_every_text() -> None:
    """R(t, tilt) - tilt * n is above the score of any text of n tokens over the frames from t
    on."""
    rng = np.random.default_rng(97)
    labels, tilts = np.arange(1, 4), np.array([0.0, 2.0, -2.0])
    for kind in ("continuous", "holes", "unnormalised"):
        x = scores(rng, 24, 4, kind).astype(np.float32)
        emitted = x.reshape(-1), 0, 4, 1
        paths, sums = np.empty((2, 24 // 8 + 2, 3))
        rest_bounds.of_best_path(emitted, 24, labels, 0, tilts, 8, paths)
        rest_bounds.of_all_paths(emitted, 24, labels, 0, tilts, 8, np.ones((3, 3)), sums)
        loose = np.empty_like(sums)
        rest_bounds.of_all_paths(emitted, 24, labels, 0, tilts, 8, np.zeros((0, 0)), loose)
        assert (loose >= sums - 1e-9).all()
        for _ in range(60):
            row = rng.integers(1, 4, int(rng.integers(1, 12))).tolist()
            for block in range(3):
                given = torch.from_numpy(x[8 * block :])[None].double(), lattice.ctc([row])
                best = kernels.best_path(*given, backend="reference").scores
                for rest, score in (
                    (paths, best),
                    (sums, kernels.forward(*given, backend="reference")),
                ):
                    assert score.item() <= (rest[block] - tilts * len(row)).min() + 1e-6, (
                        kind,
                        row,
                        block,
                    )


@pytest.mark.long
def test_paths_of_fewer_states_are_pruned_where_that_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where most states matter, or memory is short, all are computed, and nothing is refused."""
    monkeypatch.setattr(pruned_search, "LEAST_CELLS", 2**60)
    monkeypatch.setattr(pruned_search, "LEAST_PATH_CELLS", 1)
    for name, given in cases():
        assert path_faults(given) == [], name
    pruned: list[bool] = []
    find = pruned_search.PrunedPath.find

    def seen(self: pruned_search.PrunedPath) -> bool:
        pruned.append(False)
        pruned[-1] = find(self)
        return pruned[-1]

    monkeypatch.setattr(pruned_search.PrunedPath, "find", seen)
    for sure in (0.97, 0.0):
        assert path_faults(batch(*spoken(np.random.default_rng(99), 2000, sure))) == []
    assert set(pruned[: len(pruned) // 2]) == {True}
    assert set(pruned[len(pruned) // 2 :]) == {False}
