"""Corpora on disk, of whatever kind, as streams of utterances.

open_source(path, kind=None)   a Source: iterate for `Utterance` and `Refused`, each time the same in the same order
KINDS                          the names for `--source`
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ctc_align.corpus.sources.base import Opening, printable, require_file
from ctc_align.corpus.sources.manifest import Manifest
from ctc_align.corpus.utterance import Source
from ctc_align.errors import UsageError

KINDS = ("manifest",)


def open_source(
    path: str | os.PathLike[str], kind: str | None = None, *, exclude: Sequence[str] = (), fold_case: bool = False
) -> Source:
    """Open the corpus at `path`; what kind it is shows in its content, or `kind` says.

    Args:
        path: a file or a folder.
        kind: one of KINDS; None: found out.
        exclude: folders that are no part of it although they may lie in it: the output folder.
        fold_case: the output folder does not tell "A" from "a" (see `Names`).

    Raises:
        UsageError: nothing there, not readable, empty, or not of the kind.
    """
    name = os.fspath(path)
    require_file(name, "a manifest")
    source = Manifest(Opening(name, tuple(map(os.fspath, exclude)), fold_case))
    if next(iter(source), None) is None:
        raise UsageError(f"{printable(name)}: expected a corpus, met an empty file")
    return source
