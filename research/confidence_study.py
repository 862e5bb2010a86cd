"""What confidence is worth where recording and transcript disagree: a table by kind of fault, for
held-out speakers.

    python research/confidence_study.py [--words 3000] [--seed 1] [--music FOLDER] [--figure
    FILE.svg]
        [--model MODEL] [--lexicon FILE] [--log-probs] [--speech MANIFEST]

`--log-probs` aligns from the model's log-probs alone, as from those of any model. With `--speech`
the clips are those of MANIFEST, of any languages, each with its own; a clip of another is foreign.
Without it, this needs ../shared/data: clips of every second development speaker, whom neither the
model nor its confidence network has learnt from (the others chose the network's constants), timed
by `english`. Cases are made of them (`research/mismatches.py`); severities are drawn from 0 to 1 with
the seed. Each case is aligned as a user would. A word is right within 200 ms of where it is spoken
(both edges), wrong beyond 500 ms or where it is not spoken at all. The last rows are false alarms:
utterances as they are, with their own texts, none left out.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, pairwise
from pathlib import Path

import numpy as np

from measuring import DATA, manifest_rows, parser_of  # isort: skip
from confidence_training import (
    Shares,
    Speech,
    clips_of,
    in_language,
    made_case,
    off_by,
    speech_by_language,
)
from ctc_align.alignment.aligner import Aligner
from ctc_align.audio.loading import load_audio
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError, InputError
from ctc_align.sources import open_source
from ctc_align.sources.utterance import Utterance
from ctc_align.training.calibration_fitting import rank_auc
from ctc_align.types import Alignment, AudioLike, Emissions, get_log_probs
from mismatches import KINDS, RATE, Mismatch

RIGHT_S, NEAR_S, WRONG_S, SURE = 0.2, 0.1, 0.5, 0.5
FEWEST_WRONG = 30
"""A curve of fewer wrong words says nothing."""
LINES = ("-", "--", ":")
BINS = (0.0, 0.05, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1.001)


@dataclass(frozen=True)
class FromLogProbs:
    """An aligner from the log-probs of a model alone, without its segmentation states and its
    sound."""

    model: Aligner
    settings: Settings

    def with_settings(self, settings: Settings) -> FromLogProbs:
        return FromLogProbs(self.model.with_settings(settings), settings)

    def align(self, audio: AudioLike, text: str) -> Alignment:
        found = self.model.emissions(audio)
        bare = Emissions(get_log_probs(found), found.vocab, found.frame_shift_s, blank=found.blank)
        return self.model.align(bare, text)

    def align_batch(
        self, rows: Sequence[tuple[str, str]], errors: str
    ) -> Iterator[Alignment | CtcAlignError]:
        assert errors == "return"
        for audio, text in rows:
            try:
                yield self.align(audio, text)
            except CtcAlignError as error:
                yield error


@dataclass
class Outcomes:
    """The words of a kind: confidences (0 for words that were given no time), distances,
    severities; fits of cases."""

    confidence: list[float] = field(default_factory=list)
    off_s: list[float] = field(default_factory=list)
    severity: list[float] = field(default_factory=list)
    fits: list[str] = field(default_factory=list)
    cases: int = 0
    refused: int = 0

    def add(self, case: Mismatch, alignment: Alignment) -> None:
        self.cases += 1
        self.fits.append(alignment.fit or "-")
        assert len(alignment.words) == len(case.words)
        for word, timed in zip(alignment.words, case.words):
            if word.confidence is None:
                self.confidence.append(0.0)
                self.off_s.append(np.inf)
            else:
                self.confidence.append(word.confidence)
                self.off_s.append(
                    float(off_by([timed], [word.start_s or 0.0], [word.end_s or 0.0])[0])
                )
            self.severity.append(case.severity)

    def row(self, chosen: np.ndarray | None = None) -> str:
        """Return the figures of a kind, of all words or some."""
        confidence, off_s = np.array(self.confidence), np.array(self.off_s)
        if chosen is not None:
            confidence, off_s = confidence[chosen], off_s[chosen]
        sure, near = confidence > SURE, off_s <= NEAR_S
        wrong = 100 * (off_s[sure] > WRONG_S).mean() if sure.any() else 0.0
        kept = f"{100 * sure[near].mean():8.2f}" if near.any() else "       -"
        auc = rank_auc(confidence[off_s <= RIGHT_S], confidence[off_s > RIGHT_S])
        return (
            f"{len(off_s):7d} {100 * (off_s > WRONG_S).mean():7.1f} {sure.sum():7d} {wrong:7.2f}"
            f" {kept} " + ("      -" if auc is None else f"{auc:7.4f}")
        )


def studied(
    aligner: Aligner | FromLogProbs,
    speech: Mapping[str, Speech],
    kind: str,
    words: int,
    seed: int,
    short: float = 0.05,
) -> Outcomes:
    """Return the outcomes of cases of a kind with at least `words` words, one language after the
    other."""
    rng = np.random.default_rng([seed, 1000 + list(KINDS).index(kind)])
    outcomes = Outcomes()
    every = [(in_language(aligner, language), own) for language, own in speech.items()]
    for own_aligner, own in cycle(every):
        if len(outcomes.off_s) >= words:
            break
        case = made_case(kind, own, rng, Shares(shortened=short, degraded=0.0))
        if len(case.samples) < RATE // 4 or not case.words:
            continue
        try:
            outcomes.add(case, own_aligner.align((case.samples, RATE), case.text))
        except InputError:  # longer than the recording can hold: said, with exit code 1
            outcomes.refused += 1
    return outcomes


def false_alarms(
    aligner: Aligner | FromLogProbs, name: str, rows: Iterable[tuple[str, str]]
) -> None:
    """Print the share of unlikely words, and of utterances that do not fit well, of exact texts."""
    found = [
        each for each in aligner.align_batch(list(rows), "return") if isinstance(each, Alignment)
    ]
    words = [word for each in found for word in each.words if word.spoken]
    low = sum(word.confidence is None or word.confidence <= SURE for word in words)
    fits = {
        fit: sum(each.fit == fit for each in found) for fit in ("good", "doubtful", "poor", "none")
    }
    regions = sum(region.kind != "unexplained" for each in found for region in each.regions)
    losses = np.array([each.loss_per_token for each in found])
    print(
        f"{name}: {len(found)} utterances, {len(words)} words, {100 * low / len(words):.2f} % of"
        f" 0.5 or less, {regions} regions, fit {fits}"
    )
    shown = ", ".join(
        f"{p}: {q:.2f}"
        for p, q in zip((1, 50, 90, 99, 99.9), np.percentile(losses, (1, 50, 90, 99, 99.9)))
    )
    print(f"    loss per token, percentiles: {shown}")


def reliability(outcomes: Sequence[Outcomes]) -> list[tuple[float, float, int, float, float]]:
    """Return (lowest, highest, words, mean confidence, share right) of bins of confidence, over all
    kinds."""
    confidence = np.concatenate([each.confidence for each in outcomes])
    right = np.concatenate([each.off_s for each in outcomes]) <= RIGHT_S
    rows = []
    for low, high in pairwise(BINS):
        own = (confidence >= low) & (confidence < high)
        if own.any():
            rows.append(
                (low, high, int(own.sum()), float(confidence[own].mean()), float(right[own].mean()))
            )
    return rows


def draw(outcomes: dict[str, Outcomes], path: str) -> None:
    """Draw ROC curves of the kinds, and the reliability of all."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "ctc-align"
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for place, (kind, own) in enumerate(outcomes.items()):
        good = np.array(own.off_s) <= RIGHT_S
        if (~good).sum() < FEWEST_WRONG or not good.any():
            continue
        order = np.argsort(-np.array(own.confidence), kind="stable")
        hits, alarms = np.cumsum(good[order]) / good.sum(), np.cumsum(~good[order]) / (~good).sum()
        left.plot(
            alarms,
            hits,
            linewidth=1.2,
            color=f"C{place % 10}",
            linestyle=LINES[place // 10],
            label=kind.replace("_", " "),
        )
    left.set(
        xlim=(-0.005, 0.25), ylim=(0.75, 1.005), xlabel="share of wrong words above the threshold"
    )
    left.set_ylabel("share of right words above it")
    left.legend(fontsize=6, ncols=2, loc="lower right")
    rows = reliability(list(outcomes.values()))
    right.plot([0, 1], [0, 1], color="#b9c2ca", linewidth=1)
    right.plot([row[3] for row in rows], [row[4] for row in rows], "o-", color="#1f6fb2")
    right.set(
        xlabel="confidence",
        ylabel="share of words within 200 ms",
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.02),
    )
    figure.savefig(path, metadata={"Date": None})


def held_out_speech(aligner: Aligner, music: str | None, manifest: str | None) -> dict[str, Speech]:
    """Return clips by language: of every second English development speaker, or of a manifest."""
    recordings = (
        [load_audio(path, RATE).samples for path in sorted(Path(music).iterdir())] if music else []
    )
    if manifest:
        with tempfile.TemporaryDirectory() as folder:
            clips = clips_of(aligner, manifest, 1000, Path(folder) / "clips.json")
        found = speech_by_language(clips, manifest, 1)
        return {language: replace(own, music=recordings) for language, own in found.items()}
    speakers = sorted({row["speaker"] for row in manifest_rows(split="dev")})[1::2]
    with tempfile.TemporaryDirectory() as folder:
        english, languages = Path(folder) / "english.jsonl", Path(folder) / "languages.jsonl"
        _select(
            DATA / "english",
            english,
            lambda row: row["split"] == "dev" and row["speaker"] in speakers,
        )
        _select(DATA / "languages", languages, lambda row: row["source"] != "kerstin_de")
        clips = clips_of(aligner, str(english), 1000, Path(folder) / "clips.json")
        found = speech_by_language(clips, str(languages), 1)
    return {language: replace(own, music=recordings) for language, own in found.items()}


def _select(folder: Path, path: Path, wanted: Callable[[dict[str, str]], bool]) -> None:
    rows = filter(wanted, manifest_rows(folder / "manifest.jsonl"))
    lines = [json.dumps({**row, "audio": str(folder / row["audio"])}) for row in rows]
    path.write_text("\n".join(lines), encoding="utf-8")


def _by_language(manifest: str) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for row in open_source(manifest):
        if isinstance(row, Utterance):
            found.setdefault(row.language, []).append((row.audio, row.text))
    return found


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--words", type=int, default=3000, help="words of each kind, at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument(
        "--music", help="folder of recordings of music; without it, music is made by rules"
    )
    parser.add_argument("--model", default="english")
    parser.add_argument("--short", action="store_true", help="texts of one to five words only")
    parser.add_argument("--lexicon", help="of the model's tokens")
    parser.add_argument("--log-probs", action="store_true", help="use nothing else of the model")
    parser.add_argument(
        "--speech", metavar="MANIFEST", help="clips that the model has not learnt from"
    )
    parser.add_argument("--figure", help="file for the curves")
    given = parser.parse_args()
    model = Aligner(given.model, device="cpu", lexicon=given.lexicon)
    speech = held_out_speech(
        model if given.speech else Aligner("english", device="cpu"), given.music, given.speech
    )
    aligner = FromLogProbs(model, model.settings) if given.log_probs else model
    speakers = sum(len(own.clips) for own in speech.values())
    print(
        f"seed {given.seed}; {speakers} speakers; wrong: beyond 0.5 s or not spoken; near: within"
        " 0.1 s"
    )
    columns = ("words", "wrong %", "> 0.5", "wrong %", " kept %", "AUC")
    print(f"{'kind':26s} " + " ".join(f"{name:>7s}" for name in columns) + "   fits of cases")
    outcomes = {}
    for kind in given.kinds.split(","):
        own = outcomes[kind] = studied(
            aligner, speech, kind, given.words, given.seed, 1.0 if given.short else 0.05
        )
        fits = {fit: own.fits.count(fit) for fit in sorted(set(own.fits))}
        refused = f", {own.refused} refused" if own.refused else ""
        print(f"{kind:26s} {own.row()}   {fits}{refused}", flush=True)
        severity = np.array(own.severity)
        for low in (0.0, 1 / 3, 2 / 3):
            part = (severity >= low) & (severity < low + 1 / 3)
            if part.any():
                print(f"{f'  severity {low:.1f} to {low + 1 / 3:.1f}':26s} {own.row(part)}")
    print(
        "\nreliability of all kinds together: confidence from, to: words, mean confidence, share"
        " within 200 ms"
    )
    for low, high, words, mean, share in reliability(list(outcomes.values())):
        print(f"  {low:.2f} {min(high, 1.0):.2f}: {words:7d} {mean:.3f} {share:.3f}")
    print()
    if given.speech:
        for language, rows in _by_language(given.speech).items():
            false_alarms(
                in_language(aligner, language), f"utterances as they are, {language}", rows
            )
    else:
        english = [
            (str(DATA / "english" / row["audio"]), row["text"])
            for row in manifest_rows(split="dev")
        ]
        gold = sorted((DATA / "gold-dev" / "corpus").rglob("*.wav"))
        labelled = [(str(path), path.with_suffix(".txt").read_text("utf-8")) for path in gold]
        false_alarms(aligner, "development utterances as they are", english)
        false_alarms(aligner, "hand-labelled utterances", labelled)
    if given.figure:
        draw(outcomes, given.figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
