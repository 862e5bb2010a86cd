"""The cases of torchaudio's own tests of `forced_align` and `merge_tokens`, written anew from what
it documents, and where the two packages differ by design.

Each case runs with both packages; without torchaudio its half is skipped (`.ci/run --all` has it).
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from oracles import ctc_paths, enumerate_all
from torchaudio_functions import load_torchaudio

from ctc_align import functional
from ctc_align.errors import KernelError

BLANK, FRAMES, CLASSES = 5, 5, 6
SCORES = torch.randn(
    1, FRAMES, CLASSES, generator=torch.Generator().manual_seed(3), dtype=torch.float64
).log_softmax(2)
TARGETS = ([0, 1, 1, 0], [0, 1, 2, 3, 4], [3, 3, 3], [0, 1, 2], [2, 2], [4])


@pytest.fixture(params=["ctc_align", pytest.param("torchaudio", marks=pytest.mark.torchaudio)])
def package(request: pytest.FixtureRequest) -> Any:
    return functional if request.param == "ctc_align" else load_torchaudio()


@pytest.mark.parametrize("lengths", [False, True], ids=["whole", "lengths"])
@pytest.mark.parametrize("ids", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_the_best_path_and_its_scores(
    package: Any, target: list[int], dtype: torch.dtype, ids: torch.dtype, lengths: bool
) -> None:
    log_probs = SCORES.to(dtype)
    more = (torch.tensor([FRAMES]), torch.tensor([len(target)])) if lengths else ()
    paths, scores = package.forced_align(
        log_probs, torch.tensor([target], dtype=ids), *more, blank=BLANK
    )
    answer = enumerate_all(SCORES[0].numpy(), ctc_paths(FRAMES, CLASSES, target, BLANK))
    expected = [BLANK if state % 2 == 0 else target[state // 2] for state in answer.path]
    assert paths.tolist() == [expected]
    assert (paths.dtype, scores.dtype) == (ids, dtype)
    assert torch.equal(scores[0], log_probs[0, torch.arange(FRAMES), torch.tensor(expected)])


@pytest.mark.filterwarnings("ignore:torchaudio..forced_align. an autograd kernel:UserWarning")
def test_scores_have_the_gradient_of_the_gathered_log_probs(package: Any) -> None:
    leaf = SCORES.clone().requires_grad_()
    target = torch.tensor([[0, 1, 2]])
    paths, scores = package.forced_align(leaf, target, blank=BLANK)
    weights = torch.rand(1, FRAMES, dtype=torch.float64)
    (met,) = torch.autograd.grad((scores * weights).sum(), leaf)
    right = torch.nn.functional.one_hot(paths.long(), CLASSES) * weights[:, :, None]
    assert torch.equal(met, right)

    def call(x: torch.Tensor) -> torch.Tensor:
        return package.forced_align(x, target, blank=BLANK)[1]

    assert torch.autograd.gradcheck(call, leaf)
    assert torch.autograd.gradgradcheck(call, leaf)


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "more tokens than frames": (
        {"targets": torch.tensor([[0, 1, 2, 3, 4, 4]])},
        RuntimeError,
        "targets length is too long for CTC",
    ),
    "repeats need a blank": (
        {"targets": torch.tensor([[3, 3, 3, 3]])},
        RuntimeError,
        "targets length is too long for CTC",
    ),
    "the blank": ({"targets": torch.tensor([[5, 3, 1]])}, ValueError, "blank"),
    "no class": ({"targets": torch.tensor([[0, 7]])}, ValueError, "class|CTC dimension"),
    "integers": ({"log_probs": SCORES.int()}, RuntimeError, "log_probs"),
    "float targets": ({"targets": torch.tensor([[0.0, 1.0]])}, RuntimeError, "targets.* int"),
    "bool targets": ({"targets": torch.tensor([[False, True]])}, RuntimeError, "targets.* int"),
    "two dimensions": ({"log_probs": SCORES[0]}, (RuntimeError, IndexError), "."),
    "one row of ids": ({"targets": torch.tensor([0, 1])}, (RuntimeError, IndexError), "."),
    "another batch": ({"targets": torch.tensor([[0, 1]] * 3)}, RuntimeError, "targets"),
    "too many frames": ({"input_lengths": torch.tensor([10_000])}, RuntimeError, "input.length"),
    "too many tokens": ({"target_lengths": torch.tensor([10_000])}, RuntimeError, "."),
    "no such blank": ({"blank": 10_000}, RuntimeError, "blank"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_both_refuse(package: Any, name: str) -> None:
    change, kind, said = REFUSED[name]
    arguments = {"log_probs": SCORES, "targets": torch.tensor([[0, 1]]), "blank": BLANK}
    if "target_lengths" in change:
        arguments["input_lengths"] = torch.tensor([FRAMES])
    if "input_lengths" in change:
        arguments["target_lengths"] = torch.tensor([2])
    with pytest.raises(kind, match=said) as error:
        package.forced_align(**(arguments | change))
    if package is functional:
        assert "\n" not in str(error.value)


PATHS = {
    "runs": ([1, 1, 0, 2, 2, 2], 0, [(1, 0, 2), (2, 3, 6)]),
    "equal neighbours": ([3, 0, 3, 3], 0, [(3, 0, 1), (3, 2, 4)]),
    "no blank": ([1, 2, 3], 0, [(1, 0, 1), (2, 1, 2), (3, 2, 3)]),
    "blanks alone": ([0, 0, 0], 0, []),
    "one frame": ([4], 0, [(4, 0, 1)]),
    "another blank": ([0, 0, 5, 1, 5], 5, [(0, 0, 2), (1, 3, 4)]),
    "nothing": ([], 0, []),
}


@pytest.mark.parametrize("ids", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("name", PATHS)
def test_merged_tokens(package: Any, name: str, ids: torch.dtype) -> None:
    labels, blank, expected = PATHS[name]
    scores = torch.linspace(0.1, 0.9, len(labels))
    spans = package.merge_tokens(torch.tensor(labels, dtype=ids), scores, blank)
    assert [(span.token, span.start, span.end) for span in spans] == expected
    for span in spans:
        assert span.score == pytest.approx(scores[span.start : span.end].mean().item())
        assert len(span) == span.end - span.start


@pytest.mark.parametrize("shapes", [((3,), (2,)), ((1, 3), (3,)), ((), ())], ids=str)
def test_paths_that_both_refuse_to_merge(package: Any, shapes: Any) -> None:
    with pytest.raises(ValueError, match=r"`?tokens`? and `?scores`?"):
        package.merge_tokens(torch.zeros(shapes[0], dtype=torch.int64), torch.zeros(shapes[1]))


def test_spans_are_plain_mutable_data(package: Any) -> None:
    span = package.TokenSpan(3, 1, 4, 0.5)
    span.start, span.score = 2, 0.25
    assert span == package.TokenSpan(token=3, start=2, end=4, score=0.25)
    assert span != package.TokenSpan(3, 2, 4, 0.5)
    assert (len(span), repr(span)) == (2, "TokenSpan(token=3, start=2, end=4, score=0.25)")
    with pytest.raises(TypeError, match="unhashable"):
        hash(span)


# ------------------------------------------------------------------ what differs by design

PAIR = torch.cat((SCORES, SCORES.flip(1)))
ONLY_HERE: dict[str, Any] = {
    "a batch": lambda f: f.forced_align(PAIR, torch.tensor([[0, 1], [2, 3]]), blank=BLANK),
    "a batch of paths": lambda f: f.merge_tokens(torch.ones(2, 3).long(), torch.ones(2, 3)),
    "fewer frames": lambda f: f.forced_align(
        SCORES, torch.tensor([[0]]), torch.tensor([3]), torch.tensor([1]), blank=BLANK
    ),
    "fewer tokens": lambda f: f.forced_align(
        SCORES, torch.tensor([[0, 5]]), torch.tensor([5]), torch.tensor([1]), blank=BLANK
    ),
    "no tokens": lambda f: f.forced_align(SCORES, torch.zeros(1, 0).long(), blank=BLANK),
    "other integers": lambda f: f.forced_align(
        SCORES, torch.tensor([[0, 1]], dtype=torch.int16), blank=BLANK
    ),
    "bfloat16": lambda f: f.forced_align(SCORES.bfloat16(), torch.tensor([[0, 1]]), blank=BLANK),
    "gaps in memory": lambda f: f.forced_align(
        SCORES.mT.contiguous().mT, torch.tensor([[0, 1]]), blank=BLANK
    ),
    "lists": lambda f: f.forced_align(SCORES, [[0, 1]], [5], [2], blank=BLANK),
    "torch.compile": lambda f: torch.compile(f.forced_align, backend="eager", fullgraph=True)(
        SCORES, torch.tensor([[0, 1]]), blank=BLANK
    ),
}
ONLY_THERE: dict[str, Any] = {
    "NaN": lambda f: f.forced_align(SCORES * torch.nan, torch.tensor([[0, 1]]), blank=BLANK),
    "-inf": lambda f: f.forced_align(SCORES - torch.inf, torch.tensor([[0, 1]]), blank=BLANK),
    "lengths of others": lambda f: f.forced_align(
        SCORES, torch.tensor([[0, 1]]), torch.tensor([5] * 3), torch.tensor([2]), blank=BLANK
    ),
    "negative ids": lambda f: f.forced_align(SCORES, torch.tensor([[0, -1]]), blank=BLANK),
}


@pytest.mark.parametrize("name", ONLY_HERE)
def test_what_only_ctc_align_takes(package: Any, name: str) -> None:
    if package is functional:
        assert ONLY_HERE[name](functional) is not None
    else:
        with pytest.raises(Exception):  # noqa: B017
            ONLY_HERE[name](package)


@pytest.mark.parametrize("name", ONLY_THERE)
def test_what_only_torchaudio_takes(package: Any, name: str) -> None:
    if package is functional:
        with pytest.raises(KernelError):
            ONLY_THERE[name](functional)
    else:
        assert ONLY_THERE[name](package) is not None


# ------------------------------------------------------------------ beyond torchaudio: ragged batches

ROWS = [[1, 2, 2], [3, 4], [1]]
LENGTHS = [9, 7, 4]
RAGGED = torch.randn(3, 9, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def nest(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.nested.nested_tensor(rows, layout=torch.jagged)


@pytest.mark.parametrize("nested_targets", [False, True], ids=["lists", "nested targets"])
def test_nested_log_probs_as_padded_ones(nested_targets: bool) -> None:
    padded = RAGGED.clone().requires_grad_()
    paths, scores = functional.forced_align(padded, ROWS, LENGTHS)
    nested = nest([row[:count] for row, count in zip(RAGGED, LENGTHS)]).requires_grad_()
    targets = nest([torch.tensor(row) for row in ROWS]) if nested_targets else ROWS
    met_paths, met_scores = functional.forced_align(nested, targets)
    for met, right in ((met_paths, paths), (met_scores, scores)):
        rows = [row[:count] for row, count in zip(right, LENGTHS)]
        assert all(map(torch.equal, met.unbind(), rows))
    assert functional.merge_tokens(met_paths, met_scores) == functional.merge_tokens(paths, scores)
    assert (met_paths == nested.argmax(2)).shape == met_paths.shape  # PyTorch knows equal lengths
    (right,) = torch.autograd.grad(scores.sum(), padded)
    (met,) = torch.autograd.grad(sum(row.sum() for row in met_scores.unbind()), nested)
    for row, expected, count in zip(met.unbind(), right, LENGTHS):
        assert torch.equal(row, expected[:count])
        assert not expected[count:].any()


def test_a_narrowed_nested_tensor() -> None:
    begins, counts = torch.tensor([0, 1, 2]), torch.tensor([9, 7, 5])
    nested = torch.nested.narrow(RAGGED, 1, begins, counts, layout=torch.jagged)
    paths, _ = functional.forced_align(nested, ROWS)
    for row, path, target in zip(nested.unbind(), paths.unbind(), ROWS):
        assert torch.equal(path, functional.forced_align(row[None], [target])[0][0])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"input_lengths": LENGTHS}, "input_lengths: expected None, because a nested tensor has"),
        ({"log_probs": nest([row[:, 0] for row in RAGGED])}, "got one of 2 dimensions"),
        ({"targets": [[1.5], [1], [1]]}, "expected token ids of an integer dtype"),
    ],
    ids=lambda value: None,
)
def test_wrong_nested_arguments(change: dict[str, Any], said: str) -> None:
    arguments = {"log_probs": nest(list(RAGGED)), "targets": ROWS}
    with pytest.raises(KernelError, match=said):
        functional.forced_align(**(arguments | change))


def test_padding_has_no_gradient_and_may_be_nan() -> None:
    leaf = RAGGED.clone()
    leaf[1, 7:] = torch.nan
    leaf[2, 4:] = torch.inf
    leaf.requires_grad_()
    _, scores = functional.forced_align(leaf, ROWS, LENGTHS)
    (met,) = torch.autograd.grad(scores.square().sum(), leaf)
    assert met.isfinite().all()
    assert not met[1, 7:].any()
    assert not met[2, 4:].any()


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is")  # PyTorch's own, of jacfwd
def test_transforms_of_differentiable_scores() -> None:
    weights = torch.rand(3, 9, dtype=torch.float64)

    def call(x: torch.Tensor) -> torch.Tensor:
        return (functional.forced_align(x, ROWS, LENGTHS)[1] * weights).sum()

    leaf = RAGGED.clone().requires_grad_()
    (right,) = torch.autograd.grad(call(leaf), leaf)
    assert torch.equal(torch.func.grad(call)(RAGGED), right)
    assert torch.equal(torch.func.jacfwd(call)(RAGGED), right)
    assert not torch.func.hessian(call)(RAGGED).any()
    pair = torch.stack((RAGGED, RAGGED * 2))
    assert torch.equal(torch.vmap(torch.func.grad(call))(pair)[0], right)
    torch.compiler.reset()
    for step in (
        torch.compile(torch.func.grad(call), backend="aot_eager", fullgraph=True),
        lambda x: torch.autograd.grad(
            torch.compile(call, backend="aot_eager", fullgraph=True)(x), x
        )[0],
    ):
        assert torch.equal(step(RAGGED.clone().requires_grad_()), right)
