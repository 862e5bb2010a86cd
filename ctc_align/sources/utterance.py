"""An utterance of a corpus and its result; entries of a source that are refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Protocol, TypedDict

from msgspec import Meta

from ctc_align.types import FITS, Transcript

Count = Annotated[int, Meta(ge=0, lt=1 << 53)]
Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{0,16}\Z")]
"""64 bits in hexadecimal."""
Number = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
Checksum = tuple[Count, Hash]
"""The bytes of a file or a row, and 64 bits of their BLAKE2b."""
Span = tuple[Count, Count]
"""Characters of a text: the first, and the end (exclusive)."""


@dataclass(frozen=True)
class Utterance:
    """One utterance of a source: a part of a recording, and its transcript.

    Args:
        id: unique in the source; the utterance's name in outputs, journal and messages.
        output: where its outputs go below the output folder, "/" between folders, no extension;
            never absolute, never with "..".
        audio: path of the recording, or of log-probs (a file, or FILE.ark:OFFSET), made absolute or
            relative to the current folder (not to the source).
        text: the transcript; the first of `texts` if there are alternatives.
        origin: its position in the source, for messages: "train.jsonl, line 17".
        offset_s: where the utterance begins in the recording.
        duration_s: its length in seconds; None: to the end of the recording.
        texts: alternatives (n-best) for `score`, at least two, in input order; () if there is one
            transcript.
        speaker: the source's name for the speaker, "" if it has none.
        channel: from 1; None: all of them, averaged.
        recording: name shared by utterances whose outputs go into one file (MFA's TextGrids);
            otherwise "".
        tier: the name of the tier that the utterance came from, if there is one.
        transcript: path of the transcript's file in the audio's folder, an input that no output may
            replace;
            "" if it is in one of the source's `files`.
        language: of the transcript (ISO 639 or BCP 47), "" if the source does not say.
        book: the text that many recordings share; this one reads a part of it, which the run has to
            find, and `text` is the whole. None if `text` is exactly what is said.
        file: the transcript with its cues (SRT, WebVTT) or places (EPUB), which outputs keep; None
            for a file without these.
    """

    id: str
    output: str
    audio: str
    text: str
    origin: str
    offset_s: float = 0.0
    duration_s: float | None = None
    texts: tuple[str, ...] = ()
    speaker: str = ""
    channel: int | None = None
    recording: str = ""
    tier: str = ""
    transcript: str = ""
    language: str = ""
    book: Transcript | None = None
    file: Transcript | None = None

    @property
    def spoken(self) -> str | Transcript:
        """The text for an aligner, with language, cues and places.

        It is the book where the recording reads a part of one.
        """
        if self.book is not None or not self.language:
            return self.book or self.file or self.text
        return replace(self.file or Transcript(self.text), language=self.language)

    @property
    def book_path(self) -> str | None:
        """The path of the text that many recordings share.

        It is None if `text` is exactly what is said.
        """
        return None if self.book is None else self.transcript


class Doubt(TypedDict):
    """A doubtful utterance.

    How many words and stretches of speech are doubtful, and the least confidence of a word.
    """

    words: Count
    unexplained: Count
    least_confidence: Number | None


def summed(name: str, zero: float = 0) -> dict[str, Any]:
    """Return the metadata of a field that the summary adds up under `name`.

    The sum starts from `zero`: 0.0 for fractions.
    """
    return {"sum": name, "zero": zero}


def counted(name: str) -> dict[str, Any]:
    """Return the metadata of a field whose values the summary counts under `name`."""
    return {"count": name}


@dataclass(frozen=True)
class UtteranceResult:
    """The result of one utterance.

    Its worker makes it (`engine/stages.py`) and the journal records it.

    A field that is added here comes last in a journal line; the metadata `summed` or `counted` puts
    it into the summary, too. Lines omit fields that are None, except `loss`, `seconds`,
    `loss_per_token` and `duration_s`.

    Attributes:
        loss, loss_per_token: nats; None if not finite, or if the utterance failed.
        seconds: time spent on it: reading, its share of its batch, writing.
        doubt: set if the confidence is below the minimum that the run requires.
        fit: of the transcript (one of `FITS`), None if the model cannot tell.
        skipped: number of words that are not in the recording, of all `words` that can be spoken.
        too_many_skipped: True if these are more than `max_skipped` allows, otherwise None.
        unexplained_s: seconds of speech that no word explains, None if there are none.
        looks: detected language of the text, if no language was named and it led to the model
            `universal`.
        text: hash of the transcript, None for a short one and for a part of a shared text.
        book: path of the shared text that this recording reads a part of; part: the characters of
            that part, None if nothing of the text is in the recording; left_out: the characters of
            the longest stretches within the part that are not in the recording.
        files: the files of this utterance alone, by their names relative to the output folder.
        row: the checksum of its part of a shared file.
        local_loss: nats, as in the alignment; None if not known.
        audio: the checksum of the file that the recording was read from.
        fast_cues: the number of cues that exceed `max_cps`; None if none do.
        notes: what was noted about it, such as a recording that is cut; None for nothing.
    """

    loss: Number | None = None
    seconds: Number = 0.0
    loss_per_token: Number | None = None
    duration_s: Number | None = None
    doubt: Doubt | None = None
    fit: Annotated[str, Meta(pattern=rf"\A(?:{'|'.join(FITS)})\Z")] | None = field(
        default=None, metadata=counted("fit")
    )
    skipped: Count | None = field(default=None, metadata=summed("skipped_words"))
    words: Count | None = field(default=None, metadata=summed("words"))
    too_many_skipped: bool | None = field(default=None, metadata=summed("too_many_skipped"))
    unexplained_s: Annotated[float, Meta(ge=0.0, le=sys.float_info.max)] | None = field(
        default=None, metadata=summed("unexplained_s", 0.0)
    )
    looks: str | None = field(default=None, metadata=counted("looks"))
    text: Annotated[str, Meta(pattern=r"\A[0-9a-f]{1,16}\Z")] | None = None
    book: str | None = None
    part: Span | None = None
    left_out: tuple[Span, ...] | None = None
    files: Mapping[str, Checksum] | None = None
    row: Checksum | None = None
    local_loss: Number | None = None
    audio: Checksum | None = None
    fast_cues: Count | None = field(default=None, metadata=summed("fast_cues"))
    notes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Refused:
    """An entry of a source that is not an utterance; its outcome is `failed`, with `reason`."""

    id: str
    origin: str
    reason: str


class Source(Protocol):
    """A corpus on disk.

    Iterating reads it in its order, streaming, with the same result every time.

    `kind` is the name for `--source`; `name` its path; `files` the inputs that hold more than one
    utterance (manifests), as far as known without reading the corpus: no output may replace them.
    """

    kind: str
    name: str
    files: tuple[str, ...]

    def __iter__(self) -> Iterator[Utterance | Refused]: ...
