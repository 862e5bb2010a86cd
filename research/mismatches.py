"""Recordings and transcripts that disagree, made out of clips whose words have known times.

A confidence network learns from them, and what it has learnt is measured by others.

A `Mismatch` is a recording, a text, and where each word of the text is spoken, if anywhere. `KINDS`
names the ways in which the two can disagree; each takes a severity in [0, 1] and a random
generator, so that a seed gives the same cases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spoiled_sound import spoil
from synthetic_sounds import RATE, mixed, noise, room_tone, synthetic_music

Places = tuple[tuple[float, float], ...]
"""The times (start_s, end_s) at which a word is spoken: none, one, or several where it may be any
of them."""


@dataclass(frozen=True)
class TimedWord:
    """A written word, and where it is spoken."""

    text: str
    places: Places

    def moved(self, by_s: float) -> TimedWord:
        """Return the word at a later time."""
        return TimedWord(
            self.text, tuple((start_s + by_s, end_s + by_s) for start_s, end_s in self.places)
        )

    def unspoken(self) -> TimedWord:
        """Return the word as one that is not spoken."""
        return TimedWord(self.text, ())


@dataclass(frozen=True)
class Clip:
    """A recording (N,) float32 at `RATE`, and its words."""

    samples: np.ndarray
    words: tuple[TimedWord, ...]
    speaker: str = ""

    @property
    def duration_s(self) -> float:
        return len(self.samples) / RATE


@dataclass(frozen=True)
class Mismatch:
    """A recording and the words of a text that may not fit it.

    Attributes:
        kind: one of `KINDS`.
        severity: in [0, 1].
        samples: (N,) float32 at `RATE`.
        words: of the text.
        speaker: of the recording.
    """

    kind: str
    severity: float
    samples: np.ndarray
    words: tuple[TimedWord, ...]
    speaker: str

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)


@dataclass(frozen=True)
class MismatchMaterial:
    """Clips of one speaker in a row, words and clips of others, and speech that is not English, to
    make cases of."""

    clips: Sequence[Clip]
    others: Sequence[Clip]
    foreign: Sequence[np.ndarray]
    foreign_texts: Sequence[str] = ()
    music: Sequence[np.ndarray] = ()


_LETTERS = re.compile(r"[^\W\d_]+")
Maker = Callable[[MismatchMaterial, float, np.random.Generator], Clip]


def joined(
    clips: Sequence[Clip], rng: np.random.Generator, pause_s: tuple[float, float] = (0.1, 0.7)
) -> Clip:
    """Return clips in a row as one recording, with pauses as quiet as their quietest tenths of a
    second."""
    parts: list[np.ndarray] = []
    words: list[TimedWord] = []
    at = 0
    for clip in clips:
        words += [word.moved(at / RATE) for word in clip.words]
        parts += [clip.samples, room_tone(clip.samples, rng.uniform(*pause_s), rng)]
        at += len(clip.samples) + len(parts[-1])
    return Clip(np.concatenate(parts), tuple(words), clips[0].speaker)


def _run(rng: np.random.Generator, words: int, shortest: int, longest: int) -> tuple[int, int]:
    """Return a run [first, end) of words."""
    length = min(int(rng.integers(shortest, longest + 1)), max(words - 2, 1))
    first = int(rng.integers(0, words - length + 1))
    return first, first + length


def _other_words(
    material: MismatchMaterial, count: int, rng: np.random.Generator
) -> list[TimedWord]:
    """Return consecutive words of other recordings, none of which is spoken here."""
    words: list[TimedWord] = []
    while len(words) < count:
        words += [
            word.unspoken()
            for word in material.others[int(rng.integers(len(material.others)))].words
        ]
    first = int(rng.integers(0, len(words) - count + 1))
    return words[first : first + count]


def _recording(material: MismatchMaterial, rng: np.random.Generator) -> Clip:
    return joined(material.clips, rng)


def clean(material: MismatchMaterial, severity: float, rng: np.random.Generator) -> Clip:
    """The text is exact."""
    return _recording(material, rng)


def cut_end(material: MismatchMaterial, severity: float, rng: np.random.Generator) -> Clip:
    """The recording ends early: a tenth to nine tenths of it are lacking."""
    clip = _recording(material, rng)
    end_s = clip.duration_s * (1 - 0.1 - 0.8 * severity)
    return Clip(
        clip.samples[: round(end_s * RATE)],
        tuple(_kept(w, 0.0, end_s) for w in clip.words),
        clip.speaker,
    )


def cut_start(material: MismatchMaterial, severity: float, rng: np.random.Generator) -> Clip:
    """The recording begins late."""
    clip = _recording(material, rng)
    first = round(clip.duration_s * (0.1 + 0.8 * severity) * RATE)
    words = tuple(
        _kept(word, first / RATE, clip.duration_s).moved(-first / RATE) for word in clip.words
    )
    return Clip(clip.samples[first:], words, clip.speaker)


def _kept(word: TimedWord, start_s: float, end_s: float) -> TimedWord:
    """Return the word without its places outside a part; of one that is cut in two, most must be
    left."""
    middles = [
        (a, b)
        for a, b in word.places
        if start_s - 0.3 * (b - a) <= a and b <= end_s + 0.3 * (b - a)
    ]
    return TimedWord(word.text, tuple(middles))


def missing_clauses(material: MismatchMaterial, severity: float, rng: np.random.Generator) -> Clip:
    """The text lacks 2 to 40 words in a row, in one or several places."""
    clip = _recording(material, rng)
    words = list(clip.words)
    for _ in range(1 + int(severity * len(words) / 60)):
        first, end = _run(rng, len(words), 2, 4 + round(36 * severity))
        if len(words) - (end - first) >= 3:
            del words[first:end]
    return replace(clip, words=tuple(words))


def extra_clauses(material: MismatchMaterial, severity: float, rng: np.random.Generator) -> Clip:
    """The text has 2 to 40 words in a row that are not spoken, in one or several places."""
    clip = _recording(material, rng)
    words = list(clip.words)
    for _ in range(1 + int(severity * len(words) / 60)):
        at = int(rng.integers(0, len(words) + 1))
        extra = _other_words(material, int(rng.integers(2, 5 + round(36 * severity))), rng)
        # Of the same word twice in a row, either may be the one that is spoken.
        if at < len(words) and extra[0].text.casefold() == words[at].text.casefold():
            extra[0] = words[at]
        if at and extra[-1].text.casefold() == words[at - 1].text.casefold():
            extra[-1] = words[at - 1]
        words[at:at] = extra
    return replace(clip, words=tuple(words))


def replaced_words(material: MismatchMaterial, severity: float, rng: np.random.Generator) -> Clip:
    """5 to 50 % of the words are others, one by one or some in a row."""
    clip = _recording(material, rng)
    words = list(clip.words)
    wanted = max(1, round(len(words) * (0.05 + 0.45 * severity)))
    while wanted > 0:
        length = min(int(rng.integers(1, 5)), wanted, len(words))
        first = int(rng.integers(0, len(words) - length + 1))
        others = _other_words(material, length, rng)
        for at, other in enumerate(others, first):
            if other.text.casefold() != words[at].text.casefold():
                words[at] = other
        wanted -= length
    return replace(clip, words=tuple(words))


def swapped_sentences(
    material: MismatchMaterial, severity: float, rng: np.random.Generator
) -> Clip:
    """Clips are in another order in the text than in the recording: two neighbours, or more of
    them."""
    clips = list(material.clips)
    if len(clips) < 2:
        half = len(clips[0].words) // 2
        return replace(clips[0], words=clips[0].words[half:] + clips[0].words[:half])
    spoken = joined(clips, rng)
    groups, at = [], 0
    for clip in clips:
        groups.append(spoken.words[at : at + len(clip.words)])
        at += len(clip.words)
    for _ in range(1 + int(severity * len(clips) / 3)):
        first = int(rng.integers(0, len(groups) - 1))
        groups[first], groups[first + 1] = groups[first + 1], groups[first]
    return replace(spoken, words=tuple(word for group in groups for word in group))


def repeated_in_text(material: MismatchMaterial, severity: float, rng: np.random.Generator) -> Clip:
    """The text has some words in a row twice, the recording once: either may be the one that is
    spoken."""
    clip = _recording(material, rng)
    words = list(clip.words)
    first, end = _run(rng, len(words), 2, 4 + round(26 * severity))
    words[end:end] = words[first:end]
    return replace(clip, words=tuple(words))


def repeated_in_recording(
    material: MismatchMaterial, severity: float, rng: np.random.Generator
) -> Clip:
    """The recording has a clip, or the beginning of one (a false start), twice; the text once."""
    clips = list(material.clips)
    at = int(rng.integers(len(clips)))
    clip = clips[at]
    words = max(1, round(len(clip.words) * (0.2 + 0.8 * severity)))
    spoken = [word for word in clip.words[:words] if word.places]
    end_s = spoken[-1].places[0][1] if spoken and words < len(clip.words) else clip.duration_s
    again = Clip(clip.samples[: round(end_s * RATE)], clip.words[:words], clip.speaker)
    clips.insert(at, again)
    whole = joined(clips, rng)
    first = sum(len(each.words) for each in clips[:at])
    both = [
        TimedWord(one.text, one.places + two.places)
        for one, two in zip(
            whole.words[first : first + words], whole.words[first + words : first + 2 * words]
        )
    ]
    return replace(whole, words=(*whole.words[:first], *both, *whole.words[first + 2 * words :]))


def other_text(material: MismatchMaterial, severity: float, rng: np.random.Generator) -> Clip:
    """The text is another recording's, as long as this one's, or up to three times as long or
    short."""
    clip = _recording(material, rng)
    words = max(3, round(len(clip.words) * 3 ** ((2 * severity - 1) * rng.choice((-1, 1)))))
    return replace(clip, words=tuple(_other_words(material, words, rng)))


def partly_other_text(
    material: MismatchMaterial, severity: float, rng: np.random.Generator
) -> Clip:
    """From some word on, or up to it, the text is another recording's."""
    clip = _recording(material, rng)
    count = len(clip.words)
    wrong = max(1, round(count * (0.2 + 0.7 * severity)))
    other = _other_words(material, wrong, rng)
    return replace(
        clip,
        words=tuple(
            [*clip.words[: count - wrong], *other]
            if rng.random() < 0.5
            else [*other, *clip.words[wrong:]]
        ),
    )


def other_text_in_recording(
    material: MismatchMaterial, severity: float, rng: np.random.Generator
) -> Clip:
    """Other speakers say things that are not in the text, before, between or after the clips."""
    clips: list[Clip] = list(material.clips)
    for _ in range(1 + int(2 * severity)):
        other = material.others[int(rng.integers(len(material.others)))]
        clips.insert(
            int(rng.integers(0, len(clips) + 1)), replace(_at_level(other, clips[0]), words=())
        )
    return replace(joined(clips, rng), speaker=material.clips[0].speaker)


def foreign_in_recording(
    material: MismatchMaterial, severity: float, rng: np.random.Generator
) -> Clip:
    """Speech of another language stands before, between or after the clips."""
    clips: list[Clip] = list(material.clips)
    for _ in range(1 + int(2 * severity)):
        other = Clip(material.foreign[int(rng.integers(len(material.foreign)))], ())
        clips.insert(int(rng.integers(0, len(clips) + 1)), _at_level(other, clips[0]))
    return replace(joined(clips, rng), speaker=material.clips[0].speaker)


def other_language(material: MismatchMaterial, severity: float, rng: np.random.Generator) -> Clip:
    """The recording is of another language: nothing of the text is spoken."""
    clip = _recording(material, rng)
    picked = [
        Clip(material.foreign[i], ())
        for i in rng.choice(len(material.foreign), len(material.clips))
    ]
    return Clip(
        joined(picked, rng).samples, tuple(word.unspoken() for word in clip.words), clip.speaker
    )


def foreign_text(material: MismatchMaterial, severity: float, rng: np.random.Generator) -> Clip:
    """The text is of another language that has Latin letters."""
    clip = _recording(material, rng)
    words: list[str] = []
    while len(words) < len(clip.words):
        words += _LETTERS.findall(
            material.foreign_texts[int(rng.integers(len(material.foreign_texts)))]
        )
    return replace(clip, words=tuple(TimedWord(text, ()) for text in words[: len(clip.words)]))


def speech_in_noise(material: MismatchMaterial, severity: float, rng: np.random.Generator) -> Clip:
    """Noise (white, pink, brown, hum, babble) 25 to 0 dB below the speech."""
    clip = _recording(material, rng)
    kind = int(rng.integers(6))
    if kind == 5:
        sound = sum(
            _stretched(_some(material.others, rng).samples, len(clip.samples)) for _ in range(6)
        )
    else:
        sound = noise(len(clip.samples), kind, rng)
    return replace(clip, samples=mixed(clip.samples, np.asarray(sound), 25 - 25 * severity))


def speech_in_music(material: MismatchMaterial, severity: float, rng: np.random.Generator) -> Clip:
    """Music 20 to 3 dB below the speech."""
    clip = _recording(material, rng)
    return replace(
        clip,
        samples=mixed(clip.samples, _music(material, len(clip.samples), rng), 20 - 17 * severity),
    )


def music_between(material: MismatchMaterial, severity: float, rng: np.random.Generator) -> Clip:
    """Music before, between or after the clips: 3 to 30 s of it."""
    clips = list(material.clips)
    for _ in range(1 + int(2 * severity)):
        music = _music(material, round(RATE * rng.uniform(3, 6 + 24 * severity)), rng)
        clips.insert(int(rng.integers(0, len(clips) + 1)), _at_level(Clip(music, ()), clips[0]))
    return replace(joined(clips, rng), speaker=material.clips[0].speaker)


def long_pauses(material: MismatchMaterial, severity: float, rng: np.random.Generator) -> Clip:
    """Between the clips nobody speaks, for 3 to 30 s."""
    return joined(material.clips, rng, (2.0, 3.0 + 27.0 * severity))


def noise_alone(material: MismatchMaterial, severity: float, rng: np.random.Generator) -> Clip:
    """There is no speech, only noise: steady, with bursts, or with a hum."""
    clip = _recording(material, rng)
    sound = noise(len(clip.samples), int(rng.integers(5)), rng) * rng.choice(
        (0.003, 0.03, 0.1, 0.3)
    )
    if rng.random() < severity:
        sound = (
            sound * np.repeat(rng.uniform(0.02, 1.0, len(sound) // 2400 + 1), 2400)[: len(sound)]
        )
    return Clip(
        sound.astype(np.float32), tuple(word.unspoken() for word in clip.words), clip.speaker
    )


def music_alone(material: MismatchMaterial, severity: float, rng: np.random.Generator) -> Clip:
    """There is no speech, only music."""
    clip = _recording(material, rng)
    music = _music(material, len(clip.samples), rng)
    return Clip(music, tuple(word.unspoken() for word in clip.words), clip.speaker)


def reversed_speech(material: MismatchMaterial, severity: float, rng: np.random.Generator) -> Clip:
    """The recording runs backwards."""
    clip = _recording(material, rng)
    return Clip(
        clip.samples[::-1].copy(), tuple(word.unspoken() for word in clip.words), clip.speaker
    )


KINDS: dict[str, Maker] = {
    maker.__name__: maker
    for maker in (
        *(
            clean,
            cut_end,
            cut_start,
            missing_clauses,
            extra_clauses,
            replaced_words,
            swapped_sentences,
        ),
        *(
            repeated_in_text,
            repeated_in_recording,
            other_text,
            partly_other_text,
            other_text_in_recording,
        ),
        *(
            foreign_in_recording,
            other_language,
            foreign_text,
            speech_in_noise,
            speech_in_music,
            music_between,
        ),
        *(long_pauses, noise_alone, music_alone, reversed_speech),
    )
}
"""Ways in which a recording and a text disagree; "clean" is none."""


def shortened(clip: Clip, rng: np.random.Generator) -> Clip:
    """Return one to five words of a clip in a row, with their sound."""
    count = min(int(rng.integers(1, 6)), len(clip.words))
    first = int(rng.integers(0, len(clip.words) - count + 1))
    words = clip.words[first : first + count]
    begin_s = max(words[0].places[0][0] - 0.1, 0.0)
    end_s = min(words[-1].places[0][1] + 0.1, clip.duration_s)
    samples = clip.samples[round(begin_s * RATE) : round(end_s * RATE)]
    return Clip(samples, tuple(word.moved(-begin_s) for word in words), clip.speaker)


def degraded(case: Mismatch, material: MismatchMaterial, rng: np.random.Generator) -> Mismatch:
    """Return the case recorded worse, at another level."""

    def read_voice(count: int, rng: np.random.Generator) -> np.ndarray:
        return _stretched(_some(material.others, rng).samples, count)

    samples = spoil(case.samples, rng, read_voice) * 10 ** rng.uniform(-1.5, 0.3)
    return replace(case, samples=np.clip(samples, -1.0, 1.0).astype(np.float32))


def make(
    kind: str, material: MismatchMaterial, severity: float, rng: np.random.Generator
) -> Mismatch:
    """Return a case of a kind."""
    clip = KINDS[kind](material, severity, rng)
    return Mismatch(kind, severity, clip.samples, clip.words, clip.speaker)


def _some(clips: Sequence[Clip], rng: np.random.Generator) -> Clip:
    return clips[int(rng.integers(len(clips)))]


def _at_level(clip: Clip, other: Clip) -> Clip:
    """Return the clip as loud as another."""
    factor = np.sqrt(float((other.samples**2).mean()) / max(float((clip.samples**2).mean()), 1e-12))
    return replace(clip, samples=(clip.samples * np.float32(factor)).astype(np.float32))


def _stretched(samples: np.ndarray, length: int) -> np.ndarray:
    """Return samples, again and again, `length` of them."""
    return np.resize(samples, length)


def _music(material: MismatchMaterial, length: int, rng: np.random.Generator) -> np.ndarray:
    """Return (length,) float32: of the recordings of music, or where there are none, notes and
    drums."""
    if material.music:
        whole = material.music[int(rng.integers(len(material.music)))]
        return _stretched(np.roll(whole, -int(rng.integers(len(whole)))), length)
    return synthetic_music(length, rng)
