"""The interface of files that several utterances share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ctc_align.corpus.state.journal_lines import Checksum
from ctc_align.corpus.utterance import Utterance


@dataclass(frozen=True)
class GroupedUtterance:
    """An utterance of a group whose files are not complete yet."""

    index: int
    id: str
    speaker: str = ""
    offset_s: float = 0.0
    duration_s: float | None = None

    @classmethod
    def of(cls, index: int, utterance: Utterance) -> GroupedUtterance:
        speaker = utterance.speaker or utterance.tier
        return cls(index, utterance.id, speaker, utterance.offset_s, utterance.duration_s)


class SharedFiles(Protocol):
    """One kind of file that is assembled of many utterances' rows."""

    def targets(self, group: str) -> list[Path]:
        """Return the paths of the group's files."""
        ...

    def groups(self) -> set[str]:
        """Return the groups that have files, where their rows show whose they are; else none."""
        ...

    def content(self, row: bytes) -> bytes:
        """Return what the group's files keep of a row, of which the journal has the checksum."""
        ...

    def holds(self, group: str, id: str, row: Checksum | None = None) -> bool:
        """Return whether the group's files exist, with this utterance (and its `row`) in them as far as they show."""
        ...

    def faults(
        self, group: str, utterances: Sequence[GroupedUtterance], rows: Mapping[str, Checksum | None]
    ) -> dict[str, str]:
        """Return what is wrong, by utterance, with the group's files, of which all bytes are looked at.

        Args:
            utterances: all of the group; rows: those that are in its files, with what the journal has of them.
        """
        ...

    def checksums(self, group: str) -> Mapping[str, Checksum]:
        """Return the rows of a finished group, by utterance, of files that show whose they are; else none."""
        ...

    def is_of(self, group: str, ids: Sequence[str]) -> bool:
        """Return whether the group's files exist and are made of these utterances, as far as they show it."""
        ...

    def rows(self, group: str, utterances: Sequence[GroupedUtterance]) -> Iterator[tuple[str, bytes]]:
        """Yield (id, row) of what the group's files hold: of `utterances`, and of others that show whose they are."""
        ...

    def write(
        self, group: str, utterances: Sequence[GroupedUtterance], rows: Iterable[tuple[str, bytes]]
    ) -> list[Path]:
        """Write the group's files whole, from the rows of those `utterances` that succeeded, in order."""
        ...
