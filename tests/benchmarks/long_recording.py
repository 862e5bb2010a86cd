"""Long recordings through the program: wall time, and peak memory, which grows with emissions and lattice rows alone.

python tests/benchmarks/long_recording.py [MINUTES …]      default: 5 20; speech is ../shared/data/english, split dev
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile

from ctc_align.audio.loading import load_audio

MANIFEST = Path(__file__).resolve().parents[3] / "shared" / "data" / "english" / "manifest.jsonl"
RATE = 16000
PAUSE_S = 0.3


def join(manifest: Path, minutes: float, folder: Path) -> tuple[Path, Path, float]:
    """A recording of at least `minutes` made of whole clips of the split dev, its transcript, and its length in s."""
    audio, transcript = folder / f"{minutes:g}min.wav", folder / f"{minutes:g}min.txt"
    samples, texts = 0, []
    clips = [json.loads(row) for row in manifest.read_text("utf-8").splitlines()]
    with soundfile.SoundFile(audio, "w", RATE, 1, subtype="PCM_16") as file:
        for clip in (clip for clip in clips if clip["split"] == "dev"):
            for piece in (load_audio(manifest.parent / clip["audio"], RATE).samples, np.zeros(round(PAUSE_S * RATE))):
                file.write(piece)
                samples += len(piece)
            texts.append(clip["text"])
            if samples >= minutes * 60 * RATE:
                break
    transcript.write_text("\n".join(texts) + "\n", "utf-8")
    return audio, transcript, samples / RATE


def run(audio: Path, transcript: Path, folder: Path) -> tuple[float, float, int]:
    """Wall seconds, processor seconds and peak bytes of one call of the program."""
    command = [
        sys.executable,
        "-m",
        "ctc_align",
        str(audio),
        str(transcript),
        "--out-dir",
        str(folder),
        "--force",
        "-q",
    ]
    began_s = time.perf_counter()
    process = os.spawnv(os.P_NOWAIT, command[0], command)
    # wait4 tells of this child alone; getrusage would give the largest of all that there have been.
    _, status, usage = os.wait4(process, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{audio.name}: the program ended with {os.waitstatus_to_exitcode(status)}")
    scale = 1 if sys.platform == "darwin" else 1024
    return time.perf_counter() - began_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * scale


def main() -> int:
    parser = argparse.ArgumentParser(description="Long recordings through the program.")
    parser.add_argument("minutes", nargs="*", type=float, default=[5.0, 20.0])
    parser.add_argument("--manifest", type=Path, default=MANIFEST)
    arguments = parser.parse_args()
    if not arguments.manifest.is_file():
        print(f"{arguments.manifest}: no such manifest", file=sys.stderr)
        return 2
    print(f"{os.cpu_count()} cores")
    print("recording      words    wall   processor   × real time    peak memory")
    with tempfile.TemporaryDirectory() as name:
        for minutes in arguments.minutes:
            audio, transcript, seconds = join(arguments.manifest, minutes, Path(name))
            wall_s, processor_s, peak = run(audio, transcript, Path(name))
            words = json.loads(audio.with_suffix(".json").read_text("utf-8"))["words"]
            print(
                f"{seconds / 60:6.1f} min {len(words):10d} {wall_s:6.1f}s {processor_s:9.1f}s"
                f" {seconds / wall_s:12.1f} {peak / 2**20:11.0f} MiB"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
