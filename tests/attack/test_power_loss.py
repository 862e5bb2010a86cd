"""A loss of power at each call that changes files: what the journal calls done is there, and a
rerun ends as ever.

    EVERY_CALL=1 pytest tests/attack/test_power_loss.py        (else some of the calls, by chance)

The run is in this process. Of each file the bytes are kept that it had when it was last written to
the disk (`fsync`, `syncfs`), and of each folder its names. What a loss of power leaves is made of
those: nothing but them; or the newest names with files that are empty, or cut in the middle; or any
mixture. SQLite's promise is taken as it is: rows of a transaction with `synchronous = EXTRA` are on
the disk.
"""

from __future__ import annotations

import builtins
import functools
import io
import json
import os
import random
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import corpus_runs as runs
import pytest
from inline_corpus import inline_corpus  # noqa: F401 (a fixture)

from ctc_align.corpus.outputs.assembly import PendingParts
from ctc_align.corpus.outputs.layout import Layout
from ctc_align.corpus.run import CorpusRun, run_corpus
from ctc_align.files import whole_files

UTTERANCES = 14
LAYOUTS = {
    "files": Layout("", formats=("json", "ctm")),
    "shards": Layout("", kind="shards", shard_size=5, manifests=("nemo",)),
}
LOSSES = ("all that is not on the disk", "the bytes", "half of the bytes", "anything")
CASES = [("files", True), ("files", False), ("shards", True)]
"""The layout, and whether the system has `syncfs`."""
OBSERVER = SimpleNamespace(progress=lambda tally: None, warn=lambda line: None)


@dataclass
class Disk:
    """What is on the disk of the files below `root`, call by call; `number` is a file's own,
    however it is called."""

    root: Path
    data: dict[int, bytes] = field(default_factory=dict)
    names: dict[Path, dict[str, int]] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    """By inode, of the files that are there now."""
    count: int = 0
    states: list[dict[str, Any]] = field(default_factory=list)

    def look(self) -> dict[Path, dict[str, int]]:
        """Return the names that are there now; folders have the number 0."""
        found: dict[Path, dict[str, int]] = {}
        numbers: dict[int, int] = {}
        for folder, folders, files in os.walk(self.root):
            found[Path(folder)] = dict.fromkeys(folders, 0)
            for name in files:
                inode = os.lstat(os.path.join(folder, name)).st_ino
                if inode not in numbers:
                    numbers[inode] = self.numbers.get(inode) or self.count + 1
                    self.count = max(self.count, numbers[inode])
                found[Path(folder)][name] = numbers[inode]
        self.numbers = numbers
        return found

    def has(self, path: Any) -> bool:
        """Return whether a path is `root` or below it."""
        return isinstance(path, (str, os.PathLike)) and self.root in [
            Path(path),
            *Path(path).parents,
        ]

    def sync(self, path: Path) -> None:
        """Have a file, or the names of a folder, on the disk."""
        now = self.look()
        if path.is_dir():
            self.names[path] = dict(now.get(path, {}))
        else:
            self.data[now[path.parent][path.name]] = path.read_bytes()

    def sync_all(self) -> None:
        for folder, names in self.look().items():
            self.names[folder] = dict(names)
            for name, number in names.items():
                if number:
                    self.data[number] = (folder / name).read_bytes()

    def note(self, call: str) -> None:
        """Keep what would be left now."""
        now = self.look()
        bytes_now = {
            number: (folder / name).read_bytes()
            for folder, names in now.items()
            for name, number in names.items()
            if number
        }
        disk = {folder: dict(names) for folder, names in self.names.items()}
        self.states.append(
            {"call": call, "names": disk, "data": dict(self.data), "new": now, "bytes": bytes_now}
        )

    def restore(
        self, state: dict[str, Any], loss: str, folder: Path, chance: random.Random
    ) -> None:
        """Make in `folder` what a loss of power leaves."""

        def made(path: Path, to: Path) -> None:
            to.mkdir()
            old, new = state["names"].get(path, {}), state["new"].get(path, {})
            for name in sorted(old.keys() | new.keys()):
                number = old.get(name)
                if (loss == "anything" and chance.random() < 0.5) or loss in LOSSES[1:3]:
                    number = new.get(name)
                if number is None:
                    continue
                if number == 0:
                    made(path / name, to / name)
                    continue
                whole = state["bytes"].get(number, b"")
                lost = {LOSSES[0]: b"", LOSSES[1]: b"", LOSSES[2]: whole[: len(whole) // 2]}
                unsynced = (
                    lost.get(loss)
                    if loss in lost
                    else chance.choice([b"", whole, whole[: len(whole) // 2]])
                )
                data = state["data"].get(number)
                if (
                    data is not None
                    and loss == "anything"
                    and chance.random() < 0.5
                    and whole.startswith(data)
                ):
                    data = whole[: chance.randint(len(data), len(whole))]
                (to / name).write_bytes(unsynced if data is None else data)

        made(self.root, folder)


def watch_syncs(monkeypatch: pytest.MonkeyPatch, disk: Disk) -> None:
    """Watch the calls that have data on the disk: of a file or folder, of a file system, of
    SQLite."""
    fsync = os.fsync

    def synced(file: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{file}"))
        fsync(file)
        if disk.has(path):
            disk.sync(path)
            disk.note(f"after fsync {path}")
        elif stat.S_ISDIR(os.fstat(file).st_mode) and path == disk.root.parent:
            disk.names.setdefault(disk.root, {})

    def all_synced(path: Path) -> bool:
        disk.sync_all()
        disk.note("after syncfs")
        return True

    def with_rows(method: Callable[..., None]) -> Callable[..., None]:
        def kept(self: PendingParts, *arguments: Any) -> None:
            method(self, *arguments)
            if (
                disk.has(self.path)
                and self._open is not None
                and self._open.execute("PRAGMA synchronous").fetchone() == (3,)
            ):
                disk.sync(self.path)
                disk.names[disk.root][self.path.name] = disk.look()[disk.root][self.path.name]
                disk.note("after a transaction")

        return kept

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(whole_files, "sync_file_system", all_synced)
    for name in ("put", "drop"):
        monkeypatch.setattr(PendingParts, name, with_rows(getattr(PendingParts, name)))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Disk:
    """Watch the calls that change files in `tmp_path/out`."""
    disk = Disk(tmp_path / "out")

    def watch(owner: Any, name: str, changes: Callable[..., bool]) -> None:
        function = getattr(owner, name)

        @functools.wraps(function)
        def watched(*arguments: Any, **options: Any) -> Any:
            ours = bool(arguments) and changes(*arguments, **options)
            if ours:
                disk.note(f"{name} {arguments[0]}")
            result = function(*arguments, **options)
            if ours:
                disk.look()
            return result

        monkeypatch.setattr(owner, name, watched)

    def writes(path: Any, mode: str = "r", *_: Any, **__: Any) -> bool:
        return disk.has(path) and bool(set(mode) & set("wax+"))

    def is_file_of_ours(file: Any, *_: Any) -> bool:
        return disk.has(os.readlink(f"/proc/self/fd/{file}"))

    for name in ("replace", "mkdir", "unlink", "rmdir"):
        watch(os, name, lambda path, *_, **__: disk.has(path))
    watch(
        os,
        "open",
        lambda path, flags, *_, **__: disk.has(path) and bool(flags & (os.O_CREAT | os.O_TRUNC)),
    )
    watch(os, "write", is_file_of_ours)
    watch(os, "ftruncate", is_file_of_ours)
    watch(builtins, "open", writes)
    watch(io, "open", writes)
    watch_syncs(monkeypatch, disk)
    return disk


def corpus_of(folder: Path, text: str) -> Path:
    clips = [str(runs.write_clip(folder / f"clip{i}.wav", 0.2, i)) for i in range(3)]
    rows = [
        {
            "audio": clips[i % 3],
            "text": f"{text} {i}",
            "utterance": f"s{i % 2}/u{i}",
            "duration": 0.2,
        }
        for i in range(UTTERANCES)
    ]
    return runs.write_manifest(folder / "corpus.jsonl", rows)


def run(corpus: Path, out_dir: Path, layout: str) -> dict[str, bytes]:
    result = run_corpus(
        CorpusRun(str(corpus), str(out_dir), outputs=LAYOUTS[layout], batch_seconds=0.7), OBSERVER
    )
    assert (result.summary.done, result.summary.failed, result.summary.complete) == (
        UTTERANCES,
        0,
        True,
    )
    return {
        name: data
        for name, data in runs.outputs(out_dir).items()
        if not name.startswith(".ctc-align")
    }


def losses(disk: Disk, calls: int) -> list[tuple[dict[str, Any], str]]:
    """Return the losses after each call, or after so many of them."""
    states = disk.states
    if "EVERY_CALL" not in os.environ:
        states = random.Random(calls).sample(states, min(calls, len(states)))
    return [(state, loss) for state in states for loss in LOSSES]


def assert_kept(folder: Path, layout: str, expected: list[dict[str, bytes]], what: str) -> None:
    """Of what the journal calls done the files are there, old or new, and whole."""
    if layout != "files" or not (folder / "journal.jsonl").exists():
        return
    for raw in (folder / "journal.jsonl").read_bytes().splitlines(keepends=True):
        if raw.endswith(b"\n"):
            for name in json.loads(raw)["files"]:
                assert (folder / name).is_file(), f"{what}: {name} is gone, and was done"
                assert (folder / name).read_bytes() in [files[name] for files in expected], (
                    f"{what}: {name} is damaged"
                )


@pytest.mark.parametrize(
    ("layout", "has_syncfs", "calls"),
    [
        ("files", True, 2),
        *(pytest.param(*case, 12, marks=pytest.mark.long) for case in CASES),
    ],
)
def test_a_loss_of_power(layout, has_syncfs, calls, disk, inline_corpus, monkeypatch, tmp_path):  # noqa: F811
    if not has_syncfs:
        monkeypatch.setattr(whole_files, "sync_file_system", lambda path: False)
    corpus = corpus_of(tmp_path / "corpus", "some words")
    with monkeypatch.context() as patch:
        patch.setattr(disk, "root", tmp_path / "nothing")
        first = run(corpus, tmp_path / "first", layout)
    assert run(corpus, disk.root, layout) == first
    stages = [(corpus.read_bytes(), [first], losses(disk, calls))]
    disk.states.clear()
    corpus_of(tmp_path / "corpus", "other words")
    second = run(corpus, disk.root, layout)
    stages.append((corpus.read_bytes(), [first, second], losses(disk, calls)))
    disk.root = tmp_path / "nothing"
    chance, count = random.Random(1), 0
    for rows, expected, lost in stages:
        corpus.write_bytes(rows)
        for state, loss in lost:
            count += 1
            folder = tmp_path / f"lost-{count}"
            what = f"{loss} at {state['call']}"
            Disk(tmp_path / "out").restore(state, loss, folder, chance)
            assert_kept(folder, layout, expected, what)
            assert run(corpus, folder, layout) == expected[-1], what
    assert count >= 2 * len(LOSSES) * calls
