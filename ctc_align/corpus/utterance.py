"""The entries of a corpus: utterances, and lines that are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from ctc_align.types import Transcript


@dataclass(frozen=True)
class Utterance:
    """One utterance of a source: a part of a recording, and its transcript.

    Args:
        id: unique in the source; the utterance's name in outputs, journal and messages.
        output: where its outputs go below the output folder, "/" between folders, no extension; never absolute, never
            with "..".
        audio: path of the recording, or of log-probs (a file, or FILE.ark:OFFSET), made absolute or relative to the
            current folder (not to the source).
        text: the transcript; the first of `texts` where there are alternatives.
        origin: its place in the source, for messages: "train.jsonl, line 17".
        offset_s: where the utterance begins in the recording.
        duration_s: its length, seconds; None: to the end of the recording.
        texts: alternatives (n-best) for `score`, at least two, in input order; () where there is one transcript.
        speaker: the source's name for the speaker, "" where it does not.
        channel: from 1; None: all of them, averaged.
        recording: name shared by utterances whose outputs go into one file (MFA's TextGrids); "" else.
        tier: the name of the tier that the utterance came from, where there is one.
        transcript: path of the transcript's file in the audio's folder, an input that no output may replace;
            "" where it is in one of the source's `files`.
        language: of the transcript (ISO 639 or BCP 47), "" where the source does not say.
        book: the text of many recordings, of which this one reads a part that is to be found; `text` is all of it. None
            where `text` is what is said.
        file: what was read with `text` where its file has cues (SRT, WebVTT) or places (EPUB), to be kept; else None.
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
        """The text as an aligner takes it: with language, cues and places, or the book that a part of is read."""
        if self.book is not None or not self.language:
            return self.book or self.file or self.text
        return replace(self.file or Transcript(self.text), language=self.language)


@dataclass(frozen=True)
class Refused:
    """An entry of a source that is no utterance; its outcome is `failed`, with `reason`."""

    id: str
    origin: str
    reason: str


class Source(Protocol):
    """A corpus on disk. Iterating reads it in its order, streaming, with the same result every time.

    `kind` is the name for `--source`; `name` its path; `files` the inputs that hold more than one utterance
    (manifests), as far as they are known without reading the corpus: no output may replace them.
    """

    kind: str
    name: str
    files: tuple[str, ...]

    def __iter__(self) -> Iterator[Utterance | Refused]: ...
