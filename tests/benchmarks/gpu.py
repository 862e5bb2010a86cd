"""The one command for a machine with a CUDA card: whether the kernels are right there, race, do
what PyTorch asks, and how many times as fast as PyTorch's and torchaudio's functions they are.
Exits 1 where anything fails, 2 without a card, 3 where time was too short for all of it.

    python tests/benchmarks/gpu.py [--only pytorch,graph,models,speed,corpus,races,correctness,sanitizer]
    [--rounds N] [--seconds 520] [--out FILE]
    TRITON_INTERPRET=1 python tests/benchmarks/gpu.py --small     # without a card: does the command itself run?

The checks of `gpu_checks.py`, a line each, and the table, what takes long last: it stops before nine
minutes, and says what was not reached; what is said is in `--out` at once. The comparisons with the
reference run side by side in processes, since most of their time is compiling. The log-probs, float32, lie on the
card: noise with a transcript in it (`ctc_align.cli.speed`). Timed is the call as users
make it, from the arguments to results on the card, waiting for the card included. The rivals are
torch.nn.functional.ctc_loss, with int64 targets, which cuDNN does not take, so that PyTorch's
native kernels run; and torchaudio.functional.forced_align, which takes one utterance, in a loop,
where it can be imported. Ours and theirs take turns; medians.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from timed_runs import parser_of, versions_line  # isort: skip
import gpu_checks

from ctc_align import functional, kernels, lattice
from ctc_align.cli.speed import (
    Case,
    import_forced_align,
    noise_with_transcripts,
    time_in_turns,
    torchaudio_path_call,
)
from ctc_align.errors import BackendError

CASES = (
    Case(64, 1500, 250, 32),
    Case(256, 128, 30, 32),
    Case(32, 1024, 170, 32),
    Case(1, 1500, 250, 32),
)
SMALL = (Case(2, 20, 4, 6),)
SPEED = "speed"
SLOW_S = {"corpus": 100, "sanitizer": 100}
"""Seconds that a check of these groups may take, which must be left when it begins."""
ORDER = (*gpu_checks.GROUPS[:3], SPEED, *gpu_checks.GROUPS[3:])
FORWARD, GRADIENT, PATHS = "forward", "forward + backward", "best path"
SAME_SCORES, SAME_OCCUPANCIES = 1e-5, 1e-4
"""Largest differences from the CPU kernels: of losses and path scores relative, of occupancies
absolute."""


@dataclass(frozen=True)
class Row:
    """A line of the table; `differs` and `theirs_differ`: from the CPU kernels, and by more than
    they may."""

    task: str
    rival: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    differs: bool
    theirs_differ: bool


def losses(log_probs: torch.Tensor, targets: np.ndarray, device: torch.device) -> Iterator[Row]:
    """The loss, without and with its gradient, whose negative is the occupancy."""
    tokens = np.full(targets.shape[0], targets.shape[1])
    right = kernels.occupancy(log_probs, lattice.ctc_padded(targets, tokens), backend="cpu")
    there, rows = log_probs.to(device), torch.from_numpy(targets).to(device)
    lengths = torch.full((len(rows),), log_probs.shape[1]), torch.from_numpy(tokens)

    def differs(met: tuple[torch.Tensor, ...]) -> bool:
        far = (
            len(met) == 2
            and not float((met[1].cpu() - right.posteriors).abs().max()) <= SAME_OCCUPANCIES
        )
        return far or not torch.allclose(
            met[0].cpu().double(), -right.scores, rtol=SAME_SCORES, atol=0
        )

    for task in (FORWARD, GRADIENT):
        leaf = there.transpose(0, 1).contiguous().requires_grad_(task == GRADIENT)

        def call(loss: Callable[..., torch.Tensor], leaf: torch.Tensor = leaf) -> torch.Tensor:
            leaf.grad = None
            made = loss(leaf, rows, *lengths, reduction="none")
            if leaf.requires_grad:
                made.sum().backward()
            return made.detach()

        ours = functools.partial(call, functional.ctc_loss)
        theirs = functools.partial(call, torch.nn.functional.ctc_loss)
        met = ours(), *(() if leaf.grad is None else (-leaf.grad.transpose(0, 1),))
        their_losses = theirs()
        # PyTorch's gradient takes for granted that log_softmax stands before it: exp(log_probs) -
        # occupancy.
        their_met = (
            their_losses,
            *(() if leaf.grad is None else ((leaf.detach().exp() - leaf.grad).transpose(0, 1),)),
        )
        yield Row(task, "torch", ours, theirs, differs(met), differs(their_met))


def paths(log_probs: torch.Tensor, targets: np.ndarray, device: torch.device) -> Iterator[Row]:
    """The best paths; torchaudio's need only be as good."""
    right, scores = functional.forced_align(log_probs, torch.from_numpy(targets))
    there, rows = log_probs.to(device), torch.from_numpy(targets).to(device)

    def ours() -> tuple[torch.Tensor, torch.Tensor]:
        return functional.forced_align(there, rows)

    met = ours()
    differs = not (torch.equal(met[0].cpu(), right) and torch.equal(met[1].cpu(), scores))
    theirs = torchaudio_path_call(there, targets)
    their_scores = torch.cat([scores for _, scores in theirs()]).double().sum(1).cpu().numpy()
    best = scores.double().sum(1).numpy()
    worse = not np.allclose(their_scores, best, rtol=SAME_SCORES, atol=0)
    yield Row(PATHS, "torchaudio, one by one", ours, theirs, differs, worse)


def speed(device: torch.device, cases: tuple[Case, ...], rounds: int) -> Iterator[tuple[str, bool]]:
    """Yield the lines of the table, and whether ours is right."""
    align, reason = import_forced_align()
    if align is None:
        yield f"torchaudio {reason}; best paths are not measured", True
    yield "", True
    yield "| task | case | beside | ours, ms | theirs, ms | times | as the CPU's |", True
    yield "|---|---|---|---:|---:|---:|---|", True
    for case in cases:
        noise, targets = noise_with_transcripts(case)
        log_probs = torch.from_numpy(noise)
        rows = [
            *losses(log_probs, targets, device),
            *(paths(log_probs, targets, device) if align is not None else ()),
        ]
        for row in rows:
            ours_s, theirs_s = time_in_turns((row.ours, row.theirs), rounds, str(device))
            note = (
                "OURS DIFFERS" if row.differs else "theirs differs" if row.theirs_differ else "both"
            )
            yield (
                (
                    f"| {row.task} | {case} | {row.rival} | {ours_s * 1e3:.3f} |"
                    f" {theirs_s * 1e3:.3f} | {theirs_s / ours_s:.1f} x | {note} |"
                ),
                not row.differs,
            )


def verdicts(
    found: list[gpu_checks.Check], workers: int, stop_s: float
) -> Iterator[tuple[gpu_checks.Check, tuple[str, str]]]:
    """Yield checks and their verdicts until the time is over, from some processes side by side."""
    if workers == 1:
        for check in found:
            if time.monotonic() > stop_s:
                return
            yield check, check.verdict()
        return
    pool = futures.ProcessPoolExecutor(
        workers,
        multiprocessing.get_context("spawn"),
        initializer=torch.set_num_threads,
        initargs=(1,),
    )
    waiting = {pool.submit(check.verdict): check for check in found}
    try:
        for done in futures.as_completed(waiting, timeout=max(0.0, stop_s - time.monotonic())):
            error = done.exception()
            yield waiting[done], ("FAILED", repr(error)) if error else done.result()
    except futures.TimeoutError:
        for process in multiprocessing.active_children():
            process.kill()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def report(
    device: torch.device, arguments: argparse.Namespace
) -> Iterator[tuple[str, bool | None]]:
    """Yield the lines of the report, and whether what they are about is right; None: not reached."""
    stop_s = time.monotonic() + arguments.seconds
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else "no card: interpreted"
    yield f"{card}; {versions_line()}", True
    groups = tuple(arguments.only.split(","))
    for group in (name for name in ORDER if name in groups):
        if group == SPEED:
            yield from speed(device, SMALL if arguments.small else CASES, arguments.rounds)
            continue
        found = [*gpu_checks.checks((group,), device, arguments.small, arguments.few)]
        workers = 1
        if group == "correctness" and device.type == "cuda":
            workers = max(2, (os.cpu_count() or 1) - 2)
        reached = 0
        for check, (verdict, why) in verdicts(found, workers, stop_s - SLOW_S.get(group, 0)):
            reached += 1
            line = f"{verdict}: {group}: {check.name}{': ' * bool(why)}{why}"
            yield line, verdict != "FAILED"
        if reached < len(found):
            yield f"not reached: {group}: {len(found) - reached} of {len(found)}", None


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--only", default=",".join(ORDER), help="groups, by commas")
    parser.add_argument(
        "--seconds", type=float, default=520, help="after these, nothing more is begun"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--small", action="store_true", help="problems for Triton's interpreter, without a card"
    )
    parser.add_argument("--few", action="store_true", help="every tenth check of each group")
    parser.add_argument("--out", type=Path, help="write the report there, too")
    arguments = parser.parse_args()
    unknown = set(arguments.only.split(",")) - {*ORDER}
    if unknown:
        parser.error(f"--only: expected some of {', '.join(ORDER)}; got {', '.join(unknown)}")
    try:
        kernels.check_backend("gpu")
    except BackendError as error:
        print(f"cannot run here: {error}", file=sys.stderr)
        return 2
    cuda = torch.cuda.is_available()
    if not cuda and not arguments.small:
        print("cannot run here: PyTorch sees no CUDA device; --small runs without", file=sys.stderr)
        return 2
    device = torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
    wrong, late = 0, 0
    with open(arguments.out or os.devnull, "w", encoding="utf-8") as file:
        for line, right in report(device, arguments):
            print(line, flush=True)
            print(line, file=file, flush=True)
            wrong += right is False
            late += right is None
        end = f"\n{wrong} failed" if wrong else "\nall well" + ", as far as it went" * bool(late)
        print(end)
        print(end, file=file)
    if wrong:
        return 1
    return 3 if late else 0


if __name__ == "__main__":
    sys.exit(main())
