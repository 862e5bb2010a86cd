"""Folders of audio files with transcripts.

The layouts are those of LibriSpeech, the Montreal Forced Aligner and Kaldi.
"""

from __future__ import annotations

import logging
import os
import re
import unicodedata
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ctc_align.errors import CtcAlignError, InputError, TranscriptError, UsageError
from ctc_align.files.textgrid import read_textgrid
from ctc_align.files.tiers import utterance_tiers
from ctc_align.files.transcripts import read_transcript_file
from ctc_align.reading import open_input
from ctc_align.sources.source import (
    BOM,
    MAX_LINE_BYTES,
    FolderSource,
    Item,
    ItemMaker,
    TextLine,
    checked_audio,
    checked_channel,
    checked_duration,
    checked_seconds,
    checked_text,
    decoded,
    has_bytes,
    is_gzip,
    known_code,
    parsed_number,
    printable,
    read_lines,
    require_file,
    resolved,
    shown,
)
from ctc_align.sources.utterance_ids import HashIndex, hash64
from ctc_align.types import Interval, Transcript


def _extensions(names: str) -> frozenset[str]:
    return frozenset(f".{name}" for name in names.split())


SOUND = _extensions(
    "wav wave wavex bwf rf64 w64 flac ogg oga opus mp3 mp2 aiff aif aifc au snd caf sph nist "
    "sd2 voc ircam sf avr paf fap iff svx 8svx 16svx htk pvf xi wve sds mpc2k"
)
"""Extensions of files that libsndfile reads, and MP3; the content decides in the end.

They are in lower case.
"""
MEDIA = _extensions(
    "m4a m4b m4r mp4 m4v mov qt 3gp 3gpp 3g2 aac adts loas webm weba mkv mka wma wmv asf amr "
    "awb avi divx flv f4v ts mts m2ts m2t mpg mpeg vob mpa ac3 eac3 dts ape wv tta shn ra "
    "rm rmvb mpc mp+ tak dsf mxf ogv ogx spx nut qcp"
)
"""Extensions of files that FFmpeg reads.

They are used if no `SOUND` file of the same name lies beside them (a video and its sound).
"""
LOG_PROBS = frozenset([".npy", ".npz", ".pt", ".safetensors"])
"""Extensions of a network's output.

It is used if a transcript, but no recording, of the same name lies beside it.
"""
TEXT = (".lab", ".txt")
SUBTITLES = (".srt", ".vtt", ".sbv", ".cha", ".trs", ".stm", ".rttm", ".par")
"""Extensions of transcripts with times; content decides what they are."""
BOOK = ".epub"
TEXTGRID = ".textgrid"
TRANS = ".trans.txt"
_MOST_BYTES = 64 * 2**20
_SPEAKER = re.compile(r"([^-]+)-[^-]+-[^-]+")
logger = logging.getLogger(__name__)


class MfaFolder(FolderSource):
    """Recordings or videos, each with a transcript beside it.

    A recording is known by its extension, in any case; without either kind, a file of log-probs
    counts. The transcript is its `.lab`, else `.txt`, else `.TextGrid`, else the text of its
    `.srt`, or of another of `SUBTITLES`, else of its `.epub`.

    The id is the path below the folder without extension, the speaker the folder that the file lies
    in. Each interval with text in a TextGrid is an utterance of the speaker that the tier is named
    after; its id is the recording's, followed by tier, start and end. Tiers of words and sounds,
    which aligners write, are no utterances; where there are only such tiers, the words are the text
    of the recording. A TextGrid beside a `.lab` or `.txt` counts as its alignment and is ignored.
    If several recordings have no transcript, and one text or book lies beside them, each reads a
    part of it (`parts`); if the file `text` is given, they read parts of this file. Files without a
    partner, a second sound file of one name and a second transcript are refused.
    """

    kind = "mfa"

    def __init__(
        self,
        path: str,
        exclude: tuple[str, ...] = (),
        *,
        fold_case: bool = False,
        parts: bool = False,
        text: str = "",
        encoding: str | None = None,
    ) -> None:
        super().__init__(path, exclude, fold_case=fold_case)
        self.encoding = encoding
        self.parts = parts
        self._last: SharedText | None = None
        if text:
            self._last = read_shared_text(text, encoding)
            if self._last.transcript is None:
                raise TranscriptError(f"--text {self._last.fault}")
        self._is_of_all = bool(text)

    def __iter__(self) -> Iterator[Item]:
        maker = ItemMaker(fold_case=self.fold_case)
        for folder in folders_below(self.name, self.exclude):
            yield from _Recordings(folder, maker, self.shared_text(folder), self.encoding).items()

    def shared_text(self, folder: Folder) -> SharedText | None:
        """Return the text that recordings without a transcript read parts of.

        Return None if there is no such text.
        """
        if self._is_of_all:
            return self._last
        if not self.parts or not folder.book or has_bytes(folder.book):
            return None
        path = folder.join(folder.book)
        if self._last is None or self._last.path != path:
            self._last = read_shared_text(path, self.encoding)
        return self._last


@dataclass(frozen=True)
class SharedText:
    """A text of many recordings.

    `path` is its file, and `fault` says why there is no `transcript`.
    """

    path: str
    transcript: Transcript | None
    fault: str = ""


def read_shared_text(path: str, encoding: str | None) -> SharedText:
    """Return the text of many recordings, or why it cannot be read."""
    try:
        _check_readable(path)
        transcript = read_transcript_file(path, encoding)
        checked_text(transcript.text, path)
    except CtcAlignError as error:
        return SharedText(path, None, str(error))
    return SharedText(path, transcript)


class _FolderItems:
    """The utterances and refusals of one folder."""

    def __init__(self, folder: Folder, maker: ItemMaker, encoding: str | None) -> None:
        self.folder = folder
        self.maker = maker
        self.encoding = encoding

    def refused(self, stem: str, name: str, reason: str) -> Item:
        return self.maker.refused_file(self.folder.below, stem, name, reason)

    def twins(self, stem: str, sounds: Sequence[str]) -> Iterator[Item]:
        """Yield a refusal of each sound file but the first of one name."""
        for name in sounds[1:]:
            reason = f"{sounds[0]} beside it has the same name, and so the id; rename one of them"
            yield self.refused(stem, name, reason)


class _Recordings(_FolderItems):
    """The sound files and transcripts of one folder, and the text that its recordings may share."""

    def __init__(
        self, folder: Folder, maker: ItemMaker, shared: SharedText | None, encoding: str | None
    ) -> None:
        super().__init__(folder, maker, encoding)
        self.shared = shared
        self.speaker = printable(os.path.basename(os.path.abspath(folder.path)))

    def items(self) -> Iterator[Item]:
        folder = self.folder
        if folder.fault:
            yield self.refused("", folder.below or ".", folder.fault)
        for stem in sorted({*folder.sounds, *folder.texts, *folder.grids, *folder.books}):
            sounds, texts, grids = (
                names.get(stem, []) for names in (folder.sounds, folder.texts, folder.grids)
            )
            books = folder.books.get(stem, [])
            if has_bytes(stem) or has_bytes(folder.below):
                for name in sounds or texts or grids or books:
                    yield self.refused(stem, name, "the file name is not UTF-8; rename it")
            elif not sounds:
                yield from self.without_sound(stem, [*texts, *grids, *books])
            else:
                yield from self.recording(stem, sounds[0], texts, grids)
                yield from self.twins(stem, sounds)

    def part(self, stem: str, sound: str) -> Item:
        """Return a recording that reads a part of the shared text, or a refusal."""
        shared, book = self.shared, self.folder.book
        if shared is None:
            looks = f"{book} looks like the text of all recordings"
            hint = (
                f"; {looks}: ctc-align corpus, without --match exact, finds the part that each one"
                " reads"
            )
            reason = (
                f"no transcript beside it: expected {stem}.txt, .lab, .srt, .vtt or"
                f" .TextGrid{hint if book else ''}"
            )
            return self.refused(stem, sound, reason)
        if shared.transcript is None:
            return self.refused(
                stem, sound, f"the text of all recordings cannot be used: {shared.fault}"
            )
        origin = f"{self.folder.below}{sound}, a part of {os.path.basename(shared.path)}"
        fields: dict[str, Any] = {"audio": self.folder.join(sound), "speaker": self.speaker}
        fields |= {
            "text": shared.transcript.text,
            "transcript": shared.path,
            "book": shared.transcript,
        }
        return self.maker.utterance(self.folder.below + stem, stem, 0, origin, fields)

    def is_shared(self, name: str) -> bool:
        """Return whether a file of the folder is the text that the recordings share."""
        path = self.folder.join(name)
        return (
            self.shared is not None
            and os.path.exists(path)
            and os.path.samefile(path, self.shared.path)
        )

    def recording(
        self, stem: str, sound: str, texts: list[str], grids: list[str]
    ) -> Iterator[Item]:
        if texts:
            yield self.whole(stem, sound, texts[0])
        elif grids:
            yield from self.intervals(stem, sound, grids[0])
        elif stem in self.folder.subtitles:
            yield self.whole(stem, sound, self.folder.subtitles[stem][0])
        elif stem in self.folder.books:
            yield self.whole(stem, sound, self.folder.books[stem][0])
        else:
            yield self.part(stem, sound)
        for name in texts[1:] if texts else grids[1:]:
            used = texts[0] if texts else grids[0]
            yield self.refused(
                stem, name, f"a second transcript of {sound}; {used} is used: remove one of them"
            )

    def without_sound(self, stem: str, transcripts: list[str]) -> Iterator[Item]:
        for name in transcripts:
            if not self.is_shared(name):
                yield self.refused(stem, name, "no audio of this name beside it")

    def whole(self, stem: str, sound: str, transcript: str) -> Item:
        origin = self.folder.below + transcript
        path = self.folder.join(transcript)
        try:
            _check_readable(path)
            transcript_file = read_transcript_file(path, self.encoding)
            text = checked_text(transcript_file.text, path)
        except CtcAlignError as error:
            return self.refused(stem, transcript, str(error))
        fields: dict[str, Any] = {
            "audio": self.folder.join(sound),
            "text": text,
            "speaker": self.speaker,
            "language": transcript_file.language,
        }
        has_more = transcript_file.subtitles or transcript_file.places
        fields |= {"transcript": path, "file": transcript_file if has_more else None}
        return self.maker.utterance(self.folder.below + stem, stem, 0, origin, fields)

    def intervals(self, stem: str, sound: str, grid: str) -> Iterator[Item]:
        path = self.folder.join(grid)
        try:
            _check_readable(path)
            tiers = read_textgrid(path, self.encoding).tiers
        except CtcAlignError as error:
            yield self.refused(stem, grid, str(error))
            return
        if not any(interval.label.strip() for tier in tiers for interval in tier.intervals):
            yield self.refused(stem, grid, "expected an interval with text in it, got none")
            return
        utterances, _ = utterance_tiers(tiers)
        if not utterances:
            yield self.whole(stem, sound, grid)
            return
        # reserve the recording's name, so that no utterance writes where its TextGrid will be
        recording = self.maker.ids.make(self.folder.below + stem, 0)[1]
        common = {"audio": self.folder.join(sound), "recording": recording, "transcript": path}
        for tier in utterances:
            for number, interval in enumerate(tier.intervals, 1):
                if interval.label.strip():
                    origin = f'{self.folder.below}{grid}, tier "{tier.name}", interval {number}'
                    yield self.interval(
                        stem, origin, interval, common | {"speaker": tier.name, "tier": tier.name}
                    )

    def interval(self, stem: str, origin: str, interval: Interval, fields: dict[str, Any]) -> Item:
        start_s, end_s = interval.start_s, interval.end_s
        tier = fields["tier"].replace("/", "_")
        name = f"{stem}-{tier}-{start_s:.3f}-{end_s:.3f}"
        while name in self.folder.sounds:  # whose id that is
            name += "+"
        id = self.folder.below + name
        if not 0 <= start_s < end_s:
            reason = f"expected an interval of time in the recording, got {start_s} to {end_s} s"
            return self.maker.refused(None, 0, origin, reason, id)
        fields |= {
            "text": interval.label,
            "offset_s": start_s,
            "duration_s": round(end_s - start_s, 9),
        }
        return self.maker.utterance(None, id, 0, origin, fields)


def _check_readable(path: str) -> None:
    """Raise InputError for pipes, which may never end, and for files that are too large."""
    if not os.path.isfile(path):
        raise InputError(
            f"{path}: expected a transcript file, got something else, or a link that leads nowhere"
        )
    if os.path.getsize(path) > _MOST_BYTES:
        raise InputError(
            f"{path}: expected a transcript, got a file of more than {_MOST_BYTES >> 20} MiB"
        )


class LibriSpeech(FolderSource):
    """Recordings (by their extension) that a `*.trans.txt` in the same folder has a line for.

    The id is the path below the folder without extension; the speaker is the first part of
    `84-121123-0000`. Lines without a sound file and sound files without a line are refused; other
    text files are ignored.
    """

    kind = "librispeech"

    def __iter__(self) -> Iterator[Item]:
        maker = ItemMaker(fold_case=self.fold_case)
        for folder in folders_below(self.name, self.exclude):
            yield from _Chapter(folder, maker, self.encoding).items()


class _Chapter(_FolderItems):
    """One folder of a LibriSpeech corpus."""

    def __init__(self, folder: Folder, maker: ItemMaker, encoding: str | None) -> None:
        super().__init__(folder, maker, encoding)
        self.lines: dict[str, str] = {}
        """The position of each id's line."""

    def items(self) -> Iterator[Item]:
        if self.folder.fault:
            yield self.refused("", self.folder.below or ".", self.folder.fault)
        for trans in self.folder.trans:
            try:
                for line in read_lines(self.folder.join(trans), self.encoding):
                    yield self.item(trans, line)
            except UsageError as error:
                yield self.refused(os.path.splitext(trans)[0], trans, str(error))
        yield from self.without_line()

    def item(self, trans: str, line: TextLine) -> Item:
        position = f"{trans}, line {line.number}"
        origin = printable(self.folder.below + position)
        if line.fault:
            return self.maker.refused(None, line.number, origin, line.fault)
        id, _, text = line.text.strip(" \t").replace("\t", " ").partition(" ")
        if id in self.lines:
            reason = (
                f"duplicate id {id!r}: {self.lines[id]} has it already; each needs an id of its own"
            )
            return self.refused(id, position, reason)
        self.lines[id] = position
        sounds = self.folder.sounds.get(id)
        if not sounds:
            return self.refused(
                id, position, f"no audio {printable(id)}.flac (or in a different format) beside it"
            )
        if not text.strip():
            return self.refused(id, position, "the transcript is empty; expected at least one word")
        if has_bytes(self.folder.below):
            return self.refused(id, position, "the file name is not UTF-8; rename it")
        speaker = _SPEAKER.fullmatch(id)
        fields = {
            "audio": self.folder.join(sounds[0]),
            "text": text,
            "speaker": speaker[1] if speaker else "",
        }
        fields["transcript"] = self.folder.join(trans)
        return self.maker.utterance(self.folder.below + id, id, line.number, origin, fields)

    def without_line(self) -> Iterator[Item]:
        where = " or ".join(self.folder.trans) or "a *.trans.txt beside it"
        for stem, sounds in sorted(self.folder.sounds.items()):
            if stem not in self.lines:
                yield self.refused(
                    stem, sounds[0], f"no transcript: expected a line {stem!r} in {where}"
                )
            yield from self.twins(stem, sounds)


@dataclass
class Folder:
    """A folder: its `path`, its path `below` the top folder ("" or "a/b/"), and its files by stem.

    The files are sounds, transcripts (`.lab` and `.txt`), TextGrids, subtitles and books (EPUB);
    `elan` are files of ELAN, which a corpus does not read; `trans` are its `*.trans.txt`. `fault`:
    why it could not be read.
    """

    path: str
    below: str
    fault: str = ""
    sounds: dict[str, list[str]] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    grids: dict[str, list[str]] = field(default_factory=dict)
    subtitles: dict[str, list[str]] = field(default_factory=dict)
    books: dict[str, list[str]] = field(default_factory=dict)
    elan: dict[str, list[str]] = field(default_factory=dict)
    trans: list[str] = field(default_factory=list)

    def join(self, name: str) -> str:
        return os.path.join(self.path, name)

    @property
    def transcribed(self) -> set[str]:
        """The stems of the transcripts."""
        return {*self.texts, *self.grids, *self.subtitles, *self.books}

    @property
    def has_pair(self) -> bool:
        return not self.transcribed.isdisjoint(self.sounds)

    @property
    def book(self) -> str:
        """The name of the only text beside several recordings without transcripts.

        It is "" if there is no such text.
        """
        names = [
            name for texts in (self.texts, self.books) for found in texts.values() for name in found
        ]
        return names[0] if len(names) == 1 and len(self.sounds) > 1 and not self.has_pair else ""


def folder_of(path: str, below: str, names: Sequence[str]) -> Folder:
    """Return a folder with its files: sounds, transcripts and TextGrids, sorted by name."""
    found = Folder(path, below)
    media: dict[str, list[str]] = {}
    log_probs: dict[str, list[str]] = {}
    kinds = (
        (found.sounds, SOUND),
        (found.texts, TEXT),
        (found.grids, (TEXTGRID,)),
        (found.books, (BOOK,)),
        (found.subtitles, SUBTITLES),
        (found.elan, (".eaf",)),
        (media, MEDIA),
        (log_probs, LOG_PROBS),
    )
    by_extension = {extension: files for files, extensions in kinds for extension in extensions}
    for name in names:
        stem, extension = os.path.splitext(name)
        if name.lower().endswith(TRANS):
            found.trans.append(name)
        if extension.lower() in by_extension:
            by_extension[extension.lower()].setdefault(stem, []).append(name)
    for stem, videos in media.items():
        found.sounds.setdefault(stem, videos)
    for transcripts in (found.texts, found.grids, found.subtitles, found.books, found.elan):
        _pair_by_letters(transcripts, found.sounds)
    for stem in found.transcribed & log_probs.keys():
        found.sounds.setdefault(stem, log_probs[stem])
    for texts in found.texts.values():
        texts.sort(key=lambda name: TEXT.index(os.path.splitext(name)[1].lower()))
    return found


def _pair_by_letters(texts: dict[str, list[str]], sounds: Mapping[str, list[str]]) -> None:
    """Give transcripts the stems of sounds whose names are composed of the same letters.

    The letters may be composed in another way (NFC, NFD).

    macOS wrote "ä" in names as two characters; archives and other systems keep what they get.
    """
    alone = [stem for stem in texts if stem not in sounds and not stem.isascii()]
    if alone:
        by_letters = {
            unicodedata.normalize("NFC", stem): stem for stem in sounds if stem not in texts
        }
        for stem in alone:
            if (sound := by_letters.get(unicodedata.normalize("NFC", stem))) is not None:
                texts.setdefault(sound, []).extend(texts.pop(stem))


def folders_below(root: str, exclude: Sequence[str] = ()) -> Iterator[Folder]:
    """Yield `root` and all folders below it, sorted, each folder before those in it.

    Links to folders are followed, unless they lead back to a folder that they lie in. Names that
    begin with a dot
    (such as `._a.wav` from macOS), the folders `exclude` and output folders of other runs do not
    belong to a corpus. Memory holds the names in one folder, and the folders that are still to be
    read on the way to it.
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
            logger.warning(
                "%s: the link leads back to a folder that contains it; it is not followed",
                printable(path),
            )
            continue
        if below and _is_of_a_run(names):
            continue
        yield folder_of(path, below, names)
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


SCP, LOG_PROBS_SCP = "wav.scp", "logprobs.scp"

_SPACE = re.compile(r"[ \t]+")
_SPACE_BYTES = re.compile(rb"[ \t]+")
_ARCHIVE = re.compile(r"\.ark(\.gz)?:\d+(\[[^\]]*\])?$")


class Kaldi(FolderSource):
    """Kaldi data folders: wav.scp (or logprobs.scp), text, segments, utt2spk and utt2lang.

    The last three may be missing. Nothing is run.

    The utterances are those of `segments`, in its order, or without it those of `wav.scp`, or
    without that those of `logprobs.scp`, whose lines name files of log-probs or positions in
    archives (FILE.ark:17). The other files may be in any order.

    The other files are indexed by hash: 24 to 35 bytes per line, so about 1 GB for ten million
    utterances with segments and speakers, and no text. Relative paths start at the folder, or, if
    there is no such file, at the current one, as in Kaldi. Refused are shell pipes and archives,
    utterances without a transcript or a recording, transcripts without an utterance, and lines
    whose key occurred before.
    """

    kind = "kaldi"

    @classmethod
    def is_kind_of(cls, path: str) -> bool:
        """Return whether a folder has files that only Kaldi folders have."""
        return any(os.path.isfile(os.path.join(path, name)) for name in (SCP, LOG_PROBS_SCP))

    def __init__(
        self, path: str, exclude: tuple[str, ...] = (), *, fold_case: bool = False
    ) -> None:
        super().__init__(path, exclude, fold_case=fold_case)
        self.scp = SCP if os.path.exists(os.path.join(path, SCP)) else LOG_PROBS_SCP
        wanted = (
            self.scp,
            "text",
            *(("segments",) if self.scp == SCP else ()),
            "utt2spk",
            "utt2lang",
        )
        for name in wanted[:2]:
            needed = f"{SCP} (or {LOG_PROBS_SCP})" if name == self.scp else name
            require_file(os.path.join(path, name), f"a Kaldi data folder with {needed} in it")
        self.has = {name for name in wanted if os.path.lexists(os.path.join(path, name))}
        for name in self.has:
            require_file(os.path.join(path, name), f"{name} of a Kaldi data folder")
            if is_gzip(os.path.join(path, name)):
                raise UsageError(
                    f"{printable(self.path(name))}: expected a text file, got a gzip archive;"
                    " unpack it first"
                )
        self.files = tuple(os.path.join(path, name) for name in wanted if name in self.has)
        self.first = "segments" if "segments" in self.has else self.scp
        if next(read_lines(self.path(self.first)), None) is None:
            raise UsageError(
                f"{self.path(self.first)}: expected the utterances of a corpus, got an empty file"
            )

    def path(self, name: str) -> str:
        return os.path.join(self.name, name)

    def __iter__(self) -> Iterator[Item]:
        maker = ItemMaker(fold_case=self.fold_case, file=self.first)
        index = {
            name: _LineIndex(self.path(name), name, self.encoding)
            for name in self.has
            if name != self.first
        }
        try:
            for line in read_lines(self.path(self.first)):
                yield self._item(line, maker, index)
            for name in (self.scp, "text"):
                if name in index:
                    yield from self._left_over(index[name], maker)
        finally:
            for lookup in index.values():
                lookup.close()

    def _item(self, line: TextLine, maker: ItemMaker, index: dict[str, _LineIndex]) -> Item:
        origin = f"{self.first}, line {line.number}"
        id: str | None = None
        try:
            id, rest = _key_and_rest(line)
            fields = {"audio": rest} if self.first == self.scp else _segment(rest, index[SCP])
            fields["audio"] = self._path(_checked_entry(fields["audio"], self.scp))
            entry = index["text"].get(id)
            if entry is None:
                raise InputError("no transcript: expected a line for it in text")
            fields["text"] = checked_text(entry.rest, f"text, line {entry.number}")
            if "utt2spk" in index and (speaker := index["utt2spk"].get(id)) is not None:
                fields["speaker"] = speaker.rest
            if "utt2lang" in index and (language := index["utt2lang"].get(id)) is not None:
                fields["language"] = known_code(language.rest)
        except InputError as error:
            return maker.refused(id, line.number, origin, str(error))
        return maker.utterance(id, "", line.number, origin, fields)

    def _path(self, entry: str) -> str:
        """Return the path of an entry, or of a position in an archive.

        It is relative to the data folder or the current one.
        """
        archive, colon, offset = (
            entry.rpartition(":") if _ARCHIVE.search(entry) else (entry, "", "")
        )
        return resolved(self.name, archive) + colon + offset

    def _left_over(self, index: _LineIndex, maker: ItemMaker) -> Iterator[Item]:
        """Yield refusals of the lines that no utterance uses.

        These are repeated keys, and transcripts without audio.
        """
        is_text = index.name == "text"
        for line in read_lines(index.path):
            id = index.key_of(line.number)
            first = None if id is None else index.number_of(id)
            if first is not None and first != line.number:
                reason = (
                    f"duplicate id {id!r}: {index.name}, line {first} has it already, and is used"
                )
            elif is_text and (id is None or not maker.ids.has(id)):
                reason = line.fault or f"no audio: expected a line for it in {self.first}"
            else:
                continue
            yield maker.refused(id, line.number, f"{index.name}, line {line.number}", reason)


class _KaldiLine(NamedTuple):
    number: int
    rest: str


class _LineIndex:
    """The lines of a file by their first word.

    If several have the same first word, the first counts.
    """

    def __init__(self, path: str, name: str, encoding: str | None) -> None:
        self.path = path
        self.name = name
        self.encoding = encoding
        self.numbers = HashIndex()
        self.offsets = array("Q", [0])
        """The offset of line n, from 1, is at n - 1."""
        self.file = open_input(path)
        number = 0
        while data := self.file.readline(MAX_LINE_BYTES):
            number += 1
            key = hash64(_key(data, number))
            while len(data) == MAX_LINE_BYTES and not data.endswith(b"\n"):
                data = self.file.readline(MAX_LINE_BYTES)
            self.offsets.append(self.file.tell())
            if self.numbers.get(key) is None:
                self.numbers.put(key, number)

    def number_of(self, key: str) -> int | None:
        """Return the number of the first line with this key, None if there is none."""
        return self.numbers.get(hash64(key.encode()))

    def key_of(self, number: int) -> str | None:
        """Return the key of a line, None if it is not UTF-8."""
        try:
            return _key(self._data(number), number).decode("utf-8")
        except UnicodeDecodeError:
            return None

    def get(self, key: str) -> _KaldiLine | None:
        """Return the first line with this key, None if there is none.

        Raise InputError if it is not UTF-8.
        """
        number = self.number_of(key)
        if number is None:
            return None
        data = self._data(number)
        line = decoded(number, data, self.encoding)
        if len(data) == MAX_LINE_BYTES:
            line = TextLine(
                number,
                "",
                f"expected a line of text, got one of {MAX_LINE_BYTES >> 20} MiB or more",
            )
        if line.fault:
            raise InputError(f"{self.name}, line {number}: {line.fault}")
        found, rest = _key_and_rest(line)
        return _KaldiLine(number, rest) if found == key else None

    def _data(self, number: int) -> bytes:
        self.file.seek(self.offsets[number - 1])
        return self.file.readline(MAX_LINE_BYTES)

    def close(self) -> None:
        self.file.close()


def _key(data: bytes, number: int) -> bytes:
    """Return the first word of a line, b"" if it is blank."""
    if number == 1:
        data = data.removeprefix(BOM)
    return _SPACE_BYTES.split(data.strip(b" \t\r\n"), maxsplit=1)[0]


def _key_and_rest(line: TextLine) -> tuple[str, str]:
    if line.fault:
        raise InputError(line.fault)
    key, *rest = _SPACE.split(line.text.strip(" \t"), maxsplit=1)
    return key, rest[0] if rest else ""


def _segment(rest: str, recordings: _LineIndex) -> dict[str, Any]:
    """Return audio, offset and duration of `recording start end [channel]`.

    An end of -1 means the end of the recording.
    """
    words = _SPACE.split(rest)
    if len(words) not in (3, 4):
        raise InputError(
            f"expected utterance, recording, start and end, got {shown(rest)} after the utterance"
        )
    start_s = checked_seconds(parsed_number(words[1]), "the start")
    fields: dict[str, Any] = {"offset_s": start_s}
    if parsed_number(words[2]) != -1:
        end_s = checked_seconds(parsed_number(words[2]), "the end")
        fields["duration_s"] = checked_duration(start_s, end_s)
    if len(words) == 4:
        channel = words[3]  # counted from 0 in Kaldi
        number = int(channel) + 1 if re.fullmatch("[0-9]{1,5}", channel) else channel
        fields["channel"] = checked_channel(number, "the channel")
    entry = recordings.get(words[0])
    if entry is None:
        raise InputError(f"no audio: expected a line for the recording {words[0]} in wav.scp")
    return fields | {"audio": entry.rest}


def _checked_entry(entry: str, scp: str) -> str:
    """Return the path in a line of `scp`.

    Raise InputError for a command, and for sound in an archive.
    """
    what = f"{scp}: expected the path of {'an audio file' if scp == SCP else 'log-probs'}"
    if not entry:
        raise InputError(f"{what}, got nothing")
    if entry.endswith("|") or entry.startswith("|"):
        raise InputError(f"{what}, got the shell pipe {shown(entry)}: nothing is run")
    match = _ARCHIVE.search(entry)
    if match and (scp == SCP or match[1] or match[2]):
        part = "a part of a matrix in" if match[2] else "a position in"
        raise InputError(f"{what}, got {part} the archive {shown(entry)}")
    return checked_audio(entry, scp)
