"""What all sources share: the roll of names, values that are checked, paths, and how a source is opened."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ctc_align.corpus.sources.utterance_ids import Names, TakenError
from ctc_align.corpus.utterance import Refused, Utterance
from ctc_align.errors import InputError, UsageError

Item = Utterance | Refused

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SHOWN = 60


@dataclass(frozen=True)
class Opening:
    """How a source is to be opened.

    `exclude` are folders (as paths) that are no part of the corpus, such as the output folder; `fold_case` as in
    `Names`.
    """

    path: str
    exclude: tuple[str, ...] = ()
    fold_case: bool = False


class FolderSource:
    """A source that is a folder with others in it, walked in order; ids are paths below it."""

    kind = ""

    def __init__(self, opening: Opening) -> None:
        self.name = opening.path
        self.files: tuple[str, ...] = ()
        self.exclude = opening.exclude
        self.fold_case = opening.fold_case

    def __iter__(self) -> Iterator[Item]:
        raise NotImplementedError


class FileSource:
    """A source that is one file: its own path, the folder that its relative paths start from."""

    kind = ""

    def __init__(self, opening: Opening) -> None:
        self.name = opening.path
        self.files: tuple[str, ...] = (opening.path,)
        self.folder = os.path.dirname(opening.path)
        self.label = printable(os.path.basename(opening.path))
        self.fold_case = opening.fold_case

    def __iter__(self) -> Iterator[Item]:
        raise NotImplementedError

    def origin(self, line: int) -> str:
        return f"{self.label}, line {line}"


class Roll:
    """Gives names to what a source finds, and turns away what cannot have one.

    `file`: in which the places are lines, for the message about a duplicate; "" where they are not.
    """

    def __init__(self, *, fold_case: bool, file: str = "") -> None:
        self.names = Names(fold_case=fold_case)
        self.file = file

    def utterance(self, id: str | None, stem: str, place: int, origin: str, fields: dict[str, Any]) -> Item:
        """The utterance under its `id`, or under a name made of `stem`; `fields` are the rest of `Utterance`."""
        if id is None:
            id, output = self.names.make(stem, place)
            return Utterance(id, output, origin=origin, **fields)
        try:
            return Utterance(id, self.names.claim(id, place), origin=origin, **fields)
        except TakenError as error:
            first = f"{self.file}, line {error.place}" if self.file else "something earlier"
            has_it = "was named so after its audio" if error.made else "has it already"
            return self.refused(
                id, place, origin, f"duplicate id {id!r}: {first} {has_it}; each needs an id of its own"
            )

    def refused(self, id: str | None, place: int, origin: str, reason: str, stem: str = "") -> Refused:
        """A refusal, under `id` where that is free, under a name made of `stem`, or under its place in the source."""
        if id is not None:
            try:
                self.names.claim(id, place)
                return Refused(id, origin, reason)
            except TakenError:
                stem = f"{id} ({origin})"
        return Refused(self.names.make(stem or origin, place)[0], origin, reason)


def printable(text: str) -> str:
    """`text` with what is no character (bytes of a file name that are not UTF-8) written out.

    >>> printable("a\\udcff")
    'a\\\\xff'
    """
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") if has_bytes(text) else text


def has_bytes(text: str) -> bool:
    """Whether `text` holds surrogates, which stand for bytes that are not UTF-8 and cannot be written."""
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def shown(value: Any) -> str:
    """A value for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def checked_text(value: Any, what: str) -> str:
    """A transcript: a string with something in it. Raises InputError."""
    text = checked_string(value, what)
    if not text.strip():
        raise InputError(f"{what}: the transcript is empty; expected at least one word")
    return text


def checked_string(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{what}: expected a string, got {kind_of(value)}")
    if has_bytes(value):
        raise InputError(f"{what}: expected Unicode text, got half a surrogate pair in {shown(value)}")
    return value


def checked_seconds(value: Any, what: str, *, above_zero: bool = False) -> float:
    """A finite number of seconds, not negative. Raises InputError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        met = shown(value) if isinstance(value, str) else kind_of(value)
        raise InputError(f"{what}: expected a number of seconds, got {met}")
    try:
        seconds = float(value)
    except OverflowError:
        seconds = math.inf
    least = "more than 0" if above_zero else "0 or more"
    if not math.isfinite(seconds) or seconds < 0 or (above_zero and seconds == 0):
        raise InputError(f"{what}: expected {least} seconds, got {shown(value)}")
    return seconds


def checked_channel(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1024:
        raise InputError(f"{what}: expected a channel, counted from 1, got {shown(value)}")
    return value


def checked_audio(value: Any, what: str) -> str:
    """The path of a sound file, as given. Raises InputError."""
    path = checked_string(value, what)
    if not path.strip():
        raise InputError(f"{what}: expected the path of an audio file, got an empty one")
    if "\0" in path:
        raise InputError(f"{what}: expected the path of an audio file, got a NUL character in {shown(path)}")
    if _URL.match(path):
        raise InputError(f"{what}: expected the path of an audio file, got the URL {shown(path)}: nothing is fetched")
    return path


def beside(folder: str, path: str) -> str:
    """`path`, which counts from `folder` where it is relative."""
    return os.path.join(folder, path)


def beside_or_here(folder: str, path: str) -> str:
    """As `beside`; from the current folder, as Kaldi and Lhotse have it, where the file is there and not beside."""
    joined = beside(folder, path)
    return path if joined != path and os.path.exists(path) and not os.path.exists(joined) else joined


def stem_of(path: str) -> str:
    """The file's name without its extension: what an utterance is called that has no id."""
    name = os.path.basename(path.rstrip("/")) or path
    return os.path.splitext(name)[0]


def kind_of(value: Any) -> str:
    """What a JSON value is, in words.

    >>> kind_of([1]), kind_of(None)
    ('a list', 'null')
    """
    if value is None:
        return "null"
    words = {bool: "true or false", str: "a string", list: "a list", dict: "an object", int: "a number"}
    return words.get(type(value), "a number" if isinstance(value, float) else type(value).__name__)


def require_folder(path: str, what: str) -> None:
    """UsageError unless `path` is a folder that can be read."""
    if not os.path.exists(path):
        raise UsageError(f"{printable(path)}: expected {what}, there is no such folder")
    if not os.path.isdir(path):
        raise UsageError(f"{printable(path)}: expected {what}, got a file")
    try:
        os.listdir(path)
    except OSError as error:
        raise UsageError(f"{printable(path)}: cannot be read: {error.strerror or error}") from None


def require_file(path: str, what: str) -> None:
    """UsageError unless `path` is a regular file that can be read (it is read more than once)."""
    if os.path.isdir(path):
        raise UsageError(f"{printable(path)}: expected {what}, got a folder")
    if not os.path.exists(path):
        raise UsageError(f"{printable(path)}: expected {what}, there is no such file")
    if not os.path.isfile(path):
        raise UsageError(f"{printable(path)}: expected {what}, got a pipe or a device: save it to a file first")
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise UsageError(f"{printable(path)}: cannot be read: {error.strerror or error}") from None
