"""Examples for a confidence network: features of words of made mismatches, and how far off each word is.

The words of a clip have the times of its own alignment with its own text, which are some hundredths of a second from a
person's: what is asked of confidence here is a fifth of a second and more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from ctc_align.alignment.align_utterance import choose_tokens, place_tokens
from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.confidence import sound_fits, spike_confidence, word_begins, word_features
from ctc_align.audio.loading import load_audio
from ctc_align.corpus.utterance import Utterance
from ctc_align.errors import CtcAlignError, TooShortError
from ctc_align.formats import Alignment
from ctc_align.kernels import batching
from ctc_align.lattice import WILDCARD
from ctc_align.training.mismatches import (
    KINDS,
    RATE,
    Clip,
    Mismatch,
    MismatchMaterial,
    TimedWord,
    degraded,
    make,
    shortened,
)

MOST_CLIPS = 18
"""A recording is made of up to so many clips."""
FEWEST_CLIPS = 5
"""Speakers with fewer clips are only others to the rest."""
WORST_LOSS = 2.2
"""Clips with more loss per token are left out: their own text may be wrong."""
AT_ONCE = 32
SHORTEST_SAMPLES = RATE // 4


@dataclass(frozen=True)
class ClipFile:
    """A clip on disk; `words` with their times in it; `language`, a code, "" where the corpus names none."""

    path: str
    words: tuple[TimedWord, ...]
    speaker: str
    language: str = ""

    def read(self) -> Clip:
        return Clip(_samples(self.path), self.words, self.speaker)


@dataclass(frozen=True)
class Speech:
    """The speech that mismatches are made of, recordings and texts of other languages, and music.

    Attributes:
        clips: by speaker, in their order on disk.
        foreign: paths of recordings in other languages.
        foreign_texts: texts of other languages in Latin letters.
        music: recordings (N,) float32 of music; without any, music is made by rules.
    """

    clips: Mapping[str, Sequence[ClipFile]]
    foreign: Sequence[str]
    foreign_texts: Sequence[str]
    music: Sequence[np.ndarray] = ()

    def material(self, rng: np.random.Generator) -> MismatchMaterial:
        """Return some clips of one speaker in a row, from one to `MOST_CLIPS`, and others to go with them."""
        speakers = [speaker for speaker, clips in self.clips.items() if len(clips) >= FEWEST_CLIPS]
        speaker = speakers[int(rng.integers(len(speakers)))]
        own = self.clips[speaker]
        count = min(len(own), round(float(np.exp(rng.uniform(0, np.log(MOST_CLIPS))))))
        first = int(rng.integers(0, len(own) - count + 1))
        others = [other for other in self.clips if other != speaker]
        return MismatchMaterial(
            [clip.read() for clip in own[first : first + count]],
            [_any(self.clips[others[i]], rng).read() for i in rng.integers(0, len(others), 6)],
            [_samples(self.foreign[i]) for i in rng.integers(0, len(self.foreign), 8)],
            self.foreign_texts,
            self.music if rng.random() < 0.7 else (),
        )


@dataclass(frozen=True)
class Example:
    """A mismatch as a network sees it.

    Attributes:
        case: its kind, severity, speaker; without its samples.
        features: (W, F) of the words that have tokens.
        off_s: (W,) how far the farther edge of each is from where it is spoken; infinite where that is nowhere.
        loss_per_token: of the alignment.
    """

    case: Mismatch
    features: np.ndarray
    off_s: np.ndarray
    loss_per_token: float


@dataclass
class Shares:
    """Shares of cases that are shortened to a few words, and recorded worse."""

    shortened: float = 0.12
    degraded: float = 0.35


@lru_cache(maxsize=2000)
def _samples(path: str) -> np.ndarray:
    return load_audio(path, RATE).samples


def _any(clips: Sequence[ClipFile], rng: np.random.Generator) -> ClipFile:
    return clips[int(rng.integers(len(clips)))]


def in_language(aligner: Aligner, language: str) -> Aligner:
    """Return the aligner for transcripts in a language, "": as it is."""
    return aligner.with_settings(replace(aligner.settings, language=language)) if language else aligner


def timed_clips(
    aligner: Aligner, rows: Iterable[Utterance], most: int, seed: int, worst_loss: float = WORST_LOSS
) -> dict[tuple[str, str], list[ClipFile]]:
    """Return clips by language and speaker, at most so many of each in a row, timed by their own alignment.

    Args:
        aligner: with the model.
        rows: the utterances, each a recording of its own.
        most: clips of a speaker.
        seed: which part of a speaker's clips is taken.
        worst_loss: nats per token; clips with more are left out.
    """
    rng = np.random.default_rng(seed)
    by_speaker: dict[tuple[str, str], list[Utterance]] = {}
    for row in rows:
        by_speaker.setdefault((row.language, row.speaker or ""), []).append(row)
    chosen: dict[str, list[Utterance]] = {}
    for (language, _), own in by_speaker.items():
        first = int(rng.integers(0, max(len(own) - most, 0) + 1))
        chosen.setdefault(language, []).extend(own[first : first + most])
    found: dict[tuple[str, str], list[ClipFile]] = {}
    for language, clips in chosen.items():
        own_aligner = in_language(aligner, language)
        for first in range(0, len(clips), AT_ONCE):
            part = clips[first : first + AT_ONCE]
            pairs = [(row.audio, row.text) for row in part]
            for row, aligned in zip(part, own_aligner.align_batch(pairs, "return")):
                words = None if isinstance(aligned, CtcAlignError) else _trusted(aligned, worst_loss)
                if words:
                    clip = ClipFile(row.audio, words, row.speaker or "", language)
                    found.setdefault((language, clip.speaker), []).append(clip)
    return found


def _trusted(aligned: Alignment, worst_loss: float) -> tuple[TimedWord, ...] | None:
    """Return the words of a clip with their times; None where its own text may be wrong, or is not all aligned."""
    if aligned.unexplained or (aligned.loss_per_token or 0.0) > worst_loss:
        return None
    if any(word.start_s is None for word in aligned.words):
        return None
    return tuple(TimedWord(word.text, ((word.start_s or 0.0, word.end_s or 0.0),)) for word in aligned.words)


def made_case(kind: str, speech: Speech, rng: np.random.Generator, shares: Shares) -> Mismatch:
    """Return a case of a kind, of a random severity."""
    material, severity = speech.material(rng), float(rng.uniform())
    if rng.random() < shares.shortened:
        material = replace(material, clips=[shortened(material.clips[0], rng)])
    case = make(kind, material, severity, rng)
    return degraded(case, rng) if rng.random() < shares.degraded else case


def off_by(words: Sequence[TimedWord], start_s: Sequence[float], end_s: Sequence[float]) -> np.ndarray:
    """Return (W,) seconds from each word's farther edge to where it is spoken, infinite where that is nowhere."""
    return np.array(
        [
            min((max(abs(start - a), abs(end - b)) for a, b in word.places), default=np.inf)
            for word, start, end in zip(words, start_s, end_s)
        ]
    )


def example(aligner: Aligner, case: Mismatch) -> Example:
    """Return the example of a case.

    Raises:
        CtcAlignError: the text does not fit into the recording at all.
    """
    inputs = aligner.inputs((case.samples, RATE), case.text)
    assert len(inputs.words.words) == len(case.words), "a word of a clip was parted or joined"
    chosen = batching.run([choose_tokens(inputs)])[0]
    tokens, spikes, edges = batching.run([place_tokens(inputs, chosen)])[0]
    fits = sound_fits(inputs.emissions, tokens, edges, inputs.calibration.spread)
    if fits is None:
        raise TooShortError("the text is too long for the recording to be segmented")
    spoken, begins = word_begins(tokens)
    owners = list(dict.fromkeys(word for word in tokens.words if word >= 0))
    shift_s = inputs.emissions.frame_shift_s
    off_s = off_by(
        [case.words[word] for word in owners],
        (fits.edges.start[begins[:-1]] * shift_s).tolist(),
        (fits.edges.end[begins[1:] - 1] * shift_s).tolist(),
    )
    known = Mismatch(case.kind, case.severity, np.empty(0, np.float32), case.words, case.speaker)
    ids = [0 if token == WILDCARD else token for token in tokens.ids]
    at_spikes = spike_confidence(inputs.emissions.log_probs, ids, spikes)[spoken]
    features = word_features(inputs.emissions, tokens, spikes, fits, at_spikes)
    return Example(known, features, off_s, chosen.loss / len(chosen.tokens.ids))


def examples(
    aligner: Aligner, speech: Speech, kind: str, cases: int, seed: int, shares: Shares | None = None
) -> list[Example]:
    """Return the examples of so many cases of a kind; the same for the same seed.

    Texts that do not fit into the recording at all are left out.
    """
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    found = []
    for _ in range(cases):
        case = made_case(kind, speech, rng, shares or Shares())
        if len(case.samples) < SHORTEST_SAMPLES or not case.words:
            continue
        with suppress(CtcAlignError):
            found.append(example(aligner, case))
    return found


def write_examples(path: Path, examples: Sequence[Example]) -> None:
    """Write what a network learns from: features, distances and losses, one after the other."""
    part = path.with_suffix(".part.npz")
    np.savez_compressed(
        part,
        features=np.concatenate([each.features for each in examples]),
        off_s=np.concatenate([each.off_s for each in examples]),
        words=np.array([len(each.off_s) for each in examples]),
        loss_per_token=np.array([each.loss_per_token for each in examples]),
        severity=np.array([each.case.severity for each in examples]),
        kind=examples[0].case.kind,
    )
    part.replace(path)


def read_examples(path: Path) -> list[Example]:
    """Read them back; their cases have no words."""
    with np.load(path) as data:
        ends = np.cumsum(data["words"])
        features, off_s = np.split(data["features"], ends[:-1]), np.split(data["off_s"], ends[:-1])
        kind, losses = str(data["kind"]), data["loss_per_token"].tolist()
        cases = [Mismatch(kind, severity, np.empty(0, np.float32), (), "") for severity in data["severity"].tolist()]
    return [Example(*each) for each in zip(cases, features, off_s, losses)]
