"""How far edges are from labels of a convention: python research/conventions.py [FOLDER]

FOLDER holds `corpus/` and `reference/` with the tiers `words` and `phones` of TIMIT, whose words
contain glottal onsets (`q`) and the releases of final stops. Printed are, as the program draws
edges by default and by the convention (`--convention`): the mean and median distance in ms of the
start of words from the end of their glottal onset, of the end of words from the start of the
release of their final stop, and the same of words that have neither, from their own edges. The
constants of the conventions were chosen on the first four speakers, so that only the others count.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from measuring import GOLD, parser_of

from ctc_align.alignment.aligner import Aligner
from ctc_align.config import Settings
from ctc_align.evaluate import read_intervals
from ctc_align.types import Interval
from glottal_stops import TOUCH_S, VOWELS
from hard_sound import RATE, intervals_of, read_labelled

STOPS = frozenset("bdgptk")
CLOSURES = frozenset(f"{stop}cl" for stop in STOPS)
CHOSEN_ON = ("dr1", "dr2", "dr3", "dr4")
KINDS = {
    "end of the glottal onset before a vowel": "glottal-out",
    "vowel that begins a word without one": "glottal-out",
    "start of the release of a final stop": "release-out",
    "end of a final stop without a release": "release-out",
}
ONSET, NO_ONSET, RELEASE, NO_RELEASE = KINDS


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=GOLD)
    folder = parser.parse_args().folder
    labelled = [each for each in read_labelled(folder) if not each.name.startswith(CHOSEN_ON)]
    phones_of = [
        read_intervals(folder / "reference" / f"{each.name}.TextGrid", "phones")
        for each in labelled
    ]
    distances: dict[tuple[str, str], list[float]] = defaultdict(list)
    english = Aligner("english", device="cpu")
    for convention in ("whole", *dict.fromkeys(KINDS.values())):
        aligner = english.with_settings(Settings(match="exact", convention=convention))
        for each, phones in zip(labelled, phones_of):
            words = [word for word in each.words if word.label.strip()]
            drawn = intervals_of(aligner.align((each.samples, RATE), each.text))
            if len(drawn) != len(words):
                continue
            for word, ours in zip(words, drawn):
                for kind, distance_s in edge_distances(word, ours, phones):
                    distances[kind, convention].append(1000 * abs(distance_s))
    for kind, convention in KINDS.items():
        by_default = show(distances[kind, "whole"])
        by_convention = show(distances[kind, convention])
        count = len(distances[kind, "whole"])
        print(f"{kind:40s} {count:4d} whole {by_default}, {convention} {by_convention}")
    return 0


def edge_distances(
    word: Interval, ours: Interval, phones: Sequence[Interval]
) -> Iterator[tuple[str, float]]:
    """Yield the kinds of a word's edges that conventions move, and how far ours are from them."""
    own = [
        phone
        for phone in phones
        if phone.start_s > word.start_s - TOUCH_S and phone.end_s < word.end_s + TOUCH_S
    ]
    if len(own) < 2:
        return
    first, last = own[0], own[-1]
    if first.label == "q" and own[1].label in VOWELS:
        yield ONSET, ours.start_s - first.end_s
    if first.label in VOWELS:
        yield NO_ONSET, ours.start_s - first.start_s
    if last.label in STOPS and own[-2].label in CLOSURES:
        yield RELEASE, ours.end_s - last.start_s
    if last.label in CLOSURES:
        yield NO_RELEASE, ours.end_s - last.end_s


def show(distances_ms: Sequence[float]) -> str:
    return f"{np.mean(distances_ms):5.1f} ms, median {np.median(distances_ms):5.1f}"


if __name__ == "__main__":
    sys.exit(main())
