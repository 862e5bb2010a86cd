"""Programs of Python that need not start: each is forked from a process that has loaded what they
load.

A start of `ctc-align` that aligns takes some seconds, most of them for imports. `forking(folder)`
starts one process which has them behind it, and writes two programs that hand their arguments,
their folder, their environment and their streams to a fork of that process, and end with the same
exit code: `ctc-align`, whose runs over corpora have their worker in the same process, and `python`,
which takes `-c TEXT`. Where the start itself is the point, tests start `python -m ctc_align`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

LOADED = (
    "torch",
    "numba",
    "soundfile",
    "av",
    "rich",
    "ctc_align.alignment.aligner",
    "ctc_align.corpus.run",
)
LOADED += ("ctc_align.training.calibration_fitting", "ctc_align.kernels.cpu.cpu_backend")


def call(address: str, program: str, arguments: list[str]) -> int:
    """Have a process forked that runs a program with these arguments as this process would; return
    its exit code."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        given = json.dumps([program, arguments, os.getcwd(), dict(os.environ)]).encode()
        socket.send_fds(server, [b"%10d" % len(given)], [0, 1, 2])
        server.sendall(given)
        code = server.recv(1)
    return code[0] if code else 1


def serve(address: str) -> None:
    """Fork a process for each call, until this one is killed."""
    for name in LOADED:
        import_module(name)
    from ctc_align.cli import run

    # The second command starts sooner than the first. No thread of PyTorch's may be lost by a fork:
    # there are none.
    demo = Path(__file__).resolve().parents[2] / "ctc_align" / "demo" / "demo.flac"
    with tempfile.TemporaryDirectory() as folder:
        run([str(demo), str(demo.with_suffix(".txt")), "--out-dir", folder, "--quiet"])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                answer(connection)
            connection.close()


def answer(connection: socket.socket) -> None:
    """Run one call in this process, which ends with it."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        size, streams, *_ = socket.recv_fds(connection, 10, 3)
        with connection.makefile("rb") as file:
            program, arguments, folder, environment = json.loads(file.read(int(size)))
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        # What the first process knows of its own streams, such as whether they are files, is not
        # true of these.
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        code = {"ctc-align": run_command, "python": run_text}[program](arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        connection.send(bytes([code]))
        os._exit(code)


def run_command(arguments: list[str]) -> int:
    """Run `ctc-align` with these arguments; return its exit code."""
    from inline_corpus import inline_pool

    from ctc_align.cli import run
    from ctc_align.corpus import run as corpus_run

    corpus_run.plan_pool = inline_pool
    return run(arguments)


def run_text(arguments: list[str]) -> int:
    """Run `-c TEXT` as Python does; return its exit code."""
    option, text = arguments
    assert option == "-c"
    # Python reads PYTHONWARNINGS when it starts.
    for option in filter(None, os.environ.get("PYTHONWARNINGS", "").split(",")):
        warnings._setoption(option)
    try:
        exec(compile(text, "<string>", "exec"), {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


@contextlib.contextmanager
def forking(programs: Path) -> Iterator[None]:
    """Write `ctc-align` and `python` into a folder, for as long as the process lives that they are
    forked from."""
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as folder:  # an address is short
        address = str(Path(folder) / "calls")
        server = subprocess.Popen(
            [sys.executable, __file__, "serve", address],
            env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            for name in ("ctc-align", "python"):
                line = shlex.join(
                    [sys.executable, "-IS", str(Path(__file__)), "call", address, name]
                )
                (programs / name).write_text(f'#!/bin/sh\nexec {line} "$@"\n', encoding="utf-8")
                (programs / name).chmod(0o755)
            yield
        finally:
            server.kill()
            server.communicate()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    sys.exit(call(sys.argv[2], sys.argv[3], sys.argv[4:]))
