"""Lines and words of songs with hand times: those without times, and the onsets of the others.

    python research/songs.py FOLDER [--match auto,exact] [--model NAME] [--details]

FOLDER is laid out as the public repository f90/jamendolyrics, of which it may hold a few songs:
`JamendoLyrics.csv` names them (`Filepath`, `Language`), `mp3/` has the sound, `lyrics/NAME.txt` the
lines, `lyrics/NAME.words.txt` a word on each line, and `annotations/words/NAME.csv` the start of
each word in seconds. Their licences forbid passing them on. English songs are aligned with the
model `english`, others with `universal`, if `--model` names none.

For each song and for all, with words that begin at their first sound, as in JSON, and at their
first vowel, as in LRC and ASS: how many lines and words there are, the percentage without times,
the median of onset minus hand onset (negative: early) in ms, and the percentage of the onsets
within 0.1 and 0.3 s, of those that have times, and within 0.3 s of all. A line begins with its
first word that has a time; a line without such a word is lost. `--details` adds, of the words of
all songs that have times: words by the number of consonants before the first vowel, and words by
confidence.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from measuring import parser_of

import ctc_align
from ctc_align.files.cues import starting_at_vowels
from ctc_align.text.phone_sets import is_vowel
from ctc_align.types import AlignedWord, Alignment

NEAREST_S, NEAR_S = 0.1, 0.3
CODES = {"English": "en", "French": "fr", "German": "de", "Spanish": "es"}


@dataclass
class Song:
    """A song, its words by hand, and the places of these words in its text."""

    name: str
    audio: Path
    language: str
    text: str
    places: list[tuple[int, int]]
    onsets_s: list[float]


@dataclass
class Onsets:
    """Signed distances in seconds from the hand onsets; None for what has no time.

    `timed` has the words that have times, each with its hand onset.
    """

    words: list[float | None] = field(default_factory=list)
    lines: list[float | None] = field(default_factory=list)
    timed: list[tuple[AlignedWord, float]] = field(default_factory=list)

    def extend(self, other: Onsets) -> None:
        self.words += other.words
        self.lines += other.lines
        self.timed += other.timed


def read_songs(folder: Path) -> Iterable[Song]:
    """Yield the songs of a folder that its table names and whose sound is there."""
    with (folder / "JamendoLyrics.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        audio = folder / "mp3" / row["Filepath"]
        if audio.exists():
            yield read_song(folder, audio, CODES[row["Language"]])


def read_song(folder: Path, audio: Path, language: str) -> Song:
    """Return a song with the place in its text of each word that has a hand time."""
    text = (folder / "lyrics" / f"{audio.stem}.txt").read_text("utf-8")
    words = (folder / "lyrics" / f"{audio.stem}.words.txt").read_text("utf-8").split("\n")
    with (folder / "annotations" / "words" / f"{audio.stem}.csv").open(encoding="utf-8") as file:
        onsets_s = [float(row["word_start"]) for row in csv.DictReader(file)]
    places = []
    end = 0
    for word in filter(None, map(str.strip, words)):
        start = text.index(word, end)
        end = start + len(word)
        places.append((start, end))
    if len(places) != len(onsets_s):
        raise SystemExit(f"{audio.stem}: {len(places)} words, but {len(onsets_s)} times")
    return Song(audio.stem, audio, language, text, places, onsets_s)


def align_song(song: Song, match: str, model: str | None) -> Alignment:
    """Return the alignment of a song."""
    chosen = model or ("english" if song.language == "en" else "universal")
    aligner = ctc_align.Aligner(
        chosen, device="cpu", settings=ctc_align.Settings(language=song.language, match=match)
    )
    return aligner.align(str(song.audio), song.text)


def measure_onsets(song: Song, words: Sequence[AlignedWord]) -> Onsets:
    """Return the distances of the words and lines of a song from those by hand."""
    found = Onsets()
    heard = {word.char_start: word for word in words if word.start_s is not None}
    lines: dict[int, list[int]] = {}
    starts_s: list[float | None] = []
    for number, ((start, end), by_hand_s) in enumerate(zip(song.places, song.onsets_s)):
        word = next((heard[at] for at in range(start, end) if at in heard), None)
        starts_s.append(None if word is None else word.start_s)
        lines.setdefault(song.text.count("\n", 0, start), []).append(number)
        if word is not None:
            found.timed.append((word, by_hand_s))
    for start_s, by_hand_s in zip(starts_s, song.onsets_s):
        found.words.append(None if start_s is None else start_s - by_hand_s)
    for numbers in lines.values():
        first_s = next((starts_s[n] for n in numbers if starts_s[n] is not None), None)
        found.lines.append(None if first_s is None else first_s - song.onsets_s[numbers[0]])
    return found


def print_onsets(name: str, match: str, at: str, found: Onsets) -> None:
    """Print rows of the lines and of the words that begin `at` their first sound or vowel."""
    print(row_of(name, match, f"lines, {at}", found.lines))
    print(row_of(name, match, f"words, {at}", found.words), flush=True)


def print_details(match: str, at: str, found: Onsets) -> None:
    """Print rows of the words that have times: by first consonants, and by confidence."""
    by_onset: dict[int, list[float]] = {0: [], 1: [], 2: [], 3: []}
    by_confidence: dict[float, list[float]] = {least: [] for least in (0.9, 0.5, 0.1, 0.0)}
    for word, by_hand_s in found.timed:
        distance_s = (word.start_s or 0.0) - by_hand_s
        least = next(least for least in by_confidence if (word.confidence or 0.0) >= least)
        by_confidence[least].append(distance_s)
        for before, token in enumerate(word.tokens):
            if is_vowel(token.token):
                by_onset[min(before, 3)].append(distance_s)
                break
    for before, distances_s in by_onset.items():
        print(row_of(f"{before} consonants before it", match, f"words, {at}", distances_s))
    for least, distances_s in by_confidence.items():
        print(row_of(f"confidence from {least:g}", match, f"words, {at}", distances_s))


def row_of(name: str, match: str, kind: str, distances_s: Sequence[float | None]) -> str:
    """Return a line of the table."""
    timed = np.array([each for each in distances_s if each is not None])
    nearest, near = (int(np.sum(np.abs(timed) <= most_s)) for most_s in (NEAREST_S, NEAR_S))
    lost = 100 * (1 - len(timed) / max(len(distances_s), 1))
    bias_ms = 1000 * float(np.median(timed)) if len(timed) else float("nan")
    percent = 100 / max(len(timed), 1)
    of_all = 100 * near / max(len(distances_s), 1)
    return (
        f"{name[:24]:24s} {match:6s} {kind:13s} {len(distances_s):5d} {lost:6.1f} {bias_ms:8.0f}"
        f" {percent * nearest:8.1f} {percent * near:8.1f} {of_all:8.1f}"
    )


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--match", default="auto,exact")
    parser.add_argument("--model", help="by the language of a song, if not given")
    parser.add_argument("--details", action="store_true")
    given = parser.parse_args()
    songs = list(read_songs(given.folder))
    print(
        f"{'song':24s} {'match':6s} {'':13s} {'count':>5s} {'lost %':>6s} {'bias ms':>8s}"
        f" {'0.1 s':>8s} {'0.3 s':>8s} {'of all':>8s}"
    )
    for match in given.match.split(","):
        together = {"sound": Onsets(), "vowel": Onsets()}
        for song in songs:
            alignment = align_song(song, match, given.model)
            for at, words in (
                ("sound", alignment.words),
                ("vowel", starting_at_vowels(alignment).words),
            ):
                found = measure_onsets(song, words)
                print_onsets(song.name, match, at, found)
                together[at].extend(found)
        for at, onsets in together.items():
            print_onsets("all", match, at, onsets)
            if given.details:
                print_details(match, at, onsets)
    return 0


if __name__ == "__main__":
    sys.exit(main())
