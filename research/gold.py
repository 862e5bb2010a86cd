"""Boundary errors of the model `english` against hand labels, words and phones:

    python research/gold.py [FOLDER] [--condition clean|noise|…] [--edges …] [--calibration
    FILE]
    python research/gold.py [FOLDER] --left-out
    python research/gold.py [FOLDER] --curve 3,5,8,16,32 [--draws 2]

FOLDER (by default ../shared/data/gold-dev beside the checkout) holds `corpus/` (audio beside .txt)
and `reference/` (TextGrids). Intervals are of 95 %, over speakers (folders); a last line says how
many utterances failed. The model's calibration was estimated on gold-dev; with `--left-out` each
speaker's edges are drawn with constants from other speakers, and looked at by the model's network
of edges, which learnt nothing from these labels. With `--curve`, `ctc-align calibrate` learns from
so many files, at most eight of a speaker, in each draw once for each first speaker; what it writes
draws the edges of the same speakers' other files and of all other speakers, beside those of the
model as it is. These intervals are over first speakers.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile
from measuring import GOLD, parser_of

from ctc_align.alignment.aligner import Aligner, find_edge_network, read_inputs
from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.refined_edges import refine_edges
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError
from ctc_align.evaluate import EdgeErrors, Evaluation, Options, evaluate_intervals, read_intervals
from ctc_align.evaluate.pairing import pair_intervals
from ctc_align.kernels import batching
from ctc_align.models.calibration import FILE, as_toml
from ctc_align.models.edge_network import FILE as EDGES
from ctc_align.models.edge_network import edge_network_bytes
from ctc_align.training.calibration_fitting import Constants, PlacedUtterances, calibrate
from ctc_align.training.labelled_speech import LabelledUtterance, PairedEdges, read_labelled
from ctc_align.types import Alignment, Interval
from spoiled_sound import CONDITIONS, spoil_by

BY_SPEAKER = Options(interval_by="folder")
GAP_S = 0.02
MOST_OF_ONE = 8
"""The most files of a speaker from which a calibration learns."""


def aligned(
    aligner: Aligner, folder: Path, condition: str
) -> Iterator[tuple[str, Path, Alignment | CtcAlignError]]:
    """Yield each utterance of `folder`: its name, its reference, and its alignment or the error."""
    rng = np.random.default_rng(11)
    for audio in sorted((folder / "corpus").rglob("*.wav")):
        name = audio.relative_to(folder / "corpus").with_suffix("").as_posix()
        try:
            text = audio.with_suffix(".txt").read_text("utf-8")
            sound: object = audio
            if condition != "clean":
                samples, rate = soundfile.read(audio)
                sound = spoil_by(condition, samples, rng), rate
            yield (
                name,
                folder / "reference" / f"{name}.TextGrid",
                aligner.align(sound, text, utterance=name),
            )
        except CtcAlignError as error:
            yield name, folder / "reference" / f"{name}.TextGrid", error


def intervals(alignment: Alignment, tier: str) -> list[Interval]:
    words = [
        word for word in alignment.words if word.start_s is not None and word.end_s is not None
    ]
    if tier == "words":
        return [Interval(word.start_s or 0.0, word.end_s or 0.0, word.text) for word in words]
    return [
        Interval(token.start_s, token.end_s, token.token) for word in words for token in word.tokens
    ]


def show(evaluation: Evaluation) -> None:
    print(f"{evaluation.tier}: {evaluation.paired} paired, {evaluation.missing} missing, {evaluation.extra} extra, "
          f"{evaluation.mismatched} with another label")  # fmt: skip
    print("         MAE  median  signed median   ≤10   ≤20   ≤25   ≤50  ≤100 ms (%)")
    for name, errors in (
        ("both", evaluation.both),
        ("onset", evaluation.onset),
        ("offset", evaluation.offset),
    ):
        print(f"{name:6} {line(errors)}")
    print(f"  {sureness(evaluation)}")
    for one in evaluation.worst(3):
        print(
            f"  worst: {one.utterance}  MAE {one.mae_ms:.1f} ms, {one.worst_ms:+.0f} ms at"
            f" {one.worst_label!r}"
        )


def line(errors: EdgeErrors) -> str:
    if errors.mae_ms is None or errors.median_abs_ms is None or errors.median_signed_ms is None:
        return "nothing paired"
    within = " ".join(f"{percent or 0.0:5.1f}" for percent in errors.within_ms.values())
    return (
        f"{errors.mae_ms:5.1f} {errors.median_abs_ms:7.1f} {errors.median_signed_ms:+14.1f}"
        f" {within}"
    )


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
    """Print the errors of edges where the labels have a gap of 20 ms or more, and of the others, of
    whole words."""
    errors: dict[bool, list[float]] = {True: [], False: []}
    for _, ours, theirs in rows:
        labelled = [interval for interval in theirs if interval.label.strip()]
        if len(ours) == len(labelled):
            bounds = [
                -np.inf,
                *(t for each in labelled for t in (each.start_s, each.end_s)),
                np.inf,
            ]
            drawn = [t for each in ours for t in (each.start_s, each.end_s)]
            for k, edge_s in enumerate(drawn, 1):
                gap_s = bounds[k] - bounds[k - 1] if k % 2 else bounds[k + 1] - bounds[k]
                errors[gap_s >= GAP_S].append(1000 * abs(edge_s - bounds[k]))
    beside, elsewhere = (np.array(errors[key]) for key in (True, False))
    both = np.concatenate([beside, elsewhere])
    print(
        f"beside pauses {beside.mean():.1f} ms ({len(beside)} edges), elsewhere"
        f" {elsewhere.mean():.1f} ms; {100 * np.mean(both > 50):.1f} % beyond 50 ms,"
        f" {100 * both[both > 50].sum() / both.sum():.0f} % of the error"
    )


def left_out(folder: Path) -> None:
    """Print the errors of words with constants from other speakers: of these alone, and after the
    usual lengths of sounds and the edge network."""
    aligner = Aligner("english", settings=Settings(match="exact", edges="calibrated"))
    given = PlacedUtterances.of(
        aligner, read_labelled(folder / "reference", folder / "corpus"), keep_sound=True
    )
    constants, network = Constants.of(given), find_edge_network(aligner)
    assert network is not None
    plain: dict[int, Spans] = {}
    drawn: dict[int, Spans] = {}
    for fold in range(int(given.folds.max()) + 1):
        own = np.flatnonzero(given.folds == fold)
        others = given.folds != fold
        plain |= zip(own.tolist(), constants.edges_with(others, own))
        drawn |= zip(own.tolist(), constants.edges_with(others, own, given.own.durations))
    final = batching.run(
        [
            refine_edges(each.emissions, each.tokens, drawn[k], network)
            for k, each in enumerate(given.utterances)
        ]
    )
    words = PairedEdges()
    for k, (utterance, seen) in enumerate(zip(given.utterances, final)):
        words.add_words(k, utterance, drawn[k], seen)
    for name, spans in (("constants", [plain[k] for k in sorted(plain)]), ("network", final)):
        rows = [
            (each.labelled.name, each.word_intervals(edges), each.labelled.words)
            for each, edges in zip(given.utterances, spans)
        ]
        evaluation = evaluate_intervals(rows, options=BY_SPEAKER)
        print(f"{name:10} {line(evaluation.both)}\n  {sureness(evaluation)}")
    within = np.mean(np.abs(words.errors_ms) <= np.asarray(words.spreads_ms))
    print(f"{100 * within:.0f} of 100 edges lie within their standard deviation")


def curve(folder: Path, sizes: Sequence[int], draws: int) -> None:
    """Print what calibrations by some files do to the edges of the same and of other speakers."""
    exact, rng = Settings(match="exact"), np.random.default_rng(0)
    aligner = Aligner("english", settings=exact)
    labelled = list(read_labelled(folder / "reference", folder / "corpus"))
    heard = [
        read_inputs(aligner, each.audio, each.text, each.name, keep_sound=True).emissions
        for each in labelled
    ]
    labelled = [replace(each, audio=emissions) for each, emissions in zip(labelled, heard)]
    of = np.unique([each.speaker for each in labelled], return_inverse=True)[1]
    speakers = int(of.max()) + 1
    before = [errors_ms(aligner, each) for each in labelled]
    print(
        f"as it is {np.concatenate(before).mean():.1f} ms; means after less before, {draws} draws"
        " for each speaker"
    )
    for size in sizes:
        found = np.zeros((speakers, draws, 2, 2))
        written = 0
        for first, draw in np.ndindex(speakers, draws):
            teachers = (first + np.arange(-(-size // MOST_OF_ONE))) % speakers
            files = [
                rng.permutation(np.flatnonzero(of == one))[: size // len(teachers)]
                for one in teachers
            ]
            taught = np.isin(np.arange(len(of)), np.concatenate(files))
            report = calibrate(aligner, [each for each, learnt in zip(labelled, taught) if learnt])
            with tempfile.TemporaryDirectory() as made:
                (Path(made) / FILE).write_text(as_toml(report.calibration), "utf-8")
                if report.edge_network is not None:
                    (Path(made) / EDGES).write_bytes(edge_network_bytes(report.edge_network))
                other = Aligner("english", settings=replace(exact, calibration=made))
            after = [errors_ms(other, each) for each in labelled]
            same = np.isin(of, teachers)
            for side, some in enumerate((same & ~taught, ~same)):
                each = (
                    np.concatenate([errors[k] for k in np.flatnonzero(some)]).mean()
                    for errors in (before, after)
                )
                found[first, draw, side] = tuple(each)
            written += any(not np.array_equal(*pair) for pair in zip(before, after))
        for side, name in enumerate(("same", "others")):
            less = found[:, :, side, 1] - found[:, :, side, 0]
            means = less.mean(1)[rng.integers(speakers, size=(1000, speakers))].mean(1)
            low, high = np.quantile(means, [0.025, 0.975])
            was, now = found[:, :, side].mean((0, 1))
            print(
                f"{size:3} files, {name:6} {was:5.1f} → {now:5.1f} ms: {less.mean():+.2f}"
                f" ({low:+.2f} to {high:+.2f}), worst draw {less.max():+.2f}; edges moved in"
                f" {written} of {speakers * draws} draws",
                flush=True,
            )


def errors_ms(aligner: Aligner, labelled: LabelledUtterance) -> np.ndarray:
    """Return the absolute errors (E,) of the edges of words that pair with labels."""
    ours = intervals(aligner.align(labelled.audio, labelled.text), "words")
    pairs = pair_intervals(ours, [label for label in labelled.words if label.label.strip()]).pairs
    both = [(pair.hypothesis, pair.reference) for pair in pairs if not pair.mismatch]
    return 1000 * np.abs([(x.start_s - y.start_s, x.end_s - y.end_s) for x, y in both]).ravel()


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=GOLD)
    parser.add_argument("--model", default="english")
    parser.add_argument("--condition", default="clean", choices=sorted(CONDITIONS))
    parser.add_argument("--edges", default="auto")
    parser.add_argument("--calibration", default="")
    parser.add_argument("--left-out", action="store_true")
    parser.add_argument("--curve", default="")
    parser.add_argument("--draws", type=int, default=2)
    arguments = parser.parse_args()
    if not (arguments.folder / "corpus").is_dir():
        print(f"{arguments.folder}: expected a folder with corpus/ and reference/", file=sys.stderr)
        return 2
    if arguments.left_out:
        left_out(arguments.folder)
        return 0
    if arguments.curve:
        curve(arguments.folder, [int(size) for size in arguments.curve.split(",")], arguments.draws)
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
    spent_s, sound_s = (
        time.perf_counter() - began_s,
        sum(alignment.duration_s for _, _, alignment in done),
    )
    for tier in ("words", "phones"):
        rows = [
            (name, intervals(alignment, tier), read_intervals(file, tier))
            for name, file, alignment in done
        ]
        show(evaluate_intervals(rows, tier, BY_SPEAKER))
        if tier == "words":
            beside_pauses(rows)
    print(
        f"{len(done)} utterances, {sound_s:.0f} s of speech in {spent_s:.1f} s; {len(failed)}"
        " failed"
    )
    for reason in failed:
        print(f"  {reason}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
