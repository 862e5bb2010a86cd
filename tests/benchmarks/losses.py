"""How many times as fast as PyTorch's the CTC loss and its gradient are, and what a product of its Hessian with a
vector costs; exits 1 if less than asked is reached.

    python tests/benchmarks/losses.py [--only NAME …] [--rounds N] [--threads N]

T x N x C = 128 x 256 x 32, 30 tokens each, float32. Log-probs are noise with a planted path
(`ctc_align.kernels.benchmark.planted`). The rivals are torch.nn.functional.ctc_loss, and CTC as one would write it in
PyTorch: a loop over the frames, differentiated by autograd, of the whole batch at once and of one utterance after the
other (of every eighth, times eight). Ours and theirs take turns; medians. Results are compared first. The Hessian's
product is measured from the log-probs on, loss and gradient with it, and beside loss and gradient.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
from measuring import parser_of, show_machine

from ctc_align import functional
from ctc_align.kernels.benchmark import Case, in_turns, machine, planted

CASE = Case(256, 128, 30, 32)
NEVER = -1e30
"""In the place of -inf, whose logsumexp has a gradient of NaN."""
EVERY = 8
"""The slowest rival has every eighth utterance only."""


@dataclass(frozen=True)
class Row:
    """A line of the table: `ours` and `theirs` take turns, `theirs` counts `times` over. The ratio of theirs to ours
    must be at least `asked`; with `at_most`, that of ours to theirs at most."""

    name: str
    task: str
    rival: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    asked: float
    times: int = 1
    at_most: bool = False


def loop_over_frames(log_probs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """CTC's forward pass over (T, N, C) and (N, L) of full lengths, blank 0, in PyTorch's operations: the sum of the
    losses."""
    extended = torch.zeros(len(targets), 2 * targets.shape[1] + 1, dtype=torch.int64)
    extended[:, 1::2] = targets
    scores = log_probs.gather(2, extended.expand(len(log_probs), *extended.shape))
    skip = torch.full(extended.shape, NEVER)
    skip[:, 3::2][targets[:, 1:] != targets[:, :-1]] = 0
    alpha = torch.full(extended.shape, NEVER)
    alpha[:, :2] = scores[0, :, :2]
    for frame in scores[1:]:
        step = torch.nn.functional.pad(alpha[:, :-1], (1, 0), value=NEVER)
        over = torch.nn.functional.pad(alpha[:, :-2], (2, 0), value=NEVER) + skip
        alpha = torch.stack((alpha, step, over)).logsumexp(0) + frame
    return -alpha[:, -2:].logsumexp(1).sum()


def one_after_the_other(log_probs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return torch.stack(
        [loop_over_frames(log_probs[:, n : n + 1], targets[n : n + 1]) for n in range(len(targets))]
    ).sum()


def rows() -> list[Row]:
    """Everything that is measured; what is compared is the same, or SystemExit."""
    made, labels = planted(CASE)
    targets, plain = torch.from_numpy(labels), made.transpose(0, 1).contiguous()
    leaf, some = plain.clone().requires_grad_(), plain[:, ::EVERY].clone().requires_grad_()
    lengths = torch.full((CASE.batch,), CASE.frames), torch.full((CASE.batch,), CASE.tokens)
    along = torch.randn(plain.shape, generator=torch.Generator().manual_seed(0))

    def loss(function: Callable[..., torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return function(x, targets, *lengths, reduction="sum")

    def ours() -> torch.Tensor:
        return torch.autograd.grad(loss(functional.ctc_loss, leaf), leaf)[0]

    def torchs() -> torch.Tensor:
        return torch.autograd.grad(loss(torch.nn.functional.ctc_loss, leaf), leaf)[0]

    def loop() -> torch.Tensor:
        return torch.autograd.grad(loop_over_frames(leaf, targets), leaf)[0]

    def loops() -> torch.Tensor:
        return torch.autograd.grad(one_after_the_other(some, targets[::EVERY]), some)[0]

    def product() -> torch.Tensor:
        (gradient,) = torch.autograd.grad(loss(functional.ctc_loss, leaf), leaf, create_graph=True)
        return torch.autograd.grad(gradient, leaf, along)[0]

    forward = [lambda f=f: loss(f, plain) for f in (functional.ctc_loss, torch.nn.functional.ctc_loss)]
    torch.testing.assert_close(forward[0](), forward[1](), rtol=1e-5, atol=0)
    compare(ours(), torchs() - plain.exp(), "torch's gradient")
    compare(ours(), loop(), "the loop's gradient")
    compare(ours()[:, ::EVERY], loops(), "the loop's gradient, one after the other")
    compare(
        product(), difference(leaf, along, lambda x: loss(functional.ctc_loss, x)), "a difference of gradients", 1e-3
    )
    gradient = "forward + backward"
    return [
        Row("forward", "forward", "torch", *forward, 8),
        Row("gradient", gradient, "torch", ours, torchs, 8),
        Row("loop", gradient, "loop over frames", ours, loop, 15),
        Row("loops", gradient, "that loop, one after the other", ours, loops, 100, times=EVERY),
        Row("hessian", "Hessian x vector, and all before it", gradient, product, ours, 4, at_most=True),
    ]


def difference(
    leaf: torch.Tensor, along: torch.Tensor, loss: Callable[[torch.Tensor], torch.Tensor], step: float = 1e-4
) -> torch.Tensor:
    """The Hessian's product with a vector, as a central difference of gradients in float64."""

    def gradient(at: float) -> torch.Tensor:
        x = (leaf.detach().double() + at * along.double()).requires_grad_()
        return torch.autograd.grad(loss(x), x)[0]

    return (gradient(step) - gradient(-step)) / (2 * step)


def compare(met: torch.Tensor, right: torch.Tensor, what: str, tolerance: float = 1e-4) -> None:
    off = float((met.double() - right.double()).abs().max())
    if not off <= tolerance:
        raise SystemExit(f"ours is not {what}: it is off by {off:.1e}")


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    made = rows()
    chosen = [row for row in made if row.name in (arguments.only or [row.name])]
    if not chosen:
        parser.error(f"--only: expected some of {', '.join(row.name for row in made)}")
    show_machine(machine([]))
    print(f"\n{CASE}, float32\n")
    print("| name | task | beside | ours, ms | theirs, ms | asked | reached | |")
    print("|---|---|---|---:|---:|---:|---:|---|", flush=True)
    reached = True
    for row in chosen:
        # A whole batch of utterances in turn takes seconds.
        ours_s, theirs_s = in_turns((row.ours, row.theirs), 3 if row.times > 1 else arguments.rounds)
        theirs_s *= row.times
        ratio = ours_s / theirs_s if row.at_most else theirs_s / ours_s
        good = ratio <= row.asked if row.at_most else ratio >= row.asked
        reached &= good
        asked = f"{'at most ' if row.at_most else ''}{row.asked:g} x"
        print(
            f"| {row.name} | {row.task} | {row.rival} | {ours_s * 1e3:.3f} | {theirs_s * 1e3:.2f} | {asked} | "
            f"{ratio:.1f} x | {'reached' if good else 'MISSED'} |",
            flush=True,
        )
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
