"""Ten hours of speech against 100,000 words: processor seconds and the highest resident memory,
stage by stage.

python research/ten_hours.py [--hours 10] [--match exact] [--folder FOLDER] [--format
json,ctm,textgrid]

The speech is clips of ../shared/data/english one after the other, pauses of 0.3 s between them,
none twice: ten hours of read English, mostly LibriSpeech, that the model was trained on, which is
of no account for memory and time. A thread looks every 20 ms at what the program is doing; the peak
is the kernel's own (VmHWM), which misses nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from measuring import join_clips, manifest_rows, parser_of

SOURCES = ("libri_train_clean_5", "libri_test_clean", "ljspeech", "libri_tc100_1perspk")
EVERY_S = 0.02

STAGES = {
    ("loading.py", "load_audio"): "reading",
    ("convnet_model.py", "emissions"): "model",
    ("aligner.py", "split"): "words of the text",
    ("pronunciations.py", "prepared_word_tokens"): "pronunciations",
    ("pronunciations.py", "choose_pronunciations"): "pronunciations",
    ("batching.py", "BestPath.run"): "best paths",
    ("batching.py", "Forward.run"): "loss",
    ("segmentation.py", "segment"): "segmentation",
    ("segmentation.py", "soft_edges"): "edges",
    ("segmentation.py", "EdgeWindow.run"): "edges",
    ("edges.py", "draw"): "edges",
    ("confidence.py", "confidences"): "confidences",
    ("align_utterance.py", "aligned_words"): "words with times",
    ("align_utterance.py", "assess_fit"): "fit and regions",
    ("alignment_files.py", "write"): "writing",
    ("islands.py", ""): "search",
}
"""The functions, or whole modules, by which a stage is known; the innermost on the stack counts."""


class Watch(threading.Thread):
    """A thread that adds up what each stage of the main thread takes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.main = threading.main_thread().ident
        self.wall_s: dict[str, float] = {}
        self.processor_s: dict[str, float] = {}
        self.resident: dict[str, int] = {}
        self.over = False

    def run(self) -> None:
        wall_s, processor_s = time.perf_counter(), time.process_time()
        while not self.over:
            time.sleep(EVERY_S)
            stage = self._stage(sys._current_frames().get(self.main or 0))
            now_s, spent_s = time.perf_counter(), time.process_time()
            self.wall_s[stage] = self.wall_s.get(stage, 0.0) + now_s - wall_s
            self.processor_s[stage] = self.processor_s.get(stage, 0.0) + spent_s - processor_s
            wall_s, processor_s = now_s, spent_s
            self.resident[stage] = max(self.resident.get(stage, 0), _resident())

    @staticmethod
    def _stage(frame: FrameType | None) -> str:
        while frame is not None:
            code = frame.f_code
            file, name = (
                os.path.basename(code.co_filename),
                getattr(code, "co_qualname", code.co_name),
            )
            if "ctc_align" in code.co_filename:
                for key in ((file, name), (file, code.co_name), (file, "")):
                    if key in STAGES:
                        requests = frame.f_locals.get("requests", [None])
                        return (
                            STAGES[key]
                            if getattr(requests[0], "bands", None) is None
                            else "segmentation"
                        )
            frame = frame.f_back
        return "other"


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(audio: Path, match: str, formats: Sequence[str]) -> None:
    """Align, and print what each stage took."""
    from ctc_align.alignment.aligner import Aligner, split_transcript
    from ctc_align.config import Settings
    from ctc_align.files import OutputFiles
    from ctc_align.files.transcripts import read_transcript_file

    watch = Watch()
    watch.start()
    aligner = Aligner(settings=Settings(match=match))
    words = split_transcript(
        aligner, read_transcript_file(str(audio.with_suffix(".txt"))), "transcript"
    )
    shares: list[float] = []
    alignment = aligner.align(str(audio), words, progress=shares.append)
    with tempfile.TemporaryDirectory() as folder:
        OutputFiles(folder, "out", tuple(formats)).write(alignment)
    watch.over = True
    watch.join()
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
    print(
        f"{alignment.duration_s / 3600:.2f} h, {len(words.words):,} words, match {match}, fit"
        f" {alignment.fit}"
    )
    print(f"{'stage':20} {'processor':>10} {'wall':>8} {'resident at most':>18}")
    for stage in sorted(watch.wall_s, key=lambda stage: -watch.wall_s[stage]):
        spent_s, wall_s = watch.processor_s[stage], watch.wall_s[stage]
        print(
            f"{stage:20} {spent_s:8.1f} s {wall_s:6.1f} s {watch.resident[stage] / 2**20:14.0f} MiB"
        )
    print(
        f"{'all':20} {sum(watch.processor_s.values()):8.1f} s {sum(watch.wall_s.values()):6.1f} s",
        end="",
    )
    print(f" {peak / 2**20:14.0f} MiB; {len(shares)} reports of progress")


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--hours", type=float, default=10.0)
    parser.add_argument("--match", default="exact")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "ctc-align-hours"
    )
    parser.add_argument("--format", default="json,ctm,textgrid")
    parser.add_argument("--recording", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.recording is not None:
        measure(arguments.recording, arguments.match, arguments.format.split(","))
        return 0
    arguments.folder.mkdir(parents=True, exist_ok=True)
    audio = arguments.folder / f"{arguments.hours:g}h.flac"
    if not (audio.is_file() and audio.with_suffix(".txt").is_file()):
        part = audio.with_suffix(".part.flac")
        join_clips(
            (row for row in manifest_rows() if row["source"] in SOURCES),
            3600 * arguments.hours,
            part,
        )
        part.with_suffix(".txt").rename(audio.with_suffix(".txt"))
        part.rename(audio)
    # A separate process, so that joining the clips is not measured.
    return subprocess.call([sys.executable, __file__, *sys.argv[1:], "--recording", str(audio)])


if __name__ == "__main__":
    sys.exit(main())
