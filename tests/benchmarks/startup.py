"""Measure `ctc-align --help`: python tests/benchmarks/startup.py; exits with 1 unless the best run is under 0.4 s."""

from __future__ import annotations

import subprocess
import sys
import time

RUNS = 10
LONGEST_S = 0.4


def main() -> None:
    times_s = []
    for _ in range(RUNS):
        started_s = time.perf_counter()
        subprocess.run([sys.executable, "-m", "ctc_align", "--help"], stdout=subprocess.DEVNULL, check=True)
        times_s.append(time.perf_counter() - started_s)
    print(f"ctc-align --help: best {min(times_s):.3f} s, worst {max(times_s):.3f} s of {RUNS}")
    if min(times_s) >= LONGEST_S:
        sys.exit(1)


if __name__ == "__main__":
    main()
