"""How well speech that no word explains is told from music and silence, where every word of the text is in place.

    python tests/benchmarks/sound_kinds_study.py [--group report] [--seeds 1-2] [--minutes 20] [--music FOLDER]

The cases are those of `inexact_transcripts.py`. In the place of an alignment stand the words where they are spoken:
what is measured is the detector (`ctc_align.alignment.fit`), not the search. Speech that is not in the text:
seconds, and percent found; percent of what is reported as speech that is, and seconds that are not; the most seconds
of music of a recording that are so reported.
"""

from __future__ import annotations

import sys

import torch

import measuring  # noqa: F401  # isort: skip (it adds tests/support and tools to the path)
from inexact_cases import case_of
from inexact_scores import Case, Scores, score
from inexact_transcripts import Runner, case_options, music_of, seeds_of

from ctc_align.alignment.fit import unexplained_sounds
from ctc_align.files import Alignment
from ctc_align.types import ALIGNED, SKIPPED, UNEXPLAINED, AlignedWord, Emissions, Region

KINDS = ("clean", "clips_missing", "jump", "front_matter", "runs", "loose", "music", "read_twice")


def true_alignment(case: Case, emissions: Emissions) -> Alignment:
    """Return the words of a case where they are spoken, and what is found around them.

    Args:
        case: with its truth.
        emissions: of its recording.
    """
    words, place, free_s = [], 0, 0.0
    for true in case.words:
        start = case.text.index(true.text, place)
        place = start + len(true.text)
        if true.places and true.places[0][0] >= free_s:
            start_s, end_s = true.places[0]
            free_s = start_s
            words.append(AlignedWord(true.text, true.text, start, place, ALIGNED, start_s, end_s, 0.9))
        else:
            words.append(AlignedWord(true.text, true.text, start, place, SKIPPED))
    found = unexplained_sounds(emissions, words)
    regions = tuple(Region(UNEXPLAINED, start_s, end_s, reason=kind) for start_s, end_s, kind in found)
    return Alignment(
        utterance=case.kind,
        audio="",
        duration_s=case.duration_s,
        model="",
        backend="",
        frame_shift_s=emissions.frame_shift_s,
        loss=0.0,
        score=0.0,
        text=case.text,
        words=tuple(words),
        regions=regions,
    )


def main() -> int:
    parser = case_options(__doc__, KINDS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    runner = Runner(given.model, "exact", given.emissions_cache, letters=given.letters)
    music = music_of(given.music)
    print(f"{'kind':14s} {'speech s':>8s} {'found':>7s} {'true':>7s} {'wrong s':>8s} {'music s':>8s}")
    for kind in given.kinds.split(","):
        total = Scores()
        for seed in seeds_of(given.seeds):
            case = case_of(kind, seed, given.group, given.minutes, music, given.model)
            total.add(score(case, true_alignment(case, runner.emissions(case))))
        shares = total.shares()
        print(
            f"{kind:14s} {total.foreign_s:8.1f} {shares['found']:7.1f} {shares['true']:7.1f} "
            f"{total.reported_s - total.reported_true_s:8.1f} {total.most_music_s:8.1f}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
