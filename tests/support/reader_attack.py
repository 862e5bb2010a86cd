"""The attack on every reader: cases are made of samples and of what reached new lines before, read, and judged.

An input gives a value, or a CtcAlignError that names its file in one line. Everything else is a fault: another
exception, no end within `LONGEST_S`, more memory than `MOST_BYTES`. Each case follows from the seed, its number and the
cases that were kept; one in `TRACED` is watched line by line, and kept where it reaches lines that none did before.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from attacked_readers import READERS, Reader
from hostile_inputs import Case, mutated

from ctc_align.errors import CtcAlignError

LONGEST_S = 20.0
MOST_BYTES = 800 * 2**20
TRACED = 20
KEPT = 200
_MOST_MESSAGE = 4000
_WHOLE_SAMPLES = 0.002
_PACKAGE = str(Path(__file__).resolve().parents[2] / "ctc_align")


class HangError(BaseException):
    """A reader that did not come to its end; no `except Exception` may take it."""


@dataclass
class Tally:
    """What became of the cases of a reader; `faults` are the different ones, by a line that says what and where."""

    cases: int = 0
    values: int = 0
    refusals: int = 0
    hangs: int = 0
    kept: int = 0
    slowest_s: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        for name in ("cases", "values", "refusals", "hangs", "kept"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        self.faults = dict(Counter(self.faults) + Counter(other.faults))


class Attack:
    """The attack on some readers in this process.

    Args:
        folder: for the files of a case (in memory, if there is such a place), kept cases and faults.
        names: of the readers; all by default.
        seed: of the random cases.
    """

    def __init__(self, folder: Path, names: list[str] | None = None, seed: int = 0) -> None:
        self.folder, self.seed = folder, seed
        self.names = names or list(READERS)
        self.weights = [READERS[name].weight for name in self.names]
        self.tallies = {name: Tally() for name in self.names}
        self._lines: set[tuple[CodeType, int]] = set()
        self._pools: dict[str, list[Case]] = {}
        self._seeds: dict[str, list[Case]] = {}

    def run(self, first: int, cases: int) -> Iterator[tuple[int, str]]:
        """Run the cases from number `first` on; yield number and reader before each."""
        with _quiet():
            for number in range(first, first + cases):
                chance = random.Random(f"{self.seed} {number}")
                name = chance.choices(self.names, self.weights)[0]
                yield number, name
                self.attack(READERS[name], self.case(name, chance), traced=number % TRACED == 0)

    def case(self, name: str, chance: random.Random) -> Case:
        """Return a new case for a reader."""
        if name not in self._pools:
            self._seeds[name] = READERS[name].seeds()
            self._pools[name] = self._seeds[name] + self._kept(name)
        pool = self._pools[name]
        base = chance.choice(self._seeds[name] if chance.random() < 0.4 else pool)
        return base if chance.random() < _WHOLE_SAMPLES else mutated(base, pool, chance)

    def attack(self, reader: Reader, case: Case, traced: bool = False) -> str:
        """Read a case, add it to the tally of its reader, and return the fault, "" for none."""
        tally = self.tallies[reader.name]
        place = self.folder / "case"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for name, content in case.items():
            (place / name).write_bytes(content)
        before = len(self._lines)
        start = time.monotonic()
        with _watched(self._lines if traced else None):
            kind, fault, trace = _outcome(reader, place, case)
        tally.slowest_s = max(tally.slowest_s, time.monotonic() - start)
        tally.cases += 1
        tally.values += kind == "value"
        tally.refusals += kind == "refusal"
        tally.hangs += kind == "hang"
        if fault:
            tally.faults[fault] = tally.faults.get(fault, 0) + 1
            if tally.faults[fault] == 1:
                self._save("faults", reader.name, case, f"{fault}\n{trace}")
        if len(self._lines) > before and len(self._pools.get(reader.name, ())) < KEPT:
            tally.kept += 1
            self._pools.setdefault(reader.name, []).append(case)
            self._save("kept", reader.name, case)
        return fault

    def _save(self, kind: str, name: str, case: Case, why: str = "") -> None:
        digest = hashlib.blake2b(repr(sorted(case.items())).encode(), digest_size=6).hexdigest()
        folder = self.folder / kind / name.replace(" ", "_").strip("-") / digest
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in case.items():
            (folder / file).write_bytes(content)
        if why:
            (folder.parent / f"{digest}.txt").write_text(why, errors="backslashreplace")

    def _kept(self, name: str) -> list[Case]:
        folder = self.folder / "kept" / name.replace(" ", "_").strip("-")
        folders = sorted(folder.iterdir())[:KEPT] if folder.is_dir() else []
        return [{file.name: file.read_bytes() for file in sorted(each.iterdir())} for each in folders]


def _outcome(reader: Reader, place: Path, case: Case) -> tuple[str, str, str]:
    """Return "value", "refusal", "hang" or "fault", the fault in a line, and its traceback."""
    used = most_memory()
    try:
        reader.read(place)
        kind = "value"
    except CtcAlignError as error:
        kind, fault = "refusal", _message_fault(str(error), place, case)
        if fault:
            return "fault", f"{fault} ({_where(error)})", traceback.format_exc()
    except HangError as error:
        return "hang", f"no end within {LONGEST_S:g} s ({_where(error)})", traceback.format_exc()
    except Exception as error:
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
        return "fault", f"{what} ({_where(error)})", traceback.format_exc()
    grown = most_memory() - used
    if grown > MOST_BYTES:
        return "fault", f"{grown >> 20} MiB of memory for {sum(map(len, case.values()))} bytes", ""
    return kind, "", ""


def _message_fault(message: str, place: Path, case: Case) -> str:
    """Return what is wrong with an error's message, "" for nothing."""
    if len(message) > _MOST_MESSAGE * max(1, message.count("\n")):
        return f"a message of {len(message)} characters"
    named = [str(place), "--set", *case]
    for line in message.split("\n"):
        if not line.strip() or not any(name in line for name in named):
            return f"a message that names no file: {line[:80]!r}"
    return ""


def _where(error: BaseException) -> str:
    """Return the innermost place in the package that an error came from."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(_PACKAGE)]
    if not frames:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{Path(last.filename).name}:{last.name}"
    return f"{Path(frames[-1].filename).relative_to(_PACKAGE)}:{frames[-1].name}"


def most_memory() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Drop the library's warnings."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@contextlib.contextmanager
def _watched(lines: set[tuple[CodeType, int]] | None) -> Iterator[None]:
    """Raise HangError after `LONGEST_S`; add the lines of the package that are run to `lines`."""

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        lines.add((frame.f_code, frame.f_lineno))  # type: ignore[union-attr]
        return local

    def call(frame: FrameType, event: str, argument: Any) -> Any:
        return local if frame.f_code.co_filename.startswith(_PACKAGE) else None

    def stop(number: int, frame: FrameType | None) -> None:
        raise HangError

    # of processor time: other work on the machine is no fault, and waiting is seen from outside; tracing takes longer
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S * (1 if lines is None else 10))
    tracing = sys.gettrace()
    if lines is not None and tracing is None:
        sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(tracing)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def table(tallies: dict[str, Tally]) -> str:
    """Return a line for each reader, their sum, and the faults."""
    whole = Tally()
    rows = [f"{'reader':20} {'cases':>9} {'values':>9} {'refusals':>9} {'faults':>7} {'hangs':>6} {'slowest':>9}"]
    for name, tally in [*tallies.items(), ("all", whole)]:
        faults = sum(tally.faults.values())
        rows.append(
            f"{name:20} {tally.cases:9,} {tally.values:9,} {tally.refusals:9,} {faults:7,} {tally.hangs:6,} "
            f"{tally.slowest_s:7.2f} s"
        )
        if tally is not whole:
            whole.add(tally)
    rows += [f"{name}: {count} x {fault}" for name, tally in tallies.items() for fault, count in tally.faults.items()]
    return "\n".join(rows)


def to_json(tallies: dict[str, Tally]) -> str:
    return json.dumps({name: vars(tally) for name, tally in tallies.items()}, indent=1)


def from_json(text: str) -> dict[str, Tally]:
    return {name: Tally(**fields) for name, fields in json.loads(text).items()}
