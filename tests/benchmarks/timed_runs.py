"""What the benchmarks share, and the studies in `research/`: where data lie, the rows of a
manifest, and what a process takes."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for _folder in ("tests/support", ""):
    sys.path.insert(0, str(ROOT / _folder))
os.environ["CTC_ALIGN_NO_BACKGROUND"] = "1"  # nothing runs beside what is measured
DATA = ROOT.parent / "shared" / "data"
"""Speech data beside the checkout."""
ENGLISH = DATA / "english"
MANIFEST = ENGLISH / "manifest.jsonl"


def parser_of(text: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help is the docstring of a script."""
    return argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def manifest_rows(path: Path = MANIFEST, split: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of a manifest, of one split or of all; exit where the file is missing."""
    if not path.is_file():
        sys.exit(f"{path}: no such manifest")
    rows = map(json.loads, filter(None, path.read_text("utf-8").splitlines()))
    return [row for row in rows if split is None or row.get("split", split) == split]


@dataclass(frozen=True)
class Cost:
    """What a process took: seconds of wall and of processor, and the peak of its memory in
    bytes."""

    wall_s: float
    processor_s: float
    peak: int


def timed_run(
    arguments: Sequence[str],
    *,
    checkout: Path = ROOT,
    stderr: Any = subprocess.DEVNULL,
    **options: Any,
) -> Cost:
    """Run Python with the package of a checkout, and exit where it fails; `options` are those of
    `Popen`."""
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    environment |= {"PYTHONPATH": str(checkout)}
    began_s = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        **options,
    )
    # wait4 is about this child alone; getrusage would give the largest of all children that there
    # have been
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(arguments)} of {checkout} failed with {process.returncode}")
    scale = 1 if sys.platform == "darwin" else 1024
    return Cost(
        time.perf_counter() - began_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * scale
    )


def show_machine() -> None:
    """Print what is measured on, and the load."""
    from ctc_align.cli.doctor import processor
    from ctc_align.threads import thread_count

    print(f"{processor()}, {os.cpu_count()} cores, {thread_count()} threads; {versions_line()}")
    if hasattr(os, "getloadavg"):
        print(
            f"load before the start: {os.getloadavg()[0]:.1f} (ratios of a busy machine say little)"
        )


def versions_line() -> str:
    """Return the versions of this package and of what it is measured beside."""
    from ctc_align.cli.doctor import versions

    found = versions()
    names = ("ctc-align", "python", "numpy", "numba", "torch")
    return ", ".join(f"{name} {found[name]}" for name in names)
