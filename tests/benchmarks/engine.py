"""How many times as fast as torchaudio and PyTorch the engine is, called as its users call it;
exits 1 if that is less than asked.

    python tests/benchmarks/engine.py [--only NAME …] [--rounds N] [--threads N]
    python tests/benchmarks/engine.py --long HOURS      one exact best path of a whole recording: time, memory, proof

Log-probs are of two kinds. Noise with a transcript in it (`ctc_align.cli.speed`): logits of
variance 1, and 5 more for the label of a random alignment of a random transcript. Speech that
matches: what the embedded model `english` makes of recordings in ../shared/data/english beside the
checkout, joined, and the tokens that it aligned to them; the frames that are blank most surely are
left out, as of a fast speaker, until the wanted number is left. Without the data, which is said,
posteriors made like those from a seed. Ours and theirs take turns; medians. torchaudio's function
is called in a loop, as it takes one utterance; without torchaudio its rows are skipped. Results are
compared first.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numba import njit
from timed_runs import ENGLISH, MANIFEST, manifest_rows, parser_of, show_machine

import ctc_align
from ctc_align import functional
from ctc_align.cli.speed import (
    Case,
    import_forced_align,
    noise_with_transcripts,
    time_in_turns,
    torchaudio_path_call,
)
from ctc_align.kernels.cpu import cpu_backend

PATHS, FORWARD, GRADIENT = "best path", "forward", "forward + gradient"
ROUNDS_S = 1.0
"""More rounds than asked for are made of what is over sooner than this."""

FRAMES_PER_HOUR = 180_000
TOKENS_PER_FRAME = 137 / 540


@dataclass(frozen=True)
class Goal:
    name: str
    task: str
    case: Case
    asked: float
    spoken: bool = False


GOALS = (
    Goal("speech-paths", PATHS, Case(16, 1500, 250, 40), 40, spoken=True),
    Goal("speech-path", PATHS, Case(1, 1500, 250, 40), 20, spoken=True),
    Goal("speech-15000", PATHS, Case(1, 15000, 2500, 40), 40, spoken=True),
    Goal("paths", PATHS, Case(16, 1500, 250, 32), 30),
    Goal("paths-1024", PATHS, Case(16, 1500, 250, 1024), 9),
    Goal("path", PATHS, Case(1, 1500, 250, 32), 15),
    Goal("path-15000", PATHS, Case(1, 15000, 2500, 32), 25),
    Goal("forward", FORWARD, Case(16, 1500, 250, 32), 25),
    Goal("gradient", GRADIENT, Case(16, 1500, 250, 32), 15),
    Goal("gradient-short", GRADIENT, Case(256, 128, 30, 32), 12),
)


def made_speech(case: Case, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    """Return log-probs (B, T, C) and targets (B, L) as the noise has, but as sure and unsure as a
    trained model's: most frames are certain, at its edges a token shares the frame, and now and
    then another class is as likely.
    """
    noise, targets = in_torch(noise_with_transcripts(case, seed))
    rng = np.random.default_rng(seed)
    label = noise.argmax(2).numpy()
    x = rng.gamma(0.1, size=noise.shape) + 1e-6
    x *= rng.beta(0.5, 8.0, noise.shape[:2])[:, :, None] / x.sum(2, keepdims=True)
    for moved, share in ((0, 1.0), (1, 0.2), (-1, 0.2)):
        np.put_along_axis(
            x,
            near := np.roll(label, moved, 1)[:, :, None],
            np.take_along_axis(x, near, 2) + share,
            axis=2,
        )
    return torch.from_numpy(np.log(x / x.sum(2, keepdims=True))).float(), targets


@functools.cache
def recordings(count: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return of recordings with so many tokens together: log-probs (T, C), tokens (L,), and the
    frames (L,) at which these end; nothing without the data."""
    if not MANIFEST.is_file():
        return []
    aligner, found, there = ctc_align.Aligner(model="english", backend="cpu"), [], 0
    for clip in manifest_rows(split="dev"):
        if there >= count:
            break
        emissions = aligner.emissions(ENGLISH / clip["audio"])
        alignment = aligner.align(emissions, clip["text"])
        tokens = [token for word in alignment.words for token in word.tokens]
        ends = [round(token.end_s / emissions.frame_shift_s) for token in tokens]
        names = [emissions.vocab.index(token.token) for token in tokens]
        found.append((np.asarray(emissions.log_probs), np.array(names), np.array(ends)))
        there += len(tokens)
    return found


def in_torch(made: tuple[np.ndarray, np.ndarray]) -> tuple[torch.Tensor, np.ndarray]:
    """Return log-probs as a tensor, and their targets."""
    return torch.from_numpy(made[0]), made[1]


def speech(case: Case) -> tuple[torch.Tensor, np.ndarray]:
    """Return log-probs (B, T, C) of recordings, and their tokens (B, L); made ones where there are
    none."""
    clips = recordings(max(goal.case.batch * goal.case.tokens for goal in GOALS if goal.spoken))
    if not clips:
        return made_speech(case)
    x = np.concatenate([log_probs for log_probs, _, _ in clips])
    before = np.cumsum([0, *[len(log_probs) for log_probs, _, _ in clips]])
    tokens = np.concatenate([names for _, names, _ in clips])
    ends = np.concatenate([frames + first for (_, _, frames), first in zip(clips, before.tolist())])
    rows, frame, first = [], 0, 0
    for _ in range(case.batch):
        last = first + case.tokens
        here = x[frame : ends[last - 1]]
        rows.append(here[np.sort(np.argsort(here[:, 0], kind="stable")[: case.frames])])
        frame, first = int(ends[last - 1]), last
    return torch.from_numpy(np.stack(rows)), tokens[:first].reshape(case.batch, case.tokens)


def path_calls(case: Case, *, spoken: bool) -> tuple[Callable[[], object], Callable[[], object]]:
    """Ours and torchaudio's; their paths and scores are the same."""
    log_probs, targets = speech(case) if spoken else in_torch(noise_with_transcripts(case))
    rows = torch.from_numpy(targets).to(torch.int32)
    theirs = torchaudio_path_call(log_probs, targets)

    def ours() -> tuple[torch.Tensor, torch.Tensor]:
        return functional.forced_align(log_probs, rows)

    for b, (paths, scores) in enumerate(theirs()):
        mine = functional.forced_align(log_probs[b : b + 1], rows[b : b + 1])
        if not (
            torch.equal(mine[0], paths)
            and torch.equal(mine[1], scores)
            and torch.equal(ours()[0][b], paths[0])
        ):
            best, other = float(mine[1].double().sum()), float(scores.double().sum())
            if not best >= other:
                raise SystemExit(
                    f"{case}: utterance {b}: our path has score {best}, torchaudio's {other}"
                )
    return ours, theirs


def loss_calls(case: Case, *, gradient: bool) -> tuple[Callable[[], object], Callable[[], object]]:
    """Ours and PyTorch's, without and with backward; their losses are the same."""
    log_probs, targets = in_torch(noise_with_transcripts(case))
    leaf = log_probs.transpose(0, 1).contiguous().requires_grad_(gradient)
    rest = (
        torch.from_numpy(targets),
        torch.full((case.batch,), case.frames),
        torch.full((case.batch,), case.tokens),
    )

    def call(loss: Callable[..., torch.Tensor]) -> torch.Tensor:
        leaf.grad = None
        losses = loss(leaf, *rest, reduction="sum")
        if gradient:
            losses.backward()
        return losses.detach()

    torchs = torch.nn.functional.ctc_loss
    torch.testing.assert_close(call(functional.ctc_loss), call(torchs), rtol=1e-5, atol=0)
    return lambda: call(functional.ctc_loss), lambda: call(torchs)


def measure(goal: Goal, rounds: int) -> tuple[float, float]:
    """Median seconds of ours and theirs."""
    if goal.task == PATHS:
        calls = path_calls(goal.case, spoken=goal.spoken)
    else:
        calls = loss_calls(goal.case, gradient=goal.task == GRADIENT)
    once_s = sum(time_in_turns(calls, 2))
    return tuple(time_in_turns(calls, max(rounds, min(100, int(ROUNDS_S / once_s)))))


def table(goals: list[Goal], rounds: int) -> Iterator[tuple[str, bool]]:
    """Lines of a Markdown table, and whether what was asked is reached."""
    align, reason = import_forced_align()
    yield "| name | task | case | ours, ms | theirs, ms | ns/cell | asked | reached | |", True
    yield "|---|---|---|---:|---:|---:|---:|---:|---|", True
    for goal in goals:
        kind = "noise" if not goal.spoken else "speech" if MANIFEST.is_file() else "made speech"
        head = f"| {goal.name} | {goal.task}, {kind} | {goal.case} |"
        if goal.task == PATHS and align is None:
            yield f"{head} | | | {goal.asked} x | | skipped: torchaudio {reason} |", True
            continue
        ours_s, theirs_s = measure(goal, rounds)
        note = "reached" if theirs_s / ours_s >= goal.asked else "MISSED"
        if goal.case.classes > 1000:
            log_probs_bytes = 4 * goal.case.batch * goal.case.frames * goal.case.classes
            note += f"; log-probs at {log_probs_bytes / ours_s / 1e9:.1f} GB/s"
        figures = (
            f"{ours_s * 1e3:.3f} | {theirs_s * 1e3:.2f} | {ours_s * 1e9 / goal.case.cells:.4f}"
        )
        yield (
            f"{head} {figures} | {goal.asked} x | {theirs_s / ours_s:.1f} x | {note} |",
            theirs_s >= goal.asked * ours_s,
        )


@njit(cache=False)
def best_score(x, target):
    """Score of the best CTC path of `target` (L,) in log-probs `x` (T, C), blank 0: rows of
    float64, nothing else."""
    frames, tokens = len(x), len(target)
    differ = np.zeros(tokens, np.float64)
    for k in range(tokens):
        if k == 0 or target[k] == target[k - 1]:
            differ[k] = -np.inf
    # blank[k] stands before token k, blank[tokens] at the end; label[k + 1] is token k, label[0]
    # nothing.
    blank, label = np.full(tokens + 1, -np.inf), np.full(tokens + 1, -np.inf)
    new_blank, new_label = blank.copy(), label.copy()
    blank[0], label[1] = x[0, 0], x[0, target[0]]
    for t in range(1, frames):
        # Token k needs k frames before it at least, and tokens - k after it.
        last = min(tokens, t + 1)
        first = max(0, tokens - (frames - t) - 1)
        for k in range(first, last):
            new_blank[k] = max(blank[k], label[k]) + x[t, 0]
        for k in range(first, last):
            new_label[k + 1] = (
                max(max(label[k + 1], blank[k]), label[k] + differ[k]) + x[t, target[k]]
            )
        if last == tokens:
            new_blank[tokens] = max(blank[tokens], label[tokens]) + x[t, 0]
        blank, new_blank = new_blank, blank
        label, new_label = new_label, label
    return max(blank[tokens], label[tokens])


def peak_bytes() -> int:
    """The most memory that this process ever had. Not ru_maxrss where there is another: it begins
    with the parent's."""
    try:
        lines = Path("/proc/self/status").read_text("utf-8").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
            1 if sys.platform == "darwin" else 1024
        )


def align_file(path: str) -> None:
    """In a process of its own: align a file of log-probs and targets once, tell how it went as
    JSON."""
    with np.load(path) as file:
        log_probs, targets = torch.from_numpy(file["log_probs"]), torch.from_numpy(file["targets"])
    # Everything is loaded and compiled before what is measured.
    functional.forced_align(log_probs[:, :4000], targets[:, :1000])
    before = peak_bytes()
    started_s = time.perf_counter()
    paths, scores = functional.forced_align(log_probs, targets)
    seconds = time.perf_counter() - started_s
    after = peak_bytes()
    spans = functional.merge_tokens(paths[0], scores[0])
    print(
        json.dumps(
            {
                "seconds": seconds,
                "bytes": after - before,
                "score": float(scores.double().sum()),
                "reads_target": [span.token for span in spans] == targets[0].tolist(),
            }
        )
    )


def long_recording(hours: float) -> bool:
    """Align a made recording in a fresh process, and find the best score once more by other
    code."""
    frames = round(FRAMES_PER_HOUR * hours)
    case = Case(1, frames, round(frames * TOKENS_PER_FRAME), 32)
    log_probs, targets = in_torch(noise_with_transcripts(case))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.npz"
        np.savez(path, log_probs=log_probs.numpy(), targets=targets)
        command = [
            sys.executable,
            __file__,
            "--align-file",
            str(path),
            "--threads",
            str(torch.get_num_threads()),
        ]
        done = json.loads(
            subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        )
    print(f"{hours:g} h: T={frames}, L={case.tokens}, C={case.classes}: {case.cells:.3g} cells")
    print(f"  {done['seconds']:.2f} s, {done['seconds'] * 1e9 / case.cells:.4f} ns/cell")
    print(
        f"  {done['bytes'] / 2**20:.1f} MiB at most above the log-probs"
        f" ({log_probs.numel() * 4 / 2**20:.0f} MiB)"
    )
    started_s = time.perf_counter()
    score = best_score(log_probs[0].numpy(), targets[0])
    relative = abs(done["score"] - score) / abs(score)
    print(
        f"  score {done['score']:.6f}; by other code in float64 {score:.6f}"
        f" ({time.perf_counter() - started_s:.0f} s)"
    )
    right = relative <= 1e-6 and done["reads_target"]
    reads = "reads" if done["reads_target"] else "does not read"
    print(
        f"  {'right' if right else 'WRONG'}: relative difference {relative:.1e}, the path {reads}"
        " the target"
    )
    return right


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--only", nargs="+", choices=[goal.name for goal in GOALS], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--long", type=float, metavar="HOURS")
    parser.add_argument("--align-file", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    cpu_backend.compile_at_once()
    if arguments.align_file:
        align_file(arguments.align_file)
        return 0
    show_machine()
    print(flush=True)
    if arguments.long:
        return 0 if long_recording(arguments.long) else 1
    reached = True
    for line, good in table(
        [goal for goal in GOALS if goal.name in (arguments.only or [goal.name])], arguments.rounds
    ):
        print(line, flush=True)
        reached &= good
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
