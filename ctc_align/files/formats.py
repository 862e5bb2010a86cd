"""The table of formats. To add a format, add a row and its writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from ctc_align.errors import UsageError
from ctc_align.files.elan import ElanWriter, read_elan
from ctc_align.files.json_files import JsonWriter, parse_object
from ctc_align.files.labels import AudacityWriter, CsvWriter, CtmWriter, TokenCtmWriter, TsvWriter
from ctc_align.files.pages import HtmlWriter, PngWriter, SvgWriter
from ctc_align.files.read_aloud import SmilWriter
from ctc_align.files.segments import LabelStudioWriter, WhisperWriter, parse_json_transcript
from ctc_align.files.subtitles import AssWriter, LrcWriter, SrtWriter, VttWriter, parse_subtitles
from ctc_align.files.textgrid import TextGridWriter, parse_textgrid
from ctc_align.files.writer import Writer
from ctc_align.types import SRT, VTT


@dataclass(frozen=True)
class Format:
    """A format of alignments.

    Attributes:
        writers: one for each file; a file's name ends in the `extension` of its writer.
        leaves_out: what the format cannot hold, in the words of docs/formats.md.
        reader: takes the bytes and the name of a file, and returns its content; raises CtcAlignError or ValueError if
            the file is incomplete. None for formats that are only written.
        media_type: media type of its files in responses of `ctc-align serve`.
        is_served: whether `ctc-align serve` offers it, because it needs only the alignment and its recording.
        needs_sound: whether it needs the recording.
    """

    writers: tuple[type[Writer], ...]
    leaves_out: str
    reader: Callable[[bytes, str], object] | None = None
    media_type: str = "text/plain; charset=utf-8"
    is_served: bool = True
    needs_sound: bool = False


_UNTIMED, _SKIPPED = "words without times", "words that are not in the recording"
_JSON = "application/json"
FORMATS: dict[str, Format] = {
    "json": Format((JsonWriter,), "nothing", parse_object, _JSON),
    "ctm": Format((CtmWriter, TokenCtmWriter), _UNTIMED),
    "textgrid": Format((TextGridWriter,), f"{_UNTIMED}, confidences", parse_textgrid),
    "srt": Format((SrtWriter,), f"{_SKIPPED}, speakers", lambda data, name: parse_subtitles(data.decode(), name, SRT)),
    "vtt": Format(
        (VttWriter,), _SKIPPED, lambda data, name: parse_subtitles(data.decode(), name, VTT), "text/vtt; charset=utf-8"
    ),
    "ass": Format((AssWriter,), _SKIPPED),
    "lrc": Format((LrcWriter,), f"{_SKIPPED}, speakers"),
    "tsv": Format((TsvWriter,), f"{_UNTIMED}, tokens", media_type="text/tab-separated-values; charset=utf-8"),
    "csv": Format((CsvWriter,), "the loss, `fit` and `regions`", media_type="text/csv; charset=utf-8"),
    "audacity": Format((AudacityWriter,), f"{_UNTIMED}, tokens, confidences"),
    "eaf": Format(
        (ElanWriter,), f"{_UNTIMED}, confidences", lambda data, name: read_elan(data.decode(), name), "application/xml"
    ),
    "smil": Format((SmilWriter,), f"paragraphs without an id, {_UNTIMED}", is_served=False),
    "html": Format((HtmlWriter,), "nothing", media_type="text/html; charset=utf-8", needs_sound=True),
    "labelstudio": Format((LabelStudioWriter,), _UNTIMED, media_type=_JSON),
    "whisper": Format(
        (WhisperWriter,), f"{_SKIPPED}, tokens", lambda data, name: parse_json_transcript(data.decode(), name), _JSON
    ),
    "png": Format((PngWriter,), "confidences", media_type="image/png", is_served=False, needs_sound=True),
    "svg": Format((SvgWriter,), "confidences", media_type="image/svg+xml", is_served=False, needs_sound=True),
}
DEFAULT_FORMATS = ("json", "ctm", "textgrid")
"""The formats that are written by default."""
JSON_EXPORTS = (WhisperWriter.extension, LabelStudioWriter.extension)
"""Extensions of JSON files for other programs."""


def parse_formats(formats: str) -> tuple[str, ...]:
    """Return the formats of a comma-separated list, in order.

    Raises:
        UsageError: the list is empty, or names a format that is unknown or needs a package that is not installed.

    >>> parse_formats("TextGrid, json")
    ('textgrid', 'json')
    """
    names = [name.strip().casefold() for name in formats.split(",") if name.strip()]
    unknown = [name for name in names if name not in FORMATS]
    if unknown or not names:
        got = ", ".join(unknown) or "an empty list"
        near = get_close_matches(unknown[0], FORMATS, n=1, cutoff=0.6) if unknown else []
        meant = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"--format: expected formats out of {', '.join(FORMATS)}; got {got}{meant}")
    for name in names:
        for writer in FORMATS[name].writers:
            writer.require()
    return tuple(dict.fromkeys(names))


def output_paths(out_dir: str | Path, name: str, formats: Sequence[str]) -> list[Path]:
    """Return the files of an alignment called `name`: one or more for each of `formats`, in their order."""
    return [Path(out_dir) / f"{name}{writer.extension}" for format in formats for writer in FORMATS[format].writers]


def writer_of(path: Path) -> type[Writer]:
    """Return the writer for the extension of a file name; raise UsageError if no format has this extension."""
    every = [writer for format in FORMATS.values() for writer in format.writers]
    fitting = [writer for writer in every if path.name.casefold().endswith(writer.extension.casefold())]
    if not fitting:
        known = ", ".join(writer.extension for writer in every)
        raise UsageError(f"{path}: expected a file name that ends in one of {known}")
    return max(fitting, key=lambda writer: len(writer.extension))
