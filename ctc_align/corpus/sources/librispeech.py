"""LibriSpeech folders: `SPEAKER-CHAPTER.trans.txt` with a line `id transcript` for each sound file beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ctc_align.corpus.sources.folder_walk import Contents, Folder, contents, walk
from ctc_align.corpus.sources.source import FolderSource, Item, Roll, has_bytes, printable
from ctc_align.corpus.sources.text_lines import Line, read_lines
from ctc_align.errors import UsageError

_SPEAKER = re.compile(r"([^-]+)-[^-]+-[^-]+")


class LibriSpeech(FolderSource):
    """Sound files (any extension that libsndfile reads) that a `*.trans.txt` in the same folder has a line for.

    The id is the path below the folder without extension; the speaker is the first part of `84-121123-0000`. Lines
    without a sound file and sound files without a line are refused; other text files are left alone.
    """

    kind = "librispeech"

    def __iter__(self) -> Iterator[Item]:
        roll = Roll(fold_case=self.fold_case)
        for folder in walk(self.name, self.exclude):
            yield from _Chapter(folder, contents(folder), roll).items()


class _Chapter:
    """The utterances of one folder."""

    def __init__(self, folder: Folder, found: Contents, roll: Roll) -> None:
        self.folder = folder
        self.found = found
        self.roll = roll
        self.lines: dict[str, str] = {}
        """Ids that a line was read for, and where."""

    def items(self) -> Iterator[Item]:
        if self.folder.fault:
            yield self.refused("", self.folder.below or ".", self.folder.fault)
        for trans in self.found.trans:
            try:
                for line in read_lines(self.folder.join(trans)):
                    yield self.item(trans, line)
            except UsageError as error:
                yield self.refused(os.path.splitext(trans)[0], trans, str(error))
        yield from self.without_line()

    def item(self, trans: str, line: Line) -> Item:
        place = f"{trans}, line {line.number}"
        origin = printable(self.folder.below + place)
        if line.fault:
            return self.roll.refused(None, line.number, origin, line.fault)
        id, _, text = line.text.strip(" \t").replace("\t", " ").partition(" ")
        if id in self.lines:
            reason = f"duplicate id {id!r}: {self.lines[id]} has it already; each needs an id of its own"
            return self.refused(id, place, reason)
        self.lines[id] = place
        sounds = self.found.sounds.get(id)
        if not sounds:
            return self.refused(id, place, f"no audio {printable(id)}.flac (or of another format) beside it")
        if not text.strip():
            return self.refused(id, place, "the transcript is empty; expected at least one word")
        if has_bytes(self.folder.below):
            return self.refused(id, place, "the file name is not UTF-8; rename it")
        speaker = _SPEAKER.fullmatch(id)
        fields = {"audio": self.folder.join(sounds[0]), "text": text, "speaker": speaker[1] if speaker else ""}
        fields["transcript"] = self.folder.join(trans)
        return self.roll.utterance(self.folder.below + id, id, line.number, origin, fields)

    def without_line(self) -> Iterator[Item]:
        where = " or ".join(self.found.trans) or "a *.trans.txt beside it"
        for stem, sounds in sorted(self.found.sounds.items()):
            if stem not in self.lines:
                yield self.refused(stem, sounds[0], f"no transcript: expected a line {stem!r} in {where}")
            for name in sounds[1:]:
                reason = f"{sounds[0]} beside it has the same name, and so the id; rename one of them"
                yield self.refused(stem, name, reason)

    def refused(self, id: str, place: str, reason: str) -> Item:
        below = self.folder.below
        return self.roll.refused(
            printable(below + id).rstrip("/") or ".", 0, printable(below + place), printable(reason)
        )
