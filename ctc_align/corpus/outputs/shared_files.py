"""Files that several utterances share, as `Assembly` sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ctc_align.corpus.utterance import Utterance


@dataclass(frozen=True)
class Member:
    """What is remembered of an utterance until its group is complete."""

    index: int
    id: str
    speaker: str = ""
    offset_s: float = 0.0
    duration_s: float | None = None

    @classmethod
    def of(cls, index: int, utterance: Utterance) -> Member:
        speaker = utterance.speaker or utterance.tier
        return cls(index, utterance.id, speaker, utterance.offset_s, utterance.duration_s)


class SharedFiles(Protocol):
    """One kind of file that is assembled of many utterances' rows."""

    def targets(self, group: str) -> list[Path]:
        """The group's files."""
        ...

    def holds(self, group: str, id: str) -> bool:
        """Whether the group's files are there, with this utterance in them as far as that can be told."""
        ...

    def is_of(self, group: str, ids: Sequence[str]) -> bool:
        """Whether the group's files are there and made of these utterances, as far as that can be told."""
        ...

    def rows(self, group: str, members: Sequence[Member]) -> Iterator[tuple[str, bytes]]:
        """The way back: (id, row) of what the group's files hold of `members`, which are all there may be in them."""
        ...

    def write(self, group: str, members: Sequence[Member], rows: Iterable[tuple[str, bytes]]) -> list[Path]:
        """Write the group's files whole, of the rows of those `members` that succeeded, in order."""
        ...
