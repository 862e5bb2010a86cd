"""What one process of a corpus run does: utterances in batches beside one at a time, and where the time goes; the
kernels for whole batches beside torchaudio's forced_align for one utterance after the other.

    python tests/benchmarks/corpus_core.py [--utterances N] [--batch-seconds S] [--threads N]

Speech is ../shared/data/english beside the checkout, split dev, Opus. Everything is read from disk again in each run.
Times are processor seconds of this process, which other programs disturb least, and wall seconds beside them.
Torchaudio's part is left out, and said so, where it cannot be imported.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from ctc_align import kernels, lattice
from ctc_align.alignment import align_utterance, edges, pronunciations, segmentation
from ctc_align.alignment import aligner as aligner_module
from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.ctc_path import best_ctc_path
from ctc_align.audio import loading
from ctc_align.errors import CtcAlignError
from ctc_align.formats import Alignment
from ctc_align.kernels import batching, requests
from ctc_align.kernels.benchmark import import_forced_align
from ctc_align.models.convnet import convnet_model, features
from ctc_align.models.convnet.network import AcousticNetwork

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "english"

STAGES: list[tuple[str, Any, str]] = [
    ("read and decode", loading, "load_audio"),
    ("features", features, "log_mel"),
    ("statistics", features, "gather_statistics"),
    ("network", AcousticNetwork, "forward"),
    ("network", convnet_model.ConvNet, "_fill"),
    ("words and tokens", aligner_module.Aligner, "_words"),
    ("words and tokens", pronunciations, "tokenize"),
    ("topologies", lattice, "ctc"),
    ("topologies", lattice, "segmentation"),
    ("topologies", lattice, "stack"),
    ("padding", requests, "pad"),
    ("bands", segmentation, "band"),
    ("kernels: best path", kernels, "best_path"),
    ("kernels: loss", kernels, "forward"),
    ("kernels: occupancy", kernels, "occupancy"),
    ("edges", edges, "draw"),
    ("confidence", align_utterance, "confidences"),
    ("words with times", align_utterance, "aligned_words"),
]


class Clock:
    """Processor seconds of each stage, without those of stages called from within."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._inner: list[float] = []

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            began_s = time.process_time()
            self._inner.append(0.0)
            try:
                return function(*args, **kwargs)
            finally:
                whole_s, inner_s = time.process_time() - began_s, self._inner.pop()
                self.spent[stage] = self.spent.get(stage, 0.0) + whole_s - inner_s
                if self._inner:
                    self._inner[-1] += whole_s

        return call

    @contextmanager
    def watching(self) -> Iterator[None]:
        with ExitStack() as patches:
            for stage, owner, name in STAGES:
                if hasattr(owner, name):  # what has moved on counts as "all else"
                    patches.enter_context(mock.patch.object(owner, name, self.timed(stage, getattr(owner, name))))
            yield


def batches(rows: list[tuple[str, str, float]], batch_seconds: float) -> Iterator[list[tuple[str, str]]]:
    """Of similar length, as a corpus run makes them."""
    batch: list[tuple[str, str]] = []
    seconds = 0.0
    for path, text, duration_s in sorted(rows, key=lambda row: row[2]):
        if batch and seconds + duration_s > batch_seconds:
            yield batch
            batch, seconds = [], 0.0
        batch.append((path, text))
        seconds += duration_s
    if batch:
        yield batch


def compare_ways(aligner: Aligner, rows: list[tuple[str, str, float]], batch_seconds: float) -> bool:
    """Prints both ways and their stages; returns whether all results are the same."""
    plan = list(batches(rows, batch_seconds))
    ways: dict[str, Callable[[], list[Alignment | CtcAlignError]]] = {
        "align, one at a time": lambda: [aligner.align(*pair) for batch in plan for pair in batch],
        "align_batch": lambda: [one for batch in plan for one in aligner.align_batch(batch)],
    }
    results, spent = {}, {}
    for way, call in ways.items():
        call()  # words are pronounced, kernels compiled, files in the page cache
        clock, began = Clock(), (time.process_time(), time.perf_counter())
        with clock.watching():
            results[way] = call()
        spent[way] = time.process_time() - began[0], time.perf_counter() - began[1], clock.spent
    sound_s = sum(row[2] for row in rows)
    print(f"{len(rows)} utterances, {sound_s:.0f} s, {len(plan)} batches of up to {batch_seconds:g} s")
    print(f"{'':22}" + "".join(f"{way:>28}" for way in ways))
    for what, line in (
        ("utterances/s", lambda cpu, wall, _: f"{len(rows) / cpu:.1f}"),
        ("× real time", lambda cpu, wall, _: f"{sound_s / cpu:.0f}"),
        ("processor s (wall s)", lambda cpu, wall, _: f"{cpu:.2f} ({wall:.2f})"),
    ):
        print(f"{what:22}" + "".join(f"{line(*spent[way]):>28}" for way in ways))
    stages = list(dict.fromkeys(stage for stage, _, _ in STAGES))
    for stage in [*stages, "all else"]:
        print(f"  {stage:20}" + "".join(f"{_share(spent[way], stage):>28}" for way in ways))
    one, two = results.values()
    alike = one == two
    print(f"results are {'the same to the bit' if alike else 'NOT THE SAME'}")
    return alike


def _share(spent: tuple[float, float, dict[str, float]], stage: str) -> str:
    cpu, _, stages = spent
    own = stages.get(stage, 0.0) if stage != "all else" else cpu - sum(stages.values())
    return f"{own:.3f} s {own / cpu:6.1%}"


def compare_kernels(aligner: Aligner, rows: list[tuple[str, str, float]], batch_seconds: float, threads: int) -> bool:
    """The best CTC paths of all batches, ours per batch and torchaudio's one by one; returns whether they agree."""
    problems, cells = [], 0
    for batch in batches(rows, batch_seconds):
        heard = [aligner.emissions(path) for path, _ in batch]
        ids = [_ids(one) for one in aligner.align_batch(batch)]
        problems.append(([one.log_probs for one in heard], ids))
        cells += sum(len(x) * (2 * len(row) + 1) for x, row in zip(*problems[-1]))
    ready = [requests.pad(rows) for rows, _ in problems]
    bare = _times(
        lambda: [kernels.best_path(x, lattice.ctc(ids, 0), lengths) for (x, lengths), (_, ids) in zip(ready, problems)]
    )
    ours = _times(
        lambda: [batching.run([best_ctc_path(x, row, 0) for x, row in zip(*problem)]) for problem in problems]
    )
    print(f"best CTC paths, {cells / 1e6:.1f} million cells, C = {problems[0][0][0].shape[1]}")
    print(f"  kernel and topologies, per batch:            {_per_cell(bare[0], cells)}, {threads} thread(s)")
    print(f"  the same with padding and tokens' frames:    {_per_cell(ours[0], cells)}, {threads} thread(s)")
    align, reason = import_forced_align()
    if align is None:
        print(f"  torchaudio {reason}: left out")
        return True
    flat = [(x[None], torch.tensor([row], dtype=torch.int32)) for xs, ids in problems for x, row in zip(xs, ids)]
    theirs = _times(lambda: [align(*one) for one in flat])
    print(f"  torchaudio's forced_align, one by one:       {_per_cell(theirs[0], cells)}")
    print(f"  times faster: the kernel {theirs[0] / bare[0]:.1f}, all in {theirs[0] / ours[0]:.1f}")
    found = [one.score for batch in ours[1] for one in batch]
    best = [float(scores.double().sum()) for _, scores in theirs[1]]
    # Both are exact but for ties; torchaudio sums in float32.
    alike = bool(np.allclose(found, best, rtol=1e-4, atol=1e-2))
    print(f"  scores {'agree' if alike else 'DO NOT AGREE'}")
    return alike


def _ids(alignment: Any) -> list[int]:
    """Token ids of an aligned utterance, in the order of the model's vocabulary."""
    from ctc_align.text.arpabet import PHONES

    place = {phone: k + 1 for k, phone in enumerate(PHONES)}
    return [place[token.token] for word in alignment.words for token in word.tokens]


def _times(call: Callable[[], Any], rounds: int = 5) -> tuple[float, Any]:
    """Seconds of the shortest of some rounds, which is disturbed least, and the result: of the processor where one
    thread works, else of the wall."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    call()
    spent = []
    for _ in range(rounds):
        began_s = clock()
        result = call()
        spent.append(clock() - began_s)
    return min(spent), result


def _per_cell(seconds: float, cells: int) -> str:
    return f"{seconds * 1e3:8.2f} ms, {seconds * 1e9 / cells:6.3f} ns/cell"


def main() -> int:
    parser = argparse.ArgumentParser(description="The core of a corpus run: one process.")
    parser.add_argument("--utterances", type=int, default=200)
    parser.add_argument("--batch-seconds", type=float, default=200.0)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    if not (DATA / "manifest.jsonl").is_file():
        print(f"{DATA}: expected manifest.jsonl and audio/", file=sys.stderr)
        return 2
    torch.set_num_threads(arguments.threads)
    lines = map(json.loads, (DATA / "manifest.jsonl").read_text("utf-8").splitlines())
    rows = [(str(DATA / one["audio"]), one["text"], one["duration_s"]) for one in lines if one["split"] == "dev"]
    rows = rows[:: max(1, len(rows) // arguments.utterances)][: arguments.utterances]
    aligner = Aligner("english", device="cpu")
    alike = compare_ways(aligner, rows, arguments.batch_seconds)
    return 0 if compare_kernels(aligner, rows, arguments.batch_seconds, arguments.threads) and alike else 1


if __name__ == "__main__":
    sys.exit(main())
