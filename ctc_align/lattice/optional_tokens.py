"""The states of one utterance with optional tokens, or with silence between words.

Both kinds of rows are tokens with *gaps* before them and after the last: in CTC a blank before every token, in
segmentations a silence before every word. A gap belongs to what follows it, so that every path belongs to one subset of
kept tokens: it is left only for tokens of its own group, and entered from any token that may come last before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass
class StateRow:
    """The states of one utterance; fields as in `Topology` and `Detours`, but `sources` by state."""

    emit: np.ndarray
    token: np.ndarray
    skip: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    min_frames: int
    optional: bool
    sources: dict[int, list[int]] = field(default_factory=dict)

    def enter(self, state: int, sources: list[int]) -> None:
        """Let `state` be entered from `sources`, descending, besides the state before."""
        self.skip[state] = state - 2 in sources
        if detours := [source for source in sources if source < state - 2]:
            self.sources[state] = detours


@dataclass(frozen=True)
class _Plan:
    """The states of tokens and gaps: of each token `first` to `last`; group g's gap is state `gap[g]`, its tokens begin
    with `group_start[g]`; `group` (L,) of each token. The last state is the gap at the end."""

    first: np.ndarray
    last: np.ndarray
    gap: np.ndarray
    group: np.ndarray
    group_start: np.ndarray
    optional: np.ndarray


def ctc_row(target: np.ndarray, optional: np.ndarray, blank: int) -> StateRow:
    """Return the states of CTC whose `optional` tokens may be left out; see `lattice.ctc`."""
    tokens = len(target)
    size = 2 * tokens + 1
    emit, token = np.full(size, blank, np.int32), np.full(size, -1, np.int32)
    emit[1::2], token[1::2] = target, np.arange(tokens)
    places = np.arange(tokens)
    plan = _Plan(2 * places + 1, 2 * places + 1, 2 * places, places, places, optional)
    # The shortest path leaves out every optional token; a blank parts the equal tokens that then meet.
    kept = target[~optional]
    shortest = len(kept) + int(np.count_nonzero(kept[1:] == kept[:-1]))
    return _connected(emit, token, plan, target, shortest)


def ctc_passages_row(target: np.ndarray, passages: Sequence[tuple[int, int]], blank: int) -> StateRow:
    """Return the states of CTC whose `passages` may each be left out as a whole; see `lattice.ctc_passages`.

    The blank before a passage is the one that stands between its neighbours where it is left out.
    """
    row = ctc_row(target, np.zeros(len(target), np.bool_), blank)
    row.optional = bool(passages)
    left_out = np.zeros(len(target), np.bool_)
    reached: list[int] = []  # where passages begin that end where the next one begins, or later
    for number, (first, last) in enumerate(passages):
        left_out[first:last] = True
        meets = number > 0 and passages[number - 1][1] == first
        reached = [first, *(reached if meets else [])]
        is_end = last == len(target)
        sources = []
        for begin in reached:
            # from the blank before the passage, or from the token before that, if it differs
            if begin == 0 and not is_end:
                row.begin[2 * last + 1] = True
            sources.append(2 * begin)
            if begin and (is_end or target[begin - 1] != target[last]):
                sources.append(2 * begin - 1)
        if is_end:
            row.end[sources] = True
        else:
            state = 2 * last + 1
            row.enter(state, sorted({2 * last, *sources, *([2 * last - 1] if row.skip[state] else [])}, reverse=True))
    kept = target[~left_out]
    row.min_frames = len(kept) + int(np.count_nonzero(kept[1:] == kept[:-1]))
    return row


def segmentation_row(
    target: np.ndarray, words: np.ndarray, optional: np.ndarray, states_per_token: int, silence: int
) -> StateRow:
    """Return the states of a segmentation: silence before words and at the end; see `lattice.segmentation`."""
    tokens = len(target)
    new_word = np.ones(tokens, np.bool_)
    new_word[1:] = words[1:] != words[:-1]
    parts = np.where(target < 0, 1, states_per_token)
    group = np.cumsum(new_word) - 1
    last = np.cumsum(parts) + group
    first = last - parts + 1
    size = int(last[-1]) + 2 if tokens else 1
    emit, token = np.full(size, silence, np.int32), np.full(size, -1, np.int32)
    gap = first[new_word] - 1
    sounding = np.ones(size, np.bool_)
    sounding[gap] = sounding[-1] = False
    token[sounding] = np.repeat(np.arange(tokens), parts)
    part = np.arange(size)[sounding] - np.repeat(first, parts)
    unit = np.repeat(target, parts)
    emit[sounding] = np.where(unit < 0, unit, unit * states_per_token + part)
    plan = _Plan(first, last, gap, group, np.flatnonzero(new_word), optional)
    return _connected(emit, token, plan, None, int(parts[~optional].sum()))


def _connected(emit: np.ndarray, token: np.ndarray, plan: _Plan, apart: np.ndarray | None, shortest: int) -> StateRow:
    """Return the row with all transitions; equal neighbours in `apart` (L,) must be kept apart by their gap."""
    size, tokens = len(emit), len(plan.first)
    skip, begin, end = np.zeros((3, size), np.bool_)
    row = StateRow(emit, token, skip, begin, end, shortest, bool(plan.optional.any()))
    if not row.optional:
        _follow(row, plan, apart)
        return row
    # Token k may be the first one kept after j, or the first of all (j = -1), for earliest[k] - 1 <= j < k.
    required = np.flatnonzero(~plan.optional)
    earliest = np.zeros(tokens + 1, np.int64)
    earliest[required + 1] = required + 1
    earliest = np.maximum.accumulate(earliest)

    def before(k: int) -> range:
        """Return the tokens, descending, after which token k (or the end) may come next."""
        return range(k - 1, max(int(earliest[k]) - 1, 0) - 1, -1)

    lasts = plan.last.tolist()
    for gap, k in [*zip(plan.gap.tolist(), plan.group_start.tolist()), (size - 1, tokens)]:
        row.enter(gap, [lasts[j] for j in before(k)])
        row.begin[gap] = earliest[k] == 0
    for k, state in enumerate(plan.first.tolist()):
        sources = [lasts[j] for j in before(k) if apart is None or apart[j] != apart[k]]
        if earliest[k] <= plan.group_start[plan.group[k]]:
            sources.append(int(plan.gap[plan.group[k]]))
        row.enter(state, sorted(sources, reverse=True))
        row.begin[state] = earliest[k] == 0
    row.end[[size - 1, *(lasts[j] for j in before(tokens))]] = True
    return row


def _follow(row: StateRow, plan: _Plan, apart: np.ndarray | None) -> None:
    """Set the transitions of a row without optional tokens: each follows the one before it, or the gap between them."""
    row.end[-1] = True
    row.begin[0] = True  # the first gap, which is the last one where there are no tokens
    if not len(plan.first):
        return
    row.begin[plan.first[0]] = row.end[plan.last[-1]] = True
    behind_gap = plan.group_start[1:]
    if apart is not None:
        behind_gap = behind_gap[apart[behind_gap] != apart[behind_gap - 1]]
    row.skip[plan.first[behind_gap]] = True
