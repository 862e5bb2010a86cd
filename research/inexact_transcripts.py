"""Recordings and transcripts that are not exact: how many words are in place, and which of the
others are reported.

    python research/inexact_transcripts.py [--kinds both,jump] [--group report] [--seeds
        1-3] [--minutes 20] [--match auto] [--music FOLDER] [--emissions-cache FOLDER] [--model
        FOLDER] [--without-states]

Needs `../shared/data/english`; `inexact_cases.py` says how cases are made, and of whom. A row is a
kind of case, summed over the seeds, in percent:

    <100ms, <300ms   spoken words with both edges so near to where they are
    gross, sure      spoken words with an edge more than 2 s off; and that with a confidence of 0.5 or more
    lost, skipped    spoken words without times; words that are not spoken, marked as skipped
    found, true      speech that is not in the text and was reported, by time; what is so reported and is so
    music s          seconds of music that were reported as speech, the most of a recording
    cues             cues whose new start is within 300 ms of their first word
    whole            paragraphs read twice that were found in one of their readings alone
    cpu              processor seconds of the alignment (without the model), and how many times those of `exact`

`--model FOLDER` of a model with letters for tokens, which `ctc-align train` makes of some hours
without a lexicon, is measured against its own alignments of the single clips; `--letters` takes
made log-probs (`inexact_letters.py`).

Music: `--music FOLDER` of recordings (any format); without it music is made by rules, and figures
of it say little. Used here, and not kept with the project: for choosing, songs of Jonathan Coulton
(voice, guitar, drums; CC BY-NC)
from the repository UltraStar-Deluxe/songs, `The Ballroom` and `The Exercise Room` (public domain)
and two pieces of `Health and Safety` from beat-feet/beat-feet, `Vibe Ace` (CC BY) from
librosa/data. For reporting, songs of Dead
Smiling Pirates, Fairy Bot Orchestra, Joshua Morin, Pornophonique and Steven Dunston (CC licences)
from UltraStar-Deluxe/songs, `Let's Go Fishin'` by Karissa Hobbs (CC BY) and Brahms' Hungarian Dance
5 by the US Army
Strings (public domain) from librosa/data, `The Courtyard` and `The Laundry Room` (public domain)
and Vivaldi's Spring (CC BY-SA) from beat-feet/beat-feet. A sung recording in the public domain or
under CC0 is not among them.
"""

from __future__ import annotations

import hashlib
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from measuring import parser_of  # isort: skip
from inexact_cases import GROUPS, KINDS, case_of
from inexact_letters import made_letters
from inexact_scores import Case, Scores, score

from ctc_align.alignment.aligner import Aligner
from ctc_align.audio.loading import load_audio
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError
from ctc_align.files.subtitles import parse_subtitles, source_srt
from ctc_align.types import Alignment, Emissions, Transcript


@dataclass
class Runner:
    """Aligns cases, with the model's emissions from a folder where they are there already."""

    model: str = "english"
    match: str = "auto"
    folder: Path | None = None
    states: bool = True
    """Keep the model's second output; without it edges are those of CTC, which the truth's are
    not."""
    letters: bool = False

    def __post_init__(self) -> None:
        self.aligner = Aligner(self.model, device="cpu", settings=Settings(match=self.match))
        self.exact = Aligner(None, settings=Settings(match="exact"))

    def emissions(self, case: Case) -> Emissions:
        """Return the emissions of a case's recording, read from the folder or computed and written
        there."""
        emissions = self._emissions(case)
        return emissions if self.states else replace(emissions, states=None)

    def _emissions(self, case: Case) -> Emissions:
        if self.letters:
            return made_letters(case)
        if self.folder is None:
            return self.aligner.emissions((case.samples, 16000))
        name = hashlib.sha256(case.samples.tobytes() + self.model.encode()).hexdigest()[:16]
        path = self.folder / f"{case.kind}-{case.seed}-{name}.pt"
        if path.exists():
            return Emissions(**torch.load(path))
        emissions = self.aligner.emissions((case.samples, 16000))
        path.parent.mkdir(parents=True, exist_ok=True)
        # torch.load reads tensors and plain values only
        fields = {name: getattr(emissions, name) for name in emissions.__dataclass_fields__}
        plain = (torch.Tensor, int, float, str, tuple)
        torch.save(
            {name: value for name, value in fields.items() if isinstance(value, plain)}, path
        )
        return emissions

    def align(self, case: Case) -> tuple[Alignment, float]:
        """Return the alignment of a case, and the processor seconds that it took without the
        model."""
        emissions, text = self.emissions(case), text_of(case)
        began = time.process_time()
        alignment = self.aligner.align(emissions, text)
        return alignment, time.process_time() - began

    def exact_cpu_s(self, case: Case) -> float:
        """Return the processor seconds of the exact alignment; NaN where it is refused."""
        emissions = self.emissions(case)
        began = time.process_time()
        try:
            self.exact.align(emissions, text_of(case))
        except CtcAlignError:
            return float("nan")
        return time.process_time() - began


def text_of(case: Case) -> Transcript:
    """Return the transcript of a case as a file of it would be read."""
    return parse_subtitles(case.text, "case.srt") if case.cues else Transcript(case.text)


def cue_starts_s(alignment: Alignment) -> list[float]:
    """Return the new starts of the cues of an alignment of subtitles."""
    if alignment.subtitles is None:
        return []
    subtitles = parse_subtitles(source_srt(alignment), "new.srt").subtitles
    return [cue.start_s for cue in subtitles.cues] if subtitles else []


def music_of(folder: str | None) -> list[np.ndarray]:
    """Return the recordings of a folder, (N,) float32 at 16 kHz."""
    return (
        [load_audio(str(path), 16000).samples for path in sorted(Path(folder).iterdir())]
        if folder
        else []
    )


def row(name: str, scores: Scores, cpu_s: float, exact_s: float) -> str:
    """Return a line of the table."""
    shares = " ".join(
        f"{'-' if np.isnan(x) else format(x, '.2f'):>7s}" for x in scores.shares().values()
    )
    return (
        f"{name:14s} {scores.spoken:6d} {scores.unspoken:6d} {shares} {cpu_s:6.1f}"
        f" {cpu_s / max(exact_s, 1e-9):5.2f}"
    )


def heading() -> str:
    """Return the line above the table."""
    return (
        f"{'kind':14s} {'spoken':>6s} {'not':>6s} "
        + " ".join(f"{n:>7s}" for n in Scores().shares())
        + "  cpu s     ×"
    )


def seeds_of(given: str) -> Iterator[int]:
    """Yield the numbers of a list of numbers and ranges ("1,4-6")."""
    for part in given.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--group", default="choose", choices=(*GROUPS, "all"))
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument(
        "--model", default="english", help="or the folder of one that was trained (letters)"
    )
    parser.add_argument(
        "--letters", action="store_true", help="made log-probs of letters instead of the model's"
    )
    parser.add_argument("--music", help="folder of recordings of music")
    parser.add_argument("--emissions-cache", type=Path, help="folder for the model's emissions")
    parser.add_argument("--match", default="auto")
    parser.add_argument(
        "--without-states", action="store_true", help="log-probs alone, as of other models"
    )
    parser.add_argument(
        "--without-exact", action="store_true", help="do not align by exact for the processor time"
    )
    given = parser.parse_args()
    torch.set_num_threads(1)
    runner = Runner(
        given.model, given.match, given.emissions_cache, not given.without_states, given.letters
    )
    music = music_of(given.music)
    print(
        f"group {given.group}, seeds {given.seeds}, {given.minutes:g} minutes, match {given.match},"
        f" {given.model}"
    )
    print(heading(), flush=True)
    for kind in given.kinds.split(","):
        scores, cpu_s, exact_s = Scores(), 0.0, 0.0
        for seed in seeds_of(given.seeds):
            case = case_of(kind, seed, given.group, given.minutes, music, given.model)
            try:
                alignment, took_s = runner.align(case)
            except CtcAlignError as error:
                print(f"{kind} {seed}: {error}", flush=True)
                continue
            scores.add(score(case, alignment, cue_starts_s(alignment)))
            cpu_s += took_s
            exact_s += float("nan") if given.without_exact else runner.exact_cpu_s(case)
        print(row(kind, scores, cpu_s, exact_s), flush=True)
    print(f"peak memory of all: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
