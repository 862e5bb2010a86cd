"""A corpus of tones: every phone is a chord of its own, so that its edges are known to the sample."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from ctc_align.corpus.sources import open_source
from ctc_align.corpus.utterance import Utterance
from ctc_align.text import split
from ctc_align.text.phone_sets import ARPABET_PHONES
from ctc_align.tokens.phones import PhoneTokenizer
from ctc_align.tokens.tokenizer import tokenize
from ctc_align.training import Watch

RATE = 16000
WORDS = ("see", "cat", "dog", "no", "fish", "bee", "sun", "tea", "map", "go")


@dataclass(frozen=True)
class Made:
    """One utterance: its text, and the sample where each phone starts and ends, in order."""

    path: Path
    text: str
    phones: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]


def make_corpus(folder: Path, utterances: int = 24, dev: int = 4, seed: int = 0, slow: int = 1) -> list[Made]:
    """Wav files and `manifest.jsonl` under `folder`, and `dev.jsonl`, to which the last `dev` utterances go.

    Phones last 0.07 to 0.14 s, times `slow`; texts have three words.
    """
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    made, lines = [], []
    for i in range(utterances):
        text = " ".join(random.choice(WORDS, 3))
        one, sound = _say(folder / f"u{i:03}.wav", text, slow, random)
        soundfile.write(one.path, sound, RATE, subtype="PCM_16")
        row = {"audio": one.path.name, "text": text, "duration_s": len(sound) / RATE, "speaker": "tones"}
        lines.append(json.dumps(row))
        made.append(one)
    for name, part in (("manifest", lines[: utterances - dev]), ("dev", lines[utterances - dev :])):
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in part), "utf-8")
    return made


def _say(path: Path, text: str, slow: int, random: np.random.Generator) -> tuple[Made, np.ndarray]:
    pieces: list[np.ndarray] = [_hush(random)]
    phones: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    for word in tokenize(split(text), PhoneTokenizer(("<blank>", *ARPABET_PHONES))):
        for token in word.pronunciations[0].ids:
            starts.append(sum(map(len, pieces)))
            pieces.append(_chord(token - 1, slow * int(random.integers(1100, 2200)), random))
            ends.append(sum(map(len, pieces)))
            phones.append(token - 1)
        pieces.append(_hush(random))
    return Made(path, text, tuple(phones), tuple(starts), tuple(ends)), np.concatenate(pieces)


def _chord(phone: int, samples: int, random: np.random.Generator) -> np.ndarray:
    t = np.arange(samples) / RATE
    low, high = 200.0 * 1.09**phone, 7000.0 / 1.07 ** ((phone * 17) % 39)
    tones = np.sin(2 * np.pi * low * t) + 0.7 * np.sin(2 * np.pi * high * t)
    return 0.2 * tones + _noise(samples, random)


def _hush(random: np.random.Generator) -> np.ndarray:
    return _noise(int(random.integers(1600, 3200)), random)


def _noise(samples: int, random: np.random.Generator) -> np.ndarray:
    return 0.0005 * random.standard_normal(samples)


def utterances_of(folder: Path) -> list[Utterance]:
    """What the corpus's manifest holds."""
    return [one for one in open_source(folder / "manifest.jsonl") if isinstance(one, Utterance)]


class Lines(Watch):
    """A training's `Watch` that keeps what it hears."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.stages: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def progress(self, stage: str, share: float, line: str = "") -> None:
        assert 0.0 <= share <= 1.0
        self.stages.append(stage)


def frames(samples: Sequence[int]) -> np.ndarray:
    """The frame edge nearest to each sample."""
    return np.round(np.asarray(samples) / 160).astype(int)
