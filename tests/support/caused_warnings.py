"""Deprecations: an error where our files raise or cause them; those of others are listed, as any
new version has some.

Whoever warns chooses by `stacklevel` which line is blamed: the own one, or the caller's.
`pyproject.toml` makes errors of those that blame a module of ours. A function of others that blames
itself although we called it directly is caught here, while it warns: the next caller on the stack
counts, beyond Python's own import system.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TextIO

ROOT = Path(__file__).resolve().parents[2]
DEPRECATIONS = DeprecationWarning, PendingDeprecationWarning, FutureWarning
PYTHONWARNINGS = ",".join(
    ["error", *(f"default::{kind.__name__}" for kind in DEPRECATIONS)]
    + [f"error::{kind.__name__}:__main__" for kind in DEPRECATIONS]
)
"""The same for a process of its own, whose program is ours: the value of the variable of this
name."""


@contextmanager
def errors_where_caused() -> Iterator[None]:
    """Raise the deprecations that a file of ours causes, wherever they would be shown; show the
    others as before."""
    show = warnings.showwarning

    def raise_or_show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, DEPRECATIONS) and _is_caused_by_us(sys._getframe(1)):
            raise message if isinstance(message, Warning) else category(message)
        show(message, category, filename, lineno, file, line)

    warnings.showwarning = raise_or_show
    try:
        yield
    finally:
        warnings.showwarning = show


def _is_caused_by_us(frame: FrameType | None) -> bool:
    """Return whether the function that warns, or the one that calls it, is of ours."""
    callers: list[str] = []
    while frame is not None and len(callers) < 2:
        name = frame.f_code.co_filename
        if name != warnings.__file__ and not name.startswith("<frozen importlib"):
            callers.append(name)
        frame = frame.f_back
    return any(map(is_ours, callers))


def is_ours(filename: str) -> bool:
    """Return whether a file is of this checkout, and not of an environment in it."""
    path = Path(filename)
    return path.is_relative_to(ROOT) and "site-packages" not in path.parts
