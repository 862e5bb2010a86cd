"""The speech that inexact cases are made of: clips of the development speakers with the times of
their words.

A clip's times are those of its alignment alone with its own text (`match="exact"`); they are kept
in `.cache/` of the checkout for the next run, by the model's weights. Texts that nobody speaks are
those of the training speakers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from measuring import ENGLISH, ROOT, manifest_rows  # isort: skip
from inexact_scores import SPEECH, Stretch, TrueWord

from ctc_align.alignment.aligner import Aligner
from ctc_align.audio.loading import load_audio
from ctc_align.config import Settings
from synthetic_sounds import RATE, room_tone

PAUSE_S = (0.2, 0.7)
Line = tuple[TrueWord, ...]


@dataclass(frozen=True)
class Take:
    """What is heard in one go: samples, its words with their times in it, and the kind of sound."""

    samples: np.ndarray
    words: tuple[TrueWord, ...]
    speaker: str
    kind: str = SPEECH

    @property
    def duration_s(self) -> float:
        return len(self.samples) / RATE


@dataclass(frozen=True)
class Place:
    """Where a take lies: with the pauses before and after it in `outer_start_s`, `outer_end_s`."""

    take: Take
    start_s: float
    outer_start_s: float
    outer_end_s: float

    @property
    def words(self) -> Line:
        return tuple(word.moved(self.start_s) for word in self.take.words)

    @property
    def stretch(self) -> Stretch:
        """The take as something that no word of the text explains."""
        edges = [edge for word in self.words for place in word.places for edge in place]
        start_s, end_s = (
            (min(edges), max(edges))
            if edges
            else (self.start_s, self.start_s + self.take.duration_s)
        )
        return Stretch(self.take.kind, start_s, end_s, self.outer_start_s, self.outer_end_s)


def laid_out(takes: Sequence[Take], rng: np.random.Generator) -> tuple[np.ndarray, list[Place]]:
    """Return takes in a row as one recording with room tone between them, and their places."""
    parts, places, at, outer = [], [], 0, 0
    for take in takes:
        pause = room_tone(take.samples, rng.uniform(*PAUSE_S), rng)
        parts += [take.samples, pause]
        end = at + len(take.samples) + len(pause)
        places.append(Place(take, at / RATE, outer / RATE, end / RATE))
        outer, at = at + len(take.samples), end
    return np.concatenate(parts).astype(np.float32), places


@cache
def timed_takes(model: str = "english") -> dict[str, tuple[Take, ...]]:
    """Return the clips of each development speaker, in their order, with the times of their own
    alignments.

    Args:
        model: "english", or the folder of a model that `ctc-align train` wrote.
    """
    rows = sorted(manifest_rows(split="dev"), key=lambda row: row["audio"])
    folder = ROOT / "ctc_align" / "models" / "english" if model == "english" else Path(model)
    weights = sorted(folder.glob("*.safetensors"))
    names = [row["audio"] + row["text"] for row in rows]
    key = hashlib.sha256(
        b"".join(path.read_bytes() for path in weights) + "".join(names).encode()
    ).hexdigest()[:16]
    path = ROOT / ".cache" / f"inexact-times-{key}.json"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps([_times(model, row) for row in rows]), "utf-8")
    found: dict[str, list[Take]] = {}
    for row, times in zip(rows, json.loads(path.read_text("utf-8"))):
        words = [
            TrueWord(word, ((start_s, end_s),))
            for word, (start_s, end_s) in zip(_written(row["text"]).split(), times)
        ]
        samples = load_audio(str(ENGLISH / row["audio"]), RATE).samples
        found.setdefault(row["speaker"], []).append(Take(samples, tuple(words), row["speaker"]))
    return {speaker: tuple(takes) for speaker, takes in found.items()}


@cache
def _aligner(model: str) -> Aligner:
    return Aligner(model, device="cpu", settings=Settings(match="exact"))


def _times(model: str, row: dict[str, str]) -> list[tuple[float, float]]:
    """Return (start_s, end_s) of each word of a clip."""
    text = _written(row["text"])
    words = _aligner(model).align(str(ENGLISH / row["audio"]), text).words
    assert [word.text for word in words] == text.split()
    assert all(word.start_s is not None for word in words)
    return [(word.start_s or 0.0, word.end_s or 0.0) for word in words]


@cache
def unheard_lines() -> tuple[Line, ...]:
    """Return lines of training speakers, as words that are not spoken."""
    rows = [row for row in manifest_rows() if row["source"] == "libri_train_clean_5"]
    return tuple(tuple(TrueWord(word) for word in _written(row["text"]).split()) for row in rows)


def _written(text: str) -> str:
    """Return an upper-case text as a sentence.

    >>> _written("I THINK SO AM I")
    'I think so am I.'
    """
    words = [
        word if word == "I" or word.startswith("I'") else word.lower() for word in text.split()
    ]
    words[0] = words[0][0].upper() + words[0][1:]
    return " ".join(words) + "."
