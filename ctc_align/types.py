"""The data that stages pass to each other: frozen dataclasses that compute next to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

if TYPE_CHECKING:
    import numpy as np
    import torch

    from ctc_align.reading.rows_on_disk import TensorOnDisk

FORMAT = "ctc-align/1"

ALIGNED, SKIPPED, UNSPOKEN, UNKNOWN = STATUSES = ("aligned", "skipped", "unspoken", "unknown")
"""The status of a word: it has times; it is not in the recording; it is not spoken; nothing of it can be."""

GOOD, DOUBTFUL, POOR, NONE = FITS = ("good", "doubtful", "poor", "none")
"""How well a transcript fits its recording, best first."""
UNEXPLAINED, NOT_SPOKEN, MISFIT = REGION_KINDS = ("unexplained", "not_spoken", "misfit")
"""Kinds of a `Region`: speech that no word explains, words that are not spoken, words that do not fit the sound."""
HAND = "hand"
"""The `by` of a word or token whose edges a person has fixed."""
SPEAKER, DIRECTION, MARKUP = UNSPOKEN_KINDS = ("speaker", "direction", "markup")
"""Kinds of words that are written and not spoken: a speaker's name, a stage direction, a mark of a format."""
SRT, VTT, SEGMENTS, TEXTGRID, EAF = CUE_FORMATS = ("srt", "vtt", "json", "textgrid", "eaf")
"""Formats of the files that cues come from: SRT, WebVTT, JSON with segments, TextGrids, and ELAN's files."""


@dataclass(frozen=True)
class Audio:
    """One channel of sound: `samples` (N,) float32 in about [-1, 1] at `sample_rate` Hz.

    Those of a recording of hours may lie on disk (`ctc_align.reading.rows_on_disk`): then slices of them are arrays.
    """

    samples: np.ndarray
    sample_rate: int
    name: str = ""
    """The path as the user wrote it, or "" for samples in memory."""
    offset_s: float = 0.0
    """Time of the first sample in the recording, where this is a part of one."""

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.sample_rate


@dataclass(frozen=True, slots=True)
class Word:
    """One written word: `text` is `transcript[char_start:char_end]` (code points), `spoken` what is pronounced.

    `spoken` is lower-case words of letters (and apostrophes, and marks of the script) parted by single spaces;
    "" when there is nothing to pronounce (a lone dash, an emoji).
    """

    text: str
    spoken: str
    char_start: int
    char_end: int
    roman: str | None = None
    """`spoken` in Latin letters, where that was asked for; "" for a letter that is silent."""
    kind: str = ""
    """One of `UNSPOKEN_KINDS` for a word that is written and not spoken (`spoken` is "" then); else ""."""
    speaker: str = ""
    """Who says it, where the transcript names speakers."""

    reading: str | None = None
    """`spoken` as a dictionary reads it, where one was asked: in katakana where that is Japanese. Words with a reading
    are said each by itself."""
    phones: str | None = None
    """Its pronunciations, best first, separated by " | ": `IPA_PHONES` separated by single spaces."""

    @property
    def sounding(self) -> str:
        """The letters that say how it sounds: its reading, else what is spoken."""
        return self.spoken if self.reading is None else self.reading

    @property
    def said(self) -> str:
        """The text that is looked up in the model's vocabulary: phones, else Latin letters, else what is spoken."""
        said = self.roman if self.phones is None else self.phones
        return self.spoken if said is None else said


@dataclass(frozen=True)
class Interval:
    """A labelled stretch of time in seconds, `end_s` exclusive."""

    start_s: float
    end_s: float
    label: str


@dataclass(frozen=True)
class Tier:
    """A named row of intervals in order of time; `speaker` speaks in it, "" if nothing says who."""

    name: str
    intervals: tuple[Interval, ...]
    number: int = field(default=0, compare=False)
    """Number in the file as Praat counts, from 1, point tiers included; 0 outside a file."""
    speaker: str = ""


@dataclass(frozen=True)
class SourceCue:
    """One cue of a subtitle file, or a segment of another file with times, that was given as transcript.

    Attributes:
        char_start, char_end: its text in the transcript (code points, end exclusive), tags included; may be empty.
        start_s, end_s: its times in the file.
        name: its number or name in the file, "" for none; of a document of tiers its tier's name.
        settings: what follows its times (a position).
        before: blocks of VTT between the cue before and this one (NOTE, STYLE).
        payload: its text as the file has it, where that differs from the transcript (`&amp;`); else None.
        speaker: who says it, where the file says so; "" else.
    """

    char_start: int
    char_end: int
    start_s: float
    end_s: float
    name: str = ""
    settings: str = ""
    before: str = ""
    payload: str | None = None
    speaker: str = ""


@dataclass(frozen=True)
class Subtitles:
    """The cues of a file in their order.

    `format` is one of `CUE_FORMATS`, `after` what follows the last cue, `document` the whole text of a file of tiers,
    which words and their tokens are added to.
    """

    format: str
    header: str = ""
    cues: tuple[SourceCue, ...] = ()
    after: str = ""
    document: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class BookPlace:
    """A paragraph of a book, or an element with an id in one: where it is in the transcript and in the book.

    Attributes:
        char_start, char_end: in the transcript (code points, end exclusive).
        href: the page's name in the book's archive.
        id: of the element in that page, "" where it has none.
        cfi: the element by EPUB's canonical fragment identifier: "epubcfi(/6/4!/4/2)".
    """

    char_start: int
    char_end: int
    href: str
    id: str = ""
    cfi: str = ""


@dataclass(frozen=True)
class Transcript:
    """A transcript as it was read: its text, its cues (subtitles, segments), and the paragraphs of a book.

    `language` (ISO 639 or BCP 47) goes before the setting; "" where nothing but that says it.
    """

    text: str
    subtitles: Subtitles | None = None
    places: tuple[BookPlace, ...] = ()
    language: str = ""


@dataclass(frozen=True)
class OptionalWords:
    """Words `first` to `last` (exclusive) of a transcript that may not be spoken: only the sound can tell.

    `kind` is what they are where they are not spoken; `speaker` who speaks from there on, where they name one.
    """

    first: int
    last: int
    kind: str
    speaker: str = ""


@dataclass(frozen=True)
class Words:
    """A transcript as written, and its words in order: every word exactly once."""

    text: str
    words: tuple[Word, ...]
    optional: tuple[OptionalWords, ...] = ()
    """Passages that may not be spoken, ascending, not overlapping: parentheses, and what may be a speaker's name."""
    subtitles: Subtitles | None = None
    """The cues, where the transcript is a subtitle file."""
    places: tuple[BookPlace, ...] = ()
    """Its paragraphs, where the transcript is a book."""
    language: str = ""
    """The language that the transcript names; "" for that of the settings."""


@dataclass(frozen=True, slots=True)
class Pronunciation:
    """One way to say a word: `ids` in the model's vocabulary, `labels` as they are shown (stress marks kept).

    `gaps` says where the vocabulary lacks letters: before which of the ids (their number: after the last), and which.
    """

    ids: tuple[int, ...]
    labels: tuple[str, ...]
    gaps: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class WordTokens:
    """The `pronunciations` of a word in the model's vocabulary, best first, and the letters that it lacks.

    `pronunciations` is empty for a word with nothing to align; `missing` names the letters (or phones) lacked, each as
    often as it occurs.
    """

    pronunciations: tuple[Pronunciation, ...]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tokens:
    """The chosen pronunciations in one row, ready for a lattice.

    `ids` (L,) ints in the model's vocabulary, or `lattice.WILDCARD` for letters that it lacks; `labels` (L,) what is
    shown, `words` (L,) the index of the transcript's word that each token belongs to, -1 for a separator between words.
    """

    ids: tuple[int, ...]
    labels: tuple[str, ...]
    words: tuple[int, ...]


@dataclass(frozen=True)
class Emissions:
    """The output of a model: `log_probs` (T, C), natural log, one row per frame of `frame_shift_s` seconds.

    `vocab` has C tokens, `blank` is an index into it. `offset_s` is the time of frame 0 in the recording.
    `states` is the optional second output, (T, K) float: scores of the segmentation states that say *where* sounds
    begin and end (see `ctc_align.alignment.segmentation`); the loss and the score never use it. For recordings of hours
    it is a `TensorOnDisk`, which supports only `len` and slices of frames.
    """

    log_probs: torch.Tensor
    vocab: tuple[str, ...]
    frame_shift_s: float
    blank: int = 0
    offset_s: float = 0.0
    states: torch.Tensor | TensorOnDisk | None = field(default=None, repr=False)
    duration_s: float | None = None
    """Length of the audio; `T * frame_shift_s` when it is not known."""
    name: str = ""
    first_frame_s: float = 0.0
    """Start of frame 0, counted from the audio's first sample: frame i covers
    `first_frame_s + [i, i + 1) * frame_shift_s`. Below 0 where a network pads its input."""
    sound: Audio | None = field(default=None, repr=False)
    """The whole audio, where its edges can be looked at more closely than in frames."""

    def part(self, first: int, last: int) -> Emissions:
        """Return the frames from `first` to `last`, exclusive, without a copy, as if the audio ended where they do.

        Times remain those of the whole audio: frame 0 of the part begins where frame `first` does.
        """
        frames = len(self.log_probs)
        if (first, last) == (0, frames):
            return self
        states = self.states
        if states is not None:
            states = states.part(first, last) if hasattr(states, "part") else states[first:last]
        end_s = round(self.first_frame_s + last * self.frame_shift_s, 6)
        if last == frames and self.duration_s is not None:
            end_s = self.duration_s
        elif self.duration_s is not None:
            end_s = min(end_s, self.duration_s)
        return replace(
            self,
            log_probs=self.log_probs[first:last],
            states=states,
            duration_s=end_s,
            first_frame_s=round(self.first_frame_s + first * self.frame_shift_s, 6),
        )


def utterance_name(audio: str) -> str:
    """Return the name of a recording's utterance: its path without folder and extension, "stdin" for "-".

    >>> utterance_name("clips/a.wav"), utterance_name("-"), utterance_name("")
    ('a', 'stdin', 'utterance')
    """
    return "stdin" if audio == "-" else Path(audio).stem or "utterance"


AudioLike: TypeAlias = Union[str, "PathLike[str]", "tuple[np.ndarray | torch.Tensor, int]", Audio, Emissions]
"""The sound of an utterance: a path, (samples float32 mono, sample rate), `Audio`, or `Emissions` instead of sound."""


@dataclass(frozen=True, slots=True)
class AlignedToken:
    """One token of an aligned word; seconds, `end_s` exclusive, `confidence` in [0, 1].

    `start_sd_ms` and `end_sd_ms` say how far off an edge may be (a standard deviation); None where that is unknown.
    `by` is `HAND` where a person has fixed both edges; only in words by hand.
    """

    token: str
    start_s: float
    end_s: float
    confidence: float
    start_sd_ms: float | None = None
    end_sd_ms: float | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class AlignedWord:
    """One word of the transcript; times and confidence are None unless `status` is "aligned".

    `start_sd_ms` and `end_sd_ms` as in `AlignedToken`. A word that a person has fixed may have no confidence, and no
    tokens, until it is aligned again (`ctc_align.alignment.aligner.Aligner.realign`).
    """

    text: str
    spoken: str
    char_start: int
    char_end: int
    status: str = ALIGNED
    start_s: float | None = None
    end_s: float | None = None
    confidence: float | None = None
    tokens: tuple[AlignedToken, ...] = ()
    start_sd_ms: float | None = None
    end_sd_ms: float | None = None
    kind: str = ""
    speaker: str = ""
    """`kind` and `speaker` as in `Word`."""
    by: str = ""
    """`HAND` where a person has fixed both edges, else ""."""


@dataclass(frozen=True)
class Region:
    """A stretch where recording and transcript disagree.

    Attributes:
        kind: one of `REGION_KINDS`.
        start_s, end_s: in the recording, seconds from the start of the utterance; None where it has no place there.
        char_start, char_end: of the words, in the transcript (code points); None where it has no words.
        reason: for people.
    """

    kind: str
    start_s: float | None = None
    end_s: float | None = None
    char_start: int | None = None
    char_end: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class AlignmentData:
    """A transcript aligned with its audio. Times are seconds from the start of the utterance.

    `loss` is the exact CTC loss -log p(transcript | audio) over all paths, natural log; `score` the log-probability
    of the best CTC path, so `-score >= loss`.
    """

    utterance: str
    audio: str
    duration_s: float
    model: str
    backend: str
    frame_shift_s: float
    loss: float
    score: float
    text: str
    words: tuple[AlignedWord, ...]
    unknown: int = 0
    offset_s: float = 0.0
    loss_per_token: float | None = None
    config: dict[str, Any] = field(default_factory=dict)
    token_kind: str = "tokens"
    """Name of the token tier: "phones" where the tokens are phones."""
    unexplained: tuple[tuple[float, float], ...] = ()
    """Speech (start_s, end_s) that no word explains, as far as the model can tell."""
    unknown_letters: dict[str, int] = field(default_factory=dict)
    """The letters that the vocabulary lacks and how often each occurs; `unknown` is their sum."""
    fit: str | None = None
    """One of `FITS`: how well the transcript fits the recording; None where the model has no figures to tell by."""
    regions: tuple[Region, ...] = ()
    """The stretches where the two disagree, by time."""
    subtitles: Subtitles | None = None
    """The cues of the transcript, where it is a subtitle file."""
    places: tuple[BookPlace, ...] = ()
    """Its paragraphs by `char_start`, where the transcript is a book; else ()."""
    text_offset: int | None = None
    """Code points before `text` in the text of many recordings that it is a part of; None where it is no part."""

    @property
    def skipped(self) -> int:
        """The number of words that are not in the recording."""
        return sum(word.status == SKIPPED for word in self.words)

    @property
    def spoken(self) -> int:
        """The number of words that can be spoken: those that are aligned, and those that are skipped."""
        return sum(word.status in (ALIGNED, SKIPPED) for word in self.words)

    @property
    def too_many_skipped(self) -> bool:
        """True if more of the words are not in the recording than the setting `max_skipped` lets be, in percent."""
        return 100 * self.skipped > float(self.config.get("max_skipped", 100.0)) * self.spoken

    @property
    def unexplained_s(self) -> float:
        """The seconds of speech that no word explains."""
        return sum(end_s - start_s for start_s, end_s in self.unexplained)

    @property
    def min_confidence(self) -> float:
        """The confidence below which words are doubtful; 0 where none was set."""
        return float(self.config.get("min_confidence", 0.0))

    @property
    def doubtful(self) -> tuple[AlignedWord, ...]:
        """The words with less than `min_confidence`."""
        least = self.min_confidence
        return tuple(word for word in self.words if word.confidence is not None and word.confidence < least)

    @property
    def in_doubt(self) -> bool:
        """True if a least confidence was set, and words have less, or speech is unexplained, or nothing fits."""
        return self.min_confidence > 0 and bool(self.doubtful or self.unexplained or self.fit == NONE)


def aligned_words(alignment: AlignmentData) -> Sequence[AlignedWord]:
    """Return the words that have times, in order."""
    return [word for word in alignment.words if word.status == ALIGNED]
