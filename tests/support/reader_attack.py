"""The attack on every reader: what became of a case that was read.

An input gives a value, or a CtcAlignError that names its file in one line. Everything else is a
fault: another exception, no end within `LONGEST_S`, more memory than `MOST_BYTES`. Hypothesis draws
the cases (`hostile_inputs`), and shrinks those with faults.
"""

from __future__ import annotations

import contextlib
import logging
import resource
import shutil
import signal
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from attacked_readers import Reader
from hostile_inputs import Case

from ctc_align.errors import CtcAlignError

LONGEST_S = 10.0
MOST_BYTES = 2**30
_MOST_MESSAGE = 4000
_ADDRESSES = 12 * 2**30
_PACKAGE = str(Path(__file__).resolve().parents[2] / "ctc_align")
VALUE, REFUSAL, FAULT = "value", "refusal", "fault"


class HangError(BaseException):
    """A reader that did not come to its end; no `except Exception` may take it."""


@dataclass(frozen=True)
class Outcome:
    """What became of a case: VALUE, REFUSAL or FAULT; of a fault, what and where in a line."""

    kind: str
    fault: str = ""


def attack(reader: Reader, case: Case, folder: Path) -> Outcome:
    """Write the files of a case into a folder, and read them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in case.items():
        (folder / name).write_bytes(content)
    before = _reset_memory()
    with _watched():
        outcome = _read(reader, folder, case)
    grown = most_memory() - before
    if grown > MOST_BYTES and not outcome.fault:
        size = sum(map(len, case.values()))
        return Outcome(FAULT, f"{grown >> 20} MiB of memory for {size} bytes")
    return outcome


def _read(reader: Reader, folder: Path, case: Case) -> Outcome:
    try:
        reader.read(folder)
    except CtcAlignError as error:
        fault = _message_fault(str(error), folder, case)
        return Outcome(FAULT, f"{fault} ({_where(error)})") if fault else Outcome(REFUSAL)
    except HangError as error:
        return Outcome(FAULT, f"no end within {LONGEST_S:g} s ({_where(error)})")
    except Exception as error:
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
        return Outcome(FAULT, f"{what} ({_where(error)})")
    return Outcome(VALUE)


def _message_fault(message: str, folder: Path, case: Case) -> str:
    """Return what is wrong with an error's message, "" for nothing."""
    if len(message) > _MOST_MESSAGE * max(1, message.count("\n")):
        return f"a message of {len(message)} characters"
    named = [str(folder), "--set", *case]
    for line in message.split("\n"):
        if not line.strip() or not any(name in line for name in named):
            return f"a message that names no file: {line[:80]!r}"
    return ""


def _where(error: BaseException) -> str:
    """Return the innermost place in the package that an error came from."""
    trace = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in trace if frame.filename.startswith(_PACKAGE)]
    if not frames:
        return f"{Path(trace[-1].filename).name}:{trace[-1].name}"
    return f"{Path(frames[-1].filename).relative_to(_PACKAGE)}:{frames[-1].name}"


def _reset_memory() -> int:
    """Return the bytes that the process has, and make them its most."""
    Path("/proc/self/clear_refs").write_text("5")
    return most_memory()


def most_memory() -> int:
    """Return the most bytes that the process had since they were reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    """Be quiet, limit memory, and raise HangError after `LONGEST_S` of processor time: other work
    on the machine is no fault."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise HangError

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, stop)
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, hard))
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        logging.disable(logging.NOTSET)
