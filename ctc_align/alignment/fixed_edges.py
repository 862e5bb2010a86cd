"""Tokens with some edges that a person has fixed, and the others in the room between these.

Coarse edges are found stretch by stretch, each in its own frames; then all tokens stand in one row again, so that
confidences and the network of edges see the sounds around each word, and in the end nothing crosses what is fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.edge_order import in_order
from ctc_align.alignment.pauses import shortest_pause
from ctc_align.formats.hand_fixes import is_fixed
from ctc_align.models.calibration import Calibration
from ctc_align.types import ALIGNED, AlignedToken, AlignedWord, Emissions, Tokens

HAND_SD_FRAMES = 1.0
"""The spread of an edge that a person has fixed, as far as confidences are concerned."""
_SAME = 1e-3


@dataclass(frozen=True)
class PlacedTokens:
    """Tokens of words that follow each other, with their spikes and edges, in frames of the recording.

    Attributes:
        tokens: without separators; `words` are places in the transcript.
        spikes: where CTC has them.
        edges: where they begin and end; without spreads where they are fixed.
        room: the first and the last edge that there may be.
        pauses: whether there is a pause before and after them; None where nothing says so but its length.
        fixed: True where the edges are a person's.
    """

    tokens: Tokens
    spikes: Spans
    edges: Spans
    room: tuple[float, float]
    pauses: tuple[bool | None, bool | None] = (None, None)
    fixed: bool = False

    @classmethod
    def among(
        cls, own: np.ndarray, part: tuple[Tokens, Spans, Spans], place: tuple[int, int], room: tuple[float, float]
    ) -> PlacedTokens:
        """Return some of what was placed in a part of the recording: all of one stretch but the sounds beside it.

        Args:
            own: (L,) bool, which tokens these are, at least one.
            part: tokens, spikes and edges of the part.
            place: where it begins: a frame, and a word of the transcript.
            room: of the stretch.
        """
        tokens, spikes, edges = part
        frame, word = place
        chosen = np.flatnonzero(own)
        spoken = np.flatnonzero(np.asarray(tokens.words) >= 0)
        before, after = spoken[spoken < chosen[0]], spoken[spoken > chosen[-1]]
        pauses = (
            bool(edges.start[chosen[0]] > edges.end[before[-1]]) if len(before) else None,
            bool(edges.end[chosen[-1]] < edges.start[after[0]]) if len(after) else None,
        )
        row = Tokens(
            tuple(tokens.ids[k] for k in chosen),
            tuple(tokens.labels[k] for k in chosen),
            tuple(tokens.words[k] + word for k in chosen),
        )
        spikes, edges = (
            replace(spans.of(chosen), start=spans.start[chosen] + frame, end=spans.end[chosen] + frame)
            for spans in (spikes, edges)
        )
        return cls(row, spikes, edges, room, pauses)

    def filling(self) -> PlacedTokens:
        """Return the tokens of one word with the word's edges where its room begins and ends: a person's."""
        begin, end = self.room
        start, last = _in_room(self.edges.start, self.edges.end, begin, end)
        start[0], last[-1] = begin, end
        return replace(self, edges=Spans(start, last), fixed=True)


def frames_of(seconds: float, emissions: Emissions) -> float:
    """Return a time in frames of the emissions, between them."""
    return (seconds - emissions.first_frame_s) / emissions.frame_shift_s


def edges_in_frames(tokens: Sequence[AlignedToken], emissions: Emissions) -> Spans:
    """Return the edges of tokens as they are."""
    start, end = (
        np.array([frames_of(seconds, emissions) for seconds in column])
        for column in ([token.start_s for token in tokens], [token.end_s for token in tokens])
    )
    return Spans(start, end)


@dataclass(frozen=True)
class TokenRow:
    """All tokens that are placed, in the order of the transcript and of time; `piece` (L,) says which each is of."""

    pieces: Sequence[PlacedTokens]
    tokens: Tokens
    spikes: Spans
    edges: Spans
    piece: np.ndarray

    @classmethod
    def joined(cls, pieces: Sequence[PlacedTokens], *, has_spreads: bool) -> TokenRow:
        """Return pieces, at least one, in a row; `has_spreads` says whether edges of this model may have any."""

        def column(name: str) -> np.ndarray:
            return np.concatenate([getattr(piece.edges, name) for piece in pieces])

        spreads: list[np.ndarray | None] = [None, None]
        if has_spreads and all(piece.fixed or piece.edges.start_sd is not None for piece in pieces):
            spreads = [
                np.concatenate(
                    [
                        np.full(len(piece.tokens.ids), HAND_SD_FRAMES) if piece.fixed else getattr(piece.edges, name)
                        for piece in pieces
                    ]
                )
                for name in ("start_sd", "end_sd")
            ]
        tokens = Tokens(
            tuple(index for piece in pieces for index in piece.tokens.ids),
            tuple(label for piece in pieces for label in piece.tokens.labels),
            tuple(word for piece in pieces for word in piece.tokens.words),
        )
        spikes = Spans(
            np.concatenate([piece.spikes.start for piece in pieces]),
            np.concatenate([piece.spikes.end for piece in pieces]),
        )
        of_piece = np.repeat(np.arange(len(pieces)), [len(piece.tokens.ids) for piece in pieces])
        return cls(pieces, tokens, spikes, Spans(column("start"), column("end"), *spreads), of_piece)

    def shortest_pauses(self, usual_frames: float, calibration: Calibration) -> np.ndarray:
        """Return how many frames a pause before each token (L,) has at least, by the sounds around it."""
        kinds = calibration.kinds(self.tokens.labels)
        return usual_frames * np.array([1.0, *(shortest_pause(*pair) for pair in pairwise(kinds))])

    def settled(self, edges: Spans, shortest_frames: np.ndarray, *, by_path: bool) -> Spans:
        """Return edges with those that are fixed where they are, and the others in order between them.

        Where no pause is between a fixed edge and its neighbour, they share the edge.

        Args:
            edges: of all tokens, in frames.
            shortest_frames: (L,) the least length of a pause before each.
            by_path: whether there is none, too, where the pieces say so.
        """
        start, end = edges.start.copy(), edges.end.copy()
        cuts = [0, *(np.flatnonzero(np.diff(self.piece)) + 1).tolist(), len(start)]
        runs = [(self.pieces[self.piece[low]], low, high) for low, high in pairwise(cuts)]
        for piece, low, high in runs:
            if piece.fixed:
                start[low:high], end[low:high] = self.edges.start[low:high], self.edges.end[low:high]
        for piece, low, high in runs:
            if piece.fixed:
                continue
            begin, finish = piece.room
            no_pause = [by_path and pause is False for pause in piece.pauses]
            meets = low and abs(end[low - 1] - begin) < _SAME
            if meets and (no_pause[0] or start[low] - begin < shortest_frames[low]):
                start[low] = begin
            meets = high < len(start) and abs(start[high] - finish) < _SAME
            if meets and (no_pause[1] or finish - end[high - 1] < shortest_frames[high]):
                end[high - 1] = finish
            start[low:high], end[low:high] = _in_room(start[low:high], end[low:high], begin, finish)
        return replace(edges, start=start, end=end)


def _in_room(start: np.ndarray, end: np.ndarray, begin: float, finish: float) -> tuple[np.ndarray, np.ndarray]:
    """Return edges (L,) in order between two others, gaps between them kept."""
    pauses = np.append(start[1:] > end[:-1], True)
    start, end = in_order(start - begin, end - begin, pauses, finish - begin)
    return start + begin, end + begin


def words_in_room(words: Sequence[AlignedWord], room_s: tuple[float, float], frame_shift_s: float) -> list[AlignedWord]:
    """Return words that were placed in whole frames, with their times in the room that there is, ascending."""
    tokens = [token for word in words for token in word.tokens]
    if not tokens:
        return list(words)
    begin_s, end_s = room_s
    both = _in_room(
        np.array([token.start_s for token in tokens]) / frame_shift_s,
        np.array([token.end_s for token in tokens]) / frame_shift_s,
        begin_s / frame_shift_s,
        end_s / frame_shift_s,
    )
    times = iter(zip(*((edges * frame_shift_s).round(5).tolist() for edges in both)))
    inside = []
    for word in words:
        own = []
        for token in word.tokens:
            first_s, last_s = next(times)
            own.append(replace(token, start_s=max(first_s, begin_s), end_s=min(last_s, end_s)))
        inside.append(replace(word, start_s=own[0].start_s, end_s=own[-1].end_s, tokens=tuple(own)) if own else word)
    return inside


def with_fixed(words: Sequence[AlignedWord], corrected: Sequence[AlignedWord]) -> tuple[AlignedWord, ...]:
    """Return the words with those by hand as they were: times and tokens to the bit, confidences as they are now.

    Labels of a person that the model lacks have the confidence of their word.
    """
    done = []
    for index, (word, was) in enumerate(zip(words, corrected)):
        if is_fixed(was):
            done.append(_fixed(word, was))
            continue
        if word.status == ALIGNED:
            begin_s = corrected[index - 1].end_s if index and is_fixed(corrected[index - 1]) else None
            after = corrected[index + 1] if index + 1 < len(corrected) else was
            word = _within(word, begin_s, after.start_s if is_fixed(after) else None)
        done.append(word)
    return tuple(done)


def _fixed(word: AlignedWord, was: AlignedWord) -> AlignedWord:
    """Return a word by hand; tokens that were not known are those that were placed in it."""
    assert was.start_s is not None
    assert was.end_s is not None
    tokens = list(word.tokens)
    if [token.token for token in tokens] == [token.token for token in was.tokens]:
        tokens = [replace(old, confidence=new.confidence) for old, new in zip(was.tokens, tokens)]
    elif was.tokens and all(token.by for token in was.tokens):  # labels of a person that the model lacks
        tokens = [replace(token, confidence=word.confidence or 0.0) for token in was.tokens]
    elif tokens:
        tokens = [replace(token, start_sd_ms=None, end_sd_ms=None) for token in tokens]
        tokens[0] = replace(tokens[0], start_s=was.start_s)
        tokens[-1] = replace(tokens[-1], end_s=was.end_s)
    return replace(
        was,
        spoken=word.spoken,
        speaker=word.speaker,
        status=ALIGNED,
        confidence=word.confidence,
        tokens=tuple(tokens),
        start_sd_ms=None,
        end_sd_ms=None,
    )


def _within(word: AlignedWord, begin_s: float | None, end_s: float | None) -> AlignedWord:
    """Return a word that begins and ends where it may, to the bit: frames were rounded."""
    tokens: list[AlignedToken] = list(word.tokens)
    if begin_s is not None:
        tokens[0] = replace(tokens[0], start_s=max(tokens[0].start_s, begin_s))
    if end_s is not None:
        tokens[-1] = replace(tokens[-1], end_s=min(tokens[-1].end_s, end_s))
    return replace(word, start_s=tokens[0].start_s, end_s=tokens[-1].end_s, tokens=tuple(tokens))
