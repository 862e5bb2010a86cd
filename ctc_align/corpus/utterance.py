"""What a corpus consists of: utterances, and lines of it that are none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Utterance:
    """One piece of speech with its transcript, as a source says.

    Args:
        id: unique in the source; the utterance's name in outputs, journal and messages.
        output: where its outputs go below the output folder, "/" between folders, no extension; never absolute, never
            with "..".
        audio: path of the recording, or of log-probs (a file, or FILE.ark:OFFSET), made absolute or relative to the
            current folder (not to the source).
        text: the transcript; the first of `texts` where there are alternatives.
        origin: who says so, for messages: "train.jsonl, line 17".
        offset_s: where the utterance begins in the recording.
        duration_s: its length, seconds; None: to the end of the recording.
        texts: alternatives (n-best) for `score`, at least two, in input order; () where there is one transcript.
        speaker: as the source names them, "" where it does not.
        channel: from 1; None: all of them, averaged.
        recording: utterances of one recording that come back in one file (MFA's TextGrids) share this name; "" else.
        tier: the name of the tier that the utterance came from, where there is one.
        transcript: path of the file beside the audio that holds the transcript, an input that no output may replace;
            "" where it stands in one of the source's `files`.
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


@dataclass(frozen=True)
class Refused:
    """What a source holds in the place of an utterance and cannot be one: its outcome is `failed`, with `reason`."""

    id: str
    origin: str
    reason: str


class Source(Protocol):
    """A corpus on disk. Iterating reads it in its own order, streaming, and gives the same every time.

    `kind` is the name for `--source`; `name` what the user gave; `files` the inputs that hold more than one utterance
    (manifests), as far as they are known without reading the corpus: no output may replace them.
    """

    kind: str
    name: str
    files: tuple[str, ...]

    def __iter__(self) -> Iterator[Utterance | Refused]: ...
