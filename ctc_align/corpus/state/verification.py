"""Outputs compared with the journal before a run: by `--verify`, and where lines of a journal were lost."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from ctc_align.corpus.engine.batches import Item
from ctc_align.corpus.outputs.assembly import Assembly
from ctc_align.corpus.outputs.shared_files import GroupedUtterance
from ctc_align.corpus.state.journal import DONE, Journal, Line, line_key
from ctc_align.corpus.state.resume import Outcomes
from ctc_align.corpus.utterance import Refused

_MOST_NAMED = 20
"""Faults that are named."""
_MOST_LINES = 1000
"""Lines that are appended together."""

logger = logging.getLogger(__name__)


@dataclass
class Verification:
    """Counts of utterances that the journal calls done: `damaged` are those whose outputs are not as recorded.

    `unknown` are those of an earlier version, of which the journal has no checksums.
    """

    checked: int = 0
    damaged: int = 0
    unknown: int = 0


def verify(
    items: Iterable[Item], assembly: Assembly, outcomes: Outcomes, journal: Journal, everything: bool
) -> Verification:
    """Read the outputs of utterances, and have `outcomes` forget those that are not as their lines record them.

    Without `everything` only those that are unsure, with what shares a file with them: a damaged or missing line may
    have been a later one about them. What is found whole gets its line once more, after the damage, so that it is sure
    from then on. What had failed has no outputs that could tell, and is done again.

    Raises:
        OutputError: the journal cannot be written.
    """
    checker = _Checker(assembly, outcomes, journal, everything)
    for item in items:
        checker.add(item)
    checker.finish()
    if checker.counts.damaged > _MOST_NAMED:
        logger.warning("%d utterances in all are not as the journal recorded them", checker.counts.damaged)
    return checker.counts


@dataclass
class _Checker:
    """Collects the utterances of one group at a time."""

    assembly: Assembly
    outcomes: Outcomes
    journal: Journal
    everything: bool
    counts: Verification = field(default_factory=Verification)
    group: str | None = None
    members: list[GroupedUtterance] = field(default_factory=list)
    again: list[Line] = field(default_factory=list)

    def add(self, item: Item) -> None:
        """Add an entry of the source, in its order."""
        if isinstance(item.entry, Refused):
            key = line_key(item.entry.id, item.entry.origin)
            if self.outcomes.is_unsure(key):
                self.outcomes.forget(key)
            return
        if item.group is None or item.group != self.group:
            self._check()
        self.group = item.group
        self.members.append(GroupedUtterance.of(item.index, item.entry))

    def finish(self) -> None:
        """Check the last group, and write what is left to write."""
        self._check()
        self._append()

    def _line(self, id: str) -> Line | None:
        """Return the line of an utterance whose outputs are to be read."""
        key = line_key(id)
        found = self.outcomes.find(key)
        line = self.outcomes.line(key) if found is not None and found[0] == DONE else None
        if self.outcomes.is_unsure(key) and (line is None or line.result.files is None):
            self.outcomes.forget(key)
            return None
        return line

    def _check(self) -> None:
        lines: dict[str, Line] = {}
        faults: dict[str, str] = {}
        if self.everything or any(self.outcomes.is_unsure(line_key(member.id)) for member in self.members):
            found = [(member, self._line(member.id)) for member in self.members]
            lines = {member.id: line for member, line in found if line is not None}
            faults = self.assembly.faults(self.group, found) if lines else {}
        for id, line in lines.items():
            self.counts.checked += 1
            self.counts.unknown += line.result.files is None
            if id in faults:
                self.counts.damaged += 1
                self.outcomes.forget(line.key)
                if self.counts.damaged <= _MOST_NAMED:
                    logger.warning("%s: %s; it is done again", id, faults[id])
            elif self.outcomes.is_unsure(line.key):
                self.again.append(line)
        self.members = []
        if len(self.again) >= _MOST_LINES:
            self._append()

    def _append(self) -> None:
        if self.again:
            self.journal.append(self.again)
            self.again = []
