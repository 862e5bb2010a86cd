"""Hand corrections: kept when outputs are written, and the latest of several files."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from ctc_align.errors import CtcAlignError, InputError, OutputError
from ctc_align.files.formats import FORMATS
from ctc_align.files.json_files import read_object
from ctc_align.files.whole_files import is_link
from ctc_align.reading import JsonObject, read_input
from ctc_align.types import EAF, HAND, TEXTGRID

_BY_HAND = re.compile(rb'"by"\s*:\s*"hand"|"checked"\s*:\s*true')
_TEXT_BYTES = 8
"""Approximate bytes of memory for each byte of a file of labels."""

logger = logging.getLogger(__name__)


def is_corrected(path: Path) -> bool:
    """Return whether a file holds an alignment that a person has checked or corrected.

    It must be the JSON of an alignment, and no link.
    """
    try:
        if path.suffix != ".json" or is_link(path) or not path.is_file():
            return False
        return _BY_HAND.search(read_input(path, factor=1)) is not None
    except OSError:
        return False


def is_whole_label_file(path: Path) -> bool:
    """Return whether a file (not a link) is a complete TextGrid or ELAN file."""
    format = {".textgrid": TEXTGRID, ".eaf": EAF}.get(path.suffix.casefold())
    if format is None or is_link(path) or not path.is_file():
        return False
    reader = FORMATS[format].reader
    assert reader is not None, "both are read"
    try:
        reader(read_input(path, factor=_TEXT_BYTES), path.name)
    except (InputError, OSError, UnicodeDecodeError):
        return False
    return True


def keep_aside(path: Path) -> Path:
    """Rename a file that was changed by hand to NAME.hand.EXTENSION, and return its new path.

    Raises:
        OutputError: it cannot be moved.
    """
    kept = path_beside(path, ".hand")
    number = 1
    while os.path.lexists(kept):
        number += 1
        kept = path_beside(path, f".hand-{number}")
    try:
        os.rename(path, kept)
    except OSError as error:
        raise OutputError(
            f"{path}: has hand corrections, and cannot be moved to {kept.name} ({error.strerror})"
        ) from error
    return kept


def keep_corrected(path: Path) -> None:
    """Rename a file that a person has corrected to NAME.hand.json, and warn.

    All other files are left unchanged.

    Raises:
        OutputError: it cannot be moved.
    """
    if not is_corrected(path):
        return
    kept = keep_aside(path)
    logger.warning(
        "%s has hand corrections, and its utterance was aligned again: it is kept as %s",
        path,
        kept.name,
    )


BEFORE = ".before"
"""NAME.before.json is the alignment as it was before the first correction was saved as NAME.json;
if another utterance has this name, NAME.before-2.json."""
_MADE = re.compile(
    r"(?P<what>\.corrected(?: ?\(\d+\)|[ -]\d+)?|\.hand(?:-\d+)?|\.before(?:-\d+)?|\.aligned)\Z"
)
"""The parts that are added to a name: .corrected by a page (browsers add a number to a second
download: "talk.corrected (1).json"), .hand by a corpus run, .before by the app, .aligned by
realign."""
_MOST_STEM_BYTES = 240
"""File systems allow names of 255 bytes; the others are for the added part and the extension."""
_SHORTENED = re.compile(r"~[0-9a-f]{8}\Z")
_ROUNDED_S = 0.001


def short_stem(stem: str) -> str:
    """Return a file's stem, shortened if a part can hardly be added; the same for equal stems.

    >>> short_stem("talk"), short_stem("n" * 250)[-11:]
    ('talk', 'nn~5bf8bd9b')
    """
    data = os.fsencode(stem)
    if len(data) <= _MOST_STEM_BYTES:
        return stem
    mark = f"~{blake2b(data, digest_size=4).hexdigest()}"
    return data[: _MOST_STEM_BYTES - len(mark)].decode("utf-8", "ignore") + mark


def path_beside(path: Path, part: str) -> Path:
    """Return the path beside a file with a part added to its stem: NAME.before.json."""
    return path.with_name(f"{short_stem(path.stem)}{part}{path.suffix}")


def original_of(path: Path) -> Path:
    """Return the alignment that a file of corrections belongs to, by its name.

    >>> original_of(Path("a/talk.corrected (1).json")).as_posix(), original_of(Path("talk.hand-2.aligned.json")).name
    ('a/talk.json', 'talk.json')
    """
    stem = path.stem
    while (match := _MADE.search(stem)) is not None and match.start() > 0:
        stem = stem[: match.start()]
    if stem != path.stem and _SHORTENED.search(stem) and path.parent.is_dir():
        stems = {short_stem(each.stem): each.stem for each in path.parent.iterdir()}
        stem = stems.get(stem, stem)
    return path.with_name(f"{stem}{path.suffix}")


@dataclass(frozen=True)
class LatestWork:
    """The most recently corrected file of an alignment, or the alignment itself.

    `replaced` are its other files, which are older; `outdated` are corrections of a different text
    or recording.
    """

    path: Path
    replaced: tuple[Path, ...] = ()
    outdated: tuple[Path, ...] = ()

    def notes(self) -> Iterator[str]:
        """Yield messages that say which files are used, and which are not."""
        others = ", ".join(path.name for path in self.replaced)
        if others:
            is_alone = len(self.replaced) == 1 and self.replaced[0] == original_of(self.path)
            why = ": it is the latest with corrections"
            if is_alone:
                why = ""
            yield f"{self.path} is used instead of {others}{why}"
        for path in self.outdated:
            yield (
                f"{path} is ignored: it belongs to a different text or recording from"
                f" {self.path.name}"
            )


def latest_works(files: Iterable[Path]) -> Iterator[LatestWork]:
    """Yield the latest version of each alignment in these files, in the order of its first file.

    Files belong together by their names (`original_of`), folder and utterance. If an alignment was
    corrected, the file that was changed last wins, among those with the same text and length as
    NAME.json (if that exists).
    """
    groups: dict[Path, list[Path]] = {}
    for path in files:
        groups.setdefault(original_of(path), []).append(path)
    for original, group in groups.items():
        yield from _of_group(original, list(dict.fromkeys(group)))


def latest_beside(path: Path) -> LatestWork:
    """Return the latest version of the alignment in a file, among all files in its folder."""
    return LatestBeside().of(path)


class LatestBeside:
    """Finds the latest version of alignments among the files of their folders.

    Each folder is listed only once.
    """

    def __init__(self) -> None:
        self._made: dict[Path, Mapping[Path, list[Path]]] = {}

    def of(self, path: Path) -> LatestWork:
        """Return the latest version of the alignment in a file.

        Or of the alignment that the file corrects.
        """
        folder = path.parent
        original = original_of(path)
        if folder not in self._made:
            self._made[folder] = _made_in(folder)
        made = self._made[folder].get(original, [])
        group = made
        if os.path.isfile(original):
            group = [original, *made]
        if len(group) > 1:
            works = list(_of_group(original, group))
        else:
            works = []
        return next(
            (work for work in works if path in (work.path, *work.replaced, *work.outdated)),
            LatestWork(path),
        )


def _made_in(folder: Path) -> Mapping[Path, list[Path]]:
    """Return the files of corrections in a folder, by the alignments that they correct."""
    found: dict[Path, list[Path]] = {}
    for path in sorted(folder.glob("*.json")):
        if _MADE.search(path.stem):
            found.setdefault(original_of(path), []).append(path)
    return found


def _of_group(original: Path, group: list[Path]) -> Iterator[LatestWork]:
    """Yield the latest version among files of one name.

    Different utterances are different alignments.
    """
    if len(group) == 1:
        yield LatestWork(group[0])
        return
    objects = {path: _object(path) for path in group}
    corrected = sorted(
        (path for path in group if _is_work(path, original)), key=_changed, reverse=True
    )
    first = original
    if original not in objects:
        first = next(iter(corrected), group[0])
    strangers = [
        path for path in group if not _agree(objects[path], objects[first], ("utterance",))
    ]
    same = [path for path in group if path not in strangers]
    outdated = [
        path for path in same if path != first and not _is_same(objects[path], objects[first])
    ]
    latest = next((path for path in corrected if path in same and path not in outdated), first)
    others = [
        path for path in same if path != latest and (path == original or _is_work(path, original))
    ]
    replaced = tuple(path for path in others if path not in outdated)
    yield LatestWork(latest, replaced, tuple(path for path in others if path in outdated))
    of_others: dict[object, list[Path]] = {}
    for path in strangers:
        of_others.setdefault(json.dumps((objects[path] or {}).get("utterance")), []).append(path)
    for paths in of_others.values():
        yield from _of_group(min(paths, key=lambda path: len(path.name)), paths)


def has_later_fixes(later: Path, path: Path) -> bool:
    """Return whether a person has fixed words in one file but not in the other.

    True if one file cannot be read.

    An alignment that was made again from a file has that file's corrections.
    """
    found = [_object(each) for each in (later, path)]
    if None in found:
        return True
    fixes = [
        {
            (word.get("char_start"), word.get("start_s"), word.get("end_s"))
            for word in words
            if word.get("by") == HAND
        }
        for words in (_words_of(each) for each in found)
    ]
    return not fixes[0] <= fixes[1]


def _words_of(found: JsonObject | None) -> list[JsonObject]:
    words = (found or {}).get("words")
    if isinstance(words, list):
        return [word for word in words if isinstance(word, dict)]
    return []


def _is_work(path: Path, original: Path) -> bool:
    """Return whether a file has corrections.

    It says so by its name, or a person has fixed words in the original.
    """
    if path == original:
        return is_corrected(path)
    match = _MADE.search(path.stem)
    return match is None or not match["what"].startswith(BEFORE)


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _object(path: Path) -> JsonObject | None:
    """Return the JSON object of an alignment.

    None if it cannot be read, which its reader reports.
    """
    try:
        return read_object(path)
    except CtcAlignError:
        return None


def _agree(one: JsonObject | None, other: JsonObject | None, names: Iterable[str]) -> bool:
    return one is None or other is None or all(one.get(name) == other.get(name) for name in names)


def _is_same(one: JsonObject | None, other: JsonObject | None) -> bool:
    """Return whether two alignments have the same text and the same length.

    True if one cannot be read.
    """
    if one is None or other is None:
        return True
    if not _agree(one, other, ("text", "text_offset")):
        return False
    return all(
        isinstance(a, (int, float)) and isinstance(b, (int, float)) and abs(a - b) <= _ROUNDED_S
        for a, b in ((one.get(name), other.get(name)) for name in ("offset_s", "duration_s"))
    )
