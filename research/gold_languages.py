"""Edges of words spoken alone in 21 languages, against hand-audited labels; the phones are given.

    python research/gold_languages.py [--model universal] [--match exact] [--edges …] [--by
        language] [--condition clean|noise|…] [--half first|second]

Where each word begins (onset) and ends (offset), beside pauses, and the edges between its phones;
by the class of its first or last sound, or by language. Intervals are of 95 %, over languages, or
over the words of one. `--half` takes the first ten languages by name, or the others. The data,
../shared/data/gold-languages, are for measuring only: no weight and no constant is fitted to
them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from measuring import DATA, parser_of

from ctc_align.alignment.aligner import Aligner
from ctc_align.config import Settings
from ctc_align.text.phone_sets import broad_phones, ipa_class
from ctc_align.types import Alignment
from spoiled_sound import CONDITIONS, spoil_by

FOLDER = DATA / "gold-languages"
DRAWS = 2000
ONE_EDGE_S = 1e-3

Row = dict[str, Any]
Error = tuple[str, str, str, float]
"""Which edge, the class of the sound beside it, the language, and the error in ms."""


def phones_of(row: Row) -> list[tuple[str, ...]]:
    """Return the model's phones of each labelled phone."""
    return [broad_phones(label) for label, _, _ in row["phones"]]


def class_of(phone: str) -> str:
    kind = ipa_class(phone) or "other"
    return {
        "nasal": "nasal, liquid",
        "liquid": "nasal, liquid",
        "glide": "vowel",
        "affricate": "stop",
    }.get(kind, kind)


def alignments(
    rows: Sequence[Row], model: str, settings: Settings, condition: str
) -> Iterator[Alignment]:
    """Yield the alignment of each recording; its word is an entry of a lexicon, named by letters
    alone."""
    names = [
        "w" + "".join(chr(ord("a") + int(digit)) for digit in f"{k:04d}") for k in range(len(rows))
    ]
    rng = np.random.default_rng(11)
    with tempfile.TemporaryDirectory() as folder:
        lexicon = Path(folder) / "phones.dict"
        entries = (
            f"{name}\t{' '.join(p for part in phones_of(row) for p in part)}"
            for name, row in zip(names, rows)
        )
        lexicon.write_text("\n".join(entries) + "\n", "utf-8")
        aligner = Aligner(model, lexicon=lexicon, settings=settings)
        for name, row in zip(names, rows):
            samples, rate = soundfile.read(FOLDER / row["audio"])
            yield aligner.align((spoil_by(condition, samples, rng), rate), name)


def errors(row: Row, alignment: Alignment) -> Iterator[Error]:
    """Yield the errors of one word; none if it was not found."""
    (word,) = alignment.words
    if word.start_s is None or word.end_s is None:
        return
    broad, labels, language = phones_of(row), row["phones"], row["language"]
    yield "onset", class_of(broad[0][0]), language, 1000 * (word.start_s - labels[0][1])
    yield "offset", class_of(broad[-1][-1]), language, 1000 * (word.end_s - labels[-1][2])
    index = 0
    for phones, (_, _, end_s), (_, start_s, _) in zip(broad, labels, labels[1:]):
        index += len(phones)
        if abs(start_s - end_s) < ONE_EDGE_S:
            yield "inside", "", language, 1000 * (word.tokens[index].start_s - end_s)


def line(name: str, found: Sequence[Error]) -> str:
    """Return the figures of some edges."""
    values, languages = (
        np.array([error[3] for error in found]),
        np.array([error[2] for error in found]),
    )
    groups = np.unique(languages)
    parts = (
        [values[languages == group] for group in groups]
        if len(groups) > 1
        else list(values[:, None])
    )
    rng = np.random.default_rng(0)
    sums = np.array([[np.abs(part).sum(), len(part)] for part in parts])
    drawn = sums[rng.integers(len(parts), size=(DRAWS, len(parts)))].sum(1)
    low, high = np.percentile(drawn[:, 0] / drawn[:, 1], (2.5, 97.5))
    return (
        f"{name:24} {len(values):5d} {np.abs(values).mean():6.1f} ({low:5.1f}–{high:5.1f}) "
        f"{np.median(np.abs(values)):6.1f} {np.median(values):+6.1f} {values.mean():+6.1f} "
        f"{100 * np.mean(np.abs(values) <= 20):5.0f}"
    )


def show(found: Sequence[Error], by: str) -> None:
    """Print the figures of each kind of edge, and of its groups."""
    print(f"{'':24} edges    MAE (95 %)        median median bias  mean  ≤20 ms, %")
    for kind in ("onset", "offset", "inside"):
        chosen = [error for error in found if error[0] == kind]
        print(line(kind, chosen))
        column = 2 if by == "language" else 1
        for group in sorted({error[column] for error in chosen} - {""}):
            print(line(f"  {group}", [error for error in chosen if error[column] == group]))


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--model", default="universal")
    parser.add_argument("--match", default="exact")
    parser.add_argument("--edges", default="auto")
    parser.add_argument("--by", default="sound", choices=("sound", "language"))
    parser.add_argument("--condition", default="clean", choices=sorted(CONDITIONS))
    parser.add_argument("--half", choices=("first", "second"), help="of the languages")
    arguments = parser.parse_args()
    if not FOLDER.is_dir():
        print(f"{FOLDER}: no such folder", file=sys.stderr)
        return 2
    rows = [
        json.loads(text) for text in (FOLDER / "reference.jsonl").read_text("utf-8").splitlines()
    ]
    if arguments.half:
        languages = sorted({row["language"] for row in rows})
        first = languages[: len(languages) // 2]
        rows = [row for row in rows if (row["language"] in first) == (arguments.half == "first")]
    settings = Settings(language="und", match=arguments.match, edges=arguments.edges)
    found: list[Error] = []
    lost = 0
    for row, alignment in zip(
        rows, alignments(rows, arguments.model, settings, arguments.condition)
    ):
        new = list(errors(row, alignment))
        lost += not new
        found += new
    show(found, arguments.by)
    print(f"{len(rows)} words, {lost} lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
