"""Alignments and their output files: written whole or not at all, and read again."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctc_align.errors import InputError, OutputError
from ctc_align.files.corrections import is_corrected, keep_corrected
from ctc_align.files.formats import DEFAULT_FORMATS, FORMATS, writer_of
from ctc_align.files.json_files import JsonWriter, alignment_fields, fixes_of, read_object
from ctc_align.files.tiers import is_document
from ctc_align.files.whole_files import placing
from ctc_align.files.writer import Style, StyleSource, Writer, WritingContext
from ctc_align.files.written_labels import with_written
from ctc_align.types import EAF, TEXTGRID, Alignment, Audio

Written = Callable[[Path, bytes], None]


def save_alignment(
    alignment: Alignment, path: str | Path, *, force: bool, sound: Audio | None
) -> None:
    """Write an alignment, as `Alignment.save` says."""
    path = Path(path)
    writer = writer_of(path)()
    writer.require()
    try:
        check_folder(path.parent)
        is_folder, exists = path.is_dir(), os.path.lexists(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error})") from error
    if is_folder:
        raise OutputError(f"{path}: is a folder; give the path of a file")
    if exists and not force:
        raise OutputError(f"{path}: already exists; give force=True to replace it")
    _write_whole([(path, writer)], alignment, sound=sound)


def read_alignment(path: str | Path) -> Alignment:
    """Read the JSON file of an alignment.

    Its times then count from the utterance's start, even if those in the file do not.

    Raises:
        InputError: the file cannot be read, is not JSON, or is not in this format.
    """
    return from_dict(read_object(path), path)


def from_dict(data: dict[str, Any], name: str | Path = "the JSON object") -> Alignment:
    """Return the alignment of a JSON object from `to_dict`; `name` is its name in error messages.

    Raises:
        InputError: something is missing.
    """
    return Alignment(**alignment_fields(data, name))


def document_tiers(alignment: Alignment) -> tuple[str, ...]:
    """Return the names of the tiers if the transcript is a TextGrid or an ELAN file.

    () for other transcripts.
    """
    if is_document(alignment.subtitles, TEXTGRID):
        from ctc_align.files.textgrid import textgrid_layout

        _, names, _ = textgrid_layout(alignment.subtitles.document)
        return names
    if is_document(alignment.subtitles, EAF):
        from ctc_align.files.elan import read_elan

        return read_elan(alignment.subtitles.document).names
    return ()


@dataclass(frozen=True)
class OutputFiles:
    """The files of one alignment.

    They are `name` + extension for every format, in `out_dir`, which is created if necessary.

    Args:
        force: replace files that exist.
        protect: inputs, which are never overwritten, even with `force`.
        beside: an output that would overwrite an input is written as NAME.aligned.EXT; otherwise
            this is an error.

    Raises:
        OutputError: raised at once, before any work: an output exists and `force` is not given, an
            output is an input or a folder, or `out_dir` cannot be created or written.
    """

    out_dir: str | Path
    name: str
    formats: Sequence[str] = DEFAULT_FORMATS
    force: bool = False
    protect: Sequence[str | Path] = ()
    beside: bool = False

    def __post_init__(self) -> None:
        try:
            check_folder(Path(self.out_dir))
            self._check_files()
        except OSError as error:
            reason = error.strerror or error
            raise OutputError(
                f"{error.filename or self.out_dir}: cannot be written ({reason})"
            ) from error

    @property
    def paths(self) -> list[Path]:
        """The files, in the order of the formats."""
        return list(self._targets.values())

    @property
    def renamed(self) -> dict[Path, Path]:
        """The outputs that would replace an input, each with the file that is written instead."""
        return {path: target for path, target in self._targets.items() if target != path}

    @property
    def _writers(self) -> list[type[Writer]]:
        """The writer of each file."""
        return [writer for format in self.formats for writer in FORMATS[format].writers]

    @property
    def _targets(self) -> dict[Path, Path]:
        """The files with this name, and the content of each."""
        targets = {}
        for extension in [end for format in self.formats for end in FORMATS[format].files]:
            path = target = Path(self.out_dir) / f"{self.name}{extension}"
            name = self.name
            while self.beside and self._is_input(target):
                name += ".aligned"
                target = Path(self.out_dir) / f"{name}{extension}"
            targets[path] = target
        return targets

    def _is_input(self, path: Path) -> bool:
        return path.exists() and any(
            Path(source).exists() and path.samefile(source) for source in self.protect
        )

    def write(
        self,
        alignment: Alignment,
        style: StyleSource = None,
        parts: Path | None = None,
        written: Written | None = None,
        sound: Audio | str | None = None,
    ) -> list[Path]:
        """Write all files completely, or none, and return their paths.

        JSON in which a person has fixed words is not replaced by an alignment without them: it is
        moved to NAME.hand.json, and a warning says so.

        Args:
            style: any object with `times` and `labels`; None: those in the alignment's `config`.
            parts: a folder, on the same file system, for unfinished files; None: they lie beside
                their targets.
            written: called with the path and the bytes of each file.
            sound: the aligned sound, if it is in memory, or the path of its recording; None: the
                recording that the alignment names.

        Raises:
            OutputError: writing failed, or a file appeared since the check; no incomplete file
                remains.
        """
        style = Style.of(alignment.config if style is None else style)
        writers = [writer(style) for writer in self._writers]
        try:
            if parts is None:
                Path(self.out_dir).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"{self.out_dir}: this folder cannot be created ({error.strerror or error})"
            ) from error
        if not self.force:
            self._check_files()
        beside = _write_whole(list(zip(self.paths, writers)), alignment, parts, written, sound)
        return [*self.paths, *beside]

    def _check_files(self) -> None:
        for path in self.paths:
            if self._is_input(path):
                raise OutputError(
                    f"{path}: is an input of this call and is never overwritten; choose another"
                    " --out-dir"
                )
            if path.is_dir():
                raise OutputError(
                    f"{path}: is a folder where a file would be written; move it or choose another"
                    " --out-dir"
                )
        beside = [
            path.with_suffix(writer.beside_extension)
            for path, writer in zip(self.paths, self._writers)
            if writer.beside_extension
        ]
        existing = [path for path in (*self.paths, *beside) if os.path.lexists(path)]
        if existing and not self.force:
            others = ""
            if len(existing) > 1:
                others = f" (and {len(existing) - 1} more)"
            raise OutputError(
                f"{existing[0]}: already exists{others}; give --force to replace it, or another"
                " --out-dir"
            )


def check_folder(folder: Path) -> None:
    """Raise OutputError unless a path is a writable folder, or can be created as one.

    Raises:
        OSError: the path cannot be examined, for example because its name is too long.
    """
    with suppress(FileNotFoundError, NotADirectoryError, ValueError):
        folder.stat()  # from Python 3.14 on `exists` hides all other faults
    ancestor = folder
    while not ancestor.exists() and ancestor != ancestor.parent:
        ancestor = ancestor.parent
    if not ancestor.is_dir():
        raise OutputError(f"{folder}: expected a folder for the outputs, but {ancestor} is a file")
    if not os.access(ancestor, os.W_OK | os.X_OK):
        raise OutputError(f"{ancestor}: this folder cannot be written; choose another --out-dir")


def rendered(
    alignment: Alignment,
    format: str,
    style: StyleSource = None,
    sound: Audio | str | None = None,
) -> bytes:
    """Return the (first) file of `format` as bytes (text as UTF-8), for standard output."""
    writer = FORMATS[format].writers[0](Style.of(alignment.config if style is None else style))
    return _encoded(writer, alignment, WritingContext(sound=sound))


def _encoded(writer: Writer, alignment: Alignment, context: WritingContext) -> bytes:
    file = io.BytesIO()
    writer.write_bytes(alignment, file, context)
    return file.getvalue()


def _write_whole(
    jobs: Sequence[tuple[Path, Writer]],
    alignment: Alignment,
    parts: Path | None = None,
    written: Written | None = None,
    sound: Audio | str | None = None,
) -> list[Path]:
    """Write temporary files, which replace their targets when all are complete.

    Return the files that were added.

    Existing files with hand corrections that would be lost are moved aside. A corpus run (with
    `written`) writes exactly the planned files, none of which brings another file with it.
    """
    beside: dict[Path, bytes] = {}
    targets = [target for target, _ in jobs]
    for target, writer in jobs:
        if isinstance(writer, JsonWriter):
            alignment = with_written(alignment, target, targets, writer.style(alignment))
    with placing(targets, parts) as files:
        for (target, part), (_, writer) in zip(files, jobs):
            context = WritingContext(target, sound, beside if written is None else None)
            with open(part, "xb") as file:
                if written is None:
                    writer.write_bytes(alignment, file, context)
                    continue
                data = _encoded(writer, alignment, context)
                file.write(data)
            written(target, data)
        for target, data in beside.items():
            with open(files.add(target), "xb") as file:
                file.write(data)
        for target, _ in jobs:
            if not _holds_fixes(alignment, target):
                keep_corrected(target)
    return list(beside)


def _holds_fixes(alignment: Alignment, path: Path) -> bool:
    """Return whether an alignment has a file's text, hand-corrected words and sign-off.

    The words are all of those that a person fixed in the file.
    """
    if not is_corrected(path):
        return True
    try:
        corrected = read_alignment(path)
    except InputError:
        return False
    same = corrected.text == alignment.text and corrected.checked <= alignment.checked
    return same and fixes_of(corrected.words) <= fixes_of(alignment.words)
