"""How well the goodness of pronunciation finds phones that were said wrongly:

    python research/pronunciation.py [--conditions clean,steady,telephone] [--keep FOLDER]
    python research/pronunciation.py --write-table     the quantiles of native speech in the package
    python research/pronunciation.py --learners        learners beside native speakers

Native speakers read; in the text's phones, some are exchanged as a learner would (`PAIRS`), never two
within `APART` of each other. So where the text now expects TH, a native speaker says S, as a learner
does who cannot say TH. Each exchanged phone is to be found among the phones that were expected and said.

Speakers are the development speakers of the English data, with whom the model was not trained. Every
second one is of *choice*: the table of quantiles and all thresholds come from them. The others are of
*report*. Each threshold is the one that finds 80 % of the exchanged phones of the speakers of choice in
clean sound. Intervals: speakers are resampled 1,000 times.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measuring import ENGLISH, RATE, manifest_rows, parser_of

from ctc_align.alignment.align_utterance import choose_pronounced_tokens, tokenize_words
from ctc_align.alignment.aligner import Aligner, read_inputs
from ctc_align.alignment.ctc_path import best_ctc_path
from ctc_align.alignment.goodness import DELETED, measure_goodness
from ctc_align.alignment.inputs import UtteranceInputs
from ctc_align.audio.loading import load_audio
from ctc_align.errors import CtcAlignError
from ctc_align.kernels import batching
from ctc_align.kernels.batching import StageSteps
from ctc_align.models import embedded_folder
from ctc_align.models.calibration import NATIVE_FILE, NativeSpeech, load_native_speech
from hard_sound import other_voice
from spoiled_sound import spoil_by

PAIRS = (
    *("IY IH", "EH AE", "AE AH", "UW UH", "AA AO", "EY EH"),
    *("TH S", "TH T", "DH D", "DH Z", "V W", "V F", "V B", "R L", "NG N", "Z S", "SH S", "CH SH"),
    *("JH CH", "P B", "T D", "K G"),
)
"""Phones that learners take for each other; each is expected where the other is said."""
APART = 6
FOUND = 0.8
PERCENTS = (1, 2, 3, 5, 7.5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90)
FEW = 50
"""Phones with fewer examples get the quantiles of all phones."""
RESAMPLED = 1000


class Rated(NamedTuple):
    """A phone that was rated: by whom it was said, which was expected, which was said, and what
    came out; `heard` is "" for none."""

    speaker: str
    expected: str
    said: str
    gop: float
    heard: str


def confusions() -> dict[str, list[str]]:
    """Return what a learner's text may expect where each phone is said."""
    found: dict[str, list[str]] = {}
    for pair in PAIRS:
        one, other = pair.split()
        found.setdefault(one, []).append(other)
        found.setdefault(other, []).append(one)
    return found


def exchange_phones(
    ids: Sequence[int], vocab: Sequence[str], rng: np.random.Generator
) -> dict[int, int]:
    """Return the places of some tokens, and the tokens that are expected there from now on."""
    others = confusions()
    changed: dict[int, int] = {}
    at = int(rng.integers(APART))
    while at < len(ids):
        choices = others.get(vocab[ids[at]], [])
        if choices:
            changed[at] = vocab.index(choices[int(rng.integers(len(choices)))])
            at += APART
        else:
            at += 1
    return changed


def rate_steps(
    inputs: UtteranceInputs, speaker: str, rng: np.random.Generator, passes: int
) -> StageSteps[list[Rated]]:
    """Return the phones of an utterance as rated, those as said first, then the exchanged ones."""
    emissions, backend = inputs.emissions, inputs.backend
    word_tokens = yield from tokenize_words(inputs)
    chosen = yield from choose_pronounced_tokens(inputs, inputs.words, word_tokens)
    vocab = emissions.vocab
    said = chosen.tokens.ids
    rated = []
    for turn in range(passes + 1):
        changed = exchange_phones(said, vocab, rng) if turn else {}
        ids = [changed.get(at, token) for at, token in enumerate(said)]
        spikes, _ = yield from best_ctc_path(emissions.array, ids, emissions.blank, backend=backend)
        found = yield from measure_goodness(emissions, ids, spikes, None, backend)
        for at, goodness in enumerate(found):
            if goodness is None or (turn and at not in changed):
                continue
            heard = "" if goodness.heard == DELETED else vocab[goodness.heard]
            rated.append(
                Rated(speaker, vocab[ids[at]], vocab[said[at]], round(goodness.gop, 3), heard)
            )
    return rated


def rate_rows(
    aligner: Aligner, rows: Sequence[dict[str, Any]], condition: str, passes: int
) -> Iterator[Rated]:
    """Yield the phones of utterances under a condition, as rated."""
    for number, row in enumerate(rows):
        samples = load_audio(ENGLISH / row["audio"], RATE).samples
        heard = spoil_by(condition, samples, np.random.default_rng((1, number)), other_voice)
        try:
            inputs = read_inputs(aligner, (heard, RATE), row["text"], row["audio"])
            rng = np.random.default_rng((2, number))
            [rated] = batching.run([rate_steps(inputs, row["speaker"], rng, passes)])
        except CtcAlignError as error:
            print(f"left out: {error}")
            continue
        yield from rated


def keep_ratings(aligner: Aligner, condition: str, keep: Path | None, every: int) -> list[Rated]:
    """Return the ratings of the development speakers under a condition, kept in a folder."""
    file = keep / f"{condition}.json" if keep else None
    if file is not None and file.exists():
        return [Rated(*each) for each in json.loads(file.read_text("utf-8"))]
    rated = list(rate_rows(aligner, manifest_rows(split="dev")[::every], condition, 2))
    if file is not None:
        file.write_text(json.dumps(rated), "utf-8")
    return rated


def speakers_of_choice() -> set[str]:
    """Return every second development speaker."""
    return set(sorted({row["speaker"] for row in manifest_rows(split="dev")})[::2])


def area_under_curve(lower: np.ndarray, higher: np.ndarray) -> float:
    """Return how often a number of the first is below one of the second."""
    ordered = np.sort(higher)
    above = len(ordered) - np.searchsorted(ordered, lower, "right")
    equal = np.searchsorted(ordered, lower, "right") - np.searchsorted(ordered, lower, "left")
    return float(np.mean(above + 0.5 * equal) / len(ordered))


def make_table(rated: Sequence[Rated]) -> NativeSpeech:
    """Return the quantiles of phones as said."""
    native = [each for each in rated if each.expected == each.said]
    pooled = [each.gop for each in native]
    quantiles = {}
    for phone in sorted({each.expected for each in native}):
        own = [each.gop for each in native if each.expected == phone]
        values = np.percentile(own if len(own) >= FEW else pooled, PERCENTS)
        quantiles[phone] = tuple(round(float(value), 2) for value in values)
    return NativeSpeech(tuple(map(float, PERCENTS)), quantiles)


def write_table(native: NativeSpeech, file: Path) -> None:
    """Write a table, as `load_native_speech` reads it."""
    rows = [("phone", *(f"{percent:g}" for percent in native.percents))]
    rows += [(phone, *map(str, values)) for phone, values in native.quantiles.items()]
    file.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")


class Measured(NamedTuple):
    """Scores of exchanged phones and of phones as said, lower for worse, and their speakers."""

    wrong: np.ndarray
    right: np.ndarray
    wrong_speakers: np.ndarray
    right_speakers: np.ndarray

    def shares(self, limit: float) -> tuple[float, float]:
        """Return how many are at a limit or below it: of the exchanged, and of those as said."""
        return float(np.mean(self.wrong <= limit)), float(np.mean(self.right <= limit))

    def intervals(self, limit: float) -> str:
        """Return the intervals, by speakers, of AUC, found and false alarms."""
        rng = np.random.default_rng(0)
        names = np.unique(self.right_speakers)
        wrong = [self.wrong[self.wrong_speakers == name] for name in names]
        right = [self.right[self.right_speakers == name] for name in names]
        drawn = []
        for _ in range(RESAMPLED):
            picked = rng.integers(len(names), size=len(names))
            low = np.concatenate([wrong[k] for k in picked])
            high = np.concatenate([right[k] for k in picked])
            drawn.append(
                (area_under_curve(low, high), np.mean(low <= limit), np.mean(high <= limit))
            )
        low, high = np.percentile(drawn, (2.5, 97.5), axis=0)
        auc, found, false = (f"{a:.3f}–{b:.3f}" for a, b in zip(low, high))
        return f"[AUC {auc}, found {found}, false {false}]"


def measure(
    rated: Sequence[Rated], scores: np.ndarray, wanted: set[str], pair: str = ""
) -> Measured:
    """Return the scores of some speakers, of a pair "EXPECTED SAID" or of all phones."""
    expected, _, said = pair.partition(" ")
    wrong, right = [], []
    for number, each in enumerate(rated):
        if each.speaker not in wanted or (pair and each.expected != expected):
            continue
        if each.expected == each.said:
            right.append(number)
        elif not pair or each.said == said:
            wrong.append(number)
    speakers = np.array([each.speaker for each in rated])
    return Measured(scores[wrong], scores[right], speakers[wrong], speakers[right])


def print_condition(
    condition: str,
    rated: Sequence[Rated],
    clean: Sequence[Rated],
    native: NativeSpeech,
) -> None:
    """Print the figures of the speakers of report under a condition."""
    choice = speakers_of_choice()
    report = {each.speaker for each in rated} - choice
    print(f"\n{condition}: {len(report)} speakers of report")
    scales = {
        "nats": [np.array([each.gop for each in of]) for of in (rated, clean)],
        "percentile": [
            np.array([native.percentile(each.expected, each.gop) for each in of])
            for of in (rated, clean)
        ],
    }
    for name, (scores, of_clean) in scales.items():
        limit = float(np.quantile(measure(clean, of_clean, choice).wrong, FOUND))
        of_all = measure(rated, scores, report)
        found, false = of_all.shares(limit)
        print(
            f"all pairs by {name}: {len(of_all.wrong)} exchanged of {len(of_all.right)}; AUC"
            f" {area_under_curve(of_all.wrong, of_all.right):.3f}; at most {limit:.2f}: found"
            f" {found:.1%}, false {false:.1%} {of_all.intervals(limit)}"
        )
    scores, of_clean = scales["percentile"]
    for low in (1, 5, 10):
        found, false = measure(rated, scores, report).shares(low)
        print(f"percentile at most {low}: found {found:.1%}, false {false:.1%}")
    wrong = [each for each in rated if each.expected != each.said and each.speaker in report]
    noted = [each for each in wrong if each.gop < 0]
    right = sum(each.heard == each.said for each in noted)
    print(
        f"a rival is likelier: {len(noted) / len(wrong):.1%}; it is the right one: {right / len(noted):.1%}"
    )
    print("expected said      n    AUC  found  false  heard rightly")
    for one in sorted({(each.expected, each.said) for each in wrong}):
        pair = " ".join(one)
        limit = float(np.quantile(measure(clean, of_clean, choice, pair).wrong, FOUND))
        own = measure(rated, scores, report, pair)
        found, false = own.shares(limit)
        heard = np.mean([each.heard == each.said for each in wrong if each[1:3] == one])
        print(
            f"{pair:8} {len(own.wrong):10} {area_under_curve(own.wrong, own.right):6.3f}"
            f" {found:6.1%} {false:6.1%} {heard:6.1%}"
        )


def print_learners(aligner: Aligner, native: NativeSpeech) -> None:
    """Print how learners and native speakers differ, all of whom are in the model's training."""
    rows = manifest_rows(split="train")
    sources = {
        "learners": [row for row in rows if row["source"] == "speechocean762-train"][::10],
        "native": [row for row in rows if row["source"] == "libri_tc100_1perspk"][::4],
    }
    for name, chosen in sources.items():
        rated = list(rate_rows(aligner, chosen, "clean", 0))
        scores = np.array([native.percentile(each.expected, each.gop) for each in rated])
        shares = ", ".join(f"{np.mean(scores <= low):.1%} at most {low}" for low in (1, 5, 10))
        print(f"{name}: {len(chosen)} utterances, {len(rated)} phones; {shares}")
        heard = Counter((each.expected, each.heard) for each in rated if each.gop < 0)
        counts = Counter(each.expected for each in rated)
        common = sorted(heard, key=lambda pair: -heard[pair])[:40]
        print(
            "  "
            + ", ".join(
                f"{expected}→{as_ or 'none'} {heard[expected, as_] / counts[expected]:.1%}"
                for expected, as_ in common
            )
        )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--conditions", default="clean,steady,telephone")
    parser.add_argument("--keep", type=Path, help="folder for the ratings, which take minutes")
    parser.add_argument("--every", type=int, default=1, help="of so many utterances one is taken")
    parser.add_argument("--write-table", action="store_true")
    parser.add_argument("--learners", action="store_true")
    options = parser.parse_args()
    aligner = Aligner("english", device="cpu")
    folder = embedded_folder("english")
    native = load_native_speech(folder)
    if options.learners:
        assert native is not None, "--write-table comes first"
        print_learners(aligner, native)
        return
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    clean = keep_ratings(aligner, "clean", options.keep, options.every)
    if options.write_table:
        choice = speakers_of_choice()
        native = make_table([each for each in clean if each.speaker in choice])
        write_table(native, folder / NATIVE_FILE)
        return
    assert native is not None, "--write-table comes first"
    for condition in options.conditions.split(","):
        rated = clean
        if condition != "clean":
            rated = keep_ratings(aligner, condition, options.keep, options.every)
        print_condition(condition, rated, clean, native)


if __name__ == "__main__":
    main()
