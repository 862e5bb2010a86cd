"""Long recordings through the program: wall time, and peak memory, which grows with emissions and
lattice rows alone.

python research/long_recording.py [MINUTES …]      default: 5 20; speech is ../shared/data/english, split dev
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from measuring import MANIFEST, join_clips, manifest_rows, parser_of, timed_run


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
            call = [
                "-m",
                "ctc_align",
                str(audio),
                str(audio.with_suffix(".txt")),
                "--out-dir",
                folder,
                "--force",
                "-q",
            ]
            cost = timed_run(call)
            words = json.loads(audio.with_suffix(".json").read_text("utf-8"))["words"]
            print(
                f"{seconds / 60:6.1f} min {len(words):10d} {cost.wall_s:6.1f}s"
                f" {cost.processor_s:9.1f}s {seconds / cost.wall_s:12.1f}"
                f" {cost.peak / 2**20:11.0f} MiB"
            )


if __name__ == "__main__":
    main()
