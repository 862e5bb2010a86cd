"""Small corpora, runs over them as processes, and what they leave behind."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from ctc_align.corpus.state.journal import DONE, Line
from ctc_align.sources.utterance import UtteranceResult

PROGRAM = Path(__file__).with_name("corpus_program.py")
ROOT = Path(__file__).resolve().parents[2]
RATE = 16000
NOT_COMPARED = ("journal", "summary")


def journal_line(id: str, status: str = DONE, reason: str | None = None, **fields: Any) -> Line:
    """A journal's line of these fields, those of the result among them."""
    result = {
        each.name: fields.pop(each.name)
        for each in dataclasses.fields(UtteranceResult)
        if each.name in fields
    }
    return Line(id, status, reason, UtteranceResult(**result), **fields)  # type: ignore[arg-type]


def write_clip(path: Path, seconds: float = 0.25, seed: int = 0, **options: Any) -> Path:
    """Noise, the same for the same seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = np.random.default_rng(seed).normal(0, 0.1, int(seconds * RATE)).astype(np.float32)
    soundfile.write(path, samples, RATE, **options)
    return path


def write_manifest(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def edit(corpus: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change the rows of a manifest."""
    rows = [json.loads(line) for line in corpus.read_text("utf-8").splitlines()]
    change(rows)
    write_manifest(corpus, rows)


def make_corpus(folder: Path, utterances: int) -> Path:
    """A manifest of utterances in `folder`, of different lengths, some of which fail; return its
    path."""
    rows: list[dict[str, Any]] = []
    for i in range(utterances):
        audio = write_clip(folder / "audio" / f"clip {i % 8}.wav", 0.2 + 0.05 * (i % 8), i % 8)
        rows.append(
            {
                "audio_filepath": str(audio),
                "text": f"number {i} of them",
                "utterance": f"part {i % 3}/u{i}",
            }
        )
    rows[3]["text"] = "word " * 60
    rows[7]["text"] = ""
    rows[11]["audio_filepath"] = str(folder / "missing.wav")
    return write_manifest(folder / "corpus.jsonl", rows)


def start(
    *arguments: Any,
    command: str = "corpus",
    terminal: int | None = None,
    group: bool = False,
    **environment: Any,
) -> subprocess.Popen[str]:
    """Start a run, with its output piped or at a terminal of its own, or as a process group of its
    own."""

    def prepare() -> None:
        # under nohup the tests ignore it, and so would the run
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        if terminal is not None:
            import fcntl
            import termios

            fcntl.ioctl(2, termios.TIOCSCTTY, 0)

    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment |= {"PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), command, *map(str, arguments)],
        env={**os.environ, **{name: str(value) for name, value in environment.items()}},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if terminal is None else terminal,
        stderr=subprocess.PIPE if terminal is None else terminal,
        start_new_session=group or terminal is not None,
        preexec_fn=prepare,
        text=True,
        encoding="utf-8",
    )


HANG_S = 600
"""A run that takes so long hangs: machines may be slow and busy."""


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """The output of a run, after its end; a run that hangs is killed, else its pipes would warn in
    the next test."""
    try:
        return process.communicate(timeout=HANG_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise


def run(*arguments: Any, **environment: Any) -> subprocess.CompletedProcess[str]:
    process = start(*arguments, **environment)
    stdout, stderr = ended(process)
    assert "Traceback" not in stderr, stderr
    assert stdout == ""
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


class HeldRun:
    """A run that stops at a point of the program (`append-after:2`), where the constructor waits
    for it.

    No test has to be in time, however busy the machine is: the run goes on when `let_go` says so.
    """

    def __init__(self, *arguments: Any, at: str, **options: Any) -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as opened:
            ends = {}
            for name in ("here", "go"):
                os.mkfifo(Path(folder, name))
                ends[name] = os.open(Path(folder, name), os.O_RDWR | os.O_NONBLOCK)
                opened.callback(os.close, ends[name])
            self.process = start(*arguments, HELD=at, HELD_IN=folder, **options)
            wait_for(lambda: bool(select.select([ends["here"]], [], [], 0.1)[0]), self.process)
            opened.pop_all()
        self._go = ends["go"]
        os.close(ends["here"])

    def let_go(self) -> None:
        os.write(self._go, b".")

    def ended(self) -> tuple[str, str]:
        """Let the run go on, and return its output after its end."""
        self.let_go()
        return ended(self.process)

    def __enter__(self) -> HeldRun:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._go)
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    """Return when a condition holds; fail where it never does, or a process ends that should bring
    it about."""
    end = time.monotonic() + HANG_S
    while not condition():
        assert process is None or process.poll() is None, (
            f"it ended too early: {process.communicate()}"
        )
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def outputs(folder: Path) -> dict[str, bytes]:
    """All files below an output folder but journals and summaries, which tell times."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(NOT_COMPARED)
    }


def lines(folder: Path, name: str = "journal.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]


def summary(folder: Path, name: str = "summary.json") -> dict[str, Any]:
    return json.loads((folder / name).read_text("utf-8"))


def processes_with(mark: str) -> list[int]:
    """Living processes that have `mark` in their environment (Linux)."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                alive = " Z " not in (entry / "stat").read_text()[:200]
                if alive and mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
