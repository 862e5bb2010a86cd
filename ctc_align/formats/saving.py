"""Outputs on disk: all of them, whole, or none."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ctc_align.errors import OutputError, UsageError
from ctc_align.formats.audacity import AudacityWriter
from ctc_align.formats.ctm import CtmWriter, TokenCtmWriter
from ctc_align.formats.json_format import JsonWriter
from ctc_align.formats.srt import SrtWriter
from ctc_align.formats.textgrid import TextGridWriter
from ctc_align.formats.tsv import TsvWriter
from ctc_align.formats.vtt import VttWriter
from ctc_align.formats.whole_files import placing
from ctc_align.formats.writer import HasStyle, Style, Writer
from ctc_align.types import AlignmentData

WRITERS: dict[str, tuple[type[Writer], ...]] = {
    "json": (JsonWriter,),
    "ctm": (CtmWriter, TokenCtmWriter),
    "textgrid": (TextGridWriter,),
    "srt": (SrtWriter,),
    "vtt": (VttWriter,),
    "tsv": (TsvWriter,),
    "audacity": (AudacityWriter,),
}
DEFAULT_FORMATS = ("json", "ctm", "textgrid")

Settings = HasStyle | Mapping[str, Any] | None


def parse_formats(formats: str) -> tuple[str, ...]:
    """The formats of a comma-separated list, in its order.

    Raises:
        UsageError: the list is empty or names a format that there is not.

    >>> parse_formats("TextGrid, json")
    ('textgrid', 'json')
    """
    names = [name.strip().casefold() for name in formats.split(",") if name.strip()]
    unknown = [name for name in names if name not in WRITERS]
    if unknown or not names:
        met = ", ".join(unknown) or "an empty list"
        raise UsageError(f"expected formats out of {', '.join(WRITERS)}; got {met}")
    return tuple(dict.fromkeys(names))


def output_paths(out_dir: str | Path, name: str, formats: Sequence[str]) -> list[Path]:
    """The files that `write_outputs` writes, in its order."""
    return [Path(out_dir) / f"{name}{writer.extension}" for format in formats for writer in WRITERS[format]]


def check_outputs(
    out_dir: str | Path, name: str, formats: Sequence[str], *, force: bool = False, protect: Sequence[str | Path] = ()
) -> None:
    """Refuse, before any work, outputs that cannot or must not be written.

    Args:
        protect: inputs; they are never overwritten, `force` or not.

    Raises:
        OutputError: an output exists and `force` is not given, is an input or a folder, or `out_dir` is not a
            folder that can be written (or made).
    """
    try:
        _check_folder(Path(out_dir))
        _check_files(output_paths(out_dir, name, formats), force, protect)
    except OSError as error:
        raise OutputError(f"{error.filename or out_dir}: cannot be written ({error.strerror or error})") from error


def _check_files(paths: Sequence[Path], force: bool, protect: Sequence[str | Path]) -> None:
    for path in paths:
        for source in protect:
            if path.exists() and Path(source).exists() and path.samefile(source):
                raise OutputError(
                    f"{path}: is an input of this call and is never overwritten; choose another --out-dir"
                )
        if path.is_dir():
            raise OutputError(f"{path}: is a folder where a file would be written; move it or choose another --out-dir")
    existing = [path for path in paths if path.exists()]
    if existing and not force:
        others = f" (and {len(existing) - 1} more)" if len(existing) > 1 else ""
        raise OutputError(f"{existing[0]}: exists already{others}; give --force to replace it, or another --out-dir")


def _check_folder(folder: Path) -> None:
    ancestor = folder
    while not ancestor.exists() and ancestor != ancestor.parent:
        ancestor = ancestor.parent
    if not ancestor.is_dir():
        raise OutputError(f"{folder}: expected a folder for the outputs, but {ancestor} is a file")
    if not os.access(ancestor, os.W_OK | os.X_OK):
        raise OutputError(f"{ancestor}: this folder cannot be written; choose another --out-dir")


def write_outputs(
    alignment: AlignmentData,
    out_dir: str | Path,
    name: str,
    formats: Sequence[str] = DEFAULT_FORMATS,
    *,
    settings: Settings = None,
    force: bool = False,
    protect: Sequence[str | Path] = (),
    parts: Path | None = None,
) -> list[Path]:
    """Write `name` + extension for every format into `out_dir` (made if need be): all of them whole, or none.

    Args:
        settings: anything with `times` and `labels`; by default what the alignment's `config` says.
        parts: a folder, on the same file system, for files in the making; by default they lie beside their places.

    Raises:
        OutputError: as `check_outputs`, or writing failed; then nothing half-written is left.
    """
    check_outputs(out_dir, name, formats, force=force, protect=protect)
    style = Style.of(alignment.config if settings is None else settings)
    writers = [writer(style) for format in formats for writer in WRITERS[format]]
    targets = output_paths(out_dir, name, formats)
    try:
        Path(out_dir).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{out_dir}: this folder cannot be made ({error.strerror or error})") from error
    _write_whole([(target, writer) for target, writer in zip(targets, writers)], alignment, parts)
    return targets


def save(alignment: AlignmentData, path: str | Path, *, force: bool = False) -> None:
    """Write one file in the format that its extension names (.json, .ctm, .TextGrid, .srt …), whole or not at all.

    Raises:
        UsageError: no format has this extension.
        OutputError: the file exists and `force` is not given, or it cannot be written.
    """
    path = Path(path)
    writer = _writer_of(path)()
    try:
        _check_folder(path.parent)
        is_folder, exists = path.is_dir(), path.exists()
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error
    if is_folder:
        raise OutputError(f"{path}: is a folder; give the path of a file")
    if exists and not force:
        raise OutputError(f"{path}: exists already; give force=True to replace it")
    _write_whole([(path, writer)], alignment)


def _writer_of(path: Path) -> type[Writer]:
    every = [writer for writers in WRITERS.values() for writer in writers]
    fitting = [writer for writer in every if path.name.casefold().endswith(writer.extension.casefold())]
    if not fitting:
        known = ", ".join(writer.extension for writer in every)
        raise UsageError(f"{path}: expected a file name that ends in one of {known}")
    return max(fitting, key=lambda writer: len(writer.extension))


def rendered(alignment: AlignmentData, format: str, settings: Settings = None) -> bytes:
    """The (first) file of `format` in memory, UTF-8: for standard output."""
    writer = WRITERS[format][0](Style.of(alignment.config if settings is None else settings))
    return _encoded(writer, alignment)


def _encoded(writer: Writer, alignment: AlignmentData) -> bytes:
    text = io.StringIO()
    writer.write(alignment, text)
    return text.getvalue().encode("utf-8", writer.encoding_errors)


def _write_whole(jobs: Sequence[tuple[Path, Writer]], alignment: AlignmentData, parts: Path | None = None) -> None:
    """Temporary files first; only when all are complete do they take their places."""
    with placing([target for target, _ in jobs], parts) as files:
        for (_, part), (_, writer) in zip(files, jobs):
            _write_bytes(part, _encoded(writer, alignment))


def _write_bytes(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
