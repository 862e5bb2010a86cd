"""Boundary errors of the model `english` against hand labels, words and phones:

    python tests/benchmarks/gold.py [FOLDER] [--condition clean|noise|…] [--edges …] [--calibration FILE]
    python tests/benchmarks/gold.py [FOLDER] --left-out

FOLDER (by default ../shared/data/gold-dev beside the checkout) holds `corpus/` (audio beside .txt) and `reference/`
(TextGrids). Intervals are of 95 %, over speakers (folders); a last line says how many utterances failed. The model's
calibration was estimated on gold-dev; with `--left-out` each speaker's edges are drawn with constants from other
speakers, and looked at by the model's network of edges, which learnt nothing from these labels.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import soundfile
from measuring import GOLD, parser_of
from spoiled import CONDITIONS

from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.refined_edges import refine_edges
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError
from ctc_align.evaluate import EdgeErrors, Evaluation, Options, evaluate_intervals, read_intervals
from ctc_align.files import Alignment
from ctc_align.kernels import batching
from ctc_align.training.calibration_fitting import PlacedUtterances
from ctc_align.training.labelled_speech import PairedEdges, read_labelled
from ctc_align.types import Interval

BY_SPEAKER = Options(interval_by="folder")
GAP_S = 0.02


def aligned(aligner: Aligner, folder: Path, condition: str) -> Iterator[tuple[str, Path, Alignment | CtcAlignError]]:
    """Yield each utterance of `folder`: its name, its reference, and its alignment or the error."""
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
    print(f"  {sureness(evaluation)}")
    for one in evaluation.worst(3):
        print(f"  worst: {one.utterance}  MAE {one.mae_ms:.1f} ms, {one.worst_ms:+.0f} ms at {one.worst_label!r}")


def line(errors: EdgeErrors) -> str:
    if errors.mae_ms is None or errors.median_abs_ms is None or errors.median_signed_ms is None:
        return "nothing paired"
    within = " ".join(f"{percent or 0.0:5.1f}" for percent in errors.within_ms.values())
    return f"{errors.mae_ms:5.1f} {errors.median_abs_ms:7.1f} {errors.median_signed_ms:+14.1f} {within}"


def sureness(evaluation: Evaluation) -> str:
    """Return the intervals of the figures that are quoted."""
    errors, boundaries = evaluation.both.ci95, evaluation.boundaries["both"]
    if "mae_ms" not in errors or boundaries.f1 is None or "f1" not in boundaries.ci95:
        return "no intervals: one speaker"
    names = ("mae_ms", "median_abs_ms", "within_20_ms", "within_50_ms")
    mae, median, near, fair = ("{:.1f}–{:.1f}".format(*errors[name]) for name in names)
    f1 = "{:.3f} ({:.3f}–{:.3f})".format(boundaries.f1, *boundaries.ci95["f1"])
    return f"95 %: MAE {mae} ms, median {median} ms, ≤20 ms {near} %, ≤50 ms {fair} %; F1 {f1}"


def beside_pauses(rows: Sequence[tuple[str, Sequence[Interval], Sequence[Interval]]]) -> None:
    """Print the errors of edges where the labels have a gap of 20 ms or more, and of the others, of whole words."""
    errors: dict[bool, list[float]] = {True: [], False: []}
    for _, ours, theirs in rows:
        labelled = [interval for interval in theirs if interval.label.strip()]
        if len(ours) == len(labelled):
            bounds = [-np.inf, *(t for each in labelled for t in (each.start_s, each.end_s)), np.inf]
            drawn = [t for each in ours for t in (each.start_s, each.end_s)]
            for k, edge_s in enumerate(drawn, 1):
                gap_s = bounds[k] - bounds[k - 1] if k % 2 else bounds[k + 1] - bounds[k]
                errors[gap_s >= GAP_S].append(1000 * abs(edge_s - bounds[k]))
    beside, elsewhere = (np.array(errors[key]) for key in (True, False))
    both = np.concatenate([beside, elsewhere])
    print(
        f"beside pauses {beside.mean():.1f} ms ({len(beside)} edges), elsewhere {elsewhere.mean():.1f} ms; "
        f"{100 * np.mean(both > 50):.1f} % beyond 50 ms, {100 * both[both > 50].sum() / both.sum():.0f} % of the error"
    )


def left_out(folder: Path) -> None:
    """Print the errors of words with constants from other speakers, before and after the network of edges."""
    aligner = Aligner("english", settings=Settings(match="exact"))
    labelled = read_labelled(folder / "reference", folder / "corpus")
    placed = PlacedUtterances.of(aligner, labelled, "", keep_sound=True)
    drawn: dict[int, Spans] = {}
    for fold in range(int(placed.folds.max()) + 1):
        own = np.flatnonzero(placed.folds == fold)
        drawn |= zip(own.tolist(), placed.draw(placed.folds != fold, own))
    network = aligner.edge_network
    assert network is not None
    utterances = [(each, drawn[k]) for k, each in enumerate(placed.utterances)]
    final = batching.run([refine_edges(each.emissions, each.tokens, edges, network) for each, edges in utterances])
    words = PairedEdges()
    for k, ((utterance, edges), seen) in enumerate(zip(utterances, final)):
        words.add_words(k, utterance, edges, seen)
    for name, spans in (("constants", [edges for _, edges in utterances]), ("network", final)):
        rows = [(u.labelled.name, u.word_intervals(e), u.labelled.words) for (u, _), e in zip(utterances, spans)]
        evaluation = evaluate_intervals(rows, options=BY_SPEAKER)
        print(f"{name:10} {line(evaluation.both)}\n  {sureness(evaluation)}")
    within = np.mean(np.abs(words.errors_ms) <= np.asarray(words.spreads_ms))
    print(f"{100 * within:.0f} of 100 edges lie within their standard deviation")


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=GOLD)
    parser.add_argument("--model", default="english")
    parser.add_argument("--condition", default="clean", choices=sorted(CONDITIONS))
    parser.add_argument("--edges", default="auto")
    parser.add_argument("--calibration", default="")
    parser.add_argument("--left-out", action="store_true")
    arguments = parser.parse_args()
    if not (arguments.folder / "corpus").is_dir():
        print(f"{arguments.folder}: expected a folder with corpus/ and reference/", file=sys.stderr)
        return 2
    if arguments.left_out:
        left_out(arguments.folder)
        return 0
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
        rows = [(name, intervals(alignment, tier), read_intervals(file, tier)) for name, file, alignment in done]
        show(evaluate_intervals(rows, tier, BY_SPEAKER))
        if tier == "words":
            beside_pauses(rows)
    print(f"{len(done)} utterances, {sound_s:.0f} s of speech in {spent_s:.1f} s; {len(failed)} failed")
    for reason in failed:
        print(f"  {reason}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
