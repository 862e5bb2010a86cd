"""The program from end to end, on log-probs: in this process, and in its own where streams or
signals are the point."""

from __future__ import annotations

import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import IO

import numpy as np
import pytest

import ctc_align

ROOT = Path(__file__).resolve().parents[2]
VOCAB = ["<blank>", "|", *"abcdefghijklmnopqrstuvwxyz'"]
SPOKEN = "hello|big|world"
FIRST_FRAME, FRAMES_EACH = 10, 6
TEXTGRID = '"ooTextFile" "TextGrid" 0 1 <exists> 1 "IntervalTier" "words" 0 1 1 0 1 "hello"'
OPTIONS = ["--vocab", "vocab.txt", "--frame-shift", "0.02"]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """A folder with log-probs in which "hello big world" is plain to see, and their transcript."""
    scores = np.zeros((110, len(VOCAB)))
    scores[:, 0] = 4.0
    for i, letter in enumerate(SPOKEN):
        start = FIRST_FRAME + i * FRAMES_EACH
        scores[start : start + 3, VOCAB.index(letter)] = 9.0
    log_probs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    np.save(tmp_path / "talk.npy", log_probs.astype(np.float32))
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    (tmp_path / "talk.txt").write_text("Hello, — big wörld!\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program(here: Path, *arguments: object, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ctc_align", *map(str, arguments)]
    return subprocess.run(
        command, cwd=here, env=environment(), capture_output=True, text=True, timeout=120, **options
    )


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}


def test_a_program_exits_with_its_code_and_one_line(here):
    result = program(here, "talk.npy", "talk.txt")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "ctc-align: error: talk.npy: log-probs need --vocab and --frame-shift too (--vocab FILE,"
        " --frame-shift SECONDS)"
    ]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_standard_output_on_a_full_disk(here):
    command = [
        sys.executable,
        "-m",
        "ctc_align",
        "talk.npy",
        "talk.txt",
        *OPTIONS,
        "--stdout",
        "-q",
    ]
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            command, cwd=here, env=environment(), stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "ctc-align: error: standard output: writing failed (No space left on device)",
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="no such shell there")
@pytest.mark.parametrize(
    ("closed", "options", "code", "says"),
    [
        (
            ">&-",
            "--stdout",
            1,
            "ctc-align: error: standard output: writing failed (Bad file descriptor)\n",
        ),
        pytest.param(">&-", "", 0, "", marks=pytest.mark.long),
        pytest.param("2>&-", "", 0, "", marks=pytest.mark.long),
    ],
)
def test_streams_that_the_caller_closed(here, closed, options, code, says):
    line = (
        f'"{sys.executable}" -m ctc_align talk.npy talk.txt {" ".join(OPTIONS)} -q {options}'
        f" {closed}"
    )
    result = subprocess.run(
        ["sh", "-c", line], cwd=here, env=environment(), capture_output=True, text=True
    )
    assert (result.returncode, result.stdout, result.stderr) == (code, "", says)
    assert (here / "talk.json").exists() == (code == 0)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes end otherwise there")
@pytest.mark.parametrize(
    "arguments",
    [
        ["talk.npy", "talk.txt", *OPTIONS, "--stdout", "-q"],
        pytest.param(["evaluate", "a.TextGrid", "a.TextGrid"], marks=pytest.mark.long),
    ],
)
def test_a_reader_that_has_enough(here, arguments):
    (here / "a.TextGrid").write_text(TEXTGRID)
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "ctc_align", *arguments]
    result = subprocess.run(
        command, cwd=here, env=environment(), stdout=write_end, stderr=subprocess.PIPE, text=True
    )
    os.close(write_end)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks how much of a pipe was read")
def test_interruption(here):
    command = [sys.executable, "-m", "ctc_align", "talk.npy", "-", *OPTIONS]
    # A shell's background jobs, and what they start, ignore SIGINT: the program would be right to
    # ignore it too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            command,
            cwd=here,
            env=environment(),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    wait_for_a_reader(process.stdin)  # from here on it waits for the rest of the transcript
    process.send_signal(signal.SIGINT)
    # A signal just before the read begins does not end it: the closed pipe does, and the signal is
    # there first.
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.splitlines() == ["ctc-align: interrupted"]


def wait_for_a_reader(pipe: IO[str]) -> None:
    """Write to a pipe, and return when all of it has been read."""
    pipe.write("hello")
    pipe.flush()
    left = bytearray(b"....")
    while left != bytes(4):
        time.sleep(0.01)
        fcntl.ioctl(pipe, termios.FIONREAD, left)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_that_nobody_writes_to_is_an_error_at_once(cli, here):
    """Whatever file it is in place of; a shell's <(…) is open already, and read."""
    os.mkfifo(here / "pipe")
    (here / "pipe.npy").symlink_to("pipe")
    for arguments in (
        ["talk.npy", "pipe", *OPTIONS],
        ["pipe.npy", "talk.txt", *OPTIONS],
        ["talk.npy", "talk.txt", "--vocab", "pipe", "--frame-shift", "0.02"],
        ["talk.npy", "talk.txt", *OPTIONS, "--lexicon", "pipe"],
        ["talk.npy", "talk.txt", *OPTIONS, "--config", "./pipe"],
        ["talk.npy", "talk.txt", *OPTIONS, "--calibration", "pipe"],
        ["evaluate", "pipe", "pipe"],
        ["score", "talk.npy", "pipe", *OPTIONS],
    ):
        result = cli(*arguments)
        assert result.code in (1, 2), arguments
        assert "pipe" in result.error, arguments
    read_end, write_end = os.pipe()
    os.write(write_end, (here / "talk.txt").read_bytes())
    os.close(write_end)
    assert (
        cli("talk.npy", f"/dev/fd/{read_end}", *OPTIONS, "--stdout", "--format", "json").code == 0
    )
    os.close(read_end)


def test_help_loads_no_heavy_packages(here):
    code = (
        "import sys; from ctc_align.cli import run; run(['--help']); run(['align',"
        " '--help']);print([n for n in ('torch', 'numpy', 'numba', 'rich', 'soundfile', 'av') if n"
        " in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True
    )
    assert result.stdout.splitlines()[-1] == "[]"


def test_a_plain_recording_and_text_load_nothing_that_only_others_need(here):
    demo = Path(ctc_align.__file__).parent / "demo" / "demo.flac"
    code = (
        "import sys; from ctc_align.cli import run;"
        f"run([{str(demo)!r}, {str(demo.with_suffix('.txt'))!r}, '--stdout']);"
        "print([n for n in ('torch', 'rich', 'av', 'pydantic', 'ssl') if n in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True
    )
    assert result.stdout.splitlines()[-1] == "[]", result.stderr


def test_the_models_inside_the_package_need_no_torch(here):
    """Commands on a CPU, a worker of a corpus and the network for unknown words run where torch
    cannot be imported."""
    folder = here / "instead" / "torch"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('torch was imported')")
    demo = Path(ctc_align.__file__).parent / "demo"
    (here / "source").mkdir()
    for name in ("demo.flac", "demo.txt"):
        (here / "source" / name).write_bytes((demo / name).read_bytes())
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join((str(folder.parent), env["PYTHONPATH"]))
    for arguments in (
        ["source/demo.flac", "source/demo.txt", "--unknown", "wildcard"],
        [
            "source/demo.flac",
            "--text",
            "Glorbish Straße",
            "--match",
            "exact",
            "--language",
            "de",
            "--min-fit",
            "none",
            "--force",
        ],
        ["score", "source/demo.flac", "--text", "glorbish", "--text", "forced alignment"],
        ["realign", "demo.json", "--out-dir", "again"],
        ["corpus", "source", "--out-dir", "out", "--workers", "1"],
        ["talk.npy", "talk.txt", *OPTIONS],
    ):
        command = [sys.executable, "-m", "ctc_align", *arguments]
        result = subprocess.run(
            command, cwd=here, env=env, capture_output=True, text=True, timeout=120
        )
        assert result.returncode == 0, result.stderr
        assert "torch was imported" not in result.stderr


def test_a_recording_from_standard_input(cli, here, monkeypatch):
    demo = Path(ctc_align.__file__).parent / "demo" / "demo.flac"
    for arguments in (["-", "--text", "We call it bear.", "--channel", "left"], ["-", "-"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(demo.read_bytes())))
        result = cli(*arguments, "--format", "json", "--min-fit", "none")
        if arguments[-1] == "-":
            assert (result.code, "AUDIO and TRANSCRIPT are both -" in result.error) == (2, True)
        else:
            assert result.code == 0, result.stderr
            data = json.loads((here / "stdin.json").read_text("utf-8"))
            assert (data["audio"], data["utterance"], data["config"]["channel"]) == (
                "-",
                "stdin",
                "left",
            )
    os.mkfifo(here / "pipe.wav")
    result = cli("pipe.wav", "--text", "hello", code=2)
    assert "got a pipe" in result.error
    assert "give - as AUDIO" in result.error
