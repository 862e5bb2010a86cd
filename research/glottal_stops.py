"""Word edges beside glottal stops between vowels, apart from all others, in hand-labelled speech:

    python research/glottal_stops.py [FOLDER] [--model NAME|FOLDER] [--conditions clean,…] [--seed N]

FOLDER holds `corpus/` and `reference/` with the tiers `words` and `phones`. A stop between words is
an interval `q` of the phones whose neighbours are vowels and that lies in no word. By the
convention of `docs/labelling.md` it belongs to neither word. Printed are, for the edges on either
side of these stops, for other edges where a vowel meets a vowel, and for all others: their number,
the mean and median absolute error in ms, the share within 20 ms, and the share of all error; and in
how many of these stops the words leave a gap of 15 ms or more. Conditions are those of
`spoiled_sound.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from measuring import GOLD, parser_of

from ctc_align.alignment.aligner import Aligner
from ctc_align.config import Settings
from ctc_align.evaluate import read_intervals
from ctc_align.types import Interval
from hard_sound import RATE, Labelled, intervals_of, read_labelled, spoil_all

FRONT, BACK = ("iy", "ih", "eh", "ey", "ae", "ay"), ("aa", "aw", "ah", "ao", "oy", "ow", "uh", "uw")
VOWELS = frozenset((*FRONT, *BACK, "ux", "er", "ax", "ix", "axr", "ax-h"))
STOP, MEETING, OTHER = "glottal stop between vowels", "vowel beside vowel, no stop", "all others"
TOUCH_S = 0.001
GAP_S = 0.015
"""The shortest gap in which a stop counts as found."""


def kind_between(before: Interval, after: Interval, phones: Sequence[Interval]) -> str:
    """Return what stands between two words."""
    last = [phone for phone in phones if abs(phone.end_s - before.end_s) < TOUCH_S]
    first = [phone for phone in phones if abs(phone.start_s - after.start_s) < TOUCH_S]
    if not last or not first or not {last[0].label, first[0].label} <= VOWELS:
        return OTHER
    within = [
        phone.label
        for phone in phones
        if phone.start_s > before.end_s - TOUCH_S and phone.end_s < after.start_s + TOUCH_S
    ]
    if within == ["q"]:
        return STOP
    return OTHER if within else MEETING


def edge_errors(
    labelled: Labelled, found: Sequence[Interval], phones: Sequence[Interval]
) -> Iterator[tuple[str, float, float]]:
    """Yield the kind of each edge, its error in ms, and the gap between the words in seconds."""
    words = [word for word in labelled.words if word.label.strip()]
    if len(words) != len(found):
        return
    yield OTHER, 1000 * (found[0].start_s - words[0].start_s), 0.0
    yield OTHER, 1000 * (found[-1].end_s - words[-1].end_s), 0.0
    for k in range(len(words) - 1):
        kind = kind_between(words[k], words[k + 1], phones)
        gap_s = found[k + 1].start_s - found[k].end_s
        yield kind, 1000 * (found[k].end_s - words[k].end_s), gap_s
        yield kind, 1000 * (found[k + 1].start_s - words[k + 1].start_s), gap_s


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=GOLD)
    parser.add_argument("--model", default="english")
    parser.add_argument("--conditions", default="clean")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    aligner = Aligner(given.model, device="cpu", settings=Settings(match="exact"))
    labelled = read_labelled(given.folder)
    phones = [
        read_intervals(given.folder / "reference" / f"{each.name}.TextGrid", "phones")
        for each in labelled
    ]
    for condition in given.conditions.split(","):
        sounds = spoil_all(labelled, condition, given.seed)
        rows = []
        for each, samples, own in zip(labelled, sounds, phones):
            words = intervals_of(aligner.align((samples, RATE), each.text))
            rows += list(edge_errors(each, words, own))
        total = sum(abs(error) for _, error, _ in rows)
        print(condition)
        for kind in (STOP, MEETING, OTHER):
            errors = np.abs([error for own, error, _ in rows if own == kind])
            gaps = np.array([gap_s for own, _, gap_s in rows if own == kind])
            print(
                f"  {kind:28s} {len(errors):5d} edges {errors.mean():6.2f} ms, median"
                f" {np.median(errors):5.2f}, within 20 ms {100 * np.mean(errors <= 20):5.1f} %,"
                f" {100 * errors.sum() / total:4.1f} % of all error, gaps"
                f" {100 * np.mean(gaps >= GAP_S):5.1f} %"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
