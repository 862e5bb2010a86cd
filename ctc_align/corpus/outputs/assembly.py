"""Files of several utterances, written by the parent process.

They are shared files, and manifests of a whole run. A shared file is assembled when all of its
utterances have an outcome; until then their parts wait in a SQLite file, which survives a killed
process. Manifests, in the formats of NeMo and Lhotse, are made from the JSON outputs at the end of
a run.
"""

from __future__ import annotations

import functools
import gzip
import json
import logging
import os
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ctc_align.corpus.outputs.layout import FILES, Layout, inputs_of
from ctc_align.corpus.outputs.records import (
    checksum,
    fault_of,
    is_changed,
    is_own_name,
    name_of,
    refuse_inputs,
    with_other_sizes,
)
from ctc_align.corpus.outputs.shared_files import GroupedUtterance, NamedRow, read_lines
from ctc_align.corpus.state.journal import DONE, Line
from ctc_align.corpus.state.resume import EarlierRows
from ctc_align.corpus.state.summary import NamedFiles
from ctc_align.errors import CtcAlignError, InputError, OutputError
from ctc_align.files import from_dict, output_paths, read_alignment
from ctc_align.files.corrections import (
    is_corrected,
    is_whole_label_file,
    keep_aside,
    keep_corrected,
)
from ctc_align.files.json_files import read_object
from ctc_align.files.whole_files import is_link, placing, refuse_links, remove_file, sync_folder
from ctc_align.files.writer import words_by_time
from ctc_align.reading import JsonObject
from ctc_align.sources.utterance import Checksum, Utterance
from ctc_align.text.characters import json_escaped
from ctc_align.text.markup import text_said_once
from ctc_align.types import AlignedToken, AlignedWord, Alignment

_VERSION = "1"
logger = logging.getLogger(__name__)


@dataclass
class _Group:
    """Consecutive utterances that share files.

    `outcomes` maps an index to an outcome, None while it is unknown.
    """

    name: str
    utterances: list[GroupedUtterance] = field(default_factory=list)
    outcomes: dict[int, bool | None] = field(default_factory=dict)
    pending: int = 0
    is_closed: bool = False
    is_touched: bool = False
    recorded: dict[str, Checksum] = field(default_factory=dict)
    is_resumed: bool = False
    """Rows wait for a file that an interrupted run did not write."""

    @property
    def done(self) -> list[GroupedUtterance]:
        return [utterance for utterance in self.utterances if self.outcomes[utterance.index]]


class Assembly:
    """Makes the files that several utterances share.

    Each is made as soon as all its utterances have an outcome. The order of calls for an utterance:
    `announce` (all utterances, in the source's order), then `store_pending` with the result of
    `place`, then its journal line, then `settle`. A killed run loses nothing: its rows are on disk.

        with Assembly(layout) as assembly:
            for index, utterance in …:                      # a window at a time
                known = journal outcome, if assembly.present(index, utterance)
                assembly.announce(index, utterance, known)
            …
            assembly.store_pending([(utterance.id, data), …])  # once a batch, before the journal
            lines, without None
            assembly.settle(index, done=True)               # after the journal lines
            …
            assembly.finish()                               # the source is at its end and everything is settled

    Rows of `earlier` utterances, which are not announced, stay in their files, after the rows of
    the source.
    """

    def __init__(self, layout: Layout, earlier: EarlierRows | None = None) -> None:
        self._layout = layout
        self._earlier = earlier
        self._files = layout.shared_files()
        self._pending = PendingParts(layout.pending_parts_path(), layout.signature())
        self._groups: dict[int, _Group] = {}
        """By the index of utterances whose outcome is unknown."""
        self._open: _Group | None = None
        self.left = NamedFiles()
        """Outputs that others have changed and that the run left as they are."""
        self.moved_aside = NamedFiles()
        """The new names, NAME.hand.EXTENSION, of changed files that were replaced."""
        self._names: set[str] = set()
        """The names of all groups so far."""

    def __enter__(self) -> Assembly:
        return self

    def __exit__(self, *_: object) -> None:
        """Keep the pending parts for the next run, unless `finish` was called."""
        with suppress(OutputError):
            self._pending.close()

    def present(self, index: int, utterance: Utterance, line: Line | None = None) -> bool:
        """Return whether all outputs of a done utterance are in place, or pending.

        The journal calls the utterance done. The sizes of its files are compared with its `line`,
        and the content of its row. Files that a person has corrected count as present, and are
        listed in `left`.
        """
        outputs = self._layout.outputs(utterance)
        if line is None or line.result.files is None:  # of an earlier version
            is_there = all(map(os.path.isfile, outputs))
        else:
            changed = with_other_sizes(line.result.files, Path(self._layout.out_dir), outputs)
            self.left.add(*changed or ())
            is_there = changed is not None
        group = self._layout.group(index, utterance)
        if group is None or not is_there:
            return is_there
        row = None if line is None else line.result.row
        data = self._pending.get(utterance.id)
        if data is None:
            return self._files.holds(group, utterance.id, row)
        return row is None or self._checksum(data) == tuple(row)

    def _checksum(self, data: bytes) -> Checksum | None:
        """Return the checksum of a pending part, None if it is damaged."""
        try:
            return checksum(self._files.content(data))
        except (ValueError, LookupError, TypeError):
            return None

    def faults(
        self, name: str | None, members: Sequence[tuple[GroupedUtterance, Line | None]]
    ) -> dict[str, str]:
        """Return what is wrong with the outputs of utterances, by their ids.

        All of the outputs are read.

        Args:
            name: of the group that the utterances make up, None for an utterance without a group.
            members: the utterances, each with its line if it is to be checked.
        """
        out_dir = Path(self._layout.out_dir)
        faults: dict[str, str] = {}
        rows: dict[str, Checksum | None] = {}
        for utterance, line in members:
            if line is None:
                continue
            for file, recorded in (line.result.files or {}).items():
                fault = fault_of(file, recorded, out_dir)
                if fault is not None and not is_corrected(out_dir / file):
                    faults.setdefault(utterance.id, f"{file} {fault}")
            if name is not None and not self._pending.holds(utterance.id):
                rows[utterance.id] = line.result.row
        if name is not None:
            faults = (
                self._files.faults(name, [utterance for utterance, _ in members], rows) | faults
            )
        return faults

    def remove_stale(self, utterance: Utterance, line: Line | None) -> None:
        """Remove the files that an earlier run made for an utterance that fails now.

        Inputs and other people's files stay. Warns of a file that cannot be removed.

        Args:
            line: its earlier line in the journal; None if there is no readable one: then the files
                come from an earlier run if the JSON among them names this utterance.
        """
        out_dir = Path(self._layout.out_dir)
        outputs = self._layout.outputs(utterance)
        if line is None:
            if any(_is_alignment_of(path, utterance.id) for path in outputs):
                paths = outputs
            else:
                paths = []
        elif line.status != DONE:
            return
        else:
            names = [name for name in line.result.files or () if is_own_name(name, utterance)]
            paths = outputs
            if line.result.files is not None:
                paths = [out_dir / name for name in names]
        protect = (*inputs_of(utterance), *self._layout.protect)
        for path in paths:
            self._remove_output(path, protect, utterance.id, line)

    def remove_recorded(self, line: Line) -> None:
        """Remove the files of a line that are still exactly as recorded, and are not inputs."""
        out_dir = Path(self._layout.out_dir)
        for name, recorded in (line.result.files or {}).items():
            is_below = not Path(name).is_absolute() and ".." not in Path(name).parts
            if is_below and fault_of(name, recorded, out_dir) is None:
                self._remove_output(out_dir / name, self._layout.protect, line.id, line)

    def _remove_output(
        self, path: Path, protect: Sequence[str | Path], id: str, line: Line | None
    ) -> None:
        """Remove a file of an earlier run.

        An input stays; a file that others have changed is moved aside. Warns of a file that cannot
        be removed.
        """
        out_dir = Path(self._layout.out_dir)
        name = name_of(path, out_dir)
        try:
            refuse_inputs([path], protect)
        except OutputError:
            return
        try:
            refuse_links(out_dir, path.parent)
            if (
                line is not None
                and line.result.files
                and is_changed(name, line.result.files.get(name), out_dir)
            ):
                self.moved_aside.add(name_of(keep_aside(path), out_dir))
            keep_corrected(path)
            remove_file(path, out_dir)
        except (OutputError, OSError) as error:
            logger.warning("%s (the file is from an earlier run; this time %s failed)", error, id)

    def announce(
        self, index: int, utterance: Utterance, done: bool | None = None, line: Line | None = None
    ) -> list[Path]:
        """Add an utterance of the source, in order.

        `done` is its outcome in an earlier run, None while it is unknown. `line` is its line in the
        journal: before its group's file is replaced, the file is compared with this line. Returns
        the files that this call finished: those of the previous group.

        Raises:
            OutputError: as `settle`.
        """
        name = self._layout.group(index, utterance)
        finished = self._close_unless(name)
        if name is None:
            return finished
        if self._open is None:
            self._open = _Group(name)
            self._names.add(name)
        group = self._open
        group.utterances.append(GroupedUtterance.of(index, utterance))
        group.outcomes[index] = done
        if line is not None and line.result.row is not None:
            group.recorded[utterance.id] = line.result.row
            group.is_resumed |= self._pending.holds(utterance.id)
        if done is None:
            group.pending += 1
            self._groups[index] = group
        return finished

    def store_pending(self, rows: Iterable[tuple[str, bytes | None]]) -> None:
        """Store (id, result of `place`) for a batch, in one transaction.

        Raises:
            OutputError: the rows cannot be written; write no journal lines then.
        """
        pending = [(id, data) for id, data in rows if data is not None]
        if pending:
            self._pending.put(pending)

    def forget(self, utterance: Utterance) -> None:
        """Remove the files that a worker wrote for the utterance that killed it."""
        self._layout.remove(utterance)

    def settle(self, index: int, done: bool) -> list[Path]:
        """Mark an announced utterance as in the journal.

        Return the files that this call finished.

        Raises:
            OutputError: a finished file cannot be written; its rows are kept.
        """
        group = self._groups.pop(index, None)
        if group is None:
            return []
        group.outcomes[index] = done
        group.pending -= 1
        group.is_touched = True
        if group.is_closed and not group.pending:
            return self._assemble(group)
        return []

    def finish(self) -> list[Path]:
        """Finish the last groups, and remove the pending parts.

        Parts of a run over another source stay.

        Raises:
            OutputError: as `settle`.
        """
        finished = self._close_unless(None)
        is_wanted = any(
            self._is_earlier(id, self._checksum(data)) for id, data in self._pending.all()
        )
        self._pending.close(remove=not self._groups and not is_wanted)
        return finished

    def remove_moved(self) -> None:
        """Remove rows of utterances that have moved to other groups.

        They are removed from the files of their former groups, at the end of the source.

        Raises:
            OutputError: as `settle`.
        """
        for name in sorted(self._files.groups() - self._names):
            found = self._files.checksums(name)
            kept = [id for id in found if self._earlier is None or self._earlier.lacks(id)]
            if len(kept) == len(found):
                continue
            rows = dict(self._files.rows(name, ()))
            if kept:
                self._files.write(name, (), [(id, rows[id]) for id in kept])
            else:
                self._remove(name)

    def _is_earlier(self, id: str, row: Checksum | None) -> bool:
        return self._earlier is not None and row is not None and self._earlier.holds(id, row)

    def _close_unless(self, name: str | None) -> list[Path]:
        """Close the open group unless it is called `name`.

        Return the files that this call finished.
        """
        group = self._open
        if group is None or group.name == name:
            return []
        group.is_closed = True
        self._open = None
        return [] if group.pending else self._assemble(group)

    def _assemble(self, group: _Group) -> list[Path]:
        ids = [utterance.id for utterance in group.utterances]
        members = set(ids)
        done = [utterance.id for utterance in group.done]
        found = self._files.checksums(group.name).items()
        earlier = [id for id, row in found if id not in members and self._is_earlier(id, row)]
        missing = {id for id in done if not self._pending.holds(id)}
        if (
            not group.is_touched
            and len(missing) == len(done)
            and self._files.is_of(group.name, [*done, *earlier])
        ):
            self._pending.drop(ids)
            return []
        missing.update(earlier)
        self._pending.put(
            (id, row) for id, row in self._files.rows(group.name, group.utterances) if id in missing
        )
        lost = [id for id in done if not self._pending.holds(id)]
        if lost:
            raise OutputError(
                f"{self._files.targets(group.name)[0]}: the output of {lost[0]} has"
                f" disappeared{f' (and of {len(lost) - 1} more)' if len(lost) > 1 else ''}; run the"
                " same command again"
            )
        self._keep_changed(group)
        if done or earlier:
            written = self._files.write(
                group.name, group.utterances, self._pending.rows([*done, *earlier])
            )
        else:
            written = self._remove(group.name)
        self._pending.drop([*ids, *earlier])
        return written

    def _keep_changed(self, group: _Group) -> None:
        """Move the TextGrid of a recording aside if others have changed it since it was written."""
        if self._layout.kind != FILES or group.is_resumed or not group.recorded:
            return
        for path in self._files.targets(group.name):
            if is_whole_label_file(path) and self._files.faults(
                group.name, group.utterances, group.recorded
            ):
                self.moved_aside.add(name_of(keep_aside(path), Path(self._layout.out_dir)))

    def _remove(self, name: str) -> list[Path]:
        """Remove the files of a group in which no utterance succeeded."""
        for path in self._files.targets(name):
            remove_file(path, Path(self._layout.out_dir))
        return []


def _is_alignment_of(path: Path, id: str) -> bool:
    """Return whether a file is the JSON of an alignment of this utterance."""
    try:
        return path.suffix == ".json" and read_object(path).get("utterance") == id
    except InputError:
        return False


class PendingParts:
    """Rows of bytes by utterance id, on disk, not in memory; the file is made with the first row.

    Rows survive a `kill -9` and a power failure once `put` has returned. One process writes at a
    time.

    Args:
        path: the SQLite file; one that a different version or layout wrote, or that cannot be read,
            is replaced.
        signature: what the rows are for; rows with another signature are of no use.
    """

    def __init__(self, path: str | Path, signature: str = "") -> None:
        self.path = Path(path)
        self._signature = f"{_VERSION} {signature}"
        self._open: sqlite3.Connection | None = None
        if self.path.exists():
            self._connect()

    def put(self, rows: Iterable[NamedRow]) -> None:
        """Keep (id, data), all of them or none; earlier rows of these ids are replaced.

        Raises:
            OutputError: the disk is full, or the folder cannot be written.
        """
        with self._reporting():
            connection = self._connect()
            with connection:
                pairs = ((_key(id), data) for id, data in rows)
                connection.executemany(
                    "INSERT OR REPLACE INTO rows (id, data) VALUES (?, ?)", pairs
                )

    def get(self, id: str) -> bytes | None:
        """Return the row of an utterance, None if it has none."""
        if self._open is None:
            return None
        with self._reporting():
            found = self._open.execute("SELECT data FROM rows WHERE id = ?", (_key(id),)).fetchone()
        return None if found is None else found[0]

    def holds(self, id: str) -> bool:
        """Return whether an utterance has a row."""
        return self.get(id) is not None

    def rows(self, ids: Iterable[str]) -> Iterator[NamedRow]:
        """Yield (id, data) for each of `ids` that has a row, in their order."""
        for id in ids:
            data = self.get(id)
            if data is not None:
                yield id, data

    def all(self) -> Iterator[NamedRow]:
        """Yield (id, data) of all rows."""
        if self._open is not None:
            with self._reporting():
                for key, data in self._open.execute("SELECT id, data FROM rows"):
                    yield key.decode("utf-8", "surrogatepass"), data

    def drop(self, ids: Iterable[str]) -> None:
        """Remove these rows, all of them or none."""
        if self._open is not None:
            with self._reporting(), self._open as connection:
                connection.executemany("DELETE FROM rows WHERE id = ?", ((_key(id),) for id in ids))

    def close(self, *, remove: bool = False) -> None:
        """Close the file; with `remove` delete it."""
        if self._open is not None:
            with self._reporting():
                self._open.close()
            self._open = None
        if remove:
            self._remove()

    def _connect(self) -> sqlite3.Connection:
        if self._open is not None:
            return self._open
        if is_link(self.path):
            self._remove()  # SQLite would write what it leads to
        try:
            self._open = self._opened()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise OutputError(f"{self.path}: the spool cannot be opened ({error})") from error
            self._remove()
            self._open = self._opened()
        return self._open

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=30.0)
        try:
            # a rollback journal, not a write-ahead log: that needs shared memory, which network
            # folders do not have
            connection.execute("PRAGMA journal_mode = DELETE")
            # journal lines rely on rows: they outlive a loss of power, one transaction a batch
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA cache_size = -8192")
            with connection:
                connection.execute("CREATE TABLE IF NOT EXISTS about (signature TEXT)")
                found = connection.execute("SELECT signature FROM about").fetchone()
                if found != (self._signature,):
                    connection.execute("DROP TABLE IF EXISTS rows")
                    connection.execute("DELETE FROM about")
                    connection.execute("INSERT INTO about VALUES (?)", (self._signature,))
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS rows (id BLOB PRIMARY KEY, data BLOB) WITHOUT ROWID"
                )
            sync_folder(self.path.parent)
        except BaseException:
            connection.close()
            raise
        return connection

    def _remove(self) -> None:
        for suffix in ("", "-journal"):
            with suppress(FileNotFoundError):  # a link itself goes, not what it leads to
                self.path.with_name(self.path.name + suffix).unlink()

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise OutputError(
                f"{self.path}: the spool cannot be written or read ({error})"
            ) from error


def _key(id: str) -> bytes:
    """Return an id as bytes.

    Ids from file names may hold halves of surrogate pairs, which SQLite's text cannot.
    """
    return id.encode("utf-8", "surrogatepass")


_DECIMALS = 5


class _Sound(NamedTuple):
    """Rate, length and channels of a recording."""

    rate: int
    samples: int
    channels: int


def write_manifests(layout: Layout, done: Iterator[tuple[int, Utterance]]) -> list[Path]:
    """Write the manifests that the layout includes, completely, with all utterances that succeeded.

    Args:
        done: (index, utterance), in the source's order; they are read and written one by one.

    Raises:
        OutputError: a manifest cannot be written, or an output that it is made from is gone.
    """
    if not layout.manifests:
        return []
    targets = [manifest_path(layout.out_dir, name, layout.job) for name in layout.manifests]
    makers: list[Callable[[Layout, Utterance, Alignment], JsonObject]]
    makers = [_nemo if name == "nemo" else _lhotse for name in layout.manifests]
    with placing(targets, layout.parts_folder, sync=True) as parts, ExitStack() as stack:
        files = [stack.enter_context(_line_file(target, part)) for target, part in parts]
        for utterance, alignment in _stored(layout, done):
            for file, maker in zip(files, makers):
                data = maker(layout, utterance, alignment)
                line = json_escaped(json.dumps(data, ensure_ascii=False, allow_nan=False))
                file.write(line.encode("utf-8", "backslashreplace") + b"\n")
    for name in layout.manifests:
        remove_other_counts(Path(layout.out_dir), name, layout.job)
    return targets


def remove_other_counts(out_dir: Path, name: str, job: str) -> None:
    """Remove manifests of a different number of jobs: together they would have utterances twice."""
    count = job.partition("-of-")[2]
    for path in out_dir.glob(f"manifest.{name}.*-of-*"):
        other = re.fullmatch(rf"manifest\.{name}\.\d+-of-(\d+)\.jsonl(\.gz)?", path.name)
        if other and other[1] != count:
            path.unlink(missing_ok=True)


def manifest_path(out_dir: str | Path, name: str, job: str = "") -> Path:
    """Return the path of a manifest; each of several jobs has one.

    >>> manifest_path("out", "nemo", "0-of-4").name, manifest_path("out", "lhotse").name
    ('manifest.nemo.0-of-4.jsonl', 'manifest.lhotse.jsonl.gz')
    """
    extension = ".jsonl.gz" if name == "lhotse" else ".jsonl"
    return Path(out_dir) / f"manifest.{name}{'.' + job if job else ''}{extension}"


@contextmanager
def _line_file(target: Path, part: Path) -> Iterator[Any]:
    with open(part, "xb") as raw:
        if target.suffix != ".gz":
            yield raw
            return
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as packer:
            yield packer


def _stored(
    layout: Layout, done: Iterator[tuple[int, Utterance]]
) -> Iterator[tuple[Utterance, Alignment]]:
    """Yield the alignments from the output folder, one at a time."""
    shard: tuple[str | None, Iterator[bytes]] = (None, iter(()))
    for index, utterance in done:
        if layout.kind == "files":
            (path,) = output_paths(layout.out_dir, utterance.output, ("json",))
            yield utterance, _read(path)
            continue
        group = layout.group(index, utterance)
        assert group is not None, "every utterance is in a shard"
        path = layout.shared_files().targets(group)[0]
        if shard[0] != group:
            shard = (group, read_lines(path))
        yield utterance, _next_of(shard[1], utterance.id, path)


def _read(path: Path) -> Alignment:
    try:
        return read_alignment(path)
    except CtcAlignError as error:
        raise OutputError(
            f"{error}; the manifest is made from these outputs: run the same command again"
        ) from error


def _next_of(lines: Iterator[bytes], id: str, path: Path) -> Alignment:
    """Return the alignment of an utterance from the rest of its shard.

    The shard is in the source's order, too.
    """
    try:
        for line in lines:
            data = json.loads(line)
            if data["utterance"] == id:
                return from_dict(data, path)
    except (OSError, EOFError, zlib.error, ValueError, KeyError, CtcAlignError) as error:
        raise OutputError(
            f"{path}: cannot be read ({error}); run the same command again"
        ) from error
    raise OutputError(f"{path}: {id} is not in it; run the same command again")


def _nemo(layout: Layout, utterance: Utterance, alignment: Alignment) -> JsonObject:
    """Return the line of an utterance in `manifest.nemo.jsonl`.

    It has the fields that every NeMo tool reads (`audio_filepath`, `offset`, `duration`, `text`),
    and also `utterance`, `speaker` and `lang` if the source names them, `loss`,
    `words_level_ctm_filepath` and `tokens_level_ctm_filepath` as in the manifests of NeMo's aligner
    (relative to the manifest; only if the layout is files with CTM), and `words`: [{word, start,
    duration, confidence}], seconds from the start of the utterance.
    """
    line: JsonObject = {
        "audio_filepath": os.path.abspath(utterance.audio),
        "offset": _number(utterance.offset_s),
        "duration": _number(alignment.duration_s),
        "text": text_said_once(alignment.text, alignment.words),
        "utterance": utterance.id,
    }
    if utterance.speaker:
        line["speaker"] = utterance.speaker
    if utterance.language:
        line["lang"] = utterance.language
    if abs(alignment.loss) < float("inf"):
        line["loss"] = alignment.loss
    else:
        line["loss"] = None
    for key, extension in (
        ("words_level_ctm_filepath", ".ctm"),
        ("tokens_level_ctm_filepath", ".tokens.ctm"),
    ):
        name = utterance.output.rpartition("/")[2] + extension
        folder = layout.out_dir
        line.update(
            (key, os.path.relpath(path, folder))
            for path in layout.outputs(utterance)
            if path.name == name
        )
    line["words"] = [
        {"word": symbol, "start": start, "duration": duration, "confidence": score}
        for symbol, start, duration, score in map(_item, words_by_time(alignment))
    ]
    return line


def _lhotse(layout: Layout, utterance: Utterance, alignment: Alignment) -> JsonObject:
    """Return the cut of an utterance in `manifest.lhotse.jsonl.gz`.

    `CutSet.from_file` and `load_manifest_lazy` read it. It has its recording and one supervision,
    whose `alignment` has "word" and "phone" (or "token") items [symbol, start, duration, score]. A
    supervision of a cut counts from the start of the cut, but its alignment from the start of the
    recording: see `AlignmentItem` and `trim_to_alignments` in Lhotse.
    """
    sound = _sound(utterance.audio)
    if utterance.channel is None:
        channels = list(range(sound.channels))
    else:
        channels = [utterance.channel - 1]
    channel: Any = channels[0] if len(channels) == 1 else channels
    duration_s = _number(min(alignment.duration_s, sound.samples / sound.rate - utterance.offset_s))
    recording = os.path.abspath(utterance.audio)
    words = words_by_time(alignment)
    kind = alignment.token_kind.removesuffix("s")
    supervision = {
        "id": utterance.id,
        "recording_id": recording,
        "start": 0.0,
        "duration": duration_s,
        "channel": channel,
        "text": text_said_once(alignment.text, alignment.words),
        **({"speaker": utterance.speaker} if utterance.speaker else {}),
        **({"language": utterance.language} if utterance.language else {}),
        "custom": {"loss": alignment.loss if abs(alignment.loss) < float("inf") else None},
        "alignment": {
            "word": [_item(word, utterance.offset_s) for word in words],
            kind: [_item(token, utterance.offset_s) for word in words for token in word.tokens],
        },
    }
    return {
        "id": utterance.id,
        "start": _number(utterance.offset_s),
        "duration": duration_s,
        "channel": channel,
        "supervisions": [supervision],
        "recording": {
            "id": recording,
            "sources": [
                {"type": "file", "channels": list(range(sound.channels)), "source": recording}
            ],
            "sampling_rate": sound.rate,
            "num_samples": sound.samples,
            "duration": sound.samples / sound.rate,
            "channel_ids": list(range(sound.channels)),
        },
        "type": "MonoCut" if len(channels) == 1 else "MultiCut",
    }


@functools.lru_cache(maxsize=16)
def _sound(path: str) -> _Sound:
    from ctc_align.audio.loading import header_duration_s, open_recording

    try:
        with open_recording(path) as recording:
            rate, channels = recording.rate, recording.channels
        return _Sound(rate, round(header_duration_s(path) * rate), channels)
    except (OSError, CtcAlignError) as error:
        raise OutputError(
            f"{path}: a manifest cannot be made: the recording can no longer be read ({error})"
        ) from error


def _item(part: AlignedWord | AlignedToken, shift_s: float = 0.0) -> list[Any]:
    """Return [symbol, start, duration, score] of a token, or of a word as written.

    `shift_s` is added to the start.
    """
    assert part.start_s is not None, "aligned words have times"
    assert part.end_s is not None, "aligned words have times"
    if isinstance(part, AlignedWord):
        symbol = part.text
    else:
        symbol = part.token
    return [
        symbol,
        _number(part.start_s + shift_s),
        _number(part.end_s - part.start_s),
        part.confidence,
    ]


def _number(seconds: float) -> float:
    return round(seconds, _DECIMALS)
