"""LibriSpeech folders: `SPEAKER-CHAPTER.trans.txt` with a line `id transcript` for each sound file beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ctc_align.corpus.sources.folder_tree import Contents, Folder, contents, folders_below
from ctc_align.corpus.sources.source import FolderSource, Item, ItemMaker, has_bytes, printable
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
        maker = ItemMaker(fold_case=self.fold_case)
        for folder in folders_below(self.name, self.exclude):
            yield from _Chapter(folder, contents(folder), maker).items()


class _Chapter:
    """One folder of a LibriSpeech corpus."""

    def __init__(self, folder: Folder, found: Contents, maker: ItemMaker) -> None:
        self.folder = folder
        self.found = found
        self.maker = maker
        self.lines: dict[str, str] = {}
        """Where the line of each id is."""

    def items(self) -> Iterator[Item]:
        if self.folder.fault:
            yield self.maker.refused_file(self.folder.below, "", self.folder.below or ".", self.folder.fault)
        for trans in self.found.trans:
            try:
                for line in read_lines(self.folder.join(trans)):
                    yield self.item(trans, line)
            except UsageError as error:
                yield self.maker.refused_file(self.folder.below, os.path.splitext(trans)[0], trans, str(error))
        yield from self.without_line()

    def item(self, trans: str, line: Line) -> Item:
        place = f"{trans}, line {line.number}"
        origin = printable(self.folder.below + place)
        if line.fault:
            return self.maker.refused(None, line.number, origin, line.fault)
        id, _, text = line.text.strip(" \t").replace("\t", " ").partition(" ")
        if id in self.lines:
            reason = f"duplicate id {id!r}: {self.lines[id]} has it already; each needs an id of its own"
            return self.maker.refused_file(self.folder.below, id, place, reason)
        self.lines[id] = place
        sounds = self.found.sounds.get(id)
        if not sounds:
            return self.maker.refused_file(
                self.folder.below, id, place, f"no audio {printable(id)}.flac (or of another format) beside it"
            )
        if not text.strip():
            return self.maker.refused_file(
                self.folder.below, id, place, "the transcript is empty; expected at least one word"
            )
        if has_bytes(self.folder.below):
            return self.maker.refused_file(self.folder.below, id, place, "the file name is not UTF-8; rename it")
        speaker = _SPEAKER.fullmatch(id)
        fields = {"audio": self.folder.join(sounds[0]), "text": text, "speaker": speaker[1] if speaker else ""}
        fields["transcript"] = self.folder.join(trans)
        return self.maker.utterance(self.folder.below + id, id, line.number, origin, fields)

    def without_line(self) -> Iterator[Item]:
        where = " or ".join(self.found.trans) or "a *.trans.txt beside it"
        for stem, sounds in sorted(self.found.sounds.items()):
            if stem not in self.lines:
                yield self.maker.refused_file(
                    self.folder.below, stem, sounds[0], f"no transcript: expected a line {stem!r} in {where}"
                )
            for name in sounds[1:]:
                reason = f"{sounds[0]} beside it has the same name, and so the id; rename one of them"
                yield self.maker.refused_file(self.folder.below, stem, name, reason)
