"""The attack on every reader: cases are made of valid samples, read, and judged.

    python tests/support/reader_attack.py --minutes 10 --seed 1 --out runs/attack

gives each reader the same share of ten minutes; `--repeats 6` gives it 100 kB of each unit at six
places. An input gives a value, or a CtcAlignError that names its file in one line. Everything else
is a fault: another exception, no end within `LONGEST_S`, more memory than `MOST_BYTES`. Each case
follows from the seed and its number. Faults lie in OUT/faults with their inputs and tracebacks.
Where native code (libsndfile, FFmpeg, torch) ends the process, OUT/case has the input.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import logging
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from attacked_readers import READERS, Reader
from hostile_inputs import UNITS, Case, mutated, repeated

from ctc_align.errors import CtcAlignError

LONGEST_S = 10.0
MOST_BYTES = 2**30
_MOST_MESSAGE = 4000
_ADDRESSES = 12 * 2**30
_WHOLE_SAMPLES = 0.002
_PACKAGE = str(Path(__file__).resolve().parents[2] / "ctc_align")


class HangError(BaseException):
    """A reader that did not come to its end; no `except Exception` may take it."""


@dataclass
class Tally:
    """What became of the cases of a reader; `faults` are the different ones, by a line that says
    what and where."""

    kinds: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    used_s: float = 0.0
    worst_s: float = 0.0
    worst_bytes: int = 0


class Attack:
    """The attack on some readers in this process.

    Args:
        folder: for the files of a case, and faults.
        names: of the readers; all by default.
        seed: of the random cases.
    """

    def __init__(self, folder: Path, names: list[str] | None = None, seed: int = 0) -> None:
        self.folder, self.seed = folder, seed
        self.names = names or list(READERS)
        self.weights = [READERS[name].weight for name in self.names]
        self.tallies = {name: Tally() for name in self.names}
        self._seeds: dict[str, list[Case]] = {}

    def run(self, cases: int) -> Iterator[int]:
        """Run so many cases; yield the number of each after it."""
        logging.disable(logging.CRITICAL)
        try:
            for number in range(cases):
                chance = random.Random(f"{self.seed} {number}")
                name = chance.choices(self.names, self.weights)[0]
                self.attack(READERS[name], self.case(name, chance))
                yield number
        finally:
            logging.disable(logging.NOTSET)

    def run_for(self, seconds: float) -> None:
        """Run cases for so long, the same processor time for each reader."""
        end, numbers = time.monotonic() + seconds, Counter[str]()
        while time.monotonic() < end:
            name = min(self.names, key=lambda name: self.tallies[name].used_s)
            self.attack(
                READERS[name], self.case(name, random.Random(f"{self.seed} {name} {numbers[name]}"))
            )
            numbers[name] += 1

    def repeat(self, places: int) -> None:
        """Run cases with 100 kB of each unit, at so many places."""
        for name in self.names:
            for unit in UNITS:
                chance = random.Random(f"{self.seed} {name} {unit}")
                for _ in range(places):
                    self.attack(
                        READERS[name], repeated(chance.choice(self._samples(name)), unit, chance)
                    )

    def case(self, name: str, chance: random.Random) -> Case:
        """Return a new case for a reader."""
        samples = self._samples(name)
        base = chance.choice(samples)
        return base if chance.random() < _WHOLE_SAMPLES else mutated(base, samples, chance)

    def _samples(self, name: str) -> list[Case]:
        if name not in self._seeds:
            self._seeds[name] = READERS[name].seeds()
        return self._seeds[name]

    def attack(self, reader: Reader, case: Case) -> str:
        """Read a case, add it to the tally of its reader, and return the fault, "" for none."""
        place = self.folder / "case"
        shutil.rmtree(place, ignore_errors=True)
        _write(place, case)
        tally = self.tallies[reader.name]
        before, started_s = _reset_memory(), time.process_time()
        with _watched():
            kind, fault, trace = _outcome(reader, place, case)
        seconds, grown = time.process_time() - started_s, most_memory() - before
        if grown > MOST_BYTES and not fault:
            kind, fault = (
                "fault",
                f"{grown >> 20} MiB of memory for {sum(map(len, case.values()))} bytes",
            )
        tally.kinds[kind] += 1
        tally.used_s += seconds
        tally.worst_s, tally.worst_bytes = (
            max(tally.worst_s, seconds),
            max(tally.worst_bytes, grown),
        )
        if fault:
            tally.faults[fault] += 1
            if tally.faults[fault] == 1:
                digest = hashlib.blake2b(
                    repr(sorted(case.items())).encode(), digest_size=6
                ).hexdigest()
                folder = self.folder / "faults" / reader.name.replace(" ", "_").strip("-")
                _write(folder / digest, case)
                (folder / f"{digest}.txt").write_text(
                    f"{fault}\n{trace}", errors="backslashreplace"
                )
        return fault


def _write(folder: Path, case: Case) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in case.items():
        (folder / name).write_bytes(content)


def _outcome(reader: Reader, place: Path, case: Case) -> tuple[str, str, str]:
    """Return "value", "refusal", "hang" or "fault", the fault in a line, and its traceback."""
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
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(_PACKAGE)
    ]
    if not frames:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{Path(last.filename).name}:{last.name}"
    return f"{Path(frames[-1].filename).relative_to(_PACKAGE)}:{frames[-1].name}"


def _reset_memory() -> int:
    """Return the bytes that the process has, and make them its most."""
    Path("/proc/self/clear_refs").write_text("5")
    return most_memory()


def most_memory() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    """Raise HangError after `LONGEST_S` of processor time: other work on the machine is no
    fault."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def table(tallies: dict[str, Tally]) -> str:
    """Return a line for each reader, with the time and the memory of its worst case, and the
    faults."""
    rows = [
        f"{'reader':20} {'values':>9} {'refusals':>9} {'faults':>7} {'hangs':>6} {'s':>5}"
        f" {'MiB':>5}"
    ]
    for name, tally in tallies.items():
        value, refusal, fault, hang = (
            tally.kinds[kind] for kind in ("value", "refusal", "fault", "hang")
        )
        rows.append(
            f"{name:20} {value:9,} {refusal:9,} {fault:7,} {hang:6,} {tally.worst_s:5.1f}"
            f" {tally.worst_bytes >> 20:5}"
        )
    rows += [
        f"{name}: {count} x {fault}"
        for name, tally in tallies.items()
        for fault, count in tally.faults.items()
    ]
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument(
        "--minutes", type=float, help="in place of --cases: the same share for each reader"
    )
    parser.add_argument(
        "--repeats", type=int, metavar="PLACES", help="in place of --cases: 100 kB of each unit"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--reader", dest="readers", action="append", help="only this one; may be repeated"
    )
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    attack = Attack(options.out, options.readers, options.seed)
    logging.disable(logging.CRITICAL)
    if options.repeats:
        attack.repeat(options.repeats)
    elif options.minutes:
        attack.run_for(options.minutes * 60)
    else:
        deque(attack.run(options.cases), maxlen=0)
    print(table(attack.tallies))
    return int(any(tally.faults for tally in attack.tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
