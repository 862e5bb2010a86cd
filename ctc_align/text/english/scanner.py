"""A small scanner: rules are tried in order at each place of a word; the first that answers is taken."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple


class Context(NamedTuple):
    """What stands around a word: its neighbours as written ("" at the ends), and whether all is in capitals."""

    before: str = ""
    after: str = ""
    shouting: bool = False


@dataclass
class Scan:
    """A word (as `characters.plain` gives it) on its way to `said`, its spoken words."""

    text: str
    context: Context
    place: int = 0
    said: list[str] = field(default_factory=list)
    number: str = ""
    """The latest number, as written; it ends at `number_end`."""
    number_end: int = -1

    @cached_property
    def is_lettered(self) -> bool:
        """Whether there is a letter or digit in the word at all."""
        return any(map(str.isalnum, self.text))

    def previous(self, start: int) -> str:
        """The character before `start`, "" at the beginning."""
        return self.text[start - 1 : start] if start else ""


Reader = Callable[[re.Match[str], Scan], "str | None"]


class Rule(NamedTuple):
    """`reader` says what `pattern` matched, or None where it is not what it seemed."""

    pattern: re.Pattern[str]
    reader: Reader


def rule(pattern: str, reader: Reader) -> Rule:
    return Rule(re.compile(pattern), reader)


def apply(rules: tuple[Rule, ...], scan: Scan) -> bool:
    """Try `rules` at `scan.place`; on success, what was said is added and the place moved on."""
    for pattern, reader in rules:
        match = pattern.match(scan.text, scan.place)
        words = reader(match, scan) if match else None
        if match and words is not None:
            scan.place = match.end()
            if words:
                scan.said.append(words)
            return True
    return False
