"""The kind of a corpus, detected by its content."""

from __future__ import annotations

import os

from ctc_align.corpus.sources.kaldi import LOG_PROBS_SCP, SCP
from ctc_align.corpus.sources.manifest_files import is_cut, parsed_header, parsed_object
from ctc_align.corpus.sources.source import (
    SourceLocation,
    TextLine,
    is_utf16,
    printable,
    read_head,
    require_file,
    require_folder,
    shown,
)
from ctc_align.corpus.sources.transcribed_folders import SOUND, contents, folders_below
from ctc_align.errors import InputError, UsageError

_HEAD_LINES = 50
_MANIFESTS = (".jsonl", ".jsonl.gz", ".csv", ".tsv", ".json")
_SOURCES = "a manifest (JSONL), a table (CSV or TSV with a header), Lhotse cuts, or a folder"


def detected_kind(options: SourceLocation) -> str:
    """Return the name of the kind for `--source`; raise UsageError where there is no corpus."""
    if os.path.isdir(options.path):
        return _folder_kind(options)
    require_file(options.path, f"{_SOURCES} of a corpus")
    return _file_kind(options.path)


def check_kind(options: SourceLocation, kind: str) -> None:
    """Raise UsageError unless the file or folder may be a corpus of this kind."""
    path = options.path
    if kind in ("manifest", "lhotse"):
        got = _objects_kind(path)
        if got is None:
            _check_text(path, "JSON objects, one a line")
        elif got != kind:
            what = {"manifest": "a manifest: lines with audio_filepath and text", "lhotse": "Lhotse cuts"}
            raise UsageError(f"{printable(path)}: expected {what[kind]}, got {what[got]}; give --source {got}")
    elif kind == "librispeech" and not any(contents(folder).trans for folder in folders_below(path, options.exclude)):
        raise UsageError(f"{printable(path)}: expected a *.trans.txt in it or in a folder below it, got none")
    elif kind == "mfa":
        require_folder(path, "a folder of audio with transcripts")


def _file_kind(path: str) -> str:
    kind = _objects_kind(path)
    if kind is not None:
        return kind
    head = read_head(path, 1)
    if not head:
        raise UsageError(f"{printable(path)}: expected {_SOURCES}, got an empty file")
    try:
        parsed_header(path, head[0])
    except UsageError:
        _check_text(path, f"{_SOURCES} of a corpus")
    return "table"


def _objects_kind(path: str) -> str | None:
    """Return "lhotse" or "manifest" by the first JSON object among the first lines, None where there is none."""
    for line in read_head(path, _HEAD_LINES):
        try:
            return "lhotse" if is_cut(parsed_object(line)) else "manifest"
        except InputError:
            continue
    return None


def _check_text(path: str, expected: str) -> None:
    """Raise UsageError, which says what the file is instead of what was expected."""
    head = read_head(path, 1) or [TextLine(1, "")]
    first = head[0].text.lstrip()
    if is_utf16(path):
        got = "UTF-16: save it as UTF-8"
    elif os.path.splitext(path)[1].lower() in SOUND:
        got = "what its name says is one recording; for that: ctc-align AUDIO TRANSCRIPT"
    elif first.startswith("["):
        got = "one JSON list: write its entries one a line (JSONL)"
    elif first == "{":
        got = "JSON that spans several lines: write each object on a line of its own (JSONL)"
    elif os.path.basename(path) in (SCP, LOG_PROBS_SCP, "segments", "utt2spk", "text"):
        got = "a file of a Kaldi data folder: give the folder"
    else:
        got = head[0].fault or (shown(head[0].text) if first else "an empty file")
    raise UsageError(f"{printable(path)}: expected {expected}, got {got}")


def _folder_kind(options: SourceLocation) -> str:
    path = options.path
    require_folder(path, "a corpus")
    if any(os.path.isfile(os.path.join(path, name)) for name in (SCP, LOG_PROBS_SCP)):
        return "kaldi"
    has_half = False
    for folder in folders_below(path, options.exclude):
        found = contents(folder)
        if found.trans:
            return "librispeech"
        if found.has_pair or found.book:
            return "mfa"
        has_half = has_half or bool(found.sounds or found.texts or found.grids or found.books)
    manifests = sorted(name for name in os.listdir(path) if name.lower().endswith(_MANIFESTS))
    if has_half and not manifests:
        return "mfa"
    expected = "wav.scp, *.trans.txt or audio with transcripts beside it"
    hint = f"; did you mean {printable(os.path.join(path, manifests[0]))}?" if manifests else ""
    raise UsageError(f"{printable(path)}: expected a corpus ({expected}), got a folder without any{hint}")
