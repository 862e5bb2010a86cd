"""The data that stages pass to each other: frozen dataclasses with hardly any computation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union

from ctc_align.extras import import_late

if TYPE_CHECKING:
    import numpy as np
    import torch
    from matplotlib.figure import Figure

    from ctc_align.machine.rows_on_disk import ArrayOnDisk, TensorOnDisk

Panel = Literal["waveform", "spectrogram"]
FORMAT = "ctc-align/1"
_FILES = "ctc_align.files"
"""The package of formats, which is imported when an alignment is written or shown."""

ALIGNED, SKIPPED, UNSPOKEN, UNKNOWN = STATUSES = ("aligned", "skipped", "unspoken", "unknown")
"""The status of a word: it has times; it is not in the recording; it is not spoken; the model has
no token for it."""

SURE = 0.5
"""The confidence from which words need no look."""
GOOD, DOUBTFUL, POOR, NONE = FITS = ("good", "doubtful", "poor", "none")
"""How well a transcript fits its recording, best first."""
UNEXPLAINED, NOT_SPOKEN, MISFIT = REGION_KINDS = ("unexplained", "not_spoken", "misfit")
"""Kinds of a `Region`: speech that no word explains, words that are not spoken, words that do not
fit the sound."""
HAND = "hand"
"""The `by` of a word or token whose edges a person has fixed."""
SPEAKER, DIRECTION, MARKUP, REPEAT, CUT_OFF, TRANSLATION = UNSPOKEN_KINDS = (
    "speaker", "direction", "markup", "repeat", "cut_off", "translation",
)  # fmt: skip
"""Kinds of words that are written but not spoken: a speaker's name, a stage direction, markup, a
translation …"""
ANY_SPEECH = "*"
"""The spoken form of a word that stands for speech that nobody has written down."""
SRT, VTT, SEGMENTS, TEXTGRID, EAF, LRC = CUE_FORMATS = (
    "srt",
    "vtt",
    "json",
    "textgrid",
    "eaf",
    "lrc",
)
"""Formats of the files that cues come from: SRT, WebVTT, JSON with segments, TextGrids, ELAN's
files, and lyrics."""


@dataclass(frozen=True)
class SoundChoice:
    """Which sound of a recording is read.

    Attributes:
        channel: from 1; None: the average of all.
        track: the audio track: its number, from 1, or its language, which the recording must have;
            "": any.
        language: that of the track that is preferred if there are several and `track` does not say;
            "": none.
    """

    channel: int | None = None
    track: str = ""
    language: str = ""


DEFAULT_SOUND = SoundChoice()


@dataclass(frozen=True)
class Audio:
    """One channel of sound: `samples` (N,) float32 in about [-1, 1] at `sample_rate` Hz.

    The samples of a long recording may be on disk (`ctc_align.machine.rows_on_disk`); slices of
    them are arrays.
    """

    samples: np.ndarray
    sample_rate: int
    name: str = ""
    """The path as the user wrote it, or "" for samples in memory."""
    offset_s: float = 0.0
    """Time of the first sample in the recording, if this is a part of one."""
    track: int = 0
    """Number of the audio track, from 1, of a recording that has several; otherwise 0."""

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.sample_rate


@dataclass(frozen=True, slots=True)
class Word:
    """One written word.

    `text` is `transcript[char_start:char_end]` (code points), `spoken` what is pronounced.

    `spoken` is in lower case: words of letters, apostrophes and marks of the script, separated by
    single spaces; "" if there is nothing to pronounce (a lone dash, an emoji).
    """

    text: str
    spoken: str
    char_start: int
    char_end: int
    roman: str | None = None
    """`spoken` in Latin letters, with the setting `romanize`; "" for a silent letter."""
    kind: str = ""
    """One of `UNSPOKEN_KINDS` for a word that is written but not spoken (its `spoken` is "");
    otherwise ""."""
    speaker: str = ""
    """The speaker, if the transcript names speakers."""

    reading: str | None = None
    """The reading of `spoken` in a dictionary, if one is used; in katakana for Japanese. A word
    with a reading is pronounced independently of its neighbours."""
    phones: str | None = None
    """The pronunciations, best first, separated by " | "; each is `IPA_PHONES` separated by single
    spaces."""

    others: tuple[Word, ...] = ()
    """The word in its other spoken forms: the audio decides which one is said. A form that ends in
    "-" breaks off: it has the first sounds of `spoken`."""
    language: str = ""
    """The language of the spoken form, if the transcript may be in several; otherwise ""."""

    @property
    def reading_text(self) -> str:
        """The letters from which the pronunciation is derived: the reading, otherwise `spoken`."""
        if self.reading is None:
            return self.spoken
        return self.reading

    @property
    def lookup_text(self) -> str:
        """The text to look up in the model's vocabulary.

        It is phones, otherwise Latin letters, otherwise `spoken`.
        """
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
    """A named row of intervals in order of time; `speaker` is "" if unknown."""

    name: str
    intervals: tuple[Interval, ...]
    number: int = field(default=0, compare=False)
    """The number of the tier in the file, counted as in Praat: from 1, including point tiers; 0
    outside a file."""
    speaker: str = ""
    language: str = ""


@dataclass(frozen=True)
class SourceCue:
    """One cue of a subtitle file that is the transcript.

    Or a segment of another file with times.

    Attributes:
        char_start, char_end: span of the cue's text in the transcript (code points, end exclusive),
            including tags; may be empty.
        start_s, end_s: times in the file.
        name: number or name in the file, or the name of the tier in a TextGrid or an ELAN file; ""
            if there is none.
        settings: WebVTT settings after the times (a position).
        before: WebVTT blocks (NOTE, STYLE) between the previous cue and this one.
        payload: the text as in the file, if it differs from the transcript (`&amp;`); otherwise
            None.
        speaker: the speaker, if the file names one; otherwise "".
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
    """The cues of a file, in order.

    `format` is one of `CUE_FORMATS`, `after` the text after the last cue, and `document` the whole
    text of a TextGrid or an ELAN file, to which tiers of words and tokens are added.
    """

    format: str
    header: str = ""
    cues: tuple[SourceCue, ...] = ()
    after: str = ""
    document: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class BookPlace:
    """The position of a paragraph, or of an element with an id, in the transcript and in the book.

    Attributes:
        char_start, char_end: span in the transcript (code points, end exclusive).
        href: name of the page in the book's archive.
        id: id of the element in the page, "" if it has none.
        cfi: EPUB canonical fragment identifier of the element: "epubcfi(/6/4!/4/2)".
    """

    char_start: int
    char_end: int
    href: str
    id: str = ""
    cfi: str = ""


@dataclass(frozen=True, slots=True)
class LanguageSpan:
    """A passage of a transcript that is marked as being in a language.

    `char_start` and `char_end` (exclusive) count code points; `language` is ISO 639 or BCP 47.
    """

    char_start: int
    char_end: int
    language: str


@dataclass(frozen=True)
class Transcript:
    """A transcript as read from its file.

    It has the text, the cues (subtitles, segments), and the paragraphs of a book.

    `language` (ISO 639 or BCP 47; several are separated by commas) overrides the setting; "" means
    the language of the setting. `languages` has the passages that are marked as being in a
    language, ascending, not overlapping.
    """

    text: str
    subtitles: Subtitles | None = None
    places: tuple[BookPlace, ...] = ()
    language: str = ""
    languages: tuple[LanguageSpan, ...] = ()


@dataclass(frozen=True)
class OptionalWords:
    """Words `first` to `last` (exclusive) of a transcript that may or may not be spoken.

    The audio decides.

    If they are not spoken, `kind` is their kind, and `speaker` the speaker that they name for the
    words after them.
    """

    first: int
    last: int
    kind: str
    speaker: str = ""


@dataclass(frozen=True)
class Words:
    """A transcript as written, and its words in order, each exactly once."""

    text: str
    words: tuple[Word, ...]
    optional: tuple[OptionalWords, ...] = ()
    """Passages that may or may not be spoken (parentheses, possible speaker names), ascending, not
    overlapping."""
    subtitles: Subtitles | None = None
    """The cues, if the transcript is a subtitle file."""
    places: tuple[BookPlace, ...] = ()
    """The paragraphs, if the transcript is a book."""
    language: str = ""
    """The language that the transcript names; "" means the language of the settings."""


@dataclass(frozen=True, slots=True)
class Pronunciation:
    """One pronunciation of a word.

    `ids` in the model's vocabulary, `labels` for display (with stress marks).

    `gaps` lists letters that the vocabulary lacks: each is (index of the id that follows, or the
    number of ids at the end; the letters).
    """

    ids: tuple[int, ...]
    labels: tuple[str, ...]
    gaps: tuple[tuple[int, str], ...] = ()
    spoken: str = field(default="", repr=False)
    """The spoken form, if it is one of `Word.others`."""
    languages: tuple[str, ...] = ()
    """The languages in which the word is pronounced so, if the transcript may be in several."""


@dataclass(frozen=True, slots=True)
class WordTokens:
    """The `pronunciations` of a word in the model's vocabulary, best first.

    Also the letters that the vocabulary lacks.

    `pronunciations` is empty for a word with nothing to align; `missing` lists the missing letters
    (or phones), once for each occurrence.
    """

    pronunciations: tuple[Pronunciation, ...]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tokens:
    """The chosen pronunciations in one sequence, ready for a lattice.

    `ids` (L,) are indices into the model's vocabulary, or `lattice.WILDCARD` for letters that it
    lacks; `labels` (L,) are for display; `words` (L,) is the index of each token's word in the
    transcript, -1 for a separator between words.
    """

    ids: tuple[int, ...]
    labels: tuple[str, ...]
    words: tuple[int, ...]


class DefaultBlank(int):
    """The default blank of emissions, index 0.

    The log-probs may show that the blank is a different class.
    """


@dataclass(frozen=True)
class Emissions:
    """The output of a model.

    `log_probs` (T, C), natural log, have one row per frame of `frame_shift_s` seconds. `vocab`
    has C tokens, `blank` is an index into it; if none is given and index 0 does not do what a blank
    does, a warning is logged. `offset_s` is the time of frame 0 in the recording.
    `states` is the optional second output, (T, K) float: scores of the segmentation states, which
    show *where* sounds begin and end (see `ctc_align.alignment.segmentation`). The loss and the
    score never use it. For long recordings it is a `TensorOnDisk`, which supports only `len` and
    slices of frames.
    Both may be given as NumPy arrays or tensors, and are read as tensors; `array` and `state_array`
    are NumPy arrays.
    """

    log_probs: torch.Tensor
    vocab: tuple[str, ...]
    frame_shift_s: float
    blank: int = DefaultBlank(0)
    offset_s: float = 0.0
    states: torch.Tensor | TensorOnDisk | None = field(default=None, repr=False)
    duration_s: float | None = None
    """Length of the audio; None means `T * frame_shift_s`."""
    name: str = ""
    first_frame_s: float = 0.0
    """Start of frame 0, counted from the audio's first sample: frame i covers
    `first_frame_s + [i, i + 1) * frame_shift_s`. Below 0 where a network pads its input."""
    sound: Audio | None = field(default=None, repr=False)
    """The whole audio, if a network refines the edges with it."""

    def __len__(self) -> int:
        """The number of frames."""
        return len(self.__dict__["log_probs"])

    @cached_property
    def array(self) -> np.ndarray:
        """The log-probs in main memory: (T, C) float32, or float64 if they were given so."""
        return _to_float_array(self.__dict__["log_probs"])

    @cached_property
    def state_array(self) -> np.ndarray | ArrayOnDisk | None:
        """The scores of the segmentation states in main memory or on disk: (T, K)."""
        from ctc_align.machine.rows_on_disk import ArrayOnDisk

        states = self.__dict__["states"]
        if isinstance(states, ArrayOnDisk):
            return ArrayOnDisk(states.rows, states.first, states.last)
        return None if states is None else _to_float_array(states)

    def altered(self, **changes: Any) -> Emissions:
        """Return emissions with other values of some fields, without making tensors.

        Otherwise as `dataclasses.replace`.
        """
        return Emissions(**self.__getstate__() | changes)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name != "given":
                raise AttributeError(f"'Emissions' object has no attribute {name!r}")
            warnings.warn(
                "Emissions.given is deprecated and will be removed in 0.6; use log_probs, a tensor, or array"
                " (docs/migrate/0.4.md)",
                DeprecationWarning,
                stacklevel=2,
            )
            return get_log_probs(self)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields: what is made of them is made again."""
        return {each.name: self.__dict__[each.name] for each in fields(self)}

    def part(self, first: int, last: int) -> Emissions:
        """Return the frames from `first` to `last`, exclusive, without a copy.

        They are as if the audio ended with them.

        Times still count from the start of the whole audio: frame 0 of the part begins at the start
        of frame `first`.
        """
        frames = len(self)
        if (first, last) == (0, frames):
            return self
        states = self.__dict__["states"]
        if states is not None:
            if hasattr(states, "part"):
                states = states.part(first, last)
            else:
                states = states[first:last]
        end_s = round(self.first_frame_s + last * self.frame_shift_s, 6)
        if last == frames and self.duration_s is not None:
            end_s = self.duration_s
        elif self.duration_s is not None:
            end_s = min(end_s, self.duration_s)
        return self.altered(
            log_probs=self.__dict__["log_probs"][first:last],
            states=states,
            duration_s=end_s,
            first_frame_s=round(self.first_frame_s + first * self.frame_shift_s, 6),
        )


def get_log_probs(emissions: Emissions) -> np.ndarray | torch.Tensor:
    """Return the log-probs as they were given, on their device."""
    log_probs: np.ndarray | torch.Tensor = emissions.__dict__["log_probs"]
    return log_probs


class _ReadAsTensor:
    """A field of `Emissions` that holds what was given, and is read as a tensor."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, emissions: Emissions | None, kind: type | None = None) -> Any:
        if emissions is None:
            return self
        import numpy as np

        value = emissions.__dict__[self.name]
        if isinstance(value, np.ndarray):
            from ctc_align.extras import import_torch

            of_numpy = {"log_probs": "array", "states": "state_array"}[self.name]
            torch = import_torch(
                f"Emissions.{self.name}, a tensor (in NumPy it is Emissions.{of_numpy}),"
            )
            tensor = torch.from_numpy(np.require(value, requirements=("C", "W")))
            return emissions.__dict__.setdefault(f"_{self.name}", tensor)
        if hasattr(value, "as_tensor"):
            return value.as_tensor()
        return value

    def __set__(self, emissions: Emissions, value: object) -> None:
        emissions.__dict__[self.name] = value


for _name in (
    "log_probs",
    "states",
):  # after the dataclass has been made: it would take them for defaults
    setattr(Emissions, _name, _ReadAsTensor(_name))


def _to_float_array(values: np.ndarray | torch.Tensor) -> np.ndarray:
    """Return floating-point values as float32 or float64 in main memory.

    They are not copied if they are that already.
    """
    import numpy as np

    if not isinstance(values, np.ndarray):
        values = values.detach().cpu()
        values = (values if values.dtype.itemsize >= 4 else values.float()).numpy()
    if values.dtype.itemsize >= 4:
        return values
    return values.astype(np.float32)


def utterance_name(audio: str) -> str:
    """Return the name of a recording's utterance.

    It is the path without folder and extension, "stdin" for "-".

    >>> utterance_name("clips/a.wav"), utterance_name("-"), utterance_name("")
    ('a', 'stdin', 'utterance')
    """
    if audio == "-":
        return "stdin"
    return Path(audio).stem or "utterance"


AudioLike: TypeAlias = Union[
    str, "PathLike[str]", "tuple[np.ndarray | torch.Tensor, int]", Audio, Emissions
]
"""The sound of an utterance: a path, (samples float32 mono, sample rate), `Audio`, or `Emissions`
instead of sound."""


@dataclass(frozen=True, slots=True)
class AlignedToken:
    """One token of an aligned word; times in seconds, `end_s` exclusive, `confidence` in [0, 1].

    `start_sd_ms` and `end_sd_ms` are the standard deviations of the edges; None if unknown.
    `by` is `HAND` if a person has fixed both edges, as happens only in hand-corrected words.

    With the setting `gop`, `gop` says by how many nats the token is likelier than its best rival,
    `heard` is the likeliest sound ("" for none), and `gop_percentile` the share, in per cent, of
    native speech in which the same phone has a smaller `gop`; None if unknown.
    """

    token: str
    start_s: float
    end_s: float
    confidence: float
    start_sd_ms: float | None = None
    end_sd_ms: float | None = None
    by: str = ""
    gop: float | None = None
    heard: str | None = None
    gop_percentile: float | None = None


@dataclass(frozen=True, slots=True)
class AlignedWord:
    """One word of the transcript; times and confidence are None unless `status` is "aligned".

    `start_sd_ms` and `end_sd_ms` are as in `AlignedToken`. A word that a person has fixed may lack
    a confidence and tokens until it is aligned again
    (`ctc_align.alignment.aligner.Aligner.realign`).
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
    """`kind` and `speaker` are as in `Word`."""
    by: str = ""
    """`HAND` if a person has fixed both edges, otherwise ""."""
    language: str = ""
    """The language in which the word is spoken, if the transcript is in several."""


@dataclass(frozen=True)
class Region:
    """A stretch where recording and transcript disagree.

    Attributes:
        kind: one of `REGION_KINDS`.
        start_s, end_s: seconds from the start of the utterance; None if the region has no position
            in the recording.
        char_start, char_end: span of its words in the transcript (code points); None if it has no
            words.
        reason: an explanation for people.
    """

    kind: str
    start_s: float | None = None
    end_s: float | None = None
    char_start: int | None = None
    char_end: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class Written:
    """The labels that were written with the JSON of an alignment.

    By these, later changes of the labels can be found.

    Attributes:
        files: the files of labels, each as the part of its name after the JSON's name without
            `.json` (".TextGrid").
        words: the words with times, in the order of the text, each with its tokens; seconds from
            the utterance's start.
    """

    files: tuple[str, ...]
    words: tuple[tuple[Interval, tuple[Interval, ...]], ...]


@dataclass(frozen=True)
class Alignment:
    """A transcript aligned with its audio. Times are seconds from the start of the utterance.

    `loss` is the exact CTC loss -log p(transcript | audio) over all paths, natural log; `score` is
    the log-probability of the best CTC path, so `-score >= loss`.
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
    """Name of the token tier: "phones" if the tokens are phones."""
    unexplained: tuple[tuple[float, float], ...] = ()
    """Speech (start_s, end_s) that no word explains, as far as the model can tell."""
    unknown_letters: dict[str, int] = field(default_factory=dict)
    """The number of occurrences of each letter that the vocabulary lacks; `unknown` is their
    sum."""
    fit: str | None = None
    """One of `FITS`: how well the transcript fits the recording; None if the model has no limits to
    compute it from."""
    regions: tuple[Region, ...] = ()
    """The stretches where transcript and recording disagree, in order of time."""
    subtitles: Subtitles | None = None
    """The cues of the transcript, if it is a subtitle file."""
    places: tuple[BookPlace, ...] = ()
    """The paragraphs in order of `char_start`, if the transcript is a book; otherwise ()."""
    text_offset: int | None = None
    """If several recordings share a text (a book): the code points of that text before `text`;
    otherwise None."""
    local_loss: float | None = None
    """Nats by which the best path is below the frames' best labels, in the worst 0.3 s; None if it
    is not known."""
    checked: bool = False
    """True if a person has checked this recording and its words; a new alignment is not checked."""
    written: Written | None = None
    """The labels that were written with the JSON that this was read from; None if there were
    none."""

    @property
    def skipped(self) -> int:
        """The number of words that are not in the recording."""
        return sum(word.status == SKIPPED for word in self.words)

    @property
    def spoken(self) -> int:
        """The number of words that can be spoken: the aligned and the skipped ones."""
        return sum(word.status in (ALIGNED, SKIPPED) for word in self.words)

    @property
    def too_many_skipped(self) -> bool:
        """True if more of the words are missing than `max_skipped` (percent) allows."""
        return 100 * self.skipped > float(self.config.get("max_skipped", 100.0)) * self.spoken

    @property
    def unexplained_s(self) -> float:
        """The seconds of speech that no word explains."""
        return sum(end_s - start_s for start_s, end_s in self.unexplained)

    @property
    def min_confidence(self) -> float:
        """The confidence below which words are doubtful; 0 if none was set."""
        return float(self.config.get("min_confidence", 0.0))

    @property
    def doubtful(self) -> tuple[AlignedWord, ...]:
        """The words with a confidence below `min_confidence`."""
        least = self.min_confidence
        return tuple(
            word for word in self.words if word.confidence is not None and word.confidence < least
        )

    @property
    def to_check(self) -> int:
        """The number of words to check.

        No person fixed them, and their confidence is below 0.5, or `min_confidence`.
        """
        return sum(
            is_to_check(word.confidence, word.by, self.min_confidence) for word in self.words
        )

    @property
    def in_doubt(self) -> bool:
        """True if `min_confidence` was set and something is in doubt.

        Words are below it, speech is unexplained, or nothing fits.
        """
        return self.min_confidence > 0 and bool(
            self.doubtful or self.unexplained or self.fit == NONE
        )

    def __repr__(self) -> str:
        """Return one line: what was aligned, and how well it fits."""
        fit = f", fit {self.fit}" if self.fit else ""
        times = f"{len(self.words)} words, {self.duration_s:.2f} s"
        return (
            f"<Alignment of {self.utterance!r} by {self.model}: {times}, loss {self.loss:.1f}{fit}>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of format "ctc-align/1".

        It has plain dicts, lists, strings and finite numbers or None.
        """
        to_dict: Callable[[Alignment], dict[str, Any]] = import_late(f"{_FILES}.json_files:to_dict")
        return to_dict(self)

    def plot(
        self,
        start_s: float | None = None,
        end_s: float | None = None,
        *,
        audio: AudioLike | None = None,
        panels: Sequence[Panel] = ("waveform", "spectrogram"),
    ) -> Figure:
        """Draw the sound with the words, phones and speakers below it.

        The spread of edges is drawn, too. Needs the extra `plot`.

        Args:
            start_s, end_s: the stretch that is drawn, seconds from the start of the utterance;
                None: all of it. Up to 36 s are drawn finely, more without phones and spectrogram.
            audio: as for `ctc_align.align`; None: the path that the alignment names, relative to
                the current directory.
            panels: views of the sound, "waveform" and "spectrogram"; () draws only the tiers, and
                reads no recording.

        Returns:
            A matplotlib figure, made without pyplot: `figure.savefig("words.pdf")`.

        Raises:
            AudioError: the recording cannot be read.
            UsageError: matplotlib is not installed, or the stretch or a panel does not exist.
        """
        plot = import_late(f"{_FILES}.pages:plot_alignment")
        return plot(self, start_s, end_s, audio=audio, panels=panels)

    def _repr_html_(self) -> str:
        """Return the display of a notebook.

        It is the page with the recording, or a table if the recording is missing.
        """
        return import_late(f"{_FILES}.pages:notebook_html")(self)

    def save(self, path: str | Path, *, force: bool = False, sound: Audio | None = None) -> None:
        """Write the alignment in the format that the extension of `path` names.

        These are .json, .ctm, .TextGrid, .html and others.

        Args:
            path: the file.
            force: replace a file that exists; JSON with words by hand that this alignment lacks is
                moved to NAME.hand.json, and a warning says so.
            sound: the sound for a page, if it is not in a file; None: the recording that was
                aligned.

        Raises:
            OutputError: the file exists and `force` is not given, or it cannot be written.
            UsageError: no format has this extension.
        """
        import_late(f"{_FILES}.alignment_files:save_alignment")(
            self, path, force=force, sound=sound
        )


def is_worse_fit(fit: str | None, least: str) -> bool:
    """Return whether a fit is worse than `least`, both of `FITS`; False if it is not known.

    >>> is_worse_fit("none", "poor"), is_worse_fit("poor", "poor"), is_worse_fit(None, "good")
    (True, False, False)
    """
    return fit is not None and FITS.index(fit) > FITS.index(least)


def is_to_check(confidence: float | None, by: str, min_confidence: float) -> bool:
    """Return whether a word is to be checked.

    No person fixed it, and it is less sure than 0.5, or `min_confidence`.
    """
    return confidence is not None and confidence < max(SURE, min_confidence) and not by


def aligned_words(alignment: Alignment) -> Sequence[AlignedWord]:
    """Return the words that have times, in order."""
    return [word for word in alignment.words if word.status == ALIGNED]
