"""A corrected alignment, aligned again between the edges that a person has fixed: the stages of `Aligner.realign`.

Words by hand keep their times. What stands between two of them, or before the first and after the last, is aligned in
the time between them alone; a word by hand whose tokens are not known is aligned within its own. The loss is that of
the whole text over the whole recording, as for any alignment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from ctc_align.alignment.align_islands import align_islands, losses
from ctc_align.alignment.align_utterance import align_whole, finished, spell
from ctc_align.alignment.confidence import confidences
from ctc_align.alignment.ctc_path import Spans, best_ctc_path
from ctc_align.alignment.fit import UNLIKELY
from ctc_align.alignment.fixed_edges import (
    PlacedTokens,
    TokenRow,
    edges_in_frames,
    frames_of,
    with_fixed,
    words_in_room,
)
from ctc_align.alignment.inputs import UtteranceInputs
from ctc_align.alignment.islands import Island, find_islands
from ctc_align.alignment.placed_words import PlacedWords, draw_finely, place_tokens, spell_as_said
from ctc_align.alignment.refined_edges import CLOSED_S
from ctc_align.alignment.wildcard import scores_of
from ctc_align.alignment.words import aligned_words, duration_of
from ctc_align.errors import InputError, TooShortError
from ctc_align.formats import Alignment
from ctc_align.formats.hand_fixes import SLACK_S, fixed_name, is_fixed
from ctc_align.kernels.requests import Steps
from ctc_align.lattice import WILDCARD
from ctc_align.types import (
    ALIGNED,
    SKIPPED,
    UNKNOWN,
    UNSPOKEN,
    AlignedWord,
    Pronunciation,
    Tokens,
    Word,
    Words,
    WordTokens,
)

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
