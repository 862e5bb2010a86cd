"""What a start costs: python tests/benchmarks/startup.py [--against CHECKOUT]

    --help       seconds of wall; exits with 1 unless the best run is under 0.4 s
    one clip     a recording of 10 s of the speech data beside the checkout, by the command, when the kernels are
                 compiled: seconds of processor and the peak of memory, beside those of `import torch` alone

With --against the clip is aligned by that checkout too, in turns with this one; the medians are shown.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import soundfile

RUNS = 10
LONGEST_S = 0.4
ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data" / "english"
CLIP_S = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    shortest_s = show_help()
    if DATA.is_dir():
        checkouts = {"here": ROOT} | ({"there": options.against.resolve()} if options.against else {})
        one_clip(checkouts, options.runs)
    if shortest_s >= LONGEST_S:
        sys.exit(1)


def show_help() -> float:
    times_s = []
    for _ in range(RUNS):
        started_s = time.perf_counter()
        subprocess.run([sys.executable, "-m", "ctc_align", "--help"], stdout=subprocess.DEVNULL, check=True)
        times_s.append(time.perf_counter() - started_s)
    print(f"ctc-align --help: best {min(times_s):.3f} s, worst {max(times_s):.3f} s of {RUNS}")
    return min(times_s)


def one_clip(checkouts: dict[str, Path], runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = map(json.loads, (DATA / "manifest.jsonl").read_text("utf-8").splitlines())
        row = min(rows, key=lambda row: abs(row["duration_s"] - CLIP_S))
        samples, rate = soundfile.read(DATA / row["audio"])
        soundfile.write(Path(folder, "clip.wav"), samples, rate)
        Path(folder, "clip.txt").write_text(row["text"], "utf-8")
        align = ["-m", "ctc_align", "clip.wav", "clip.txt", "--force"]
        commands = {name: (align, checkout) for name, checkout in checkouts.items()}
        commands["torch alone"] = (["-c", "import torch"], ROOT)
        seen: dict[str, list[tuple[float, int]]] = {name: [] for name in commands}
        for name, checkout in checkouts.items():  # a corpus compiles the kernels at once
            measured(["-m", "ctc_align", "corpus", ".", "--out-dir", f"out-{name}", "--workers", "1"], checkout, folder)
        for _ in range(runs):
            for name, (arguments, checkout) in commands.items():
                seen[name].append(measured(arguments, checkout, folder))
    for name, costs in seen.items():
        seconds, peaks = zip(*costs)
        print(f"{name:12} {statistics.median(seconds):.2f} s of processor ({min(seconds):.2f} to {max(seconds):.2f}), "
              f"peak {statistics.median(peaks) / 2**20:.0f} MB")  # fmt: skip


def measured(arguments: list[str], checkout: Path, folder: str) -> tuple[float, int]:
    """Seconds of processor and the peak of memory in bytes of a run of Python with the package of a checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(checkout)
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, code, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode:
        sys.exit(f"{' '.join(arguments)} of {checkout} failed with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


if __name__ == "__main__":
    main()
