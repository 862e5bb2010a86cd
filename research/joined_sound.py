"""Texts of recordings that are clear at first and then hard to hear:

    python research/joined_sound.py [--group report] [--conditions radio,traffic-1,…]

Needs `../shared/data/english`. Each recording is nine sentences of a speaker, the first as it is,
the others under a condition of `spoiled_sound.py` at the level of the first, or `trafficN`: one
fixed band, clipped, with noise N dB below the speech. Its texts:

    right   all nine sentences
    half    the first, and eight that nobody speaks there
    mixed   two that nobody speaks there among the right ones, and one of these left out
    wrong   nine that nobody speaks there

The columns, in percent: of spoken words, those without times, those in their sentence to 0.3 s, and
those with a confidence above 0.5; of other words, those with times and those above 0.5; and
alignments whose `fit` is `none`. `exact` is the right text with `--match exact`, the bound. Every
second speaker was used to choose the constants of `ctc_align.alignment.presence`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import soundfile
from hard_sound import other_voice
from measuring import ENGLISH, manifest_rows, parser_of
from scipy.signal import butter, sosfilt

from ctc_align.alignment.aligner import Aligner
from ctc_align.config import Settings
from ctc_align.types import ALIGNED, NONE, UNSPOKEN, Alignment, Emissions
from spoiled_sound import RATE, spoil_by

CONDITIONS = "clean,crowd,room,telephone,radio,worse-radio,traffic2,traffic-1,traffic-4"
SENTENCES, SHORTEST_S, LONGEST_S, AROUND_S = 9, 3.5, 9.0, 0.3
BAND = butter(4, [400, 1900], "band", fs=RATE, output="sos")
Line = tuple[str, tuple[float, float] | None]
"""A sentence, and from when to when it is spoken; None for nowhere."""


@dataclass(frozen=True)
class Recording:
    """What a model hears, its sentences in order, and sentences that nobody speaks in it."""

    heard: Emissions
    spoken: list[Line]
    other: list[Line]

    def texts(self) -> dict[str, list[Line]]:
        """Return the texts by their names."""
        right, other = self.spoken, self.other
        mixed = [*right[:3], other[0], *right[3:5], *right[6:8], other[1], *right[8:]]
        return {"right": right, "half": [right[0], *other[1:]], "mixed": mixed, "wrong": other}


def clip_band(samples: np.ndarray, snr_db: float, rng: np.random.Generator) -> np.ndarray:
    """Return samples (N,) in one band, clipped, with noise."""
    speech = sosfilt(BAND, samples)
    speech = np.clip(6 * speech / np.abs(speech).max(), -0.5, 0.5)
    noise = sosfilt(BAND, rng.normal(size=len(samples)))
    return speech + noise * np.sqrt(np.mean(speech**2) / np.mean(noise**2) / 10 ** (snr_db / 10))


def rows_by_speaker() -> dict[str, list[dict]]:
    """Return the clips of each speaker that has enough of them."""
    rows: dict[str, list[dict]] = {}
    for row in manifest_rows(ENGLISH / "manifest.jsonl"):
        if row["split"] != "dev" and row["source"] != "ljspeech":
            continue
        if SHORTEST_S < row["duration_s"] < LONGEST_S and '"' not in row["text"]:
            rows.setdefault(row["speaker"], []).append(row)
    return {
        speaker: rows[speaker] for speaker in sorted(rows) if len(rows[speaker]) > SENTENCES + 1
    }


def make_recording(
    aligner: Aligner, rows: Sequence[dict], condition: str, rng: np.random.Generator
) -> Recording:
    """Return a recording of some clips of a speaker."""
    order = rng.permutation(len(rows))
    pieces, spoken = [], []
    at_s = 0.0
    for number, index in enumerate(order[:SENTENCES]):
        samples, _ = soundfile.read(ENGLISH / rows[index]["audio"])
        spoiled = samples
        if number and condition.startswith("traffic"):
            spoiled = clip_band(samples, float(condition.removeprefix("traffic")), rng)
        elif number:
            spoiled = np.asarray(spoil_by(condition, samples, rng, other_voice), np.float64)
        spoiled = spoiled * np.sqrt(np.mean(samples**2) / np.mean(spoiled**2))
        end_s = at_s + len(spoiled) / RATE
        spoken.append((rows[index]["text"], (at_s, end_s)))
        pieces.append(spoiled.astype(np.float32))
        at_s = end_s
    others = [rows[index]["text"] for index in order[SENTENCES:]]
    other: list[Line] = [(others[k % len(others)], None) for k in range(SENTENCES)]
    return Recording(aligner.emissions((np.concatenate(pieces), RATE)), spoken, other)


def count_words(alignment: Alignment, lines: Sequence[Line]) -> list[tuple[bool, bool, bool, bool]]:
    """Return of each word whether it is spoken, has times, is in its sentence, and is likely."""
    begins = np.cumsum([0, *(len(text) + 1 for text, _ in lines)])
    counted = []
    for word in alignment.words:
        if word.status == UNSPOKEN:
            continue
        place = lines[int(np.searchsorted(begins, word.char_start, "right")) - 1][1]
        has_times = word.status == ALIGNED
        inside = (
            has_times
            and place is not None
            and (word.start_s or 0.0) >= place[0] - AROUND_S
            and (word.end_s or 0.0) <= place[1] + AROUND_S
        )
        counted.append((place is not None, has_times, inside, (word.confidence or 0.0) > 0.5))
    return counted


def show(name: str, alignments: Sequence[Alignment], texts: Sequence[Sequence[Line]]) -> None:
    """Print the row of a text under a condition."""
    words = np.array(
        [row for one, lines in zip(alignments, texts) for row in count_words(one, lines)]
    )
    spoken, other = words[words[:, 0]], words[~words[:, 0]]
    cells = []
    if len(spoken):
        lost, inside, likely = 1 - spoken[:, 1].mean(), spoken[:, 2].mean(), spoken[:, 3].mean()
        cells = [100 * lost, 100 * inside, 100 * likely]
    placed = [100 * other[:, 1].mean(), 100 * other[:, 3].mean()] if len(other) else []
    none = 100 * np.mean([alignment.fit == NONE for alignment in alignments])
    left = " ".join(f"{cell:6.1f}" for cell in cells) or " " * 20
    right = " ".join(f"{cell:6.1f}" for cell in placed) or " " * 13
    print(f"{name:20} {len(spoken):6d} {left} {len(other):6d} {right} {none:6.0f}", flush=True)


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--group", default="report", choices=("choose", "report"))
    parser.add_argument("--conditions", default=CONDITIONS)
    given = parser.parse_args()
    found = Aligner("english", device="cpu")
    exact = Aligner("english", device="cpu", settings=Settings(match="exact"))
    speakers = list(rows_by_speaker().values())
    print(f"{'':20} spoken   lost inside likely  other placed likely   none")
    for number, condition in enumerate(given.conditions.split(",")):
        recordings = [
            make_recording(found, rows, condition, np.random.default_rng((place, number)))
            for place, rows in enumerate(speakers)
            if (place % 2 == 0) == (given.group == "choose")
        ]
        for name in ("right", "exact", "half", "mixed", "wrong"):
            texts = [
                recording.texts()["right" if name == "exact" else name] for recording in recordings
            ]
            pairs = [
                (recording.heard, "\n".join(text for text, _ in lines))
                for recording, lines in zip(recordings, texts)
            ]
            aligner = exact if name == "exact" else found
            show(f"{condition} {name}", aligner.align_batch(pairs), texts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
