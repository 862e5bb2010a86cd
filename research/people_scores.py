"""How the goodness of pronunciation agrees with scores that people gave:

    python research/people_scores.py CLONE --keep FILE [--every 5]

CLONE is a clone of github.com/jimbozhang/speechocean762, bare or not. Its test speakers, 125 Mandarin
learners of English, are not those of the model's training. Five experts gave each phone 2 (right),
1 (heavy accent) or 0 (wrong or missed). The scores are those of the repository's commit `SCORES`, by
expert; phones are the final ones of `HEAD`, stress left out; words in which an expert's phones are not
as many as these are left out.

Nothing was chosen on these speakers. A phone is wrong if three experts or more gave 0, and right if
three or more gave 2. The limits are those of `pronunciation.py`. Intervals: speakers are resampled
1,000 times; draws without a wrong phone have no AUC, and are left out of its interval.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
from measuring import RATE, parser_of
from pronunciation import RESAMPLED, area_under_curve

from ctc_align.alignment.aligner import Aligner, read_inputs
from ctc_align.alignment.ctc_path import best_ctc_path
from ctc_align.alignment.goodness import measure_goodness
from ctc_align.alignment.inputs import UtteranceInputs
from ctc_align.errors import CtcAlignError
from ctc_align.kernels import batching
from ctc_align.kernels.batching import StageSteps
from ctc_align.models import embedded_folder
from ctc_align.models.calibration import NativeSpeech, load_native_speech

SCORES = "f22719f:test/utt2score"
"""The last version of the experts' single scores that is smaller than 4 MiB."""
TWO_PHONES = {"AR", "DR", "DZ", "IR", "TR", "TS", "UR"}
"""Symbols of the experts for two phones of CMUdict."""
CHILD = 15
"""The oldest child; the youngest adult is 19."""
LIMIT_NATS = -2.88
LIMIT_PERCENTILE = 7.4
MAJORITY = 3


class Scored(NamedTuple):
    """A phone with its goodness in nats, its percentile, and the scores of five experts."""

    speaker: str
    age: int
    phone: str
    gop: float
    percentile: float
    scores: tuple[int, ...]


def read_blob(clone: Path, name: str) -> bytes:
    """Return a file of a clone; `name` is REVISION:PATH."""
    return subprocess.run(
        ["git", "-C", str(clone), "show", name], check=True, capture_output=True
    ).stdout


def read_table(clone: Path, name: str) -> dict[str, str]:
    """Return a file of lines KEY VALUE."""
    lines = read_blob(clone, name).decode("utf-8").splitlines()
    return dict(line.split(None, 1) for line in lines)


def parse_marks(marked: str) -> list[int]:
    """Return the score of each phone of an expert's line: "K (EH0) {R} [ S ]" is 2, 0, 1."""
    scores: list[int] = []
    score = 2
    is_inserted = False
    for part in re.findall(r"[][(){}]|[A-Z]+", marked):
        if part in "[]":
            is_inserted = part == "["
        elif part in "({":
            score = "({".index(part)
        elif part in ")}":
            score = 2
        elif not is_inserted:
            scores += [score] * (2 if part in TWO_PHONES else 1)
    return scores


def read_canonical(clone: Path) -> dict[tuple[str, int], list[str]]:
    """Return the phones of each word, by utterance and number."""
    words = {}
    for key, phones in read_table(clone, "HEAD:resource/text-phone").items():
        utterance, _, number = key.partition(".")
        words[utterance, int(number)] = [re.sub(r"\d?(_.)?$", "", each) for each in phones.split()]
    return words


def rate_phones(inputs: UtteranceInputs, ids: Sequence[int]) -> StageSteps[list[float | None]]:
    """Return the goodness of tokens in nats; None where there is none."""
    emissions = inputs.emissions
    spikes, _ = yield from best_ctc_path(
        emissions.array, ids, emissions.blank, backend=inputs.backend
    )
    found = yield from measure_goodness(emissions, ids, spikes, None, inputs.backend)
    return [None if each is None else each.gop for each in found]


class TestSet:
    """The test utterances of a clone, to be rated one by one."""

    def __init__(self, clone: Path) -> None:
        self.clone = clone
        self.words = read_canonical(clone)
        self.paths = read_table(clone, "HEAD:test/wav.scp")
        self.speakers = read_table(clone, "HEAD:test/utt2spk")
        self.ages = read_table(clone, "HEAD:test/spk2age")
        self.rows = read_table(clone, SCORES)

    def read_phones(self, name: str) -> tuple[list[str], list[tuple[int, ...]]]:
        """Return the phones of an utterance, and the experts' scores of each; () for none."""
        phones: list[str] = []
        scores: list[tuple[int, ...]] = []
        for number, word in enumerate(json.loads(self.rows[name])["words"]):
            expected = self.words[name, number]
            by_expert = [parse_marks(marked) for marked in word["phones"]]
            fits = all(len(each) == len(expected) for each in by_expert)
            phones += expected
            scores += list(zip(*by_expert)) if fits else [()] * len(expected)
        return phones, scores

    def rate(self, aligner: Aligner, native: NativeSpeech, name: str) -> list[Scored]:
        """Return the scored phones of an utterance."""
        phones, scores = self.read_phones(name)
        blob = read_blob(self.clone, f"HEAD:{self.paths[name]}")
        sound, rate = soundfile.read(io.BytesIO(blob), dtype="float32")
        assert rate == RATE
        inputs = read_inputs(aligner, (sound, RATE), json.loads(self.rows[name])["text"], name)
        ids = [inputs.emissions.vocab.index(phone) for phone in phones]
        [rated] = batching.run([rate_phones(inputs, ids)])
        speaker = self.speakers[name]
        return [
            Scored(
                speaker, int(self.ages[speaker]), phone, gop, native.percentile(phone, gop), given
            )
            for phone, gop, given in zip(phones, rated, scores)
            if gop is not None and given
        ]


def keep_ratings(clone: Path, every: int, keep: Path) -> list[Scored]:
    """Return the scored phones of every so-manieth utterance; those in `keep` are not rated again."""
    known = {}
    if keep.exists():
        known = dict(map(json.loads, keep.read_text("utf-8").splitlines()))
    test = TestSet(clone)
    names = list(test.paths)[::every]
    aligner = Aligner("english", device="cpu")
    native = load_native_speech(embedded_folder("english"))
    assert native is not None
    with keep.open("a", encoding="utf-8") as file:
        for name in names:
            if name in known:
                continue
            try:
                known[name] = test.rate(aligner, native, name)
            except CtcAlignError as error:
                print(f"left out: {error}")
                known[name] = []
            file.write(json.dumps([name, known[name]]) + "\n")
            file.flush()
    return [Scored(*row[:5], tuple(row[5])) for name in names for row in known[name]]


def rank(values: np.ndarray) -> np.ndarray:
    """Return the ranks of numbers; equal ones share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def correlate(one: np.ndarray, other: np.ndarray) -> float:
    """Return Pearson's correlation."""
    return float(np.corrcoef(one, other)[0, 1])


def compare(measure: np.ndarray, scores: np.ndarray, limit: float) -> tuple[float, ...]:
    """Return Pearson's and Spearman's correlation of a measure (N,) with the means of scores (N, 5),
    the AUC, and the shares of wrong and of right phones at a limit or below it."""
    means = scores.mean(axis=1)
    wrong = measure[(scores == 0).sum(axis=1) >= MAJORITY]
    right = measure[(scores == 2).sum(axis=1) >= MAJORITY]
    return (
        correlate(measure, means),
        correlate(rank(measure), rank(means)),
        area_under_curve(wrong, right) if len(wrong) else np.nan,
        float(np.mean(wrong <= limit)) if len(wrong) else np.nan,
        float(np.mean(right <= limit)),
    )


def print_group(name: str, rated: Sequence[Scored]) -> None:
    """Print the figures of some speakers."""
    scores = np.array([each.scores for each in rated])
    speakers = np.array([each.speaker for each in rated])
    names = np.unique(speakers)
    wrong = int(((scores == 0).sum(axis=1) >= MAJORITY).sum())
    right = int(((scores == 2).sum(axis=1) >= MAJORITY).sum())
    print(f"\n{name}: {len(names)} speakers, {len(rated)} phones: {wrong} wrong, {right} right")
    for label, limit in (("gop", LIMIT_NATS), ("percentile", LIMIT_PERCENTILE)):
        measure = np.array([getattr(each, label) for each in rated])
        rng = np.random.default_rng(0)
        own = {each: np.flatnonzero(speakers == each) for each in names}
        drawn = []
        for _ in range(RESAMPLED):
            picked = np.concatenate([own[each] for each in rng.choice(names, len(names))])
            drawn.append(compare(measure[picked], scores[picked], limit))
        low, high = np.nanpercentile(drawn, (2.5, 97.5), axis=0)
        values = compare(measure, scores, limit)
        titles = ("Pearson", "Spearman", "AUC", f"found at {limit}", "false")
        shown = zip(titles, values, low, high)
        print(f"  {label}: " + ", ".join(f"{t} {v:.3f} [{a:.3f}–{b:.3f}]" for t, v, a, b in shown))
    alone = []
    for expert in range(scores.shape[1]):
        others = np.delete(scores, expert, axis=1).mean(axis=1)
        alone.append(correlate(scores[:, expert], others))
    print("  one expert with the mean of the others: " + ", ".join(f"{one:.3f}" for one in alone))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("clone", type=Path)
    parser.add_argument("--every", type=int, default=1, help="of so many utterances one is taken")
    parser.add_argument("--keep", type=Path, required=True, help="file of ratings, which grows")
    options = parser.parse_args()
    rated = keep_ratings(options.clone, options.every, options.keep)
    print_group("all", rated)
    print_group("children", [each for each in rated if each.age <= CHILD])
    print_group("adults", [each for each in rated if each.age > CHILD])


if __name__ == "__main__":
    main()
