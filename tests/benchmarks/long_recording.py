"""Long recordings through the program: wall time, and peak memory, which grows with emissions and lattice rows alone.

python tests/benchmarks/long_recording.py [MINUTES …]      default: 5 20; speech is ../shared/data/english, split dev
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from measuring import MANIFEST, ROOT, join_clips, manifest_rows, parser_of


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("minutes", nargs="*", type=float, default=[5.0, 20.0])
    parser.add_argument("--manifest", type=Path, default=MANIFEST)
    arguments = parser.parse_args()
    rows = manifest_rows(arguments.manifest, "dev")
    print(f"{os.cpu_count()} cores")
    print("recording      words    wall   processor   × real time    peak memory")
    with tempfile.TemporaryDirectory() as folder:
        for minutes in arguments.minutes:
            audio = Path(folder, f"{minutes:g}min.wav")
            seconds = join_clips(rows, 60 * minutes, audio)
            cost = timed_run([str(audio), str(audio.with_suffix(".txt")), "--out-dir", folder, "--force", "-q"])
            words = json.loads(audio.with_suffix(".json").read_text("utf-8"))["words"]
            print(
                f"{seconds / 60:6.1f} min {len(words):10d} {cost.wall_s:6.1f}s {cost.processor_s:9.1f}s"
                f" {seconds / cost.wall_s:12.1f} {cost.peak / 2**20:11.0f} MiB"
            )


@dataclass(frozen=True)
class Cost:
    """What a process took: seconds of wall and of processor, and the peak of its memory in bytes."""

    wall_s: float
    processor_s: float
    peak: int


def timed_run(arguments: Sequence[str]) -> Cost:
    """Run the program, and exit where it fails."""
    began_s = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "ctc_align", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT
    )
    # wait4 is about this child alone; getrusage would give the largest of all children that there have been
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(arguments)} failed with {process.returncode}")
    scale = 1 if sys.platform == "darwin" else 1024
    return Cost(time.perf_counter() - began_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * scale)


if __name__ == "__main__":
    main()
