"""Corpora on disk, of every kind, as streams of utterances.

open_source(path, kind=None)   a Source: iterate for `Utterance` and `Refused`, each time the same in the same order
KINDS                          the names for `--source`

What is not an utterance is a `Refused` with a reason; nothing is skipped silently.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ctc_align.corpus.sources.kaldi import Kaldi
from ctc_align.corpus.sources.manifest_files import Lhotse, Manifest, Table
from ctc_align.corpus.sources.source import SourceLocation, printable, require_file, require_folder
from ctc_align.corpus.sources.source_kinds import check_kind, detected_kind
from ctc_align.corpus.sources.transcribed_folders import LibriSpeech, MfaFolder
from ctc_align.corpus.utterance import Refused, Source, Utterance
from ctc_align.errors import UsageError

_FILES = {"manifest": Manifest, "table": Table, "lhotse": Lhotse}
_FOLDERS = {"kaldi": Kaldi, "librispeech": LibriSpeech, "mfa": MfaFolder}
_ALIASES = {"folder": "mfa"}
KINDS = (*_FILES, *_FOLDERS, *_ALIASES)


def open_source(
    path: str | os.PathLike[str],
    kind: str | None = None,
    *,
    exclude: Sequence[str] = (),
    fold_case: bool = False,
    parts: bool = False,
    text: str = "",
) -> Source:
    """Return the corpus at `path`, of the kind that its content shows, or of `kind`.

    A file is `lhotse` or `manifest` by its first JSON object, a `table` by its header. A folder is `kaldi` if it has a
    wav.scp or a logprobs.scp; else the first folder in it that has either decides: `librispeech` for a *.trans.txt,
    `mfa` for a sound file with a transcript beside it; `mfa` too if there is but one of the two.

    Args:
        path: a file or a folder.
        kind: one of KINDS ("folder" is another name for "mfa"); None: detected.
        exclude: folders that are no part of it although they may lie in it: the output folder.
        fold_case: the output folder does not tell "A" from "a" (see `UsedIds`).
        parts: in a folder of recordings with one text for all of them each reads a part of it (`Utterance.book`);
            without this they are refused, for who takes `text` for what is said.
        text: path of the text that all recordings of a folder, and of those below it, read parts of, but for those that
            have a transcript of their own.

    Raises:
        TranscriptError: `text` cannot be read.
        UsageError: there is nothing, it cannot be read, it is empty, or it is not of the kind.
    """
    name = os.fspath(path)
    options = SourceLocation(name, tuple(map(os.fspath, exclude)), fold_case, parts, text)
    if text:
        kind = _kind_with_text(name, kind)
    kind = None if kind is None else _ALIASES.get(kind, kind)
    if kind is None:
        kind = detected_kind(options)
    elif kind not in KINDS:
        raise UsageError(f"--source: expected one of {', '.join(KINDS)}, got {kind}")
    elif kind in _FILES:
        require_file(name, f"a file (--source {kind})")
        check_kind(options, kind)
    else:
        require_folder(name, f"a folder (--source {kind})")
        check_kind(options, kind)
    source: Source = (_FILES | _FOLDERS)[kind](options)
    if kind != "kaldi" and next(iter(source), None) is None:
        raise UsageError(f"{printable(name)}: expected the utterances of a corpus ({kind}), got none: it is empty")
    return source


def _kind_with_text(path: str, kind: str | None) -> str:
    """Return the kind of a folder of recordings that read parts of one text; raise UsageError for anything else."""
    if not os.path.isdir(path) or kind not in (None, "mfa", "folder"):
        got = f"--source {kind}" if os.path.isdir(path) else "what is no folder"
        raise UsageError(f"{printable(path)}: expected a folder of recordings that read parts of --text, got {got}")
    return "mfa"


def with_channel(source: Source, channel: int | None) -> Source:
    """Return a source whose utterances are of `channel`, from 1, where it says nothing of channels itself."""
    return source if channel is None else _OfChannel(source, channel)


class _OfChannel:
    """A source whose recordings are read by one channel."""

    def __init__(self, source: Source, channel: int) -> None:
        self.kind, self.name, self.files = source.kind, source.name, source.files
        self._source, self._channel = source, channel

    def __iter__(self) -> Iterator[Utterance | Refused]:
        for entry in self._source:
            if isinstance(entry, Utterance) and entry.channel is None:
                yield replace(entry, channel=self._channel)
            else:
                yield entry
