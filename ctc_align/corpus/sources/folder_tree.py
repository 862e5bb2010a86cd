"""The folders below a folder, in an order that depends on names only, and the files in them."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ctc_align.corpus.sources.source import printable

SOUND = frozenset(
    [
        *(".wav", ".wave", ".wavex", ".bwf", ".rf64", ".w64", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".mp2"),
        *(".aiff", ".aif", ".aifc", ".au", ".snd", ".caf", ".sph", ".nist", ".sd2", ".voc", ".ircam", ".sf", ".avr"),
        *(".paf", ".fap", ".iff", ".svx", ".8svx", ".16svx", ".htk", ".pvf", ".xi", ".wve", ".sds", ".mpc2k"),
    ]
)
"""Extensions of what libsndfile reads, and MP3, in lower case; the content decides in the end."""
MEDIA = frozenset(
    [
        *(".m4a", ".m4b", ".m4r", ".mp4", ".m4v", ".mov", ".qt", ".3gp", ".3gpp", ".3g2", ".aac", ".adts", ".loas"),
        *(".webm", ".weba", ".mkv", ".mka", ".wma", ".wmv", ".asf", ".amr", ".awb", ".avi", ".divx", ".flv", ".f4v"),
        *(
            ".ts",
            ".mts",
            ".m2ts",
            ".m2t",
            ".mpg",
            ".mpeg",
            ".vob",
            ".mpa",
            ".ac3",
            ".eac3",
            ".dts",
            ".ape",
            ".wv",
            ".tta",
        ),
        *(
            ".shn",
            ".ra",
            ".rm",
            ".rmvb",
            ".mpc",
            ".mp+",
            ".tak",
            ".dsf",
            ".mxf",
            ".ogv",
            ".ogx",
            ".spx",
            ".nut",
            ".qcp",
        ),
    ]
)
"""Extensions of what FFmpeg reads: used where no `SOUND` of the same name lies beside it (a video and its sound)."""
LOG_PROBS = frozenset([".npy", ".npz", ".pt", ".safetensors"])
"""Extensions of a network's output: used where a transcript, and no recording, of the same name lies beside it."""
TEXT = (".lab", ".txt")
SUBTITLES = (".srt", ".vtt")
BOOK = ".epub"
TEXTGRID = ".textgrid"
TRANS = ".trans.txt"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Folder:
    """A folder: its `path`, its place `below` the first one ("" or "a/b/"), and its `files`, sorted.

    `fault`: why it could not be read.
    """

    path: str
    below: str
    files: tuple[str, ...] = ()
    fault: str = ""

    def join(self, name: str) -> str:
        return os.path.join(self.path, name)


@dataclass
class Contents:
    """The files of one folder by stem: sounds, transcripts (`.lab` and `.txt`), TextGrids, subtitles, books (EPUB).

    `trans` are its `*.trans.txt`. `book` is the one text of all recordings, where there is one, none of which has a
    transcript of its own.
    """

    sounds: dict[str, list[str]] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    grids: dict[str, list[str]] = field(default_factory=dict)
    subtitles: dict[str, list[str]] = field(default_factory=dict)
    books: dict[str, list[str]] = field(default_factory=dict)
    trans: list[str] = field(default_factory=list)

    @property
    def transcribed(self) -> set[str]:
        """The stems of the transcripts."""
        return {*self.texts, *self.grids, *self.subtitles, *self.books}

    @property
    def has_pair(self) -> bool:
        return not self.transcribed.isdisjoint(self.sounds)

    @property
    def book(self) -> str:
        """The name of the only text beside several recordings without any; "" where there is no such text."""
        names = [name for texts in (self.texts, self.books) for found in texts.values() for name in found]
        return names[0] if len(names) == 1 and len(self.sounds) > 1 and not self.has_pair else ""


def contents(folder: Folder) -> Contents:
    """Sort the files of a folder into sounds, transcripts and TextGrids."""
    found = Contents()
    media: dict[str, list[str]] = {}
    log_probs: dict[str, list[str]] = {}
    for name in folder.files:
        stem, extension = os.path.splitext(name)
        extension = extension.lower()
        if name.lower().endswith(TRANS):
            found.trans.append(name)
        if extension in SOUND:
            found.sounds.setdefault(stem, []).append(name)
        elif extension in TEXT:
            found.texts.setdefault(stem, []).append(name)
        elif extension == TEXTGRID:
            found.grids.setdefault(stem, []).append(name)
        elif extension == BOOK:
            found.books.setdefault(stem, []).append(name)
        elif extension in SUBTITLES:
            found.subtitles.setdefault(stem, []).append(name)
        elif extension in MEDIA:
            media.setdefault(stem, []).append(name)
        elif extension in LOG_PROBS:
            log_probs.setdefault(stem, []).append(name)
    for stem, names in media.items():
        found.sounds.setdefault(stem, names)
    for stem in found.transcribed & log_probs.keys():
        found.sounds.setdefault(stem, log_probs[stem])
    for names in found.texts.values():
        names.sort(key=lambda name: TEXT.index(os.path.splitext(name)[1].lower()))
    return found


def folders_below(root: str, exclude: Sequence[str] = ()) -> Iterator[Folder]:
    """Yield `root` and all folders below it, sorted, each folder before those in it.

    Links to folders are followed, unless they lead back to a folder that they lie in. Names that begin with a dot
    (such as a Mac's `._a.wav`), the folders `exclude` and those of other runs' outputs are no part of a corpus. In
    memory are the names in one folder, and those of the folders that are still to be read on the way to it.
    """
    excluded = {os.path.realpath(path) for path in exclude}
    pending: list[tuple[str, str, tuple[tuple[int, int], ...]]] = [(root, "", ())]
    while pending:
        path, below, above = pending.pop()
        try:
            status = os.stat(path)
            names, folders = _listed(path)
        except OSError as error:
            yield Folder(path, below, fault=f"the folder cannot be read: {error.strerror or error}")
            continue
        here = (status.st_dev, status.st_ino)
        if here in above:
            logger.warning("%s: the link leads back to a folder that it lies in; it is not followed", printable(path))
            continue
        if below and _is_of_a_run(names):
            continue
        yield Folder(path, below, tuple(names))
        for name in reversed(folders):
            inner = os.path.join(path, name)
            if not excluded or os.path.realpath(inner) not in excluded:
                pending.append((inner, f"{below}{name}/", (*above, here)))


def _is_of_a_run(names: Sequence[str]) -> bool:
    """Return whether a folder holds the outputs of a run: a journal and a summary."""
    journal = any(name.startswith("journal.") and name.endswith("jsonl") for name in names)
    return journal and any(name.startswith("summary.") and name.endswith("json") for name in names)


def _listed(path: str) -> tuple[list[str], list[str]]:
    """Return the files and the folders in a folder, each sorted."""
    files: list[str] = []
    folders: list[str] = []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            try:
                is_folder = entry.is_dir()
            except OSError:  # a link to itself
                is_folder = False
            (folders if is_folder else files).append(entry.name)
    return sorted(files), sorted(folders)
