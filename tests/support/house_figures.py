"""The size and shape of the package in figures, read from the code and from two runs of it.

    python tests/support/house_figures.py [--static] [--list]

The package is the one of this checkout, or the first on PYTHONPATH (to compare two trees by one tool). `--static`
leaves the runs out; `--list` prints what was counted.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from inspect import CO_NEWLOCALS, CO_VARARGS, CO_VARKEYWORDS
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import house_rules as rules

MANY_VALUES = 1000


def static_figures(root: Path) -> dict[str, tuple[int, list[str]]]:
    """Return each figure that is read from the code, with the list of what it counts."""
    lines = {
        name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in rules.module_files(root).items()
    }
    largest = [f"{name}: {lines[name]}" for name in sorted(lines, key=lambda name: -lines[name])[:10]]
    figures = {"modules": (len(lines), []), "lines": (sum(lines.values()), largest)}
    for name, items in {
        "root files": rules.root_files(root),
        "single-importer files under 100 lines": rules.small_files(root),
        "circles of imports between modules": [" → ".join(circle) for circle in rules.import_circles(root)],
        "functions over 60 lines outside kernels": rules.long_functions(root),
    }.items():
        figures[name] = (len(items), items)
    return figures


def _is_function_of(code: CodeType, package: str) -> bool:
    """Return whether code is that of a function of the package: not of a module, a class body or a comprehension."""
    return code.co_filename.startswith(package) and bool(code.co_flags & CO_NEWLOCALS) and code.co_name[0] != "<"


@dataclass
class Calls:
    """The functions of the package that a run called, from all its threads."""

    package: str
    functions: set[tuple[str, str, int]] = field(default_factory=set)

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and _is_function_of(code, self.package):
            self.functions.add((code.co_filename, code.co_name, code.co_firstlineno))


@dataclass
class AudioPath:
    """The calls that received the audio, or what it was turned into, in the order in which they were made.

    What a function returns is followed too, where the function received something followed and the result is, or holds,
    an array of many samples or scores.
    """

    package: str
    followed: dict[int, Any] = field(default_factory=dict)
    receivers: set[FrameType] = field(default_factory=set)
    modules: list[str] = field(default_factory=list)

    def follow(self, thing: Any) -> None:
        """Follow an object, and what it holds of sound and scores; it is kept, so that no other gets its identity."""
        if id(thing) not in self.followed:
            self.followed[id(thing)] = thing
            for held in _parts(thing):
                if _is_sound_or_scores(held):
                    self.follow(held)

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if not _is_function_of(code, self.package):
            return
        if event == "call" and frame not in self.receivers:
            if any(self._is_followed(value) for value in _arguments(frame)):
                self.receivers.add(frame)
                self.modules.append(code.co_filename.removeprefix(self.package + os.sep))
        elif event == "return" and frame in self.receivers:
            for thing in argument if isinstance(argument, tuple | list) else (argument,):
                if _is_sound_or_scores(thing) or any(id(part) in self.followed for part in _parts(thing)):
                    self.follow(thing)

    def _is_followed(self, value: Any) -> bool:
        things = value if isinstance(value, tuple | list) else (value,)
        return any(id(thing) in self.followed for thing in (value, *things[:16]))

    def stays(self) -> list[str]:
        """Return the modules that the path goes through: a module stands once for calls one after the other in it."""
        return [name for i, name in enumerate(self.modules) if i == 0 or self.modules[i - 1] != name]

    def climbs(self) -> int:
        """Return how often the path enters a module that it has left before."""
        stays = self.stays()
        return len(stays) - len(set(stays))


def _arguments(frame: FrameType) -> list[Any]:
    code = frame.f_code
    number = code.co_argcount + code.co_kwonlyargcount
    number += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    return [frame.f_locals[name] for name in code.co_varnames[:number] if name in frame.f_locals]


def _parts(thing: Any) -> list[Any]:
    """Return the values of a dataclass's fields; of anything else nothing."""
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        return []
    return [getattr(thing, part.name, None) for part in dataclasses.fields(thing)]


def _is_sound_or_scores(thing: Any) -> bool:
    """Return whether this is an array of many numbers that are no integers, or holds one."""
    if type(thing).__name__ in ("ndarray", "Tensor"):
        return math.prod(thing.shape) > MANY_VALUES and "float" in str(thing.dtype)
    return any(_is_sound_or_scores(part) for part in _parts(thing))


@contextlib.contextmanager
def profiled(listener: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """Call `listener` at each call and return, in this thread and in those that it starts."""
    threading.setprofile(listener)
    sys.setprofile(listener)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def functions_of_one_run(package: Path) -> Calls:
    """Run `ctc-align a.wav t.txt` on the demo in this process, and return the functions that it called."""
    from ctc_align.cli import run

    with tempfile.TemporaryDirectory() as folder:
        audio, text = _demo(package, Path(folder))
        calls = Calls(str(package))
        with profiled(calls):
            code = run([str(audio), str(text), "--quiet", "--out-dir", folder])
    if code:
        raise SystemExit(f"ctc-align ended with {code}")
    return calls


def path_of_audio(package: Path) -> AudioPath:
    """Align the demo's samples by `Aligner.align`, and return the path of the audio through the package."""
    import ctc_align

    with tempfile.TemporaryDirectory() as folder:
        audio, text = _demo(package, Path(folder))
        aligner, path = ctc_align.Aligner("english", device="cpu"), AudioPath(str(package))
        aligner.align(audio, text.read_text("utf-8"))
        path.follow(audio)
        with profiled(path):
            aligner.align(audio, text.read_text("utf-8"))
    return path


def _demo(package: Path, folder: Path) -> tuple[Path, Path]:
    audio, text = folder / "demo.flac", folder / "demo.txt"
    shutil.copy(package / "demo" / audio.name, audio)
    shutil.copy(package / "demo" / text.name, text)
    return audio, text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    root = Path(os.environ.get("PYTHONPATH", "").split(os.pathsep)[0] or Path(__file__).resolve().parents[2]).resolve()
    sys.path.insert(0, str(root))
    figures = static_figures(root)
    if not options.static:
        calls = functions_of_one_run(root / rules.PACKAGE)
        files = sorted({file.removeprefix(f"{root}{os.sep}") for file, _, _ in calls.functions})
        figures["functions in one call of ctc-align"] = (len(calls.functions), [])
        figures["files in one call of ctc-align"] = (len(files), files)
        path = path_of_audio(root / rules.PACKAGE)
        figures["calls that receive the audio"] = (len(path.modules), [])
        figures["stays of the audio"] = (len(path.stays()), path.stays())
        figures["modules with the audio"] = (len(set(path.stays())), [])
        figures["climbs of the audio"] = (path.climbs(), [])
    for name, (figure, items) in figures.items():
        print(f"{figure:6d}  {name}")
        if options.list:
            print(*(f"          {item}" for item in items), sep="\n")


if __name__ == "__main__":
    main()
