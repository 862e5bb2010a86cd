"""What a correction does to its neighbours: one word of every five put where people put it, and the
text aligned again.

    python research/realign.py [FOLDER] [--utterances 20] [--every 5]

FOLDER is as for `gold.py`. Errors are those of the edges of the words that were *not* corrected: of
all of them, of those beside a corrected word, and of those beside one that was more than 20 ms off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from measuring import GOLD, parser_of

from ctc_align.alignment.aligner import Aligner
from ctc_align.config import Settings
from ctc_align.evaluate import read_intervals
from ctc_align.evaluate.pairing import pair_intervals
from ctc_align.types import HAND, AlignedWord, Alignment, Interval

FAR_S = 0.02


def labels_of(alignment: Alignment, reference: Path) -> dict[int, Interval]:
    """Return where people put the words of an alignment, by their places in the text."""
    places = [index for index, word in enumerate(alignment.words) if word.start_s is not None]
    ours = [_interval(alignment.words[index]) for index in places]
    theirs = [interval for interval in read_intervals(reference) if interval.label.strip()]
    at = {id(interval): index for interval, index in zip(ours, places)}
    pairs = pair_intervals(ours, theirs).pairs
    return {
        at[id(pair.hypothesis)]: pair.reference
        for pair in pairs
        if not pair.mismatch and id(pair.hypothesis) in at
    }


def _interval(word: AlignedWord) -> Interval:
    return Interval(word.start_s or 0.0, word.end_s or 0.0, word.text)


def corrected(
    alignment: Alignment, labels: dict[int, Interval], every: int
) -> tuple[Alignment, list[int]]:
    """Return the alignment with each `every`-th labelled word by hand, its tokens to be found, and
    which these are."""
    words, chosen = list(alignment.words), list(labels)[every // 2 :: every]
    for index in chosen:
        start_s, end_s = (
            round(labels[index].start_s, 5),
            min(round(labels[index].end_s, 5), alignment.duration_s),
        )
        words[index] = replace(
            words[index], start_s=start_s, end_s=end_s, tokens=(), confidence=None, by=HAND
        )
    return replace(alignment, words=tuple(words)), chosen


def errors_ms(word: AlignedWord, label: Interval) -> list[float]:
    return [
        1000 * abs((word.start_s or 0.0) - label.start_s),
        1000 * abs((word.end_s or 0.0) - label.end_s),
    ]


def rows(
    aligner: Aligner, folder: Path, most: int, every: int
) -> Iterator[tuple[str, list[float], list[float]]]:
    """Yield (group, errors before, errors after) of each word that was not corrected, for each
    group that it is in."""
    sounds = sorted((folder / "corpus").rglob("*.wav"))
    for audio in sounds[:: max(1, len(sounds) // most)]:
        name = audio.relative_to(folder / "corpus").with_suffix("")
        before = aligner.align(audio, audio.with_suffix(".txt").read_text("utf-8"))
        labels = labels_of(before, folder / "reference" / f"{name}.TextGrid")
        fixed, chosen = corrected(before, labels, every)
        after = aligner.realign(fixed)
        for index in chosen:
            assert (after.words[index].start_s, after.words[index].end_s) == (
                fixed.words[index].start_s,
                fixed.words[index].end_s,
            )
        far = {
            index
            for index in chosen
            if max(errors_ms(before.words[index], labels[index])) > 1000 * FAR_S
        }
        for index, label in labels.items():
            if index in chosen:
                continue
            both = errors_ms(before.words[index], label), errors_ms(after.words[index], label)
            yield "all others", *both
            if {index - 1, index + 1} & set(chosen):
                yield "beside a corrected word", *both
            if {index - 1, index + 1} & far:
                yield "beside one that was off", *both


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=GOLD)
    parser.add_argument("--utterances", type=int, default=20)
    parser.add_argument("--every", type=int, default=5)
    arguments = parser.parse_args()
    aligner = Aligner("english", settings=Settings(match="exact"))
    groups: dict[str, tuple[list[float], list[float]]] = {}
    for group, before, after in rows(
        aligner, arguments.folder, arguments.utterances, arguments.every
    ):
        groups.setdefault(group, ([], []))
        groups[group][0].extend(before)
        groups[group][1].extend(after)
    for group, (before, after) in groups.items():
        within = [100 * np.mean(np.array(one) <= 1000 * FAR_S) for one in (before, after)]
        print(
            f"{group:24} {len(before):5} edges: MAE {np.mean(before):5.2f} -> {np.mean(after):5.2f}"
            f" ms, within 20 ms {within[0]:.1f} -> {within[1]:.1f} %"
        )


if __name__ == "__main__":
    main()
