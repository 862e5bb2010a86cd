"""How well a model of many languages fits clips that it has not learnt from: figures by language,
and of all.

    python research/languages.py MODEL CLIPS.jsonl [--only CODE …] [--as CODE] [--set
    silence_bonus=4 …]
        [--json FILE] [--learnt TRAIN.jsonl --table languages.tsv]

CLIPS is a manifest: `audio` (beside it), `text`, `language`, and `speaker` in each line. `--as und` reads all
texts as if nobody had said in which language they are. Of every clip:

aligned        it is aligned at all
best of 10     its text has the least loss among itself and nine texts of other clips of that language, by loss per
               token and by loss
swapped        its text has a lower loss than the same text with one word replaced by another of that language, of like
               length (two characters in scripts without spaces); `SWAPS` of them
beside pauses  edges of words within 50 ms of where the level falls into a pause and rises out of
               it, as the sound alone shows it: pauses of `PAUSE_S` or more, the level a third of
               the way up from the pause's to the speech's
covered        share of the time of such pauses, but `TRIM_S` at their ends, that words cover

Intervals are Wilson's, 95 %. `--table` writes the table of languages that lies in the model's
folder: the hours of TRAIN.jsonl, and these figures; clips of speakers that TRAIN.jsonl has too are
marked so.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from measuring import RATE, manifest_rows, parser_of

from ctc_align.alignment.aligner import Aligner
from ctc_align.audio.loading import load_audio
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError
from ctc_align.text.sounds.pieces import script_of_letter
from ctc_align.types import Alignment

SWAPS = 3
ALTERNATIVES = 9
PAUSE_S, CONTRAST_DB, FLOOR_DB, NEAR_S, TRIM_S = 0.2, 20.0, 25.0, 0.05, 0.02
STEP, WINDOW = 80, 320
MARKS = ".,!?;:\"'“”«»()-"
WITHOUT_SPACES = ("zh", "ja", "th", "lo", "km", "my", "yu")
HEAD = (
    "language       aligned  best of 10, per token  by loss              swapped              "
    " beside pauses         covered nats a token confidence"
)

Row = dict[str, Any]


@dataclass
class Figures:
    """What was counted: a list has a value for each case."""

    clips: int = 0
    aligned: int = 0
    best_per_token: list[bool] = field(default_factory=list)
    best: list[bool] = field(default_factory=list)
    swapped: list[bool] = field(default_factory=list)
    near: list[bool] = field(default_factory=list)
    paused_s: float = 0.0
    covered_s: float = 0.0
    losses: list[float] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        """Take another's counts in."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def covered(self) -> float:
        """Percent of the pauses' time that words cover; NaN without pauses."""
        return 100 * self.covered_s / self.paused_s if self.paused_s else math.nan

    def line(self, name: str) -> str:
        """Return the row of a language."""
        shares = " ".join(
            interval(values) for values in (self.best_per_token, self.best, self.swapped, self.near)
        )
        loss = np.mean(self.losses or [math.nan])
        confidence = np.median(self.confidences or [math.nan])
        return (
            f"{name:12s} {self.aligned:4d}/{self.clips:<4d} {shares} {self.covered:5.1f}"
            f" {loss:8.2f} {confidence:8.2f}"
        )


def interval(values: Sequence[bool]) -> str:
    """Return the share of true values in percent, with Wilson's interval."""
    n = len(values)
    if not n:
        return f"{'–':>7s}{'':14s}"
    p, z = sum(values) / n, 1.96
    middle = (p + z * z / 2 / n) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / 4 / n / n) / (1 + z * z / n)
    return f"{100 * p:5.1f} ({100 * (middle - half):5.1f}–{100 * (middle + half):5.1f})"


def levels_of(samples: np.ndarray) -> np.ndarray:
    """Return levels (T,) in dB of windows of 20 ms, each 5 ms."""
    padded = np.pad(samples.astype(np.float64), WINDOW // 2)
    sums = np.append(0.0, np.cumsum(padded**2))
    first = np.arange(0, len(samples), STEP)
    return np.asarray(10 * np.log10((sums[first + WINDOW] - sums[first]) / WINDOW + 1e-10))


def pauses(samples: np.ndarray) -> list[tuple[float, float]]:
    """Return where pauses inside the speech begin and end, in seconds, by the level alone."""
    levels = levels_of(samples)
    if len(levels) < 100:
        return []
    loud = float(np.percentile(levels, 90))
    spoken = np.flatnonzero(levels > loud - 12)
    quiet = np.zeros(len(levels) + 1, bool)
    quiet[spoken[0] : spoken[-1] + 1] = levels[spoken[0] : spoken[-1] + 1] < loud - CONTRAST_DB
    turns = np.flatnonzero(np.diff(quiet.astype(int), prepend=0))
    found = []
    for start, end in zip(turns[::2], turns[1::2]):
        floor = float(np.median(levels[start:end]))
        if (end - start) * STEP / RATE < PAUSE_S or loud - floor < FLOOR_DB:
            continue
        threshold = floor + (loud - floor) / 3
        while start > spoken[0] and levels[start - 1] < threshold:
            start -= 1
        while end < spoken[-1] and levels[end] < threshold:
            end += 1
        found.append((start * STEP / RATE, end * STEP / RATE))
    return found


def measure_pauses(alignment: Alignment, samples: np.ndarray, figures: Figures) -> None:
    """Count the edges and the words beside and in the pauses of a recording."""
    words = [
        (w.start_s, w.end_s)
        for w in alignment.words
        if w.start_s is not None and w.end_s is not None
    ]
    if not words:
        return
    starts, ends = (np.array(values) for values in zip(*words))
    for begin, end in pauses(samples):
        if not (ends.min() < end and starts.max() > begin):
            continue
        figures.near += [
            bool(np.abs(ends - begin).min() <= NEAR_S),
            bool(np.abs(starts - end).min() <= NEAR_S),
        ]
        first, last = begin + TRIM_S, end - TRIM_S
        figures.paused_s += last - first
        figures.covered_s += float(
            np.clip(np.minimum(ends, last) - np.maximum(starts, first), 0, None).sum()
        )


def with_another_word(text: str, vocabulary: Sequence[str], rng: random.Random) -> str | None:
    """Return the text with one word of it replaced; None where there is no other of like length."""
    words = text.split()
    places = [i for i, word in enumerate(words) if len(word) >= 3] or list(range(len(words)))
    if len(words) < 2:
        return None
    place = rng.choice(places)
    old = words[place].strip(MARKS).lower()
    like = [word for word in vocabulary if word != old and abs(len(word) - len(old)) <= 1]
    return " ".join([*words[:place], rng.choice(like), *words[place + 1 :]]) if like else None


def with_other_characters(text: str, others: Sequence[str], rng: random.Random) -> str | None:
    """Return the text with two neighbouring letters of it replaced; None where it is too short."""
    letters = [i for i, c in enumerate(text) if c.isalpha()]
    if len(letters) < 4:
        return None
    place = rng.choice(letters)
    pool = [c for other in others for c in other if c.isalpha() and c != text[place]]
    end = place + (2 if place + 1 in letters else 1)
    return text[:place] + "".join(rng.choice(pool) for _ in range(end - place)) + text[end:]


class Cases:
    """The texts that each clip of a language is compared with: the same ones for every model."""

    def __init__(self, language: str, rows: Sequence[Row]) -> None:
        self._texts = sorted({row["text"] for row in rows})
        self._spaceless = language.startswith(WITHOUT_SPACES)
        self._vocabulary = sorted(
            {w.strip(MARKS).lower() for text in self._texts for w in text.split()} - {""}
        )
        self._rng = random.Random(7)

    def of(self, text: str) -> tuple[list[str], list[str]]:
        """Return other texts, and the text with one word swapped, several times."""
        others = [other for other in self._texts if other != text]
        alternatives = self._rng.sample(others, min(ALTERNATIVES, len(others)))
        swap = with_other_characters if self._spaceless else with_another_word
        pool = others if self._spaceless else self._vocabulary
        return alternatives, [
            s for s in (swap(text, pool, self._rng) for _ in range(SWAPS)) if s is not None
        ]


def measure(aligner: Aligner, row: Row, cases: Cases, figures: Figures) -> None:
    """Align one clip, and score its text beside others."""
    figures.clips += 1
    alternatives, swaps = cases.of(row["text"])
    try:
        audio = load_audio(row["audio"], RATE)
        alignment = aligner.align(audio, row["text"])
        emissions = aligner.emissions(audio)
        scored = aligner.score_emissions([emissions], [[row["text"], *alternatives, *swaps]])[0]
    except CtcAlignError as error:
        print(row["language"], row["audio"], str(error)[:150], file=sys.stderr)
        return
    figures.aligned += 1
    true, *rest = sorted(scored, key=lambda one: one.index)

    def is_worse(index: int, value: str) -> bool:
        one = rest[index]
        return one.error is not None or not getattr(one, value) <= getattr(true, value)

    count = len(alternatives)
    figures.best_per_token.append(all(is_worse(i, "loss_per_token") for i in range(count)))
    figures.best.append(all(is_worse(i, "loss") for i in range(count)))
    figures.swapped += [is_worse(i, "loss") for i in range(count, len(rest))]
    figures.losses.append(true.loss_per_token)
    figures.confidences += [
        word.confidence for word in alignment.words if word.confidence is not None
    ]
    measure_pauses(alignment, np.asarray(audio.samples), figures)


def table(by_language: dict[str, Figures], rows: dict[str, list[Row]], learnt: Path) -> str:
    """Return the rows of `languages.tsv`."""
    hours: Counter[str] = Counter()
    texts, speakers = defaultdict(list), defaultdict(set)
    for row in manifest_rows(learnt):
        hours[row["language"]] += row["duration_s"] / 3600
        speakers[row["language"]].add(row["speaker"])
        texts[row["language"]].append(row["text"])
    columns = (
        "language",
        "script",
        "hours",
        "held-out clips",
        "of speakers",
        "best of 10, %",
        "swapped word, %",
    )
    lines = ["\t".join((*columns, "edges at pauses, %", "loss, nats a token"))]
    for language in sorted({*hours, *rows}):
        own, figures = rows.get(language, []), by_language.get(language, Figures())
        script = script_of(" ".join(texts[language] or [row["text"] for row in own]))
        known = any(row["speaker"] in speakers[language] for row in own)
        kind = "–" if not own else "in the training" if known else "left out"
        lists = (figures.best_per_token, figures.swapped, figures.near)
        shares = [f"{100 * sum(values) / len(values):.0f}" if values else "–" for values in lists]
        loss = f"{np.mean(figures.losses):.2f}" if figures.losses else "–"
        lines.append(
            "\t".join(
                (
                    language,
                    script,
                    f"{hours[language]:.2f}",
                    str(figures.clips),
                    kind,
                    *shares,
                    loss,
                )
            )
        )
    return "\n".join(lines) + "\n"


def script_of(text: str) -> str:
    """Return the name of the script that most letters are of."""
    scripts = Counter(script_of_letter(c) for c in text if c.isalpha())
    return scripts.most_common(1)[0][0].title()


def main() -> None:
    """Measure, and print."""
    parser = parser_of(__doc__)
    parser.add_argument("model")
    parser.add_argument("clips", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--as", dest="language")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--learnt", type=Path)
    parser.add_argument("--table", type=Path)
    call = parser.parse_args()
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in manifest_rows(call.clips, "test"):
        if not call.only or row["language"] in call.only:
            rows[row["language"]].append({**row, "audio": str(call.clips.parent / row["audio"])})
    keys: dict[str, Any] = {
        key: float(value) for key, _, value in (pair.partition("=") for pair in call.set)
    }
    total, by_language = Figures(), dict[str, Figures]()
    print(HEAD)
    for language, clips in sorted(rows.items()):
        settings = Settings(language=call.language or language, match="exact", **keys)
        aligner, cases = (
            Aligner(call.model, device="cpu", settings=settings),
            Cases(language, clips),
        )
        figures = by_language[language] = Figures()
        for row in clips:
            measure(aligner, row, cases, figures)
        total.add(figures)
        print(figures.line(language), flush=True)
    print(total.line("all"))
    if call.json:
        call.json.write_text(
            json.dumps({language: asdict(figures) for language, figures in by_language.items()})
        )
    if call.table:
        call.table.write_text(table(by_language, rows, call.learnt), "utf-8")


if __name__ == "__main__":
    main()
