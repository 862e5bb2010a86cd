"""The alignment of one utterance, from top to bottom: emissions + tokens → path → spans → edges → words.

`align_utterance` is a generator that asks for kernel work (`ctc_align.kernels.requests`);
`ctc_align.kernels.batching.run` runs many of them together. An utterance's alignment is the same, to the bit, alone and
in any batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import TYPE_CHECKING

from ctc_align import units
from ctc_align.alignment.confidence import Confidences, confidences
from ctc_align.alignment.ctc_path import CtcPath, Spans, best_ctc_path, ctc_loss
from ctc_align.alignment.edges import duration_of, place_edges, seconds_at, share_out_wildcards
from ctc_align.alignment.fit import (
    NOT_HEARD,
    SPEECH,
    UNLIKELY,
    fit_of,
    hardly_heard,
    region_of_all,
    regions_of,
    unexplained_sounds,
    with_little_confidence,
    without_times,
)
from ctc_align.alignment.inputs import UtteranceInputs, warn_of_edges
from ctc_align.alignment.islands import Island, find_islands
from ctc_align.alignment.pronunciations import (
    choose_pronunciations,
    leave_out_unspoken,
    nothing_to_align,
    refuse_letter_as_blank,
    spell_words,
    without_passages,
)
from ctc_align.alignment.refined_edges import edges_out_of_pauses, refine_edges
from ctc_align.alignment.wildcard import place_wildcards
from ctc_align.errors import InputError
from ctc_align.files import Alignment
from ctc_align.kernels.requests import Steps
from ctc_align.tokens.tokenizer import missing_letters
from ctc_align.types import (
    ALIGNED,
    NONE,
    POOR,
    SKIPPED,
    UNKNOWN,
    UNSPOKEN,
    AlignedToken,
    AlignedWord,
    Emissions,
    Region,
    Tokens,
    Word,
    Words,
    WordTokens,
)

if TYPE_CHECKING:
    import numpy as np

# From frames to seconds and from tokens to words: the words of an `Alignment`.


def aligned_words(
    words: Words, tokens: Tokens, edges: Spans, confidence: Confidences, emissions: Emissions
) -> tuple[AlignedWord, ...]:
    """Return every word of the transcript, in order, with the times and confidences of its tokens."""
    # Tokens stand in the order of their words; those between words belong to none.
    owned = (
        (w, token) for w, token in zip(tokens.words, _timed_tokens(tokens, edges, confidence, emissions)) if w >= 0
    )
    by_word = groupby(owned, key=itemgetter(0))
    of_word = iter(confidence.words)
    next_word, next_tokens = next(by_word, (-1, iter(())))
    aligned = []
    for w, word in enumerate(words.words):
        written = (word.text, word.spoken, word.char_start, word.char_end)
        if w != next_word:
            status = UNKNOWN if word.said else UNSPOKEN
            aligned.append(AlignedWord(*written, status=status, kind=word.kind, speaker=word.speaker))
            continue
        parts = tuple([token for _, token in next_tokens])
        next_word, next_tokens = next(by_word, (-1, iter(())))
        first, last = parts[0], parts[-1]
        aligned.append(
            AlignedWord(
                *written,
                status=ALIGNED,
                start_s=first.start_s,
                end_s=last.end_s,
                confidence=next(of_word),
                tokens=parts,
                start_sd_ms=first.start_sd_ms,
                end_sd_ms=last.end_sd_ms,
                speaker=word.speaker,
            )
        )
    return tuple(aligned)


def _timed_tokens(
    tokens: Tokens, edges: Spans, confidence: Confidences, emissions: Emissions
) -> Iterator[AlignedToken]:
    shift_s, begin_s, duration_s = emissions.frame_shift_s, emissions.first_frame_s, duration_of(emissions)
    spreads: Iterator[tuple[float, float]] | Iterator[tuple[None, None]] = repeat((None, None))
    if edges.start_sd is not None and edges.end_sd is not None:
        ms = units.seconds_to_ms(shift_s)
        spreads = zip((edges.start_sd * ms).round(2).tolist(), (edges.end_sd * ms).round(2).tolist())
    for label, start, end, sure, sd in zip(
        tokens.labels, _one_by_one(edges.start), _one_by_one(edges.end), confidence.tokens, spreads
    ):
        start_s, end_s = seconds_at(start, shift_s, begin_s), seconds_at(end, shift_s, begin_s)
        yield AlignedToken(label, max(start_s, 0.0), min(end_s, duration_s), sure, *sd)


def _one_by_one(numbers: np.ndarray) -> Iterator[float]:
    """Yield the numbers of an array, of which few at a time are objects of Python."""
    return chain.from_iterable(numbers[low : low + 2**16].tolist() for low in range(0, len(numbers), 2**16))


# Words with chosen pronunciations, and the way from them to words with times, of an utterance or an island of one.


@dataclass(frozen=True)
class SpelledWords:
    """Words, the tokens of the pronunciations that fit best, and their best path.

    Attributes:
        words: in their order.
        word_tokens: all pronunciations of each word.
        tokens: of those that fit best; a separator within a word belongs to none.
        path: CTC's best one.
    """

    words: Words
    word_tokens: Sequence[WordTokens]
    tokens: Tokens
    path: CtcPath


@dataclass(frozen=True)
class PlacedWords:
    """Every word of a transcript, in its order, and the losses of those that are aligned.

    Attributes:
        words: of the transcript.
        loss, score: CTC's, of all aligned tokens in the order of time, over the whole recording; infinite where they
            have no path through all of it.
        ids: of these tokens, with separators between words.
        backend: that found the paths.
        judged: whether a confidence network has judged the words.
    """

    words: tuple[AlignedWord, ...]
    loss: float
    score: float
    ids: Sequence[int]
    backend: str
    judged: bool

    @property
    def loss_per_token(self) -> float:
        return self.loss / max(len(self.ids), 1)


def spell_as_said(inputs: UtteranceInputs, words: Words, word_tokens: Sequence[WordTokens]) -> Steps[SpelledWords]:
    """Choose the pronunciations that the audio prefers.

    Raises:
        InputError: they do not fit into the emissions.
    """
    emissions, separator = inputs.emissions, inputs.tokenizer.separator
    tokens, path = yield from choose_pronunciations(
        emissions.log_probs,
        word_tokens,
        separator,
        emissions.blank,
        whole_words=emissions.states is not None,
        backend=inputs.backend,
    )
    # A word of two spoken parts holds a separator, which is no sound.
    owners = tuple(-1 if token == separator else word for token, word in zip(tokens.ids, tokens.words))
    return SpelledWords(words, word_tokens, replace(tokens, words=owners), path)


def place_tokens(inputs: UtteranceInputs, spelled: SpelledWords) -> Steps[tuple[Tokens, Spans, Spans]]:
    """Return the tokens with wildcards for the letters that the vocabulary lacks, their spikes, and their edges."""
    emissions, tokens, spikes = inputs.emissions, spelled.tokens, spelled.path.spans
    if inputs.settings.unknown == "wildcard":
        separator = inputs.tokenizer.separator
        tokens, spikes = yield from place_wildcards(
            emissions, tokens, spikes, spelled.word_tokens, separator, inputs.backend
        )
    edges = yield from place_edges(emissions, tokens, spikes, inputs.edge_settings)
    return tokens, spikes, share_out_wildcards(edges, tokens)


def place_words(inputs: UtteranceInputs, spelled: SpelledWords) -> Steps[tuple[tuple[AlignedWord, ...], bool]]:
    """Return the words with times and confidences, and whether a confidence network has judged them."""
    emissions = inputs.emissions
    tokens, spikes, edges = yield from place_tokens(inputs, spelled)
    confidence = confidences(emissions, tokens, spikes, edges, inputs.calibration, inputs.confidence_network)
    if inputs.looks_at_edges:
        edges = yield from draw_finely(inputs, tokens, edges)
    return aligned_words(spelled.words, tokens, edges, confidence, emissions), confidence.judged


def draw_finely(inputs: UtteranceInputs, tokens: Tokens, edges: Spans) -> Steps[Spans]:
    """Return the edges of all tokens, looked at in the sound by the network of edges, which there must be."""
    assert inputs.edge_network is not None
    fine = yield from refine_edges(inputs.emissions, tokens, edges, inputs.edge_network)
    return fine if inputs.calibration.offsets_ms else edges_out_of_pauses(inputs.emissions, tokens, fine)


# The alignment of a transcript that is not exactly what is said: island by island; words of no island are skipped.

OTHER_SPEECH = "*"
"""The spoken form, and the letters, of a word that stands for speech which is not in the transcript."""


@dataclass(frozen=True)
class _IslandWords:
    """The aligned words of one island, the ids of their tokens, whether a network judged them, and the backend."""

    words: list[AlignedWord]
    ids: tuple[int, ...]
    judged: bool
    backend: str

    @property
    def is_likely(self) -> bool:
        """True if half of the words are likely where they were put: else it was found by chance."""
        chances = [word.confidence for word in self.words if word.confidence is not None]
        return 2 * sum(chance > UNLIKELY for chance in chances) >= len(chances)


def align_islands(
    inputs: UtteranceInputs, word_tokens: Sequence[WordTokens], islands: Sequence[Island]
) -> Steps[PlacedWords]:
    """Align the words of each island with its part of the recording."""
    found: dict[int, AlignedWord] = {}
    ids: list[int] = []
    separator = inputs.tokenizer.separator
    judged, backend = False, inputs.backend
    for number, island in enumerate(islands, start=1):
        inputs.begin(f"edges, part {number} of {len(islands)}")
        try:
            own = yield from _align_island(inputs, word_tokens, island)
        except InputError:  # more sounds than fit there, or no path: what is said there is something else
            continue
        judged, backend = own.judged, own.backend
        if judged and len(islands) > 1 and not own.is_likely:
            continue
        if ids and separator is not None:
            ids.append(separator)
        ids += own.ids
        found.update(zip(island.words.tolist(), own.words))
    loss, score = yield from losses(inputs, ids)
    return PlacedWords(_in_text_order(inputs.words, word_tokens, found), loss, score, ids, backend, judged)


def _align_island(inputs: UtteranceInputs, word_tokens: Sequence[WordTokens], island: Island) -> Steps[_IslandWords]:
    part = inputs.emissions.part(island.first_frame, island.last_frame)
    words, own_tokens, places = _with_other_speech(inputs, word_tokens, island)
    # Wildcards stand for other speech there, whatever becomes of letters that the vocabulary lacks.
    own_inputs = replace(inputs, emissions=part, settings=replace(inputs.settings, unknown="wildcard"))
    spelled = yield from spell_as_said(own_inputs, Words(inputs.words.text, tuple(words)), own_tokens)
    aligned, judged = yield from place_words(own_inputs, spelled)
    return _IslandWords([aligned[place] for place in places], spelled.tokens.ids, judged, spelled.path.backend)


def _with_other_speech(
    inputs: UtteranceInputs, word_tokens: Sequence[WordTokens], island: Island
) -> tuple[list[Word], list[WordTokens], list[int]]:
    """Return an island's words and tokens with a wildcard wherever one may stand, and the places of its own words."""
    known_only = inputs.settings.unknown != "wildcard"
    chosen: list[Word] = []
    tokens: list[WordTokens] = []
    places: list[int] = []
    for number in range(len(island.words) + 1):
        if island.wildcards[number]:
            chosen.append(Word("", OTHER_SPEECH, 0, 0))
            tokens.append(WordTokens((), (OTHER_SPEECH,)))
        if number < len(island.words):
            own = word_tokens[island.words[number]]
            places.append(len(chosen))
            chosen.append(inputs.words.words[island.words[number]])
            tokens.append(replace(own, missing=()) if known_only and own.missing else own)
    return chosen, tokens, places


def losses(inputs: UtteranceInputs, ids: Sequence[int]) -> Steps[tuple[float, float]]:
    """Return the loss and the best path's score of tokens over the whole recording; infinite where there is none."""
    log_probs, blank = inputs.emissions.log_probs, inputs.emissions.blank
    try:
        path = yield from best_ctc_path(log_probs, ids, blank, backend=inputs.backend)
    except InputError:
        return float("inf"), float("-inf")
    return (yield from ctc_loss(log_probs, ids, blank, path, inputs.backend)), path.score


def _in_text_order(
    words: Words, word_tokens: Sequence[WordTokens], found: dict[int, AlignedWord]
) -> tuple[AlignedWord, ...]:
    """Return every word of the transcript: those that could be spoken and were not found are skipped.

    A passage that may be unspoken, and of which nothing was found, is of its kind.
    """
    absent = [passage for passage in words.optional if not found.keys() & set(range(passage.first, passage.last))]
    placed = []
    for index, (word, tokens) in enumerate(zip(without_passages(words, absent).words, word_tokens)):
        own = found.get(index)
        if own is not None and own.status == ALIGNED:
            placed.append(replace(own, speaker=word.speaker) if own.speaker != word.speaker else own)
            continue
        status = SKIPPED if tokens.pronunciations and word.said else UNKNOWN if word.said else UNSPOKEN
        written = (word.text, word.spoken, word.char_start, word.char_end)
        placed.append(AlignedWord(*written, status=status, kind=word.kind, speaker=word.speaker))
    return tuple(placed)


@dataclass(frozen=True)
class ChosenTokens(SpelledWords):
    """The words that are spoken, without passages that are not, and the CTC loss over all paths of their tokens."""

    loss: float


def align_utterance(inputs: UtteranceInputs) -> Steps[Alignment]:
    """Align one utterance with its transcript: all of it, or the islands of it that are in the recording.

    Raises:
        InputError: the transcript cannot be spoken or spelled, or it does not fit the emissions.
    """
    inputs.begin("pronunciations")
    word_tokens = yield from spell(inputs)
    islands = None
    inputs.begin("search")
    if inputs.settings.match != "exact":
        islands = yield from find_islands(inputs, word_tokens)
    if islands is None:
        placed = yield from align_whole(inputs, word_tokens)
    else:
        placed = yield from align_islands(inputs, word_tokens, islands)
    return finished(inputs, word_tokens, placed)


def finished(inputs: UtteranceInputs, word_tokens: Sequence[WordTokens], placed: PlacedWords) -> Alignment:
    """Return the alignment of words that are placed, with what it is worth and where the two disagree."""
    warn_of_edges(inputs)
    fit, words, unexplained, regions = judge(inputs, placed)
    lacking = missing_letters(own for own, word in zip(word_tokens, words) if not word.kind)
    return Alignment(
        utterance=inputs.name,
        audio=inputs.audio,
        duration_s=duration_of(inputs.emissions),
        model=inputs.model,
        backend=placed.backend,
        frame_shift_s=inputs.emissions.frame_shift_s,
        loss=placed.loss,
        score=placed.score,
        text=inputs.words.text,
        words=words,
        unknown=sum(lacking.values()),
        offset_s=inputs.emissions.offset_s,
        loss_per_token=placed.loss_per_token,
        config=inputs.settings.to_dict(),
        token_kind=inputs.tokenizer.token_kind,
        unexplained=unexplained,
        unknown_letters=lacking,
        subtitles=inputs.words.subtitles,
        places=inputs.words.places,
        fit=fit,
        regions=regions,
    )


def align_whole(inputs: UtteranceInputs, word_tokens: list[WordTokens]) -> Steps[PlacedWords]:
    """Align a transcript of which every word is spoken. Raises as `align_utterance`."""
    chosen = yield from choose_tokens(inputs, word_tokens)
    inputs.begin("edges")
    words, judged = yield from place_words(inputs, chosen)
    return PlacedWords(words, chosen.loss, chosen.path.score, chosen.tokens.ids, chosen.path.backend, judged)


def judge(
    inputs: UtteranceInputs, placed: PlacedWords
) -> tuple[str | None, tuple[AlignedWord, ...], tuple[tuple[float, float], ...], tuple[Region, ...]]:
    """Return how well the transcript fits, the words, speech without words, and the regions of disagreement.

    Where nothing of the transcript is in the recording, its words have no times, or with the setting `match` "exact"
    hardly any confidence. Unless a confidence network has judged the words there is no fit, and no word is called a
    misfit: the posteriors of a CTC network alone are low where words are right, too.
    """
    words = placed.words
    sounds = unexplained_sounds(inputs.emissions, words)
    unexplained = tuple((start_s, end_s) for start_s, end_s, kind in sounds if kind == SPEECH)
    network = inputs.confidence_network
    limits = network.limits if network is not None and placed.judged else None
    if limits is None:
        regions = regions_of(words, sounds, judged=False)
        if hardly_heard(words):
            regions = (region_of_all(inputs.words.text, duration_of(inputs.emissions), NOT_HEARD), *regions)
        return None, words, unexplained, regions
    fit = fit_of(words, unexplained, placed.loss_per_token, limits)
    if fit == NONE and any(word.by for word in words):
        fit = POOR  # what a person has put there is there
    if fit != NONE:
        return fit, words, unexplained, regions_of(words, sounds)
    region = region_of_all(inputs.words.text, duration_of(inputs.emissions))
    if inputs.settings.match == "exact":
        return fit, with_little_confidence(words), unexplained, (region,)
    return fit, without_times(words), (), (region,)


def spell(inputs: UtteranceInputs) -> Steps[list[WordTokens]]:
    """Return the tokens of each word. Raises TranscriptError where none has any, InputError where one is the blank."""
    word_tokens = yield from spell_words(inputs.words, inputs.tokenizer, inputs.settings)
    if not any(word.pronunciations for word in word_tokens):
        raise nothing_to_align(word_tokens, inputs.settings)
    refuse_letter_as_blank(word_tokens, inputs.emissions, inputs.name)
    return word_tokens


def choose_tokens(inputs: UtteranceInputs, word_tokens: list[WordTokens] | None = None) -> Steps[ChosenTokens]:
    """Choose the pronunciations that the audio prefers, and compute their CTC loss. Raises as `align_utterance`."""
    emissions, tokenizer = inputs.emissions, inputs.tokenizer
    words, word_tokens = inputs.words, word_tokens or (yield from spell(inputs))
    if words.optional and inputs.settings.match != "exact":
        words, word_tokens = yield from leave_out_unspoken(
            emissions.log_probs, words, word_tokens, tokenizer.separator, emissions.blank, inputs.backend
        )
    spelled = yield from spell_as_said(inputs, words, word_tokens)
    ids, path = spelled.tokens.ids, spelled.path
    loss = yield from ctc_loss(emissions.log_probs, ids, emissions.blank, path, inputs.backend)
    return ChosenTokens(words, word_tokens, spelled.tokens, path, loss)
