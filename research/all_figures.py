"""Make the figures of one version: python research/all_figures.py [NAME …] [--jobs 2]

`figures.tsv` has the commands of all figures that speech beside the checkout can make, the cheapest
first. What each prints goes to `runs/figures/NAME.log`, under a head of the commit, the command and
the seconds it took. A log of the same commit is kept, so that a stopped run goes on where it was.
Names choose some of the commands. All take the extras [dev] and [research], and Chromium.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from measuring import ROOT, parser_of

TABLE = Path(__file__).with_name("figures.tsv")
LOGS = ROOT / "runs" / "figures"


def main() -> None:
    """Run the commands, and exit with 1 where one of them failed."""
    parser = parser_of(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of figures.tsv; all, if none")
    parser.add_argument("--jobs", type=int, default=1, help="commands that run at once")
    options = parser.parse_args()
    commands = chosen_commands(options.names)
    commit = current_commit()
    LOGS.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        codes = list(pool.map(lambda item: make_figure(*item, commit), commands.items()))
    sys.exit(int(any(codes)))


def chosen_commands(names: Sequence[str]) -> dict[str, str]:
    """Return the commands of the table by their names; exit where a name is unknown."""
    rows = TABLE.read_text("utf-8").splitlines()
    commands = dict(row.split("\t") for row in rows if row and not row.startswith("#"))
    unknown = [name for name in names if name not in commands]
    if unknown:
        sys.exit(f"{TABLE.name} has no {', '.join(unknown)}")
    return {name: commands[name] for name in names or commands}


def current_commit() -> str:
    """Return the hash of the commit; exit where tracked files differ from it."""
    changed = _git_output("status", "--porcelain", "--untracked-files=no")
    if changed:
        sys.exit(f"figures are of a commit; these files differ from it:\n{changed}")
    return _git_output("rev-parse", "HEAD")


def make_figure(name: str, command: str, commit: str) -> int:
    """Run one command into its log, unless a log of this commit is there.

    Returns:
        the exit status of the command.
    """
    log = LOGS / f"{name}.log"
    head = f"commit {commit}\ncommand python {command}\n"
    if log.is_file() and log.read_text("utf-8").startswith(head):
        return 0
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, *shlex.split(command)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    seconds = time.monotonic() - start
    print(f"{name}: {seconds:.0f} s, exit status {done.returncode}", flush=True)
    failed = log.with_suffix(".failed")
    failed.unlink(missing_ok=True)
    if done.returncode:
        failed.write_text(head + done.stdout, "utf-8")
    else:
        log.write_text(f"{head}seconds {seconds:.0f}\n\n{done.stdout}", "utf-8")
    return done.returncode


def _git_output(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


if __name__ == "__main__":
    main()
