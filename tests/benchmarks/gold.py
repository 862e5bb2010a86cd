"""Boundary errors of the model `english` against hand labels, words and phones:

    python tests/benchmarks/gold.py [FOLDER] [--condition clean|noise|room] [--edges …] [--calibration FILE]

FOLDER (by default ../shared/data/gold-dev beside the checkout) holds `corpus/` (audio beside .txt) and `reference/`
(TextGrids). A last line says how many utterances failed. The model's calibration was estimated on gold-dev: figures of
speakers left out in turn are `ctc-align calibrate`'s.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from spoiled import CONDITIONS

from ctc_align.alignment.aligner import Aligner
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError
from ctc_align.evaluate import EdgeErrors, Evaluation, evaluate_intervals, read_intervals
from ctc_align.formats import Alignment
from ctc_align.text.textgrid_files import Interval

GOLD = Path(__file__).resolve().parents[3] / "shared" / "data" / "gold-dev"


def aligned(aligner: Aligner, folder: Path, condition: str) -> Iterator[tuple[str, Path, Alignment | CtcAlignError]]:
    """Every utterance of `folder`: its name, its reference, and its alignment or why there is none."""
    rng = np.random.default_rng(11)
    for audio in sorted((folder / "corpus").rglob("*.wav")):
        name = audio.relative_to(folder / "corpus").with_suffix("").as_posix()
        try:
            text = audio.with_suffix(".txt").read_text("utf-8")
            sound: object = audio
            if condition != "clean":
                samples, rate = soundfile.read(audio)
                sound = CONDITIONS[condition](samples, rate, rng).astype(np.float32), rate
            yield name, folder / "reference" / f"{name}.TextGrid", aligner.align(sound, text, utterance=name)
        except CtcAlignError as error:
            yield name, folder / "reference" / f"{name}.TextGrid", error


def intervals(alignment: Alignment, tier: str) -> list[Interval]:
    words = [word for word in alignment.words if word.start_s is not None and word.end_s is not None]
    if tier == "words":
        return [Interval(word.start_s or 0.0, word.end_s or 0.0, word.text) for word in words]
    return [Interval(token.start_s, token.end_s, token.token) for word in words for token in word.tokens]


def show(evaluation: Evaluation) -> None:
    print(f"{evaluation.tier}: {evaluation.paired} paired, {evaluation.missing} missing, {evaluation.extra} extra, "
          f"{evaluation.mismatched} with another label")  # fmt: skip
    print("         MAE  median  signed median   ≤10   ≤20   ≤25   ≤50  ≤100 ms (%)")
    for name, errors in (("both", evaluation.both), ("onset", evaluation.onset), ("offset", evaluation.offset)):
        print(f"{name:6} {line(errors)}")
    for one in evaluation.worst(3):
        print(f"  worst: {one.utterance}  MAE {one.mae_ms:.1f} ms, {one.worst_ms:+.0f} ms at {one.worst_label!r}")


def line(errors: EdgeErrors) -> str:
    if errors.mae_ms is None or errors.median_abs_ms is None or errors.median_signed_ms is None:
        return "nothing paired"
    within = " ".join(f"{percent or 0.0:5.1f}" for percent in errors.within_ms.values())
    return f"{errors.mae_ms:5.1f} {errors.median_abs_ms:7.1f} {errors.median_signed_ms:+14.1f} {within}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Boundary errors against hand labels.")
    parser.add_argument("folder", nargs="?", type=Path, default=GOLD)
    parser.add_argument("--model", default="english")
    parser.add_argument("--condition", default="clean", choices=sorted(CONDITIONS))
    parser.add_argument("--edges", default="auto")
    parser.add_argument("--calibration", default="")
    arguments = parser.parse_args()
    if not (arguments.folder / "corpus").is_dir():
        print(f"{arguments.folder}: expected a folder with corpus/ and reference/", file=sys.stderr)
        return 2
    settings = Settings(edges=arguments.edges, calibration=arguments.calibration)
    aligner = Aligner(arguments.model, settings=settings)
    began_s = time.perf_counter()
    done, failed = [], []
    for name, reference, result in aligned(aligner, arguments.folder, arguments.condition):
        if isinstance(result, Alignment):
            done.append((name, reference, result))
        else:
            failed.append(str(result))
    spent_s, sound_s = time.perf_counter() - began_s, sum(alignment.duration_s for _, _, alignment in done)
    for tier in ("words", "phones"):
        show(evaluate_intervals([(n, intervals(a, tier), read_intervals(r, tier)) for n, r, a in done], tier))
    print(f"{len(done)} utterances, {sound_s:.0f} s of speech in {spent_s:.1f} s; {len(failed)} failed")
    for reason in failed:
        print(f"  {reason}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
