"""What a recording costs by its length, beside other aligners: python research/by_length.py
--rivals PYTHON

    seconds      of recordings, 1 to 36,000: clips of the speech data one after the other, whose words CMUdict has
    programs     ctc-align, and pocketsphinx and SoundSwallower as they come, in the environment of PYTHON (`pip install
                 pocketsphinx soundswallower`), each with the recording and its whole text
    figures      seconds of processor and the peak of memory of the whole command, medians of --runs; "—" where it
                 failed, or took longer than --limit

--plot FILE also draws them. Nothing is said of how good the edges are.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from measuring import ROOT, join_clips, manifest_rows, parser_of

from ctc_align.text.letter_to_phone import english_words

POCKETSPHINX = """
import sys, wave
from pocketsphinx import Decoder
decoder = Decoder(lm=None, loglevel="FATAL")
decoder.set_align_text(open(sys.argv[2]).read())
with wave.open(sys.argv[1]) as recording:
    decoder.start_utt()
    decoder.process_raw(recording.readframes(recording.getnframes()), full_utt=True)
    decoder.end_utt()
sys.exit(not list(decoder.seg() or ()))
"""
SWALLOWER = "from soundswallower.cli import main; main()"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument(
        "--rivals", help="a Python that has them; without it ctc-align alone is measured"
    )
    parser.add_argument("--lengths", type=float, nargs="+", default=[1, 10, 60, 600, 3600, 36_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--limit", type=float, default=900, help="seconds that a command may take")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    known = english_words()
    rows = [
        row for row in manifest_rows() if all(word in known for word in spoken(row["text"]).split())
    ]
    found: dict[str, list[tuple[float, float, float]]] = {}
    print(f"{'program':16} {'seconds':>8} {'processor s':>12} {'peak MB':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for wanted_s in options.lengths:
            audio, text = Path(folder, "talk.wav"), Path(folder, "talk.txt")
            near = [row for row in rows if row["duration_s"] <= max(1.5, wanted_s)]
            seconds = join_clips(near, wanted_s, audio)
            text.write_text(spoken(text.read_text("utf-8")), "utf-8")
            for name, command in commands(options.rivals).items():
                runs = [
                    cost(command, folder, options.limit)
                    for _ in range(options.runs if wanted_s < 600 else 1)
                ]
                if None in runs:
                    print(f"{name:16} {seconds:8.0f} {'—':>12} {'—':>8}", flush=True)
                    continue
                processor_s, peak = (
                    statistics.median(column) for column in zip(*filter(None, runs))
                )
                print(f"{name:16} {seconds:8.1f} {processor_s:12.2f} {peak:8.0f}", flush=True)
                found.setdefault(name, []).append((seconds, processor_s, peak))
    if options.plot:
        draw(found, options.plot)


def spoken(text: str) -> str:
    """Return the words of a text as the dictionaries of the others have them."""
    return " ".join(re.findall("[a-z']+", text.lower()))


def commands(rivals: str | None) -> dict[str, list[str]]:
    ours = {"ctc-align": [sys.executable, "-m", "ctc_align", "talk.wav", "talk.txt", "--force"]}
    if rivals is None:
        return ours
    return ours | {
        "pocketsphinx": [rivals, "-c", POCKETSPHINX, "talk.wav", "talk.txt"],
        "SoundSwallower": [rivals, "-c", SWALLOWER, "--align", "talk.txt", "talk.wav"],
    }


def cost(command: list[str], folder: str, limit_s: float) -> tuple[float, float] | None:
    """Return the seconds of processor and the megabytes of a command; None where it failed or took
    too long."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)} if command[0] == sys.executable else None
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=folder, env=environment, **quiet)  # type: ignore[call-overload]
    late = threading.Timer(limit_s, process.kill)
    late.start()
    _, status, usage = os.wait4(process.pid, 0)
    late.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return None if process.returncode else (usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def draw(found: dict[str, list[tuple[float, float, float]]], path: Path) -> None:
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    rcParams["svg.fonttype"], rcParams["svg.hashsalt"] = "none", "by_length"
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, column, label in zip(
        figure.subplots(1, 2), (1, 2), ("processor, seconds", "peak of memory, MB")
    ):
        for name, rows in found.items():
            axes.loglog(
                [row[0] for row in rows], [row[column] for row in rows], marker="o", label=name
            )
        axes.set(xlabel="recording, seconds", ylabel=label)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
        axes.grid(which="major", alpha=0.3)
        axes.legend()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
