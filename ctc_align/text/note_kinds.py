"""Notes on many inputs: notes of one kind are one, with the first names and a count."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

MOST_NAMED = 3
"""The inputs that a note on many of them names."""
_VARIABLE = re.compile(
    r"""(?<!\w)'[^']*'(?!\w)|"[^"]*"  # what is quoted
    |[^\s(]*[/\\][^\s,;)]*(?<!:)|[^\s(,;]+\.[A-Za-z]\w{0,9}(?=[\s:,;)]|\Z)  # paths and files
    |(?:(?<!\w)[-+])?(?<!\d)(?<!\w-)\d(?:[\d.,]*\d)?  # numbers, not that of UTF-8""",
    re.VERBOSE,
)


@dataclass
class Note:
    """A note on many inputs.

    Attributes:
        kind: what all of them have in common; never empty.
        count: the number of inputs.
        text: the note itself, None if it differs between the inputs.
        examples: the first inputs in the order of their names, each with its note.
    """

    kind: str
    count: int = 0
    text: str | None = None
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, text: str) -> None:
        """Add the note on one more input."""
        if not self.count:
            self.text = text
        elif text != self.text:
            self.text = None
        self.count += 1
        self.examples.setdefault(name, text)
        if len(self.examples) > MOST_NAMED:
            del self.examples[max(self.examples)]

    def lines(self, noun: str, total: int = 0) -> Iterator[str]:
        """Yield the lines to print; `noun` is what an input is, `total` the number of all inputs.

        >>> note = Note("too short")
        >>> for number in range(5):
        ...     note.add(f"{number}.wav", f"too short by {number} s")
        >>> list(note.lines("file"))
        ['too short: 5 files: 0.wav, 1.wav, 2.wav and 2 more']
        """
        if self.text is not None and (self.count > 1 or self.count == total):
            yield self.text if self.count == total else f"{self.text} ({self._names(noun)})"
        elif self.count <= MOST_NAMED:
            for name, text in sorted(self.examples.items()):
                yield text if name in text else f"{text} (1 {noun}: {name})"
        else:
            yield f"{self.kind}: {self._names(noun)}"

    def _names(self, noun: str) -> str:
        plural = noun if self.count == 1 else f"{noun}s"
        return f"{self.count:,} {plural}: {name_first(sorted(self.examples), self.count)}"


class Notes:
    """The notes on the inputs of a call, by their kind, in the order of the first of each kind."""

    def __init__(self) -> None:
        self.by_kind: dict[str, Note] = {}

    def add(self, name: str, texts: Iterable[str], kind: str = "") -> None:
        """Add the notes on one input; their kind is what `kind_of` makes of them, unless named."""
        for text in texts:
            of_text = kind or kind_of(text, name)
            self.by_kind.setdefault(of_text, Note(of_text)).add(name, text)

    def sorted(self) -> list[Note]:
        """Return the notes, those on the most inputs first."""
        return sorted(self.by_kind.values(), key=lambda note: (-note.count, note.kind))

    def lines(self, noun: str, total: int = 0) -> Iterator[str]:
        """Yield the lines to print, as `Note.lines`."""
        for note in self.by_kind.values():
            yield from note.lines(noun, total)


def kind_of(text: str, name: str = "") -> str:
    """Return a note without what differs between inputs: names, quotations and numbers.

    >>> kind_of("a/b.wav: the file ends 0.40 s too early")
    'the file ends … s too early'
    >>> kind_of("b: the model's tokens lack 'x' and 'y'", "b")
    "the model's tokens lack …"
    """
    text = text.removeprefix(f"{name}: ")
    if len(name) > MOST_NAMED:
        text = text.replace(name, "…")
    text = _VARIABLE.sub("…", text)
    return re.sub(r"…(?:(?:,| and|, and) …)+", "…", text).removeprefix("…: ") or "…"


def first_of_each_kind(texts: Iterable[str]) -> Iterator[str]:
    """Yield the first notes of each kind, and how many more there are.

    >>> list(first_of_each_kind(f"{number} is odd" for number in (1, 3, 5, 7, 9)))
    ['1 is odd', '3 is odd', '5 is odd', 'and 2 more such notes: … is odd']
    """
    kinds: dict[str, list[str]] = {}
    for text in dict.fromkeys(texts):
        kinds.setdefault(kind_of(text), []).append(text)
    for kind, alike in kinds.items():
        yield from alike[:MOST_NAMED]
        more = len(alike) - MOST_NAMED
        if more > 0:
            yield f"and {more:,} more such {'note' if more == 1 else 'notes'}: {kind}"


def name_first(names: list[str], count: int, most: int = MOST_NAMED, separator: str = ", ") -> str:
    """Return the first of `count` names, and how many more there are.

    >>> name_first(["a", "b", "c", "d"], 7), name_first(["a", "b"], 1)
    ('a, b, c and 4 more', 'a')
    """
    shown = names[: min(most, count)]
    more = count - len(shown)
    return separator.join(shown) + (f" and {more:,} more" if more > 0 else "")
