"""Griffe's extension: examples of docstrings (`>>> …`, which run as doctests) are shown as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_PROMPT = re.compile(r"( *)>>> ")


class DoctestBlocks(griffe.Extension):
    """Fences the examples of every docstring."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Replace the docstring's text."""
        if obj.docstring is not None:
            obj.docstring.value = with_fences(obj.docstring.value)


def with_fences(text: str) -> str:
    """Return a docstring with each example, which ends at a blank line, between fences; directives
    are left out."""
    lines: list[str] = []
    inside = False
    for line in [*text.split("\n"), ""]:
        prompt = _PROMPT.match(line)
        if prompt and not inside:
            indent, inside = prompt[1], True
            lines += [] if not lines or not lines[-1].strip() else [""]
            lines += [f"{indent}```pycon"]
        elif inside and not line.strip():
            lines += [f"{indent}```"]
            inside = False
        lines += [re.sub(r" *# doctest: .*", "", line)]
    return "\n".join(lines).rstrip() + "\n"
