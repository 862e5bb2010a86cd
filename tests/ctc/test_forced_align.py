"""Best paths as torchaudio gives them: against enumeration, against torchaudio itself, and what is
refused.

torchaudio needs an environment of its own (`.ci/run --all` makes it); without it the tests marked
so are skipped.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from kernel_problems import target
from oracles import collapse, ctc_paths, enumerate_all
from torchaudio_functions import load_torchaudio

from ctc_align.errors import KernelError
from ctc_align.functional import TokenSpan, forced_align, merge_tokens

INF, NAN = float("inf"), float("nan")


def ragged(seed: int, blank: int) -> tuple[torch.Tensor, list[list[int]], list[int]]:
    """Log-probs (6, 20, 6) float64, rows of ids, one of them empty, and the frames that count."""
    rng = np.random.default_rng(seed)
    rows = [target(rng, tokens, 6, blank) for tokens in (7, 0, 3, 5, 9, 1)]
    return (
        torch.as_tensor(rng.normal(size=(6, 20, 6)) * 3).log_softmax(2),
        rows,
        [20, 12, 17, 10, 18, 20],
    )


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "continuous"])
def test_forced_align_finds_what_enumeration_finds(tied: bool) -> None:
    rng = np.random.default_rng(7)
    for _ in range(150):
        classes, frames = int(rng.integers(2, 5)), int(rng.integers(1, 6))
        blank = int(rng.integers(classes))
        row = target(rng, int(rng.integers(0, 4)), classes, blank)
        x = (
            -rng.integers(0, 3, (frames, classes)) / 2
            if tied
            else rng.normal(size=(frames, classes))
        )
        answer = enumerate_all(x, ctc_paths(frames, classes, row, blank))
        given = torch.tensor(x, dtype=torch.float32)[None], torch.tensor([row], dtype=torch.int64)
        if answer.path is None:
            with pytest.raises(
                KernelError, match="targets length is too long for CTC, utterance 0"
            ):
                forced_align(*given, blank=blank)
            continue
        paths, scores = forced_align(*given, blank=blank)
        assert collapse(paths[0].tolist(), blank) == row
        assert scores[0].tolist() == [
            given[0][0, t, label].item() for t, label in enumerate(paths[0].tolist())
        ]
        assert scores.double().sum().item() == pytest.approx(answer.best, abs=1e-5 * (not tied))
        if tied:
            assert paths[0].tolist() == [blank if s % 2 == 0 else row[s // 2] for s in answer.path]


@pytest.mark.parametrize(
    ("dtype", "ids"),
    [
        (torch.float16, torch.uint8),
        (torch.bfloat16, torch.int16),
        (torch.float32, torch.int32),
        (torch.float64, torch.int64),
    ],
    ids=str,
)
def test_forced_align_in_a_batch_as_alone(dtype: torch.dtype, ids: torch.dtype) -> None:
    log_probs, rows, lengths = ragged(8, 3)
    log_probs = log_probs.to(dtype).requires_grad_()
    spoilt = log_probs.detach().clone()
    for b, frames in enumerate(lengths):
        spoilt[b, frames:] = NAN
    targets = torch.tensor([row + [3] * (9 - len(row)) for row in rows], dtype=ids)
    paths, scores = forced_align(
        spoilt, targets, torch.tensor(lengths), [len(row) for row in rows], blank=3
    )
    assert (paths.dtype, paths.shape, scores.dtype, scores.shape) == (ids, (6, 20), dtype, (6, 20))
    for b, (row, frames) in enumerate(zip(rows, lengths)):
        alone = forced_align(log_probs[b : b + 1, :frames], torch.tensor([row], dtype=ids), blank=3)
        assert torch.equal(paths[b, :frames], alone[0][0])
        assert torch.equal(scores[b, :frames], alone[1][0])
        assert not forced_align(
            log_probs[b : b + 1].detach(), targets[b : b + 1], [frames], [len(row)], blank=3
        )[1].requires_grad
        assert (paths[b, frames:] == 3).all()
        assert (scores[b, frames:] == 0).all()
        assert collapse(paths[b].tolist(), 3) == row


def test_memory_layout_does_not_matter() -> None:
    log_probs, _, _ = ragged(8, 3)
    targets = torch.tensor([[0, 1]] * 6)
    paths, scores = forced_align(log_probs, targets, blank=3)
    for order in itertools.permutations(range(3)):
        back = [order.index(axis) for axis in range(3)]
        other = forced_align(
            log_probs.permute(order).contiguous().permute(back), targets.T.contiguous().T, blank=3
        )
        assert torch.equal(other[0], paths)
        assert torch.equal(other[1], scores)


def test_forced_align_of_nothing() -> None:
    paths, scores = forced_align(torch.zeros(0, 5, 3), torch.zeros(0, 2, dtype=torch.int32), [], [])
    assert (paths.shape, paths.dtype, scores.shape) == ((0, 5), torch.int32, (0, 5))
    assert forced_align(torch.zeros(2, 0, 3), torch.zeros(2, 0, dtype=torch.int32))[0].shape == (
        2,
        0,
    )
    assert forced_align(torch.zeros(1, 3, 3), torch.zeros(1, 0, dtype=torch.int32), blank=2)[
        0
    ].tolist() == [[2, 2, 2]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"log_probs": torch.zeros(4, 3)},
            "log_probs: expected (B, T, C) with at least one class, got shape (4, 3)",
        ),
        ({"targets": torch.tensor([1, 2])}, "targets: expected token ids (2, L), got shape (2,)"),
        (
            {"targets": torch.tensor([[1, 2]])},
            "targets: expected token ids (2, L), got shape (1, 2)",
        ),
        ({"targets": torch.tensor([[1, 2], [0, 1]])}, "target 1: token 0 (0) is the blank"),
        ({"targets": torch.tensor([[1, 2], [1, 3]])}, "target 1: token 1 is 3"),
        ({"input_lengths": [4, 5]}, "input_lengths: utterance 1 has 5 frames, expected 0 to 4"),
        ({"target_lengths": [2, 3]}, "expected 0 to 2, got [2, 3]"),
        (
            {"targets": torch.tensor([[1, 2], [2, 2]]), "input_lengths": [4, 2]},
            (
                "targets length is too long for CTC, utterance 1: log_probs length 2, targets"
                " length 2, and number of repeats 1"
            ),
        ),
        (
            {"log_probs": torch.tensor([0.0, 0.0, -INF]).expand(2, 4, 3)},
            "log_probs of utterance 0: every path of its target meets a log-prob of -inf",
        ),
        (
            {"log_probs": torch.cat((torch.zeros(1, 4, 3), torch.full((1, 4, 3), NAN)))},
            "log_probs of utterance 1: expected log-probs, got NaN or +inf where its target is",
        ),
    ],
)
def test_wrong_arguments_of_forced_align(change: dict[str, Any], said: str) -> None:
    arguments = {"log_probs": torch.zeros(2, 4, 3), "targets": torch.tensor([[1, 2], [1, 2]])}
    assert forced_align(**arguments)[0].shape == (2, 4)
    with pytest.raises(KernelError) as error:
        forced_align(**(arguments | change))
    assert said in str(error.value)


def test_merge_tokens() -> None:
    rng = np.random.default_rng(9)
    for frames in (0, 1, 2, 40):
        labels, scores = rng.integers(0, 3, frames), rng.normal(size=frames)
        spans = merge_tokens(
            torch.tensor(labels, dtype=torch.int32),
            torch.tensor(scores, dtype=torch.float32),
            blank=1,
        )
        expected, start = [], 0
        for label, run in itertools.groupby(labels.tolist()):
            end = start + len(list(run))
            if label != 1:
                expected.append(
                    TokenSpan(label, start, end, pytest.approx(scores[start:end].mean(), abs=1e-6))
                )
            start = end
        assert spans == expected
        assert [len(span) for span in spans] == [span.end - span.start for span in spans]
    rows = torch.tensor([[0, 2, 2], [1, 1, 0]]), torch.tensor([[0.5, 1.0, 2.0], [3.0, 4.0, 5.0]])
    assert merge_tokens(*rows) == [merge_tokens(*row) for row in zip(*rows)]
    with pytest.raises(
        KernelError, match=r"or a batch, \(B, T\) and \(B, T\), got \(1, 3\) and \(2, 3\)"
    ):
        merge_tokens(torch.zeros(1, 3, dtype=torch.int32), torch.zeros(2, 3))
    with pytest.raises(KernelError, match="expected one path"):
        merge_tokens(torch.zeros(3, dtype=torch.int32), torch.zeros(2))


@pytest.fixture(scope="module")
def theirs() -> Any:
    """torchaudio.functional."""
    return load_torchaudio()


def in_torchaudio(test: Any) -> Any:
    ignored = ("ignore:.*torchaudio:UserWarning", "ignore:.*TorchAudio:UserWarning")
    return pytest.mark.torchaudio(pytest.mark.filterwarnings(*ignored)(test))


@in_torchaudio
@pytest.mark.parametrize("ids", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_same_as_torchaudios_where_nothing_ties(
    theirs: Any, dtype: torch.dtype, ids: torch.dtype
) -> None:
    rng = np.random.default_rng(10)
    for number in range(150):
        classes = int(rng.integers(2, 40))
        blank = int(rng.integers(classes))
        row = target(rng, int(rng.integers(1, 40)), classes, blank)
        frames = (
            len(row)
            + sum(a == b for a, b in itertools.pairwise(row))
            + (number % 3 and int(rng.integers(0, 150)))
        )
        x = torch.as_tensor(rng.normal(size=(1, frames, classes)) * 3, dtype=dtype).log_softmax(2)
        given = x, torch.tensor([row], dtype=ids)
        lengths = (torch.tensor([frames]), torch.tensor([len(row)])) if number % 2 else (None, None)
        paths, scores = forced_align(*given, *lengths, blank=blank)
        right = theirs.forced_align(*given, *lengths, blank=blank)
        for met, expected in zip((paths, scores), right):
            assert (met.dtype, met.shape) == (expected.dtype, expected.shape)
            assert torch.equal(met, expected)
        spans = theirs.merge_tokens(right[0][0], right[1][0], blank)
        met = merge_tokens(paths[0], scores[0], blank)
        assert [(span.token, span.start, span.end, len(span)) for span in met] == [
            (span.token, span.start, span.end, len(span)) for span in spans
        ]
        assert [span.score for span in met] == pytest.approx(
            [span.score for span in spans], rel=1e-5
        )


@in_torchaudio
def test_never_worse_than_torchaudio_and_sometimes_better_on_ties(theirs: Any) -> None:
    rng, better = np.random.default_rng(2), 0
    for _ in range(1000):
        classes = int(rng.integers(2, 9))
        blank = int(rng.integers(classes))
        row = target(rng, int(rng.integers(1, 12)), classes, blank)
        frames = (
            len(row) + sum(a == b for a, b in itertools.pairwise(row)) + int(rng.integers(0, 40))
        )
        given = (
            torch.tensor(-rng.integers(0, 3, (1, frames, classes)) / 2, dtype=torch.float32),
            torch.tensor([row]),
        )
        ours, other = (
            align(*given, blank=blank)[1].double().sum()
            for align in (forced_align, theirs.forced_align)
        )
        assert ours >= other
        better += bool(ours > other)
    assert better > 0


@in_torchaudio
def test_three_frames_that_torchaudio_gets_wrong(theirs: Any) -> None:
    """Blank, then both tokens, is the best: -3. torchaudio 2.11 has the first token at once: -4."""
    x = torch.tensor([[[0.0, -2.0, -1.0], [-1.0, -2.0, -2.0], [-2.0, -1.0, -2.0]]])
    for align, score in ((forced_align, -3.0), (theirs.forced_align, -4.0)):
        assert align(x, torch.tensor([[2, 1]]), blank=0)[1].sum() == score
