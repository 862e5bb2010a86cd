"""The processor's seconds beside other work, against those of one thread: python tests/benchmarks/busy_machine.py

One busy loop runs on each core. Asked: with the default threads at most 1.3 times the seconds of one thread, for
`align` and for `corpus`. The recording is the bundled one, again and again, with its text; no other data is needed.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import soundfile
from measuring import ROOT, parser_of

import ctc_align

DEMO = Path(ctc_align.__file__).parent / "demo"
BUSY = "while True: pass"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=180.0, help="of the recording that is aligned")
    parser.add_argument("--utterances", type=int, default=60, help="of the corpus, the bundled recording each")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    sound, rate = soundfile.read(DEMO / "demo.flac", dtype="float32")
    text = (DEMO / "demo.txt").read_text("utf-8").strip()
    with tempfile.TemporaryDirectory() as name:
        folder, corpus = Path(name), Path(name, "corpus")
        times = max(1, round(options.seconds * rate / len(sound)))
        soundfile.write(folder / "long.wav", np.tile(sound, times), rate)
        (folder / "long.txt").write_text(f"{text}\n" * times, "utf-8")
        corpus.mkdir()
        for i in range(options.utterances):
            soundfile.write(corpus / f"{i}.wav", sound, rate)
            (corpus / f"{i}.txt").write_text(text, "utf-8")
        calls = {
            f"align, {len(sound) * times / rate:.0f} s": [str(folder / "long.wav"), str(folder / "long.txt")],
            f"corpus of {options.utterances}": ["corpus", str(corpus), "--quiet"],
        }
        cpu_seconds(calls[f"corpus of {options.utterances}"], folder, {})  # compiles the kernels
        print("| call | threads | beside | CPU seconds, median | to one thread |\n|---|---|---|---|---|")
        for what, arguments in calls.items():
            report(what, arguments, folder, options.rounds)


def report(what: str, arguments: list[str], folder: Path, rounds: int) -> None:
    """Print the rows of one call; the variants take turns, so that a noisy machine is noisy for all of them."""
    for busy in (0, os.cpu_count() or 1):
        variants: dict[str, dict[str, str]] = {"one": {"OMP_NUM_THREADS": "1"}, "default": {}}
        spent: dict[str, list[float]] = {name: [] for name in variants}
        with loops(busy):
            for _ in range(rounds):
                for name, environment in variants.items():
                    spent[name].append(cpu_seconds(arguments, folder, environment))
        one = statistics.median(spent["one"])
        for name, seconds in spent.items():
            middle = statistics.median(seconds)
            print(f"| {what} | {name} | {busy} busy loops | {middle:.2f} | {middle / one:.2f} |", flush=True)


def cpu_seconds(arguments: list[str], folder: Path, environment: dict[str, str]) -> float:
    """Return the seconds of all processes of one run, user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = ["--out-dir", str(folder / "out"), "--force"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    program = [sys.executable, "-m", "ctc_align", *arguments, *out]
    subprocess.run(program, env=kept | environment, cwd=ROOT, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def loops(count: int) -> Iterator[None]:
    """Keep this many cores busy in the block."""
    running = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
