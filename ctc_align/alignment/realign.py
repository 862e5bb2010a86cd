"""Tokens with some edges that a person has fixed, and the others in the room between these.

Coarse edges are found stretch by stretch, each in its own frames; then all tokens stand in one row again, so that
confidences and the network of edges see the sounds around each word, and in the end nothing crosses what is fixed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from os import PathLike

import numpy as np

from ctc_align.alignment.align_utterance import (
    PlacedWords,
    align_islands,
    align_whole,
    aligned_words,
    draw_finely,
    finished,
    losses,
    place_tokens,
    spell,
    spell_as_said,
)
from ctc_align.alignment.confidence import confidences
from ctc_align.alignment.ctc_path import Spans, best_ctc_path
from ctc_align.alignment.edges import duration_of, in_order, shortest_pause
from ctc_align.alignment.fit import UNLIKELY
from ctc_align.alignment.inputs import UtteranceInputs
from ctc_align.alignment.islands import Island, find_islands
from ctc_align.alignment.refined_edges import CLOSED_S
from ctc_align.alignment.wildcard import scores_of
from ctc_align.audio.loading import LONGER_S, load_segment
from ctc_align.config import Settings
from ctc_align.errors import AudioError, InputError, TooShortError, UsageError
from ctc_align.files import Alignment
from ctc_align.files.json_files import SLACK_S, fixed_name, is_fixed
from ctc_align.kernels.requests import Steps
from ctc_align.lattice import WILDCARD
from ctc_align.models.calibration import Calibration
from ctc_align.text import require_words, words_of
from ctc_align.text.sounds import phones_together
from ctc_align.types import (
    ALIGNED,
    SKIPPED,
    UNKNOWN,
    UNSPOKEN,
    AlignedToken,
    AlignedWord,
    AlignmentData,
    Audio,
    Emissions,
    Pronunciation,
    Tokens,
    Transcript,
    Word,
    Words,
    WordTokens,
)

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


# A corrected alignment, aligned again between the edges that a person has fixed: the stages of `Aligner.realign`.
#
# Words by hand keep their times. What stands between two of them, or before the first and after the last, is aligned
# in the time between them alone; a word by hand whose tokens are not known is aligned within its own. The loss is
# that of the whole text over the whole recording, as for any alignment.

_NAMED = 6


@dataclass(frozen=True)
class Stretch:
    """Words `first` to `last` (exclusive) of a transcript, and the time (begin_s, end_s) that there is for them."""

    first: int
    last: int
    room_s: tuple[float, float]


@dataclass
class _Found:
    """The parts of an alignment, as they are found, in the order of the transcript.

    Attributes:
        pieces: tokens with coarse edges, by the first word of each.
        words: words that are finished, by their places in the transcript.
        ids: CTC's tokens of each part, by its first word.
        judged: whether a confidence network has judged the words.
        backend: that found the paths.
    """

    backend: str
    pieces: dict[int, PlacedTokens] = field(default_factory=dict)
    words: dict[int, AlignedWord] = field(default_factory=dict)
    ids: dict[int, Sequence[int]] = field(default_factory=dict)
    judged: bool = False


def realign_utterance(inputs: UtteranceInputs, corrected: Sequence[AlignedWord]) -> Steps[Alignment]:
    """Align one utterance again.

    Args:
        inputs: with the words of the corrected transcript.
        corrected: one for each of these words: those by hand are kept, of the others the status says whether they were
            found before.

    Raises:
        InputError: words by hand that do not ascend, words that have no room between them, or as `align_utterance`.
    """
    _check_order(corrected)
    inputs.begin("pronunciations")
    word_tokens = yield from spell(inputs)
    known_ids = _known_ids(inputs, word_tokens)
    found = _Found(inputs.backend)
    stretches = list(stretches_of(corrected, duration_of(inputs.emissions)))
    # Words by hand come first: the others are placed beside their sounds.
    for stretch in sorted(stretches, key=lambda stretch: not is_fixed(corrected[stretch.first])):
        words = corrected[stretch.first : stretch.last]
        inputs.begin(f"word {stretch.last} of {len(corrected)}")
        ids = [known_ids.get(token.token, WILDCARD) for token in words[0].tokens]
        drawn = bool(ids) and all(token.by for token in words[0].tokens)
        if drawn and WILDCARD in ids and (yield from _place_sounds(inputs, stretch, corrected, word_tokens, found)):
            continue
        if is_fixed(words[0]) and (drawn or set(ids) - {WILDCARD}):
            yield from _keep_tokens(inputs, stretch, words[0], ids, found)
            found.ids[stretch.first] = _spelled_ids(inputs, word_tokens[stretch.first], ids)
        elif not any(word.pronunciations or word.missing for word in word_tokens[stretch.first : stretch.last]):
            continue
        elif not is_fixed(words[0]) and _is_searched(inputs, words):
            yield from _search(inputs, stretch, corrected, word_tokens, found)
        else:
            yield from _place(inputs, stretch, corrected, word_tokens, found)
    placed = yield from _joined(inputs, corrected, word_tokens, found)
    return finished(inputs, word_tokens, placed)


def stretches_of(words: Sequence[AlignedWord], duration_s: float) -> Iterator[Stretch]:
    """Yield the words by hand, each alone, and the runs of words between them, in order.

    >>> word = AlignedWord("a", "a", 0, 1, start_s=1.0, end_s=2.0)
    >>> [stretch.room_s for stretch in stretches_of([word, word, replace(word, by="hand")], 3.0)]
    [(0.0, 1.0), (1.0, 2.0)]
    """
    first, begin_s = 0, 0.0
    for index, word in enumerate(words):
        if not is_fixed(word) or word.start_s is None or word.end_s is None:
            continue
        if first < index:
            yield Stretch(first, index, (begin_s, word.start_s))
        yield Stretch(index, index + 1, (word.start_s, word.end_s))
        first, begin_s = index + 1, word.end_s
    if first < len(words):
        yield Stretch(first, len(words), (begin_s, duration_s))


def _check_order(words: Sequence[AlignedWord]) -> None:
    """Raise InputError unless words by hand follow each other in time as in the text."""
    fixed = [word for word in words if is_fixed(word)]
    for before, after in pairwise(fixed):
        if (before.end_s or 0.0) > (after.start_s or 0.0) + SLACK_S:
            raise InputError(
                f"{fixed_name(after)} stands after {fixed_name(before)} in the text, and begins before its end: words "
                "by hand must follow each other in time as in the text; move one of them, or mend the text"
            )


def _known_ids(inputs: UtteranceInputs, word_tokens: Sequence[WordTokens]) -> dict[str, int]:
    """Return the id of each label: of those in the transcript's pronunciations, and of the vocabulary itself."""
    ids = {label: index for index, label in enumerate(inputs.emissions.vocab) if index != inputs.emissions.blank}
    ways = (way for word in word_tokens for way in word.pronunciations)
    return ids | {label: index for way in ways for label, index in zip(way.labels, way.ids)}


def _spelled_ids(inputs: UtteranceInputs, word: WordTokens, ids: Sequence[int]) -> tuple[int, ...]:
    """Return CTC's tokens of a word whose tokens are known: with the separators inside it."""
    own = tuple(index for index in ids if index != WILDCARD)
    if not own and word.pronunciations:  # a person's own labels
        return word.pronunciations[0].ids
    ways = (way.ids for way in word.pronunciations)
    return next(
        (way for way in ways if tuple(index for index in way if index != inputs.tokenizer.separator) == own), own
    )


def _is_searched(inputs: UtteranceInputs, words: Sequence[AlignedWord]) -> bool:
    """Return whether words are looked for before they are placed: "auto" trusts what was found before."""
    match = inputs.settings.match
    return match == "loose" or (match == "auto" and any(word.status == SKIPPED for word in words))


def _frames(inputs: UtteranceInputs, stretch: Stretch) -> tuple[int, int]:
    """Return the frames of a stretch: those of which most lies in it."""
    frames = len(inputs.emissions.log_probs)
    first, last = (min(max(round(frames_of(edge, inputs.emissions)), 0), frames) for edge in stretch.room_s)
    ends = stretch.room_s[1] >= duration_of(inputs.emissions) - SLACK_S
    return first if stretch.room_s[0] else 0, frames if ends else last


def _part(inputs: UtteranceInputs, stretch: Stretch) -> UtteranceInputs:
    first, last = _frames(inputs, stretch)
    words = Words(inputs.words.text, inputs.words.words[stretch.first : stretch.last])
    return replace(inputs, words=words, emissions=inputs.emissions.part(first, max(last, first + 1)))


def _room(inputs: UtteranceInputs, stretch: Stretch) -> tuple[float, float]:
    begin, end = (frames_of(edge, inputs.emissions) for edge in stretch.room_s)
    return max(begin, 0.0), end


def _keep_tokens(
    inputs: UtteranceInputs, stretch: Stretch, word: AlignedWord, ids: list[int], found: _Found
) -> Steps[None]:
    """Take the tokens of a word by hand as they are; their spikes are where CTC has them inside the word."""
    part, first = _part(inputs, stretch).emissions, _frames(inputs, stretch)[0]
    edges = edges_in_frames(word.tokens, inputs.emissions)
    tokens = Tokens(tuple(ids), tuple(token.token for token in word.tokens), (stretch.first,) * len(ids))
    wildcard = scores_of(part) if WILDCARD in ids else None
    try:
        path = yield from best_ctc_path(part.log_probs, ids, part.blank, wildcard=wildcard, backend=inputs.backend)
        spikes, found.backend = Spans(path.spans.start + first, path.spans.end + first), path.backend
    except InputError:  # shorter than CTC needs: a person has seen that it is there
        middle = np.floor((edges.start + edges.end) / 2).astype(np.int64)
        middle = np.clip(middle, 0, len(inputs.emissions.log_probs) - 1)
        spikes = Spans(middle, middle + 1)
    found.pieces[stretch.first] = PlacedTokens(tokens, spikes, edges, _room(inputs, stretch), fixed=True)


def _place(
    inputs: UtteranceInputs,
    stretch: Stretch,
    corrected: Sequence[AlignedWord],
    word_tokens: Sequence[WordTokens],
    found: _Found,
) -> Steps[None]:
    """Place all words of a stretch; raise InputError where they have no room."""
    own = word_tokens[stretch.first : stretch.last]
    first, last = _frames(inputs, stretch)
    if last - first < _fewest_frames(own):
        raise InputError(_no_room(stretch, corrected, own, TooShortError()))
    fixed = is_fixed(corrected[stretch.first])
    beside = _Beside() if fixed else _Beside.of(found.pieces, stretch)
    if not _fewest_frames(own) and (beside == _Beside() or inputs.settings.unknown != "wildcard"):
        return  # nothing but letters that the vocabulary lacks
    try:
        piece = yield from _placed_beside(inputs, stretch, own, beside, found)
    except InputError:
        try:
            piece = yield from _placed_beside(inputs, stretch, own, _Beside(), found)
        except InputError as error:
            raise InputError(_no_room(stretch, corrected, own, error)) from error
    if piece is not None:
        found.pieces[stretch.first] = piece.filling() if fixed else piece


def _place_sounds(
    inputs: UtteranceInputs,
    stretch: Stretch,
    corrected: Sequence[AlignedWord],
    word_tokens: Sequence[WordTokens],
    found: _Found,
) -> Steps[bool]:
    """Place in a word by hand the sounds that the model knows it by, as its labels are none of the model's.

    By these it is judged, and its labels stay. Return whether there are any, and room for them.
    """
    if word_tokens[stretch.first].pronunciations:
        try:
            yield from _place(inputs, stretch, corrected, word_tokens, found)
        except InputError:
            return False
    return stretch.first in found.pieces


@dataclass(frozen=True)
class _FixedSound:
    """A sound that a person has fixed beside a stretch: its id, its label, and the frame where it begins or ends."""

    id: int
    label: str
    frame: float

    @property
    def tokens(self) -> WordTokens:
        return WordTokens((Pronunciation((self.id,), (self.label,)),))


@dataclass(frozen=True)
class _Beside:
    """The last sound before a stretch and the first one after it, where a person has fixed these and both are known."""

    before: _FixedSound | None = None
    after: _FixedSound | None = None

    @classmethod
    def of(cls, pieces: dict[int, PlacedTokens], stretch: Stretch) -> _Beside:
        left, right = pieces.get(stretch.first - 1), pieces.get(stretch.last)
        before = after = None
        if left is not None and left.fixed and left.tokens.ids[-1] != WILDCARD:
            before = _FixedSound(left.tokens.ids[-1], left.tokens.labels[-1], float(left.edges.start[-1]))
        if right is not None and right.fixed and right.tokens.ids[0] != WILDCARD:
            after = _FixedSound(right.tokens.ids[0], right.tokens.labels[0], float(right.edges.end[0]))
        return cls(before, after)


def _placed_beside(
    inputs: UtteranceInputs, stretch: Stretch, word_tokens: Sequence[WordTokens], beside: _Beside, found: _Found
) -> Steps[PlacedTokens | None]:
    """Place the words of a stretch between the sounds beside it, of which the path says whether there are pauses.

    Return None where there is room neither for their sounds nor for wildcards.
    """
    low, high = _frames(inputs, stretch)
    words, tokens = list(inputs.words.words[stretch.first : stretch.last]), list(word_tokens)
    lead = int(beside.before is not None)
    if beside.before is not None:
        low = max(min(round(beside.before.frame), low - 1), 0)
        words.insert(0, Word("", beside.before.label, 0, 0))
        tokens.insert(0, beside.before.tokens)
    if beside.after is not None:
        high = min(max(round(beside.after.frame), high + 1), len(inputs.emissions.log_probs))
        words.append(Word("", beside.after.label, 0, 0))
        tokens.append(beside.after.tokens)
    part = replace(
        inputs, words=Words(inputs.words.text, tuple(words)), emissions=inputs.emissions.part(low, max(high, low + 1))
    )
    spelled = yield from spell_as_said(part, part.words, tokens)
    row, spikes, edges = yield from place_tokens(part, spelled)
    found.backend = spelled.path.backend
    own = [k for k, word in enumerate(spelled.tokens.words) if lead <= word < lead + len(word_tokens)]
    if own:
        found.ids[stretch.first] = spelled.tokens.ids[own[0] : own[-1] + 1]
    inside = np.array([lead <= word < lead + len(word_tokens) for word in row.words])
    place = low, stretch.first - lead
    return PlacedTokens.among(inside, (row, spikes, edges), place, _room(inputs, stretch)) if inside.any() else None


def _fewest_frames(word_tokens: Sequence[WordTokens]) -> int:
    """Return how many sounds words have at least, each of which takes a frame."""
    return sum(min((len(way.ids) for way in word.pronunciations), default=0) for word in word_tokens)


def _no_room(
    stretch: Stretch, words: Sequence[AlignedWord], word_tokens: Sequence[WordTokens], error: InputError
) -> str:
    """Return the message of a stretch whose words have no room."""
    sounds = _fewest_frames(word_tokens)
    begin_s, end_s = stretch.room_s
    reason = f"{sounds} sounds in {end_s - begin_s:.3f} s" if isinstance(error, TooShortError) else str(error)
    if is_fixed(words[stretch.first]):
        named = fixed_name(words[stretch.first])
        return f"{named} has no room for its sounds: make it longer, or mend its text ({reason})"
    own = [word.text for word in words[stretch.first : stretch.last]]
    named = " ".join(own[:_NAMED]) + (" …" if len(own) > _NAMED else "")
    around = [fixed_name(words[at]) for at in (stretch.first - 1, stretch.last) if 0 <= at < len(words)]
    return (
        f"{named!r} ({len(own)} of the words) must fit between {begin_s:.3f} and {end_s:.3f} s, beside "
        f"{' and '.join(around)}, and does not: move these edges, or take away what is not said ({reason})"
    )


def _search(
    inputs: UtteranceInputs,
    stretch: Stretch,
    corrected: Sequence[AlignedWord],
    word_tokens: Sequence[WordTokens],
    found: _Found,
) -> Steps[None]:
    """Place the words of a stretch that are heard there; the others are skipped."""
    part, own = _part(inputs, stretch), list(word_tokens[stretch.first : stretch.last])
    if not any(word.pronunciations for word in own):
        return
    islands = yield from find_islands(part, own)
    run = _only_run(islands, own)
    try:
        if run is not None:
            heard = replace(stretch, first=stretch.first + run[0], last=stretch.first + run[1])
            yield from _place(inputs, heard, corrected, word_tokens, found)
            return
        placed = yield from align_whole(part, own) if islands is None else align_islands(part, own, islands)
    except InputError:
        return
    chances = [word.confidence for word in placed.words if word.confidence is not None]
    if 2 * sum(chance > UNLIKELY for chance in chances) < len(chances) or not placed.ids:
        return
    words = words_in_room(placed.words, stretch.room_s, inputs.emissions.frame_shift_s)
    found.words |= {stretch.first + index: word for index, word in enumerate(words) if word.status == ALIGNED}
    found.ids[stretch.first] = placed.ids
    found.judged, found.backend = placed.judged, placed.backend


def _only_run(islands: Sequence[Island] | None, word_tokens: Sequence[WordTokens]) -> tuple[int, int] | None:
    """Return the words (first, last exclusive) that are heard, where these follow each other and nothing else does."""
    if islands is None or len(islands) != 1 or islands[0].wildcards.any():
        return None
    first, last = int(islands[0].words[0]), int(islands[0].words[-1]) + 1
    spoken = {index for index in range(first, last) if word_tokens[index].pronunciations}
    return (first, last) if spoken <= set(islands[0].words.tolist()) else None


def _joined(
    inputs: UtteranceInputs, corrected: Sequence[AlignedWord], word_tokens: Sequence[WordTokens], found: _Found
) -> Steps[PlacedWords]:
    """Return all words, judged and with fine edges, and the losses of those that are aligned."""
    words: Sequence[AlignedWord] = [_without_place(inputs, index, own) for index, own in enumerate(word_tokens)]
    if found.pieces:
        words, judged = yield from _fine(inputs, [found.pieces[first] for first in sorted(found.pieces)], words)
        found.judged |= judged
    placed = [found.words.get(index, word) for index, word in enumerate(words)]
    separator = () if inputs.tokenizer.separator is None else (inputs.tokenizer.separator,)
    ids: list[int] = []
    for _, own in sorted(found.ids.items()):
        ids += (*(separator if ids else ()), *own)
    loss, score = yield from losses(inputs, ids)
    return PlacedWords(with_fixed(placed, corrected), loss, score, ids, found.backend, found.judged)


def _without_place(inputs: UtteranceInputs, index: int, tokens: WordTokens) -> AlignedWord:
    """Return a word as it is where it is not found."""
    word = inputs.words.words[index]
    status = SKIPPED if tokens.pronunciations and word.said else UNKNOWN if word.said else UNSPOKEN
    written = (word.text, word.spoken, word.char_start, word.char_end)
    return AlignedWord(*written, status=status, kind=word.kind, speaker=word.speaker)


def _fine(
    inputs: UtteranceInputs, pieces: Sequence[PlacedTokens], words: Sequence[AlignedWord]
) -> Steps[tuple[list[AlignedWord], bool]]:
    """Return the words with the times of those that are in the pieces, and whether a confidence network judged them."""
    emissions, settings, calibration = inputs.emissions, inputs.edge_settings, inputs.calibration
    segmented = emissions.states is not None
    row = TokenRow.joined(pieces, has_spreads=segmented or settings.method == "occupancy")
    if segmented:
        shortest = row.shortest_pauses(settings.shortest_pause_s / emissions.frame_shift_s, calibration)
    else:
        known = calibration.spike_gap_s if settings.resolved(segmented=False) == "calibrated" else 0.0
        shortest = np.full(len(row.tokens.ids), known / emissions.frame_shift_s)
    edges = row.settled(row.edges, shortest, by_path=True)
    confidence = confidences(emissions, row.tokens, row.spikes, edges, calibration, inputs.confidence_network)
    if inputs.looks_at_edges:
        edges = yield from draw_finely(inputs, row.tokens, edges)
        closed = np.full(len(row.tokens.ids), CLOSED_S / emissions.frame_shift_s)
        edges = row.settled(edges, closed, by_path=False)
    own = aligned_words(inputs.words, row.tokens, edges, confidence, emissions)
    return [new if new.status == ALIGNED else old for new, old in zip(own, words)], confidence.judged


# The words of a corrected alignment, as they are said; its settings, and its recording.


def corrected_words(alignment: AlignmentData, settings: Settings, name: str) -> Words:
    """Return the words of an alignment, said as the text that it has now is said.

    They are parted as in the alignment, which a person may have done in another way than the text is split. What was
    found not to be spoken, of its `kind`, stays so.

    Raises:
        TranscriptError: nothing in it is spoken.
    """
    split = words_of(alignment.text, settings)
    by_span = {(word.char_start, word.char_end): word for word in split.words}
    words = tuple(_said(word, by_span.get((word.char_start, word.char_end)), settings) for word in alignment.words)
    found = Words(alignment.text, words, subtitles=alignment.subtitles, places=alignment.places)
    require_words(found, name)
    return found


def _said(word: AlignedWord, same: Word | None, settings: Settings) -> Word:
    """Return a word with what is pronounced: by the split of the whole text where that has the `same` word."""
    written = Word(word.text, "", word.char_start, word.char_end, kind=word.kind, speaker=word.speaker)
    if word.status == UNSPOKEN and word.kind:
        return written
    if same is None or (not same.spoken and word.status != UNSPOKEN):
        own = words_of(word.text, settings).words
        said = [one for one in own if one.spoken]
        roman = " ".join(one.roman or "" for one in said) if any(one.roman is not None for one in said) else None
        phones = phones_together(one.phones for one in said)
        spoken = " ".join(one.spoken for one in said)
        reading = " ".join(one.sounding for one in said) if any(one.reading is not None for one in said) else None
        return replace(written, spoken=spoken, roman=roman, phones=phones, reading=reading)
    return replace(written, spoken=same.spoken, roman=same.roman, phones=same.phones, reading=same.reading)


def recording_of(
    alignment: AlignmentData,
    path: str | PathLike[str],
    sample_rate: int,
    *,
    channel: int | None = None,
) -> Audio:
    """Read the recording of an alignment, or the part of it that was aligned.

    Raises:
        AudioError: as `ctc_align.audio.loading.load_segment`.
    """
    if not alignment.offset_s:
        audio = load_segment(path, sample_rate, channel=channel, on_disk=True)
        if audio.duration_s <= alignment.duration_s + LONGER_S:
            return audio
    return load_segment(
        path,
        sample_rate,
        offset_s=alignment.offset_s,
        duration_s=alignment.duration_s,
        channel=channel,
        on_disk=True,
    )


def text_of(alignment: AlignmentData) -> Transcript:
    """Return the transcript of an alignment, as if it were read from its file."""
    return Transcript(alignment.text, alignment.subtitles, alignment.places)


def path_of(alignment: AlignmentData) -> str:
    """Return the path of an alignment's recording; raise UsageError where it names none."""
    if not alignment.audio:
        raise UsageError(f"{alignment.utterance}: this alignment names no recording; give it (--audio, or `audio`)")
    return alignment.audio


def check_length(alignment: AlignmentData, duration_s: float, source: str) -> None:
    """Raise AudioError where a recording is not as long as that which was aligned."""
    if abs(duration_s - alignment.duration_s) > LONGER_S:
        raise AudioError(
            f"{source or alignment.utterance}: expected the recording that was aligned, {alignment.duration_s:.3f} s "
            f"long, got one of {duration_s:.3f} s; is it the same one?"
        )
