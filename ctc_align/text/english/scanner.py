"""Rules that are tried in order at each position of a written word; the first that applies is used."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple


class Context(NamedTuple):
    """The neighbours of a word as written ("" at the ends), and whether the whole transcript is in capitals."""

    before: str = ""
    after: str = ""
    shouting: bool = False


@dataclass
class Scan:
    """The scan of a word (from `characters.plain`): the position reached and the words spoken so far."""

    text: str
    context: Context
    place: int = 0
    spoken: list[str] = field(default_factory=list)
    number: str = ""
    """The latest number, as written, which ends at `number_end`."""
    number_end: int = -1

    @cached_property
    def is_lettered(self) -> bool:
        """True for a word with a letter or digit."""
        return any(map(str.isalnum, self.text))

    def previous(self, start: int) -> str:
        """Return the character before `start`, "" at the beginning."""
        return self.text[start - 1 : start] if start else ""


Reader = Callable[[re.Match[str], Scan], "str | None"]


class Rule(NamedTuple):
    """A pattern, and a reader that returns the spoken words of a match, or None where the rule does not apply."""

    pattern: re.Pattern[str]
    reader: Reader


def rule(pattern: str, reader: Reader) -> Rule:
    """Return the rule of a regular expression."""
    return Rule(re.compile(pattern), reader)


def apply(rules: tuple[Rule, ...], scan: Scan) -> bool:
    """Try `rules` at `scan.place`; on success add the spoken words, move the place on and return True."""
    for pattern, reader in rules:
        match = pattern.match(scan.text, scan.place)
        words = reader(match, scan) if match else None
        if match and words is not None:
            scan.place = match.end()
            if words:
                scan.spoken.append(words)
            return True
    return False
