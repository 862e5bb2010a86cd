"""Attack every reader for hours: python tests/attack/fuzz_readers.py --cases 1000000 --seed 1 --jobs 2

Each job is a process of its own, so that a crash in native code (libsndfile, FFmpeg, torch) is a finding and a hang is
seen: it is started again behind the case that ended it. A run with the same --out goes on where the last one stopped.
Faults lie in OUT/faults with their inputs and tracebacks, and the table in OUT/table.txt.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from reader_attack import LONGEST_S, Attack, Tally, from_json, table, to_json  # noqa: E402

PIECE = 20_000
"""Cases of a process: it takes seconds to start, and a process that has read damaged files for long proves less."""
SAVED_EVERY = 200
_GRACE_S = 100.0
_ADDRESSES = 12 * 2**30


def work(options: argparse.Namespace) -> None:
    """Run a piece of a campaign in this process, and keep its state in files for the one that watches."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, limit))
    attack = Attack(options.out, options.readers or None, options.seed)
    for number, name in attack.run(options.first, options.cases):
        (options.out / "state").write_text(f"{number}\n{name}")
        if number % SAVED_EVERY == 0:
            _save(options.out / "tallies.json", to_json(attack.tallies))
    _save(options.out / "tallies.json", to_json(attack.tallies))


@dataclass
class Job:
    """A process with its piece of the campaign, watched from outside."""

    out: Path
    options: argparse.Namespace
    first: int
    end: int

    def __post_init__(self) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        self.start(self.first)

    def start(self, first: int) -> None:
        self.at, self.seen, self.since = first, "", time.monotonic()
        for name in ("state", "tallies.json"):
            (self.out / name).unlink(missing_ok=True)
        command = [sys.executable, __file__, "--work", "--out", self.out, "--seed", self.options.seed]
        command += ["--first", first, "--cases", self.end - first]
        command += [part for name in self.options.readers for part in ("--reader", name)]
        with open(self.out / "stderr.txt", "ab") as stderr:
            self.process = subprocess.Popen(list(map(str, command)), stderr=stderr, cwd=ROOT)

    def ended(self, tallies: dict[str, Tally]) -> bool:
        """Return whether all cases are done; what was done since is added to `tallies`."""
        code = self.process.poll()
        state = _text(self.out / "state")
        if code is None:
            if state != self.seen:
                self.seen, self.since = state, time.monotonic()
            if time.monotonic() - self.since < LONGEST_S + _GRACE_S:
                return False
            self.process.kill()
            self.process.wait()
        for name, tally in from_json(_text(self.out / "tallies.json") or "{}").items():
            tallies.setdefault(name, Tally()).add(tally)
        if code == 0:
            return True
        number, _, name = (state or f"{self.at}\nthe start").partition("\n")
        tally = tallies.setdefault(name, Tally())
        tally.cases += 1
        tally.hangs += code is None
        fault = "no end, killed" if code is None else f"the process ended with {code}"
        tally.faults[fault] = tally.faults.get(fault, 0) + 1
        if (self.out / "case").is_dir():
            shutil.copytree(self.out / "case", self.out / "faults" / f"ended-{number}", dirs_exist_ok=True)
        if int(number) + 1 >= self.end:
            return True
        self.start(int(number) + 1)
        return False


def campaign(options: argparse.Namespace) -> dict[str, Tally]:
    """Run all pieces that are still to do, and return the tallies of the campaign."""
    options.out.mkdir(parents=True, exist_ok=True)
    tallies = from_json(_text(options.out / "tallies.json") or "{}")
    done = int(_text(options.out / "done") or 0)
    while done < options.cases:
        jobs = []
        for place in range(options.jobs):
            first = done + place * PIECE
            if first < options.cases:
                jobs.append(Job(options.out / f"job-{place}", options, first, min(first + PIECE, options.cases)))
        done = jobs[-1].end
        while jobs:
            time.sleep(0.5)
            jobs = [job for job in jobs if not job.ended(tallies)]
        _save(options.out / "tallies.json", to_json(tallies))
        _save(options.out / "done", str(done))
        _save(options.out / "table.txt", table(tallies) + "\n")
    return tallies


def _save(path: Path, text: str) -> None:
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "fuzz")
    parser.add_argument("--reader", dest="readers", action="append", default=[], help="only this one; may be repeated")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work:
        work(options)
        return 0
    tallies = campaign(options)
    print(table(tallies))
    return int(any(tally.faults for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
