"""The recordings that alignments name, found even if they or the alignments were moved."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from ctc_align.audio.loading import LONGER_S, estimated_duration_s
from ctc_align.errors import CtcAlignError, UsageError
from ctc_align.sources.transcribed_folders import LOG_PROBS, MEDIA, SOUND
from ctc_align.types import Alignment

MOST_CHARS, MOST_ENDS = 4096, 16
"""The maximum number of characters of a recording's path, and of endings of it that are tried."""


def named_ends(named: str) -> list[Path]:
    """Return the relative endings of a recording's path, the longest first; [] if it names no file.

    >>> [end.as_posix() for end in named_ends("/data/talks/a.wav")]
    ['data/talks/a.wav', 'talks/a.wav', 'a.wav']
    """
    if not named or named == "-" or len(named) > MOST_CHARS or "\0" in named:
        return []
    path = Path(named)
    parts = [part for part in path.parts[1 if path.anchor else 0 :] if part != ".."]
    return [Path(*parts[start:]) for start in range(max(len(parts) - MOST_ENDS, 0), len(parts))]


def fitting_recording(
    paths: Iterable[Path], alignment: Alignment
) -> tuple[Path | None, list[Path]]:
    """Return the first file of `paths` that is as long as the alignment.

    If there is none, return the first longer one, else None.

    The list has the shorter ones, which are different recordings. A file whose header is not that
    of a recording counts, too: its reader reports what it is.
    """
    longer: Path | None = None
    too_short: list[Path] = []
    end_s = alignment.offset_s + alignment.duration_s
    for path in dict.fromkeys(paths):
        if not os.path.isfile(path):
            continue
        try:
            beyond_s = estimated_duration_s(path) - end_s
        except CtcAlignError:
            beyond_s = 0.0
        if beyond_s < -LONGER_S:
            too_short.append(path)
        elif beyond_s <= LONGER_S or alignment.offset_s:
            return path, too_short
        else:
            longer = longer or path
    return longer, too_short


def find_recording(alignment: Alignment, json_path: Path, given: str = "") -> Path:
    """Return the recording of an alignment that was read from `json_path`.

    `given` is the recording itself, or a folder to search for the endings of its path, the longest
    first, then for the name of the JSON. With "" the search tries the path as it is, from the
    current folder and from the JSON's, and then the endings of the path beside the JSON.

    Raises:
        UsageError: it is not found, or too short; the message says where the search looked.
    """
    if given and not os.path.isdir(given):
        return Path(given)
    ends = named_ends(alignment.audio)
    if not ends and not given:
        raise UsageError(
            f"{json_path}: this alignment names no recording; give it with --audio PATH"
        )
    folder = json_path.parent
    if given:
        paths = [*(Path(given, end) for end in ends), *_of_one_name(Path(given), json_path.stem)]
    else:
        paths = [Path(alignment.audio), folder / alignment.audio, *(folder / end for end in ends)]
    found, too_short = fitting_recording(paths, alignment)
    if found is not None:
        return found
    if too_short:
        length_s = estimated_duration_s(too_short[0])
        raise UsageError(
            f"{json_path}: {too_short[0]} is another recording: it is {length_s:.1f} s long, the"
            f" alignment ends at {alignment.offset_s + alignment.duration_s:.1f} s; give the right"
            " one with --audio PATH"
        )
    where = f"not in {given}" if given else f"neither at this path nor beside {json_path}"
    name = alignment.audio if ends else json_path.stem
    raise UsageError(
        f"{json_path}: its recording {name!r} is {where}; give it with --audio PATH, or delete"
        " this JSON if it is left over from before the recording was renamed"
    )


def _of_one_name(folder: Path, stem: str) -> Iterator[Path]:
    """Yield the recordings, then videos, then log-probs, with this name in a folder."""
    beside = sorted(folder.glob(f"{glob.escape(stem)}.*"))
    for kind in (SOUND, MEDIA, LOG_PROBS):
        yield from (path for path in beside if path.suffix.casefold() in kind)
