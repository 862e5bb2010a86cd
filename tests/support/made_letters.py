"""A corpus of tones by letters, in no language: every letter is a chord of its own, edges known to the sample."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

RATE = 16000
LETTERS = "aeiolmnsté"
WORDS = ("Salé", "mola", "tési", "nolé", "Ilam", "soti", "léna", "estom", "amé", "onal")


@dataclass(frozen=True)
class Said:
    """One utterance: its words, and first and last (exclusive) sample of each letter."""

    path: Path
    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]


def make_letters(
    folder: Path,
    utterances: int = 40,
    seed: int = 0,
    speakers: Sequence[str] = ("tones",),
    pitch: float = 1.0,
    noise: float = 0.0005,
) -> list[Said]:
    """Wav files and `manifest.jsonl` under `folder`; texts have three words, letters last 0.07 to 0.14 s.

    `pitch` moves all tones up, `noise` is the level of the hiss below them.
    """
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    said, lines = [], []
    for i in range(utterances):
        words = [str(word) for word in random.choice(WORDS, 3)]
        text = f"{words[0]}, {words[1]} – {words[2]}!"
        one, sound = _say(folder / f"u{i:03}.wav", words, text, random, pitch)
        sound = sound + noise * random.standard_normal(len(sound))
        soundfile.write(one.path, sound, RATE, subtype="PCM_16")
        lines.append(json.dumps({"audio": one.path.name, "text": text, "speaker": speakers[i % len(speakers)]}))
        said.append(one)
    (folder / "manifest.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return said


def _say(
    path: Path, words: Sequence[str], text: str, random: np.random.Generator, pitch: float
) -> tuple[Said, np.ndarray]:
    pieces = [np.zeros(int(random.integers(1600, 3200)))]
    starts, ends = [], []
    for word in words:
        for letter in word.lower():
            starts.append(sum(map(len, pieces)))
            pieces.append(_chord(LETTERS.index(letter), int(random.integers(1100, 2200)), pitch))
            ends.append(sum(map(len, pieces)))
        pieces.append(np.zeros(int(random.integers(1600, 3200))))
    return Said(path, text, tuple(starts), tuple(ends)), np.concatenate(pieces)


def _chord(letter: int, samples: int, pitch: float) -> np.ndarray:
    t = np.arange(samples) / RATE
    low, high = pitch * 250.0 * 1.25**letter, pitch * 3000.0 / 1.1 ** ((letter * 7) % 10)
    return 0.15 * np.sin(2 * np.pi * low * t) + 0.1 * np.sin(2 * np.pi * high * t)
