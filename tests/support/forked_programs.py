"""Programs of Python that need not start: each is forked from a process that has loaded what they load.

A start of `ctc-align` that aligns takes some seconds, most of them for imports. `forking(program)` starts one process
which has them behind it, and writes a program that hands its arguments, its folder, its environment and its streams to
a fork of that process, and ends with the same exit code. Where the start itself is the point, tests start
`python -m ctc_align`.
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
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

LOADED = ("torch", "numba", "soundfile", "av", "rich", "ctc_align.alignment.aligner", "ctc_align.corpus.run")
LOADED += ("ctc_align.training.calibrating.calibration_fitting", "ctc_align.kernels.cpu.cpu_backend")


def call(address: str, arguments: list[str]) -> int:
    """Have a process forked that runs `ctc-align` with these arguments as this process would; return its exit code."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        given = json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode()
        socket.send_fds(server, [b"%10d" % len(given)], [0, 1, 2])
        server.sendall(given)
        code = server.recv(1)
    return code[0] if code else 1


def serve(address: str) -> None:
    """Fork a process for each call, until this one is killed."""
    for name in LOADED:
        import_module(name)
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
    from ctc_align.cli import run

    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        size, streams, *_ = socket.recv_fds(connection, 10, 3)
        with connection.makefile("rb") as file:
            arguments, folder, environment = json.loads(file.read(int(size)))
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        # What the first process knows of its own streams, such as whether they are files, is not true of these.
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        code = run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        connection.send(bytes([code]))
        os._exit(code)


@contextlib.contextmanager
def forking(program: Path) -> Iterator[None]:
    """Write a program that is `ctc-align`, as long as the process lives that it is forked from."""
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as folder:  # an address is short
        address = str(Path(folder) / "calls")
        server = subprocess.Popen(
            [sys.executable, __file__, "serve", address],
            env={**os.environ, "PYTHONPATH": str(root)},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            line = shlex.join([sys.executable, "-IS", str(Path(__file__)), "call", address])
            program.write_text(f'#!/bin/sh\nexec {line} "$@"\n', encoding="utf-8")
            program.chmod(0o755)
            yield
        finally:
            server.kill()
            server.communicate()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    sys.exit(call(sys.argv[2], sys.argv[3:]))
