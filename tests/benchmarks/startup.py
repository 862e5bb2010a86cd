"""What a start costs: python tests/benchmarks/startup.py [--against CHECKOUT]

    --help       seconds of wall; exits with 1 unless the best run is under 0.4 s
    one clip     a recording of 10 s of the speech data beside the checkout, by the command: seconds of processor and
                 the peak of memory, at the first call and when the kernels are compiled, which the
                 first leaves to a process in the background; beside those of `import torch` alone

With --against the clip is aligned by that checkout too, in turns with this one; the medians are
shown. A checkout that compiles nothing in the background aligns a corpus first.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import soundfile
from timed_runs import ENGLISH, ROOT, Cost, manifest_rows, parser_of, timed_run

from ctc_align.kernels.cpu.background import MOST_STARTS, OFF, STARTS

RUNS = 10
LONGEST_S = 0.4
CLIP_S = 10.0


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    shortest_s = show_help()
    for variable in (OFF, "CI"):
        os.environ.pop(variable, None)
    if ENGLISH.is_dir():
        checkouts = {"here": ROOT} | (
            {"there": options.against.resolve()} if options.against else {}
        )
        one_clip(checkouts, options.runs)
    if shortest_s >= LONGEST_S:
        sys.exit(1)


def show_help() -> float:
    times_s = []
    for _ in range(RUNS):
        started_s = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "ctc_align", "--help"], stdout=subprocess.DEVNULL, check=True
        )
        times_s.append(time.perf_counter() - started_s)
    print(f"ctc-align --help: best {min(times_s):.3f} s, worst {max(times_s):.3f} s of {RUNS}")
    return min(times_s)


def one_clip(checkouts: dict[str, Path], runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        row = min(manifest_rows(), key=lambda row: abs(row["duration_s"] - CLIP_S))
        samples, rate = soundfile.read(ENGLISH / row["audio"])
        soundfile.write(Path(folder, "clip.wav"), samples, rate)
        Path(folder, "clip.txt").write_text(row["text"], "utf-8")
        align = ["-m", "ctc_align", "clip.wav", "clip.txt", "--force"]
        commands = {name: (align, checkout) for name, checkout in checkouts.items()}
        commands["torch alone"] = (["-c", "import torch"], ROOT)
        seen: dict[str, list[Cost]] = {name: [] for name in commands}
        for name, checkout in checkouts.items():
            os.environ["NUMBA_CACHE_DIR"] = str(Path(folder, name))
            show(f"{name}, first", [timed_run(align, checkout=checkout, cwd=folder)])
            if not wait_for_kernels(Path(folder, name)):
                corpus = [
                    "-m",
                    "ctc_align",
                    "corpus",
                    ".",
                    "--out-dir",
                    f"out-{name}",
                    "--workers",
                    "1",
                ]
                timed_run(corpus, checkout=checkout, cwd=folder)
        for _ in range(runs):
            for name, (arguments, checkout) in commands.items():
                os.environ["NUMBA_CACHE_DIR"] = str(Path(folder, name))
                seen[name].append(timed_run(arguments, checkout=checkout, cwd=folder))
    for name, costs in seen.items():
        show(name, costs)


def wait_for_kernels(folder: Path) -> bool:
    """Wait for the process that compiles in the background; return whether there was one."""
    found = list(folder.rglob(STARTS))
    while any(path.exists() and path.stat().st_size <= MOST_STARTS for path in found):
        time.sleep(0.5)
    return bool(found)


def show(name: str, costs: list[Cost]) -> None:
    seconds, peaks = [cost.processor_s for cost in costs], [cost.peak for cost in costs]
    print(f"{name:13} {statistics.median(seconds):.2f} s of processor ({min(seconds):.2f} to {max(seconds):.2f}), "
          f"peak {statistics.median(peaks) / 2**20:.0f} MB")  # fmt: skip


if __name__ == "__main__":
    main()
