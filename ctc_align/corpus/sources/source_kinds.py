"""What kind of corpus lies at a path, by content."""

from __future__ import annotations

import os

from ctc_align.corpus.sources.folder_walk import SOUND, contents, walk
from ctc_align.corpus.sources.jsonl_manifest import parsed_object
from ctc_align.corpus.sources.kaldi import LOG_PROBS_SCP, SCP
from ctc_align.corpus.sources.lhotse_cuts import is_cut
from ctc_align.corpus.sources.source import Opening, printable, require_file, require_folder, shown
from ctc_align.corpus.sources.table import parsed_header
from ctc_align.corpus.sources.text_lines import Line, is_utf16, read_head
from ctc_align.errors import InputError, UsageError

_HEAD_LINES = 50
_MANIFESTS = (".jsonl", ".jsonl.gz", ".csv", ".tsv", ".json")
_SOURCES = "a manifest (JSONL), a table (CSV or TSV with a header), Lhotse cuts, or a folder"


def detected_kind(opening: Opening) -> str:
    """The kind's name for `--source`. Raises UsageError: there is nothing, or nothing that is a corpus."""
    if os.path.isdir(opening.path):
        return _folder_kind(opening)
    require_file(opening.path, f"{_SOURCES} of a corpus")
    return _file_kind(opening.path)


def check_kind(opening: Opening, kind: str) -> None:
    """UsageError unless what lies at the path may be of the kind: what was expected, what was met."""
    path = opening.path
    if kind in ("manifest", "lhotse"):
        met = _objects_kind(path)
        if met is None:
            _check_text(path, "JSON objects, one a line")
        elif met != kind:
            what = {"manifest": "a manifest: lines with audio_filepath and text", "lhotse": "Lhotse cuts"}
            raise UsageError(f"{printable(path)}: expected {what[kind]}, got {what[met]}; give --source {met}")
    elif kind == "librispeech" and not any(contents(folder).trans for folder in walk(path, opening.exclude)):
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
    """Lhotse's or a manifest, by the first JSON object among the first lines; None: there is none."""
    for line in read_head(path, _HEAD_LINES):
        try:
            return "lhotse" if is_cut(parsed_object(line)) else "manifest"
        except InputError:
            continue
    return None


def _check_text(path: str, expected: str) -> None:
    """Raise UsageError: say what is there in the place of what was expected."""
    head = read_head(path, 1) or [Line(1, "")]
    first = head[0].text.lstrip()
    if is_utf16(path):
        met = "UTF-16: save it as UTF-8"
    elif os.path.splitext(path)[1].lower() in SOUND:
        met = "what its name says is one recording; for that: ctc-align AUDIO TRANSCRIPT"
    elif first.startswith("["):
        met = "one JSON list: write its entries one a line (JSONL)"
    elif first == "{":
        met = "JSON that spans several lines: write each object on a line of its own (JSONL)"
    elif os.path.basename(path) in (SCP, LOG_PROBS_SCP, "segments", "utt2spk", "text"):
        met = "a file of a Kaldi data folder: give the folder"
    else:
        met = head[0].fault or (shown(head[0].text) if first else "an empty file")
    raise UsageError(f"{printable(path)}: expected {expected}, got {met}")


def _folder_kind(opening: Opening) -> str:
    path = opening.path
    require_folder(path, "a corpus")
    if any(os.path.isfile(os.path.join(path, name)) for name in (SCP, LOG_PROBS_SCP)):
        return "kaldi"
    has_half = False
    for folder in walk(path, opening.exclude):
        found = contents(folder)
        if found.trans:
            return "librispeech"
        if found.has_pair:
            return "mfa"
        has_half = has_half or bool(found.sounds or found.texts or found.grids)
    manifests = sorted(name for name in os.listdir(path) if name.lower().endswith(_MANIFESTS))
    if has_half and not manifests:
        return "mfa"
    expected = "wav.scp, *.trans.txt or audio with transcripts beside it"
    hint = f"; did you mean {printable(os.path.join(path, manifests[0]))}?" if manifests else ""
    raise UsageError(f"{printable(path)}: expected a corpus ({expected}), got a folder without{hint}")
