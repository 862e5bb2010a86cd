"""Corpora on disk, of every kind, as streams of utterances.

open_source(path, kind=None)   a Source that yields `Utterance` and `Refused`, always the same ones in the same order
KINDS                          the classes by their names for `--source`

A new kind is a class, derived from `FileSource` or `FolderSource`, and its row in `KINDS`. An entry
that is not an utterance is a `Refused` with a reason; nothing is skipped silently.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NoReturn

from ctc_align.errors import UsageError
from ctc_align.sources.manifest_files import Lhotse, Manifest, MetadataFolder, Table, table_fault
from ctc_align.sources.source import (
    FileSource,
    FolderSource,
    TextLine,
    is_utf16,
    printable,
    read_head,
    require_file,
    require_folder,
    shown,
)
from ctc_align.sources.transcribed_folders import (
    LOG_PROBS_SCP,
    SCP,
    SOUND,
    Kaldi,
    LibriSpeech,
    MfaFolder,
    folders_below,
)
from ctc_align.sources.utterance import Refused, Source, Utterance
from ctc_align.text.encodings import known_encoding

KINDS: dict[str, type[FileSource] | type[FolderSource]] = {
    "manifest": Manifest,
    "lhotse": Lhotse,
    "table": Table,
    "kaldi": Kaldi,
    "librispeech": LibriSpeech,
    "metadata": MetadataFolder,
    "mfa": MfaFolder,
}
"""In the order in which they examine a file."""
_ALIASES = {"folder": "mfa"}
_MANIFESTS = (".jsonl", ".jsonl.gz", ".csv", ".tsv", ".json")
_SOURCES = (
    "a manifest (JSONL), a table (CSV or TSV with a header, or ID|TEXT), Lhotse cuts, or a folder"
)


def open_source(
    path: str | os.PathLike[str],
    kind: str | None = None,
    *,
    exclude: Sequence[str] = (),
    fold_case: bool = False,
    parts: bool = False,
    text: str = "",
    encoding: str | None = None,
) -> Source:
    """Return the corpus at `path`, of the kind that its content shows, or of `kind`.

    A file is `lhotse` or `manifest` by its first JSON object, a `table` by its header. A folder is
    `kaldi` if it has a wav.scp or a logprobs.scp; else the first folder in it that has either
    decides: `librispeech` for a *.trans.txt, `mfa` for a sound file with a transcript beside it. A
    folder without these is `metadata` if it has a table of that name, and `mfa` if it has only
    recordings or only transcripts.

    Args:
        path: a file or a folder.
        kind: one of KINDS ("folder" is another name for "mfa"); None: detected.
        exclude: folders that do not belong to the corpus even if they lie in it, such as the output
            folder.
        fold_case: the output folder does not distinguish "A" from "a" (see `UsedIds`).
        parts: accept a folder of recordings that share one text, where each recording reads a part
            of it (`Utterance.book`). Without this such recordings are refused: all of the text
            would count as spoken.
        text: path of the text of which each recording in the folder and its subfolders reads a
            part. Recordings with
            a transcript beside them use that.
        encoding: of texts that are not UTF-8, as in `ctc_align.text.encodings.decode_text`.

    Raises:
        TranscriptError: `text` cannot be read.
        UsageError: nothing is there, or it cannot be read, is empty, or is not of this kind.
    """
    name = os.fspath(path)
    excluded = tuple(map(os.fspath, exclude))
    if encoding:
        known_encoding(encoding)
    if text:
        kind = _kind_with_text(name, kind)
    if kind is None:
        kind = _detected_kind(name, excluded)
    else:
        kind = _checked_kind(name, excluded, kind)
    source = _opened(
        name, excluded, kind, fold_case=fold_case, parts=parts, text=text, encoding=encoding
    )
    if kind != "kaldi" and next(iter(source), None) is None:
        raise UsageError(
            f"{printable(name)}: expected the utterances of a corpus ({kind}), got none: it is"
            " empty"
        )
    return source


def _checked_kind(name: str, excluded: tuple[str, ...], kind: str) -> str:
    """Return the kind that --source names; raise UsageError if the source is not of this kind."""
    if kind not in KINDS.keys() | _ALIASES.keys():
        raise UsageError(f"--source: expected one of {', '.join((*KINDS, *_ALIASES))}, got {kind}")
    kind = _ALIASES.get(kind, kind)
    if issubclass(KINDS[kind], FileSource):
        require_file(name, f"a file (--source {kind})")
    else:
        require_folder(name, f"a folder (--source {kind})")
    _check_kind(name, excluded, kind)
    return kind


def _opened(
    path: str,
    exclude: tuple[str, ...],
    kind: str,
    *,
    fold_case: bool,
    parts: bool,
    text: str,
    encoding: str | None,
) -> Source:
    """Return the corpus as a source of its kind."""
    reader = KINDS[kind]
    if issubclass(reader, MfaFolder):
        return reader(path, exclude, fold_case=fold_case, parts=parts, text=text, encoding=encoding)
    source: FileSource | FolderSource
    if issubclass(reader, FolderSource):
        source = reader(path, exclude, fold_case=fold_case)
    else:
        source = reader(path, fold_case=fold_case)
    source.encoding = encoding
    return source


def _kind_with_text(path: str, kind: str | None) -> str:
    """Return the kind of a folder of recordings that read parts of one text.

    Raise UsageError for anything else.
    """
    if not os.path.isdir(path) or kind not in (None, "mfa", "folder"):
        got = f"--source {kind}" if os.path.isdir(path) else "not a folder"
        raise UsageError(
            f"{printable(path)}: expected a folder of recordings that read parts of --text, got"
            f" {got}"
        )
    return "mfa"


def _detected_kind(path: str, exclude: tuple[str, ...]) -> str:
    """Return the name of the kind by the content; raise UsageError if it is not a corpus."""
    if os.path.isdir(path):
        return _folder_kind(path, exclude)
    require_file(path, f"{_SOURCES} of a corpus")
    kind = _file_kind(path)
    if kind is None:
        if not read_head(path, 1):
            raise UsageError(f"{printable(path)}: expected {_SOURCES}, got an empty file")
        _refuse_text(path, f"{_SOURCES} of a corpus")
    return kind


def _file_kind(path: str) -> str | None:
    """Return the first kind that recognises the file, None if there is none."""
    return next(
        (
            name
            for name, kind in KINDS.items()
            if issubclass(kind, FileSource) and kind.is_kind_of(path)
        ),
        None,
    )


def _check_kind(path: str, exclude: tuple[str, ...], kind: str) -> None:
    """Raise UsageError unless the file or folder may be a corpus of this kind."""
    if kind in ("manifest", "lhotse"):
        got = _file_kind(path)
        if got is None or got == "table":
            _refuse_text(path, "JSON objects, one per line")
        if got != kind:
            what = {
                "manifest": "a manifest: lines with audio_filepath and text",
                "lhotse": "Lhotse cuts",
            }
            raise UsageError(
                f"{printable(path)}: expected {what[kind]}, got {what[got]}; give --source {got}"
            )
    elif kind == "librispeech" and not any(folder.trans for folder in folders_below(path, exclude)):
        raise UsageError(
            f"{printable(path)}: expected a *.trans.txt in it or in a folder below it, got none"
        )


def _refuse_text(path: str, expected: str) -> NoReturn:
    """Raise UsageError, which names the kind of the file and the expected kind."""
    head = read_head(path, 1) or [TextLine(1, "")]
    first = head[0].text.lstrip()
    if is_utf16(path):
        got = "UTF-16: save it as UTF-8"
    elif os.path.splitext(path)[1].lower() in SOUND:
        got = "a single recording; to align it: ctc-align AUDIO TRANSCRIPT"
    elif first.startswith("["):
        got = "one JSON list: write its entries one per line (JSONL)"
    elif first == "{":
        got = "JSON that spans several lines: write one object per line (JSONL)"
    elif os.path.basename(path) in (SCP, LOG_PROBS_SCP, "segments", "utt2spk", "text"):
        got = "a file of a Kaldi data folder: give the folder"
    else:
        got = (
            head[0].fault
            or table_fault(head[0].text)
            or (shown(head[0].text) if first else "an empty file")
        )
    raise UsageError(f"{printable(path)}: expected {expected}, got {got}")


def _folder_kind(path: str, exclude: tuple[str, ...]) -> str:
    require_folder(path, "a corpus")
    if Kaldi.is_kind_of(path):
        return "kaldi"
    has_table = MetadataFolder.is_kind_of(path)
    has_half = False
    for folder in folders_below(path, exclude):
        if folder.trans:
            return "librispeech"
        if folder.has_pair or (folder.book and not has_table):
            return "mfa"
        has_half = has_half or bool(folder.sounds or folder.texts or folder.grids or folder.books)
    if has_table:
        return "metadata"
    manifests = sorted(name for name in os.listdir(path) if name.lower().endswith(_MANIFESTS))
    if has_half and not manifests:
        return "mfa"
    expected = "wav.scp, *.trans.txt, metadata.csv or audio with transcripts beside it"
    hint = f"; did you mean {printable(os.path.join(path, manifests[0]))}?" if manifests else ""
    raise UsageError(
        f"{printable(path)}: expected a corpus ({expected}), got a folder without any{hint}"
    )


def with_channel(source: Source, channel: int | None) -> Source:
    """Return a source whose utterances use `channel`, from 1, unless the source names a channel."""
    return source if channel is None else _OfChannel(source, channel)


class _OfChannel:
    """A source with one channel of each recording."""

    def __init__(self, source: Source, channel: int) -> None:
        self.kind, self.name, self.files = source.kind, source.name, source.files
        self._source, self._channel = source, channel

    def __iter__(self) -> Iterator[Utterance | Refused]:
        for entry in self._source:
            if isinstance(entry, Utterance) and entry.channel is None:
                yield replace(entry, channel=self._channel)
            else:
                yield entry
