"""Realignment between the edges that a person has fixed: the stages of `Aligner.realign`.

Hand-corrected words keep their times. The other words are aligned stretch by stretch: between two
corrected words, before the first and after the last one. If the tokens of a corrected word are not
known, they are aligned within its times. After this coarse step all tokens form one sequence again,
so that the confidences and the edge network see the sounds around each word. No edge crosses a
fixed edge. The loss covers the whole text and the whole recording, as for any alignment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from os import PathLike

import numpy as np

from ctc_align.alignment.align_utterance import (
    PlacedWords,
    adjust_edges,
    align_islands,
    align_whole,
    aligned_words,
    build_alignment,
    choose_pronounced_tokens,
    place_tokens,
    rate_words,
    score_whole_recording,
    tokenize_words,
    with_shown_labels,
    word_without_times,
)
from ctc_align.alignment.confidence import confidences
from ctc_align.alignment.ctc_path import Spans, best_ctc_path, spoken_indices
from ctc_align.alignment.edges import duration_of, edge_method, in_order, shortest_pause
from ctc_align.alignment.inputs import UtteranceInputs
from ctc_align.alignment.islands import Island, find_islands
from ctc_align.alignment.refined_edges import CLOSED_S
from ctc_align.alignment.wildcard import scores_of
from ctc_align.audio.loading import LONGER_S, load_audio
from ctc_align.config import Settings
from ctc_align.errors import AudioError, InputError, TooShortError, UsageError
from ctc_align.files.json_files import SLACK_S, fixed_name, is_fixed
from ctc_align.files.tiers import in_alphabet
from ctc_align.kernels.batching import StageSteps
from ctc_align.lattice import WILDCARD
from ctc_align.models.confidence_network import FitLimits
from ctc_align.text import require_words, words_of
from ctc_align.text.sounds import phones_together
from ctc_align.tokens.phones import is_arpabet
from ctc_align.types import (
    ALIGNED,
    DEFAULT_SOUND,
    SKIPPED,
    UNSPOKEN,
    AlignedToken,
    AlignedWord,
    Alignment,
    Audio,
    Emissions,
    LanguageSpan,
    Pronunciation,
    SoundChoice,
    Tokens,
    Transcript,
    Word,
    Words,
    WordTokens,
)

HAND_SD_FRAMES = 1.0
"""To confidences, the standard deviation of an edge that a person has fixed."""
_SAME_FRAMES = 1e-3
"""Edges nearer than this are one: frames are computed from seconds that were rounded."""
_NAMED = 6
"""The maximum number of words that a message quotes."""


@dataclass(frozen=True)
class Stretch:
    """Words `first` to `last` (exclusive), and the time (begin_s, end_s) that they may fill."""

    first: int
    last: int
    room_s: tuple[float, float]


@dataclass(frozen=True)
class PlacedTokens:
    """Tokens of consecutive words, with their spikes and edges, in frames of the recording.

    Attributes:
        tokens: without separators; `words` are indices into the transcript.
        spikes: where CTC has them.
        edges: where they begin and end; without spreads where they are fixed.
        room: the least and the greatest that an edge may be.
        pauses: whether there is a pause before and after them; None if only its length can tell.
        fixed: True if the edges are a person's.
    """

    tokens: Tokens
    spikes: Spans
    edges: Spans
    room: tuple[float, float]
    pauses: tuple[bool | None, bool | None] = (None, None)
    fixed: bool = False


def realign_utterance(
    inputs: UtteranceInputs, corrected: Sequence[AlignedWord]
) -> StageSteps[Alignment]:
    """Align one utterance again.

    Args:
        inputs: with the words of the corrected transcript.
        corrected: one for each of these words: hand-corrected words stay, the others' status says
            whether they were found before.

    Raises:
        InputError: hand-corrected words that do not ascend, words without room between them, or as
            `align_utterance`.
    """
    _check_order(corrected)
    inputs.progress.begin("pronunciations")
    word_tokens = yield from tokenize_words(inputs)
    realignment = _Realignment(inputs, corrected, word_tokens)
    stretches = list(stretches_of(corrected, duration_of(inputs.emissions)))
    # Hand-corrected words come first: the others are placed beside their sounds.
    for stretch in sorted(stretches, key=lambda stretch: not is_fixed(corrected[stretch.first])):
        inputs.progress.begin(f"word {stretch.last} of {len(corrected)}")
        yield from realignment.align(stretch)
    placed = yield from realignment.join_pieces()
    return build_alignment(inputs, word_tokens, placed)


def stretches_of(words: Sequence[AlignedWord], duration_s: float) -> Iterator[Stretch]:
    """Yield the hand-corrected words, each alone, and the runs of words between them, in order.

    >>> word = AlignedWord("a", "a", 0, 1, start_s=1.0, end_s=2.0)
    >>> [stretch.room_s for stretch in stretches_of([word, word, replace(word, by="hand")], 3.0)]
    [(0.0, 1.0), (1.0, 2.0)]
    """
    first = 0
    begin_s = 0.0
    for index, word in enumerate(words):
        if not is_fixed(word) or word.start_s is None or word.end_s is None:
            continue
        if first < index:
            yield Stretch(first, index, (begin_s, word.start_s))
        yield Stretch(index, index + 1, (word.start_s, word.end_s))
        first = index + 1
        begin_s = word.end_s
    if first < len(words):
        yield Stretch(first, len(words), (begin_s, duration_s))


def _check_order(words: Sequence[AlignedWord]) -> None:
    """Raise InputError unless hand-corrected words are in the order of the text."""
    fixed = [word for word in words if is_fixed(word)]
    for before, after in pairwise(fixed):
        if (before.end_s or 0.0) > (after.start_s or 0.0) + SLACK_S:
            raise InputError(
                f"{fixed_name(after)} follows {fixed_name(before)} in the text but starts before it"
                " ends: hand-corrected words must be in text order; move one of them, or correct"
                " the text"
            )


_Neighbour = tuple[int, str, float]
"""A sound that a person has fixed beside a stretch: its id, its label, and the frame where it
begins or ends."""


class _Realignment:
    """The parts of an alignment as they are found, by the first word of each stretch.

    `pieces` are tokens with coarse edges; `words` are words that have their final times; `ids` are
    CTC's tokens.
    """

    def __init__(
        self,
        inputs: UtteranceInputs,
        corrected: Sequence[AlignedWord],
        word_tokens: Sequence[WordTokens],
    ) -> None:
        self.inputs = inputs
        self.word_tokens = word_tokens
        is_english = is_arpabet(inputs.emissions.vocab)
        self.corrected = corrected
        self.shown = corrected
        if is_english:
            shown = "ipa" if inputs.settings.phones == "ipa" else "arpabet"
            self.corrected = in_alphabet(corrected, "arpabet")
            self.shown = in_alphabet(corrected, shown, stress=inputs.settings.stress)
        """The corrected words with the labels of the model, and with those that the settings ask
        for."""
        self.pieces: dict[int, PlacedTokens] = {}
        self.words: dict[int, AlignedWord] = {}
        self.ids: dict[int, Sequence[int]] = {}
        self.limits: FitLimits | None = None
        vocab, blank = inputs.emissions.vocab, inputs.emissions.blank
        self.known_ids = {label: index for index, label in enumerate(vocab) if index != blank}
        for word in word_tokens:
            for said in word.pronunciations:
                self.known_ids |= zip(said.labels, said.ids)

    def align(self, stretch: Stretch) -> StageSteps[None]:
        """Align the words of a stretch in its time."""
        words = self.corrected[stretch.first : stretch.last]
        tokens = self._tokens(stretch)
        ids = [self.known_ids.get(token.token, WILDCARD) for token in words[0].tokens]
        drawn = bool(ids) and all(token.by for token in words[0].tokens)
        if drawn and WILDCARD in ids and (yield from self._place_sounds(stretch)):
            return
        if is_fixed(words[0]) and (drawn or set(ids) - {WILDCARD}):
            yield from self._use_tokens(stretch, ids)
        elif any(word.pronunciations or word.missing for word in tokens):
            # "auto" trusts what was found before.
            match = self.inputs.settings.match
            any_skipped = any(word.status == SKIPPED for word in words)
            is_searched = match == "loose" or (match == "auto" and any_skipped)
            yield from (
                self._search(stretch)
                if is_searched and not is_fixed(words[0])
                else self._place(stretch)
            )

    def _tokens(self, stretch: Stretch) -> Sequence[WordTokens]:
        return self.word_tokens[stretch.first : stretch.last]

    def _frames(self, stretch: Stretch) -> tuple[int, int]:
        """Return the frames that lie mostly in a stretch."""
        emissions = self.inputs.emissions
        frames = len(self.inputs.emissions)
        first, last = (
            min(max(round(frames_of(edge_s, emissions)), 0), frames) for edge_s in stretch.room_s
        )
        is_last = stretch.room_s[1] >= duration_of(emissions) - SLACK_S
        return first if stretch.room_s[0] else 0, frames if is_last else last

    def _room(self, stretch: Stretch) -> tuple[float, float]:
        begin, end = (frames_of(edge_s, self.inputs.emissions) for edge_s in stretch.room_s)
        return max(begin, 0.0), end

    def _part(self, words: Sequence[Word], first: int, last: int) -> UtteranceInputs:
        """Return the inputs of some words in the frames [first, last), at least one."""
        part = self.inputs.emissions.part(first, max(last, first + 1))
        return replace(
            self.inputs, words=Words(self.inputs.words.text, tuple(words)), emissions=part
        )

    def _part_of(self, stretch: Stretch) -> UtteranceInputs:
        return self._part(
            self.inputs.words.words[stretch.first : stretch.last], *self._frames(stretch)
        )

    def _use_tokens(self, stretch: Stretch, ids: list[int]) -> StageSteps[None]:
        """Use a hand-corrected word's tokens as they are; CTC places their spikes within it."""
        inputs = self.inputs
        word = self.corrected[stretch.first]
        part = self._part_of(stretch).emissions
        first = self._frames(stretch)[0]
        edges = edges_in_frames(word.tokens, inputs.emissions)
        tokens = Tokens(
            tuple(ids), tuple(token.token for token in word.tokens), (stretch.first,) * len(ids)
        )
        wildcard = scores_of(part) if WILDCARD in ids else None
        try:
            spikes, _ = yield from best_ctc_path(
                part.array, ids, part.blank, wildcard=wildcard, backend=inputs.backend
            )
            spikes = spikes.shifted(first)
        except InputError:  # shorter than CTC needs: a person has seen that it is there
            middle = np.floor((edges.start + edges.end) / 2).astype(np.int64)
            middle = np.clip(middle, 0, len(inputs.emissions) - 1)
            spikes = Spans(middle, middle + 1)
        self.pieces[stretch.first] = PlacedTokens(
            tokens, spikes, edges, self._room(stretch), fixed=True
        )
        self.ids[stretch.first] = self._spelled_ids(self.word_tokens[stretch.first], ids)

    def _spelled_ids(self, word: WordTokens, ids: Sequence[int]) -> Sequence[int]:
        """Return CTC's tokens of a word whose tokens are known: with the separators inside it."""
        known = tuple(index for index in ids if index != WILDCARD)
        if not known and word.pronunciations:  # labels of a person that the model lacks
            return word.pronunciations[0].ids
        for said in word.pronunciations:
            if (
                tuple(index for index in said.ids if index != self.inputs.tokenizer.separator)
                == known
            ):
                return said.ids
        return known

    def _place(self, stretch: Stretch) -> StageSteps[None]:
        """Place all words of a stretch; raise InputError if they have no room."""
        first, last = self._frames(stretch)
        fewest = self._fewest_frames(stretch)
        if last - first < fewest:
            raise InputError(self._describe_lack_of_room(stretch, TooShortError()))
        fixed = is_fixed(self.corrected[stretch.first])
        neighbours = (None, None) if fixed else self._find_neighbours(stretch)
        if not fewest and (
            neighbours == (None, None) or self.inputs.settings.unknown != "wildcard"
        ):
            return  # nothing but letters that the vocabulary lacks
        try:
            piece = yield from self._place_between(stretch, *neighbours)
        except InputError:
            try:
                piece = yield from self._place_between(stretch, None, None)
            except InputError as error:
                raise InputError(self._describe_lack_of_room(stretch, error)) from error
        if piece is not None and fixed:  # the edges of the word are a person's
            start, end = _order_in_room(piece.edges.start, piece.edges.end, *piece.room)
            start[0], end[-1] = piece.room
            piece = replace(piece, edges=Spans(start, end), fixed=True)
        if piece is not None:
            self.pieces[stretch.first] = piece

    def _place_sounds(self, stretch: Stretch) -> StageSteps[bool]:
        """Place the model's own sounds in a hand-corrected word with labels unknown to it.

        They decide its confidence, and its labels stay. Return whether there are any, and room for
        them.
        """
        if self.word_tokens[stretch.first].pronunciations:
            try:
                yield from self._place(stretch)
            except InputError:
                return False
        return stretch.first in self.pieces

    def _find_neighbours(self, stretch: Stretch) -> tuple[_Neighbour | None, _Neighbour | None]:
        """Return the last sound before a stretch and the first one after it.

        They count only if a person has fixed them and the model knows them.
        """
        left = self.pieces.get(stretch.first - 1)
        right = self.pieces.get(stretch.last)
        before = after = None
        if left is not None and left.fixed and left.tokens.ids[-1] != WILDCARD:
            before = left.tokens.ids[-1], left.tokens.labels[-1], float(left.edges.start[-1])
        if right is not None and right.fixed and right.tokens.ids[0] != WILDCARD:
            after = right.tokens.ids[0], right.tokens.labels[0], float(right.edges.end[0])
        return before, after

    def _place_between(
        self, stretch: Stretch, before: _Neighbour | None, after: _Neighbour | None
    ) -> StageSteps[PlacedTokens | None]:
        """Return the tokens of a stretch between two sounds; the path tells where pauses are.

        None if there is room neither for their sounds nor for wildcards.
        """
        low, high = self._frames(stretch)
        words = list(self.inputs.words.words[stretch.first : stretch.last])
        tokens = list(self._tokens(stretch))
        count = len(words)
        lead = int(before is not None)
        if before is not None:
            low = max(min(round(before[2]), low - 1), 0)
            words.insert(0, Word("", before[1], 0, 0))
            tokens.insert(0, WordTokens((Pronunciation((before[0],), (before[1],)),)))
        if after is not None:
            high = min(max(round(after[2]), high + 1), len(self.inputs.emissions))
            words.append(Word("", after[1], 0, 0))
            tokens.append(WordTokens((Pronunciation((after[0],), (after[1],)),)))
        part = self._part(words, low, high)
        tokenized = yield from choose_pronounced_tokens(part, part.words, tokens)
        row, spikes, edges = yield from place_tokens(part, tokenized)
        of_stretch = [
            k for k, word in enumerate(tokenized.tokens.words) if lead <= word < lead + count
        ]
        if of_stretch:
            self.ids[stretch.first] = tokenized.tokens.ids[of_stretch[0] : of_stretch[-1] + 1]
        chosen = np.array(
            [k for k, word in enumerate(row.words) if lead <= word < lead + count], np.int64
        )
        if not len(chosen):
            return None
        spoken = spoken_indices(row)
        earlier = spoken[spoken < chosen[0]]
        later = spoken[spoken > chosen[-1]]
        pauses = (
            bool(edges.start[chosen[0]] > edges.end[earlier[-1]]) if len(earlier) else None,
            bool(edges.end[chosen[-1]] < edges.start[later[0]]) if len(later) else None,
        )
        own_tokens = Tokens(
            tuple(row.ids[k] for k in chosen),
            tuple(row.labels[k] for k in chosen),
            tuple(row.words[k] + stretch.first - lead for k in chosen),
        )
        spikes, edges = spikes.of(chosen).shifted(low), edges.of(chosen).shifted(low)
        return PlacedTokens(own_tokens, spikes, edges, self._room(stretch), pauses)

    def _fewest_frames(self, stretch: Stretch) -> int:
        """Return the least number of sounds of a stretch, each of which takes a frame."""
        words = self._tokens(stretch)
        return sum(
            min((len(said.ids) for said in word.pronunciations), default=0) for word in words
        )

    def _describe_lack_of_room(self, stretch: Stretch, error: InputError) -> str:
        """Return the message for a stretch whose words have no room."""
        begin_s, end_s = stretch.room_s
        sounds = f"{self._fewest_frames(stretch)} sounds in {end_s - begin_s:.3f} s"
        if isinstance(error, TooShortError):
            reason = sounds
        else:
            reason = str(error)
        words = self.corrected
        if is_fixed(words[stretch.first]):
            named = fixed_name(words[stretch.first])
            return (
                f"{named} has no room for its sounds: make it longer, or correct its text"
                f" ({reason})"
            )
        texts = [word.text for word in words[stretch.first : stretch.last]]
        count = f"{len(texts)} word{'s' if len(texts) > 1 else ''}"
        named = " ".join(texts[:_NAMED]) + (" …" if len(texts) > _NAMED else "")
        around = [
            fixed_name(words[at])
            for at in (stretch.first - 1, stretch.last)
            if 0 <= at < len(words)
        ]
        return (
            f"{named!r} ({count}) must fit between {begin_s:.3f} and {end_s:.3f} s, beside"
            f" {' and '.join(around)}, but does not: move these edges, or delete words not said"
            f" ({reason})"
        )

    def _search(self, stretch: Stretch) -> StageSteps[None]:
        """Place the words of a stretch that are heard there; the others are skipped."""
        part = self._part_of(stretch)
        tokens = list(self._tokens(stretch))
        if not any(word.pronunciations for word in tokens):
            return
        islands = yield from find_islands(part, tokens)
        run = _find_only_run(islands, tokens)
        try:
            if run is not None:
                yield from self._place(
                    replace(stretch, first=stretch.first + run[0], last=stretch.first + run[1])
                )
                return
            placed = yield from (
                align_islands(part, tokens, islands) if islands else align_whole(part, tokens)
            )
        except InputError:
            return
        if placed is None or placed.contradicted:
            return
        words = words_in_room(placed.words, stretch.room_s, self.inputs.emissions.frame_shift_s)
        self.words |= {
            stretch.first + index: word
            for index, word in enumerate(words)
            if word.status == ALIGNED
        }
        self.ids[stretch.first] = placed.ids
        self.limits = placed.limits

    def join_pieces(self) -> StageSteps[PlacedWords]:
        """Return all words with confidences and fine edges, and the losses of aligned ones."""
        words = list(map(word_without_times, self.inputs.words.words, self.word_tokens))
        if self.pieces:
            words = yield from self._refine_words(words)
        words = [self.words.get(index, word) for index, word in enumerate(words)]
        separator = self.inputs.tokenizer.separator
        ids: list[int] = []
        for _, of_part in sorted(self.ids.items()):
            ids += of_part if separator is None or not ids else (separator, *of_part)
        fixed = keep_corrections(words, self.shown)
        return PlacedWords(
            fixed,
            *(yield from score_whole_recording(self.inputs, self.word_tokens, fixed, ids)),
            self.limits,
        )

    def _refine_words(self, words: Sequence[AlignedWord]) -> StageSteps[list[AlignedWord]]:
        """Return the words, those of the pieces with their times and confidences."""
        inputs = self.inputs
        emissions = self.inputs.emissions
        calibration = self.inputs.calibration
        method = inputs.settings.edges
        segmented = emissions.state_array is not None
        pieces = [self.pieces[first] for first in sorted(self.pieces)]
        tokens, spikes, edges = concatenate_pieces(
            pieces, has_spreads=segmented or method == "occupancy"
        )
        if segmented:
            usual_frames = inputs.settings.shortest_pause_s / emissions.frame_shift_s
            kinds = calibration.kinds(tokens.labels)
            shortest = usual_frames * np.array(
                [1.0, *(shortest_pause(*pair) for pair in pairwise(kinds))]
            )
        else:
            is_calibrated = edge_method(method, calibration, segmented=False) == "calibrated"
            gap_s = calibration.spike_gap_s if is_calibrated else 0.0
            shortest = np.full(len(tokens.ids), gap_s / emissions.frame_shift_s)
        edges = settle_edges(pieces, edges, shortest, by_path=True)
        of_tokens, of_words, limits = yield from confidences(inputs, tokens, spikes, edges)
        self.limits = limits or self.limits
        if inputs.refines_edges:
            edges = yield from adjust_edges(inputs, tokens, edges)
            closed = np.full(len(tokens.ids), CLOSED_S / emissions.frame_shift_s)
            edges = settle_edges(pieces, edges, closed, by_path=False)
        tokens = with_shown_labels(tokens, inputs)
        timed = aligned_words(inputs.words, tokens, edges, of_tokens, of_words, emissions)
        timed = yield from rate_words(timed, inputs, tokens, spikes)
        return [new if new.status == ALIGNED else old for new, old in zip(timed, words)]


def _find_only_run(
    islands: Sequence[Island] | None, word_tokens: Sequence[WordTokens]
) -> tuple[int, int] | None:
    """Return the words (first, last exclusive) that are heard, if they are one run alone."""
    if islands is None or len(islands) != 1 or islands[0].wildcards.any():
        return None
    first = int(islands[0].words[0])
    last = int(islands[0].words[-1]) + 1
    spoken = {index for index in range(first, last) if word_tokens[index].pronunciations}
    if spoken <= set(islands[0].words.tolist()):
        return (first, last)
    return None


# All tokens in a row, between fixed edges


def frames_of(seconds: float, emissions: Emissions) -> float:
    """Return a time in frames of the emissions, fractional."""
    return (seconds - emissions.first_frame_s) / emissions.frame_shift_s


def edges_in_frames(tokens: Sequence[AlignedToken], emissions: Emissions) -> Spans:
    """Return the edges of tokens in frames, fractional."""
    start = np.array([frames_of(token.start_s, emissions) for token in tokens])
    return Spans(start, np.array([frames_of(token.end_s, emissions) for token in tokens]))


def concatenate_pieces(
    pieces: Sequence[PlacedTokens], *, has_spreads: bool
) -> tuple[Tokens, Spans, Spans]:
    """Return the concatenated tokens of one or more pieces, their spikes and their edges.

    `has_spreads` says whether edges of this model may have any.
    """
    edges = _concatenate_edges(pieces, [piece.edges for piece in pieces], has_spreads)
    if any(piece.edges.by_sound is not None for piece in pieces):
        heard = [piece.edges.by_sound or piece.edges for piece in pieces]
        edges = replace(edges, by_sound=_concatenate_edges(pieces, heard, has_spreads))
    tokens = Tokens(
        tuple(index for piece in pieces for index in piece.tokens.ids),
        tuple(label for piece in pieces for label in piece.tokens.labels),
        tuple(word for piece in pieces for word in piece.tokens.words),
    )
    spikes = Spans(
        np.concatenate([each.spikes.start for each in pieces]),
        np.concatenate([each.spikes.end for each in pieces]),
    )
    return tokens, spikes, edges


def _concatenate_edges(
    pieces: Sequence[PlacedTokens], edges: Sequence[Spans], has_spreads: bool
) -> Spans:
    """Return the concatenated edges of pieces, with spreads if all have them."""
    start = np.concatenate([each.start for each in edges])
    end = np.concatenate([each.end for each in edges])
    if not has_spreads or any(
        each.start_sd is None and not piece.fixed for piece, each in zip(pieces, edges)
    ):
        return Spans(start, end)
    start_sd, end_sd = (
        np.concatenate(
            [
                np.full(len(each.start), HAND_SD_FRAMES) if piece.fixed else getattr(each, name)
                for piece, each in zip(pieces, edges)
            ]
        )
        for name in ("start_sd", "end_sd")
    )
    return Spans(start, end, start_sd, end_sd)


def settle_edges(
    pieces: Sequence[PlacedTokens], edges: Spans, shortest_frames: np.ndarray, *, by_path: bool
) -> Spans:
    """Return edges with the fixed ones unchanged, and the others in order between them.

    Where there is no pause between a fixed edge and its neighbour, they share the edge.

    Args:
        pieces: in a row.
        edges: of all their tokens, in frames.
        shortest_frames: (L,) the least length of a pause before each.
        by_path: whether there is no pause, too, where the pieces say so.
    """
    start, end = edges.start.copy(), edges.end.copy()
    cuts = accumulate((len(piece.tokens.ids) for piece in pieces), initial=0)
    runs = [(piece, low, high) for piece, (low, high) in zip(pieces, pairwise(cuts))]
    for piece, low, high in runs:
        if piece.fixed:
            start[low:high], end[low:high] = piece.edges.start, piece.edges.end
    for piece, low, high in runs:
        if piece.fixed:
            continue
        begin, finish = piece.room
        no_pause = [by_path and pause is False for pause in piece.pauses]
        touches = low and abs(end[low - 1] - begin) < _SAME_FRAMES
        if touches and (no_pause[0] or start[low] - begin < shortest_frames[low]):
            start[low] = begin
        touches = high < len(start) and abs(start[high] - finish) < _SAME_FRAMES
        if touches and (no_pause[1] or finish - end[high - 1] < shortest_frames[high]):
            end[high - 1] = finish
        start[low:high], end[low:high] = _order_in_room(
            start[low:high], end[low:high], begin, finish
        )
    by_sound = None
    if edges.by_sound is not None:
        by_sound = settle_edges(pieces, edges.by_sound, shortest_frames, by_path=by_path)
    return replace(edges, start=start, end=end, by_sound=by_sound)


def _order_in_room(
    start: np.ndarray, end: np.ndarray, begin: float, finish: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return edges (L,) in order between two others, with the gaps between them."""
    pauses = np.append(start[1:] > end[:-1], True)
    start, end = in_order(start - begin, end - begin, pauses, finish - begin)
    return start + begin, end + begin


def words_in_room(
    words: Sequence[AlignedWord], room_s: tuple[float, float], frame_shift_s: float
) -> list[AlignedWord]:
    """Return words aligned in whole frames, with ascending times within the available time."""
    tokens = [token for word in words for token in word.tokens]
    if not tokens:
        return list(words)
    begin_s, end_s = room_s
    both = _order_in_room(
        np.array([token.start_s for token in tokens]) / frame_shift_s,
        np.array([token.end_s for token in tokens]) / frame_shift_s,
        begin_s / frame_shift_s,
        end_s / frame_shift_s,
    )
    times = iter(zip(*((edges * frame_shift_s).round(5).tolist() for edges in both)))
    inside = []
    for word in words:
        timed = []
        for token in word.tokens:
            first_s, last_s = next(times)
            timed.append(replace(token, start_s=max(first_s, begin_s), end_s=min(last_s, end_s)))
        inside.append(_set_times(word, timed) if timed else word)
    return inside


def _set_times(word: AlignedWord, tokens: Sequence[AlignedToken]) -> AlignedWord:
    """Return a word with tokens, at least one, and their times."""
    return replace(word, start_s=tokens[0].start_s, end_s=tokens[-1].end_s, tokens=tuple(tokens))


def keep_corrections(
    words: Sequence[AlignedWord], corrected: Sequence[AlignedWord]
) -> tuple[AlignedWord, ...]:
    """Return the words; hand-corrected ones keep their times and tokens, with new confidences.

    Labels of a person that the model lacks have the confidence of their word.
    """
    result = []
    for index, (word, was) in enumerate(zip(words, corrected)):
        if is_fixed(was):
            word = _keep_correction(word, was)
        elif word.status == ALIGNED:
            if index and is_fixed(corrected[index - 1]):
                begin_s = corrected[index - 1].end_s
            else:
                begin_s = None
            if index + 1 < len(corrected):
                after = corrected[index + 1]
            else:
                after = was
            word = _limit_to_room(word, begin_s, after.start_s if is_fixed(after) else None)
        result.append(word)
    return tuple(result)


def _keep_correction(word: AlignedWord, was: AlignedWord) -> AlignedWord:
    """Return a hand-corrected word, with the tokens that were aligned in it if it has none."""
    assert was.start_s is not None
    assert was.end_s is not None
    tokens = list(word.tokens)
    if [token.token for token in tokens] == [token.token for token in was.tokens]:
        tokens = [replace(old, confidence=new.confidence) for old, new in zip(was.tokens, tokens)]
    elif was.tokens and all(
        token.by for token in was.tokens
    ):  # labels of a person that the model lacks
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


def _limit_to_room(word: AlignedWord, begin_s: float | None, end_s: float | None) -> AlignedWord:
    """Return a word limited to its available time, to the bit, because frames were rounded."""
    tokens: list[AlignedToken] = list(word.tokens)
    if begin_s is not None:
        tokens[0] = replace(tokens[0], start_s=max(tokens[0].start_s, begin_s))
    if end_s is not None:
        tokens[-1] = replace(tokens[-1], end_s=min(tokens[-1].end_s, end_s))
    return _set_times(word, tokens)


# The words of a corrected alignment, its text and its recording


def corrected_words(alignment: Alignment, settings: Settings, name: str) -> Words:
    """Return the words of an alignment with the pronunciations of its present text.

    They are divided as in the alignment, which a person may have done in another way than the text
    is split. Words that were found not to be spoken, of their `kind`, stay so.

    Raises:
        TranscriptError: nothing in it is spoken.
    """
    split = words_of(alignment.text, settings, marked=_languages_of(alignment))
    by_span = {(word.char_start, word.char_end): word for word in split.words}
    words = tuple(
        _lookup_reading(word, by_span.get((word.char_start, word.char_end)), settings)
        for word in alignment.words
    )
    found = Words(alignment.text, words, subtitles=alignment.subtitles, places=alignment.places)
    require_words(found, name)
    return found


def _lookup_reading(word: AlignedWord, same: Word | None, settings: Settings) -> Word:
    """Return a word as it is pronounced in the whole text, if that has the `same` word."""
    written = Word(
        word.text, "", word.char_start, word.char_end, kind=word.kind, speaker=word.speaker
    )
    if word.status == UNSPOKEN and word.kind:
        return written
    if same is None or (not same.spoken and word.status != UNSPOKEN):
        said = [part for part in words_of(word.text, settings).words if part.spoken]
        if any(part.roman is not None for part in said):
            roman = " ".join(part.roman or "" for part in said)
        else:
            roman = None
        phones = phones_together(part.phones for part in said)
        spoken = " ".join(part.spoken for part in said)
        if any(part.reading is not None for part in said):
            reading = " ".join(part.reading_text for part in said)
        else:
            reading = None
        return replace(written, spoken=spoken, roman=roman, phones=phones, reading=reading)
    return replace(
        written,
        spoken=same.spoken,
        roman=same.roman,
        phones=same.phones,
        reading=same.reading,
        language=same.language,
        others=same.others if same.language else (),
    )


def recording_of(
    alignment: Alignment,
    path: str | PathLike[str],
    sample_rate: int,
    *,
    choice: SoundChoice = DEFAULT_SOUND,
) -> Audio:
    """Read the recording of an alignment, or the part of it that was aligned.

    Raises:
        AudioError: as `ctc_align.audio.loading.load_audio`.
    """
    if not alignment.offset_s:
        audio = load_audio(path, sample_rate, choice=choice, on_disk=True)
        if audio.duration_s <= alignment.duration_s + LONGER_S:
            return audio
    offset_s, duration_s = alignment.offset_s, alignment.duration_s
    return load_audio(
        path, sample_rate, offset_s=offset_s, duration_s=duration_s, choice=choice, on_disk=True
    )


def text_of(alignment: Alignment) -> Transcript:
    """Return the transcript of an alignment, as if read from its file."""
    return Transcript(
        alignment.text,
        alignment.subtitles,
        alignment.places,
        languages=_languages_of(alignment),
    )


def _languages_of(alignment: Alignment) -> tuple[LanguageSpan, ...]:
    """Return the words whose language is known, each as a passage in it."""
    return tuple(
        LanguageSpan(word.char_start, word.char_end, word.language)
        for word in alignment.words
        if word.language
    )


def path_of(alignment: Alignment) -> str:
    """Return the path of an alignment's recording; raise UsageError if it names none."""
    if not alignment.audio:
        raise UsageError(
            f"{alignment.utterance}: this alignment names no recording; give it (--audio, or"
            " `audio`)"
        )
    return alignment.audio


def check_length(alignment: Alignment, duration_s: float, source: str) -> None:
    """Raise AudioError if a recording is not as long as the one that was aligned."""
    if abs(duration_s - alignment.duration_s) > LONGER_S:
        raise AudioError(
            f"{source or alignment.utterance}: expected the recording that was aligned,"
            f" {alignment.duration_s:.3f} s long, got one of {duration_s:.3f} s; is it the same"
            " one?"
        )
