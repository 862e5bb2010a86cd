"""Corpora of tones: every phone, or letter in no language, is a chord, so that its edges are known
to the sample."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from ctc_align.sources import open_source
from ctc_align.sources.utterance import Utterance
from ctc_align.text import split
from ctc_align.text.phone_sets import ARPABET_PHONES
from ctc_align.tokens.phones import PhoneTokenizer
from ctc_align.tokens.tokenizer import tokenize
from ctc_align.training import Watch

RATE = 16000
WORDS = ("see", "cat", "dog", "no", "fish", "bee", "sun", "tea", "map", "go")
LETTERS = "aeiolmnsté"
LETTER_WORDS = ("Salé", "mola", "tési", "nolé", "Ilam", "soti", "léna", "estom", "amé", "onal")


@dataclass(frozen=True)
class Made:
    """One utterance: its text, its phones or letters, and the sample where each starts and ends, in
    order."""

    path: Path
    text: str
    phones: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]


def make_corpus(
    folder: Path, utterances: int = 24, dev: int = 4, seed: int = 0, slow: int = 1
) -> list[Made]:
    """Wav files and `manifest.jsonl` under `folder`, and `dev.jsonl`, to which the last `dev`
    utterances go.

    Phones last 0.07 to 0.14 s, times `slow`; texts have three words.
    """
    random, tokenizer = np.random.default_rng(seed), PhoneTokenizer(("<blank>", *ARPABET_PHONES))

    def noise(samples: int) -> np.ndarray:
        return 0.0005 * random.standard_normal(samples)

    def chord(phone: int) -> np.ndarray:
        t = np.arange(slow * int(random.integers(1100, 2200))) / RATE
        low, high = 200.0 * 1.09**phone, 7000.0 / 1.07 ** ((phone * 17) % 39)
        return 0.2 * (np.sin(2 * np.pi * low * t) + 0.7 * np.sin(2 * np.pi * high * t)) + noise(
            len(t)
        )

    folder.mkdir(parents=True, exist_ok=True)
    made, lines = [], []
    for i in range(utterances):
        text = " ".join(random.choice(WORDS, 3))
        words = [
            [id - 1 for id in word.pronunciations[0].ids]
            for word in tokenize(split(text), tokenizer)
        ]
        one, sound = _say(
            folder / f"u{i:03}.wav",
            text,
            words,
            chord,
            lambda: noise(int(random.integers(1600, 3200))),
        )
        soundfile.write(one.path, sound, RATE, subtype="PCM_16")
        row = {
            "audio": one.path.name,
            "text": text,
            "duration_s": len(sound) / RATE,
            "speaker": "tones",
        }
        lines.append(json.dumps(row))
        made.append(one)
    for name, part in (("manifest", lines[: utterances - dev]), ("dev", lines[utterances - dev :])):
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in part), "utf-8")
    return made


def make_letters(
    folder: Path,
    utterances: int = 40,
    seed: int = 0,
    speakers: Sequence[str] = ("tones",),
    pitch: float = 1.0,
    noise: float = 0.0005,
) -> list[Made]:
    """Wav files and `manifest.jsonl` under `folder`; texts have three words, letters last 0.07 to
    0.14 s.

    `pitch` moves all tones up, `noise` is the level of the hiss below them.
    """
    random = np.random.default_rng(seed)

    def chord(letter: int) -> np.ndarray:
        t = np.arange(int(random.integers(1100, 2200))) / RATE
        low, high = pitch * 250.0 * 1.25**letter, pitch * 3000.0 / 1.1 ** ((letter * 7) % 10)
        return 0.15 * np.sin(2 * np.pi * low * t) + 0.1 * np.sin(2 * np.pi * high * t)

    folder.mkdir(parents=True, exist_ok=True)
    made, lines = [], []
    for i in range(utterances):
        words = [str(word) for word in random.choice(LETTER_WORDS, 3)]
        text = f"{words[0]}, {words[1]} – {words[2]}!"
        ids = [[LETTERS.index(letter) for letter in word.lower()] for word in words]
        one, sound = _say(
            folder / f"u{i:03}.wav",
            text,
            ids,
            chord,
            lambda: np.zeros(int(random.integers(1600, 3200))),
        )
        sound = sound + noise * random.standard_normal(len(sound))
        soundfile.write(one.path, sound, RATE, subtype="PCM_16")
        lines.append(
            json.dumps(
                {"audio": one.path.name, "text": text, "speaker": speakers[i % len(speakers)]}
            )
        )
        made.append(one)
    (folder / "manifest.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return made


def _say(
    path: Path,
    text: str,
    words: Iterable[Sequence[int]],
    chord: Callable[[int], np.ndarray],
    pause: Callable[[], np.ndarray],
) -> tuple[Made, np.ndarray]:
    """Return an utterance and its samples: a chord for each phone or letter, a pause around each
    word."""
    pieces: list[np.ndarray] = [pause()]
    phones, starts, ends = [], [], []  # type: list[int], list[int], list[int]
    for word in words:
        for phone in word:
            starts.append(sum(map(len, pieces)))
            pieces.append(chord(phone))
            ends.append(sum(map(len, pieces)))
            phones.append(phone)
        pieces.append(pause())
    return Made(path, text, tuple(phones), tuple(starts), tuple(ends)), np.concatenate(pieces)


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
