"""How well two languages in one text are aligned, if both are given:

    python research/mixed_languages.py [--group report] [--change 4] [--each 8]

Needs `../shared/data/languages` and `../shared/data/english`. Clips of two languages are joined,
other speakers in each, and so are their texts; the alignment of each clip alone, in its language, is
the reference. `exchanged` are clips in which every fourth word is one of a clip in the other
language, cut at its reference edges. `alone` are single clips.

The text is aligned in the first language only (`first`), in the second (`second`), in both in
either order (`both`, `swapped`), and with each word marked as its right language (`marked`); all by
the model `universal`. Columns: mean difference of word edges from the reference in ms, edges within
50 ms, words of the reference that are lost, and words whose language is right, in percent.

The pairs of the group `choice` chose `LANGUAGE_CHANGE`; those of `report` are of other languages
and other speakers.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from measuring import DATA, ENGLISH, manifest_rows, parser_of

from ctc_align.alignment import pronunciations
from ctc_align.alignment.aligner import Aligner
from ctc_align.audio.loading import load_audio
from ctc_align.config import Settings
from ctc_align.types import ALIGNED, AlignedWord, LanguageSpan, Transcript

RATE = 16000
GROUPS = {"choice": ("de", "fr", "it"), "report": ("en", "es", "pt", "tr")}
NEAR_MS = 50
EVERY = 4


@dataclass(frozen=True)
class LanguageClip:
    """A clip, and the words of its alignment in its language."""

    samples: np.ndarray
    text: str
    language: str
    words: Sequence[AlignedWord]


@dataclass(frozen=True)
class Reference:
    """A word of a text: its text, language, and times (None if it is not aligned)."""

    text: str
    language: str
    start_s: float | None
    end_s: float | None


@dataclass(frozen=True)
class Mixed:
    """A recording, and its words in order."""

    samples: np.ndarray
    words: Sequence[Reference]

    def transcript(self, marked: bool) -> Transcript:
        """Return the text, with each word marked as its language if `marked`."""
        spans = []
        at = 0
        for word in self.words:
            spans.append(LanguageSpan(at, at + len(word.text), word.language))
            at += len(word.text) + 1
        text = " ".join(word.text for word in self.words)
        return Transcript(text, languages=tuple(spans) if marked else ())


def references(clip: LanguageClip, shift_s: float = 0.0) -> Iterator[Reference]:
    """Yield the words of a clip, later by `shift_s`."""
    for word in clip.words:
        if word.status == ALIGNED:
            times = (word.start_s + shift_s, word.end_s + shift_s)
        else:
            times = (None, None)
        yield Reference(word.text, clip.language, *times)


def join(first: LanguageClip, second: LanguageClip) -> Mixed:
    """Return two clips, one after the other."""
    shift_s = len(first.samples) / RATE
    samples = np.concatenate((first.samples, second.samples))
    return Mixed(samples, [*references(first), *references(second, shift_s)])


def exchange(into: LanguageClip, source: LanguageClip) -> Mixed:
    """Return a clip in which every fourth word is one of another clip."""
    given = [word for word in source.words if word.status == ALIGNED and len(word.text) > 3]
    samples: list[np.ndarray] = []
    words: list[Reference] = []
    last = 0
    shift = 0
    for number, word in enumerate(into.words):
        if word.status != ALIGNED:
            words.append(Reference(word.text, into.language, None, None))
            continue
        start, end = round(word.start_s * RATE), round(word.end_s * RATE)
        if number % EVERY == 2 and given:
            new = given.pop(0)
            sound = source.samples[round(new.start_s * RATE) : round(new.end_s * RATE)]
            samples += [into.samples[last:start], sound]
            begin_s = (start + shift) / RATE
            shift += len(sound) - (end - start)
            last = end
            words.append(Reference(new.text, source.language, begin_s, begin_s + len(sound) / RATE))
        else:
            words.append(
                Reference(word.text, into.language, (start + shift) / RATE, (end + shift) / RATE)
            )
    samples.append(into.samples[last:])
    return Mixed(np.concatenate(samples), words)


def read_clips(aligner: Aligner, language: str, each: int) -> list[LanguageClip]:
    """Return clips of a language, aligned alone."""
    folder = ENGLISH if language == "en" else DATA / "languages"
    rows = [
        row
        for row in manifest_rows(folder / "manifest.jsonl")
        if (language == "en" and row["split"] != "train" and row["duration_s"] < 8)
        or (row["language"] == language and row["source"].startswith("commonvoice"))
    ]
    if language == "en":
        rows = rows[:: len(rows) // each]
    clips = []
    for row in rows[:each]:
        audio = load_audio(folder / row["audio"], RATE)
        text = row["text"].lower() if row["text"].isupper() else row["text"]
        found = aligner.align(audio, Transcript(text, language=language))
        clips.append(LanguageClip(np.asarray(audio.samples), text, language, found.words))
    return clips


class EdgeCounts:
    """Counts of words and edges under one condition."""

    def __init__(self) -> None:
        self.off_ms: list[float] = []
        self.lost = 0
        self.words = 0
        self.right = 0
        self.named = 0

    def add(self, mixed: Mixed, found: Sequence[AlignedWord]) -> None:
        """Count the words of an alignment."""
        spans = {word.char_start: word for word in found}
        at = 0
        for word in mixed.words:
            got = spans.get(at)
            at += len(word.text) + 1
            if word.start_s is None:
                continue
            self.words += 1
            if got is None or got.status != ALIGNED:
                self.lost += 1
                continue
            edges = (got.start_s - word.start_s, got.end_s - word.end_s)
            self.off_ms += [1000 * abs(off) for off in edges]
            if got.language:
                self.named += 1
                self.right += got.language == word.language

    def row(self) -> str:
        """Return the figures."""
        off = np.asarray(self.off_ms)
        right = f"{100 * self.right / self.named:8.1f}" if self.named else "       –"
        near = 100 * np.mean(off < NEAR_MS)
        lost = 100 * self.lost / self.words
        return f"{off.mean():8.1f} {near:8.1f} {lost:8.2f} {right} {self.words:8d}"


def main(group: str, each: int) -> None:
    """Print a table for a group of languages."""
    aligner = Aligner("universal", settings=Settings(language="de"))
    clips = {code: read_clips(aligner, code, each) for code in GROUPS[group]}
    counts: dict[tuple[str, str], EdgeCounts] = defaultdict(EdgeCounts)
    for first, second in permutations(GROUPS[group], 2):
        for own, other in zip(clips[first], clips[second][::-1]):
            alone = Mixed(own.samples, list(references(own)))
            made = {"joined": join(own, other), "exchanged": exchange(own, other), "alone": alone}
            for name, mixed in made.items():
                heard = aligner.emissions((mixed.samples, RATE))
                given = {"first": first, "second": second, "both": f"{first},{second}"}
                given |= {"swapped": f"{second},{first}", "marked": first}
                for condition, language in given.items():
                    transcript = mixed.transcript(condition == "marked")
                    transcript = Transcript(
                        transcript.text, language=language, languages=transcript.languages
                    )
                    found = aligner.align(heard, transcript)
                    counts[name, condition].add(mixed, found.words)
    print("                        ms   ≤50 ms     lost language    words")
    for (name, condition), of_condition in counts.items():
        print(f"{name:10} {condition:8} {of_condition.row()}")


if __name__ == "__main__":
    parser = parser_of(__doc__)
    parser.add_argument("--group", choices=GROUPS, default="choice")
    parser.add_argument("--change", type=float, default=pronunciations.LANGUAGE_CHANGE)
    parser.add_argument("--each", type=int, default=8)
    options = parser.parse_args(sys.argv[1:])
    pronunciations.LANGUAGE_CHANGE = options.change
    main(options.group, options.each)
