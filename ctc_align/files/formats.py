"""The table of formats. To add a format, add a row and its writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctc_align.errors import UsageError
from ctc_align.extras import import_late
from ctc_align.types import SRT, VTT

if TYPE_CHECKING:
    from ctc_align.files.writer import Writer
    from ctc_align.types import Tier


@dataclass(frozen=True)
class Format:
    """A format of alignments. Modules of formats are imported when they are used.

    Attributes:
        files: the writer of each file, as "MODULE:CLASS" in this folder, by the extension of its
            name.
        leaves_out: what the format cannot hold, in the words of docs/formats.md.
        reader: takes the bytes and the name of a file, and returns its content; raises
            CtcAlignError or ValueError if the file is incomplete. None for formats that are only
            written.
        media_type: media type of its files in responses of `ctc-align serve`.
        is_served: whether `ctc-align serve` offers it, because it needs only the alignment and its
            recording.
        needs_sound: whether it needs the recording.
        labels: takes the bytes and the name of a file, and returns its tiers, for formats in which
            people correct labels. Raises like `reader`.
    """

    files: Mapping[str, str]
    leaves_out: str
    reader: Callable[[bytes, str], object] | None = None
    media_type: str = "text/plain; charset=utf-8"
    is_served: bool = True
    needs_sound: bool = False
    labels: Callable[[bytes, str], Sequence[Tier]] | None = None

    @cached_property
    def writers(self) -> tuple[type[Writer], ...]:
        """The writers of its files, in order."""
        return tuple(_imported(name) for name in self.files.values())


def _imported(name: str) -> Any:
    """Return the class or function "MODULE:NAME" of this folder."""
    return import_late(f"ctc_align.files.{name}")


def _reader(name: str, *arguments: str, of_text: bool = True) -> Callable[[bytes, str], Any]:
    """Return a reader that calls a function with a file's content.

    The function gets the file's text, or its bytes, its name, and arguments.
    """
    return lambda data, file: _imported(name)(data.decode() if of_text else data, file, *arguments)


_UNTIMED = "words without times"
_SKIPPED = "words that are not in the recording"
_JSON = "application/json"
FORMATS: dict[str, Format] = {
    "json": Format(
        {".json": "json_files:JsonWriter"},
        "nothing",
        _reader("json_files:parse_object", of_text=False),
        _JSON,
    ),
    "ctm": Format({".ctm": "labels:CtmWriter", ".tokens.ctm": "labels:TokenCtmWriter"}, _UNTIMED),
    "textgrid": Format(
        {".TextGrid": "textgrid:TextGridWriter"},
        f"{_UNTIMED}, confidences",
        _reader("textgrid:parse_textgrid", of_text=False),
        labels=_reader("textgrid:textgrid_tiers", of_text=False),
    ),
    "srt": Format(
        {".srt": "subtitles:SrtWriter"},
        f"{_SKIPPED}, speakers",
        _reader("subtitles:parse_subtitles", SRT),
    ),
    "vtt": Format(
        {".vtt": "subtitles:VttWriter"},
        _SKIPPED,
        _reader("subtitles:parse_subtitles", VTT),
        "text/vtt; charset=utf-8",
    ),
    "ass": Format({".ass": "subtitles:AssWriter"}, _SKIPPED),
    "lrc": Format(
        {".lrc": "subtitles:LrcWriter"}, f"{_SKIPPED}, speakers", _reader("subtitles:parse_lyrics")
    ),
    "tsv": Format(
        {".tsv": "labels:TsvWriter"},
        f"{_UNTIMED}, tokens",
        media_type="text/tab-separated-values; charset=utf-8",
    ),
    "csv": Format(
        {".csv": "labels:CsvWriter"},
        "the loss, `fit` and `regions`",
        media_type="text/csv; charset=utf-8",
        labels=_reader("labels:csv_tiers", of_text=False),
    ),
    "audacity": Format(
        {".audacity.txt": "labels:AudacityWriter"},
        f"{_UNTIMED}, tokens, confidences",
        labels=_reader("labels:audacity_tiers", of_text=False),
    ),
    "eaf": Format(
        {".eaf": "elan:ElanWriter"},
        f"{_UNTIMED}, confidences",
        _reader("elan:read_elan"),
        "application/xml",
        labels=_reader("elan:elan_tiers", of_text=False),
    ),
    "smil": Format(
        {".smil": "read_aloud:SmilWriter"}, f"paragraphs without an id, {_UNTIMED}", is_served=False
    ),
    "html": Format(
        {".html": "pages:HtmlWriter"},
        "nothing",
        media_type="text/html; charset=utf-8",
        needs_sound=True,
    ),
    "labelstudio": Format(
        {".labelstudio.json": "segments:LabelStudioWriter"}, _UNTIMED, media_type=_JSON
    ),
    "whisper": Format(
        {".whisper.json": "segments:WhisperWriter"},
        f"{_SKIPPED}, tokens",
        _reader("json_transcripts:parse_json_transcript"),
        _JSON,
    ),
    "png": Format(
        {".png": "pages:PngWriter"},
        "confidences",
        media_type="image/png",
        is_served=False,
        needs_sound=True,
    ),
    "svg": Format(
        {".svg": "pages:SvgWriter"},
        "confidences",
        media_type="image/svg+xml",
        is_served=False,
        needs_sound=True,
    ),
}
EXTENSIONS = tuple(extension for format in FORMATS.values() for extension in format.files)
"""The extensions of all formats' files."""
LABELS = {
    extension: format.labels
    for format in FORMATS.values()
    if format.labels
    for extension in format.files
}
"""The readers of files in which people correct labels, by their extensions."""
DEFAULT_FORMATS = ("json", "ctm", "textgrid")
"""The formats that are written by default."""
JSON_EXPORTS = (*FORMATS["whisper"].files, *FORMATS["labelstudio"].files)
"""Extensions of JSON files for other programs."""


def parse_formats(formats: str) -> tuple[str, ...]:
    """Return the formats of a comma-separated list, in order.

    Raises:
        UsageError: the list is empty, or names a format that is unknown or needs a package that is
            not installed.

    >>> parse_formats("TextGrid, json")
    ('textgrid', 'json')
    """
    names = [name.strip().casefold() for name in formats.split(",") if name.strip()]
    unknown = [name for name in names if name not in FORMATS]
    if unknown or not names:
        got = ", ".join(unknown) or "an empty list"
        near = get_close_matches("".join(unknown[:1]), FORMATS, n=1, cutoff=0.6)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(
            f"--format: expected formats out of {', '.join(FORMATS)}; got {got}{meant}"
        )
    for name in names:
        for writer in FORMATS[name].writers:
            writer.require()
    return tuple(dict.fromkeys(names))


def output_paths(out_dir: str | Path, name: str, formats: Sequence[str]) -> list[Path]:
    """Return the files of an alignment called `name`.

    One or more for each of `formats`, in their order.
    """
    return [
        Path(out_dir) / f"{name}{extension}"
        for format in formats
        for extension in FORMATS[format].files
    ]


def writer_of(path: Path) -> type[Writer]:
    """Return the writer for the extension of a file name.

    Raises UsageError if no format has this extension.
    """
    name = path.name.casefold()
    fitting = [extension for extension in EXTENSIONS if name.endswith(extension.casefold())]
    if not fitting:
        raise UsageError(
            f"{path}: expected a file name that ends in one of {', '.join(EXTENSIONS)}"
        )
    longest = max(fitting, key=len)
    return next(
        _imported(format.files[longest]) for format in FORMATS.values() if longest in format.files
    )
