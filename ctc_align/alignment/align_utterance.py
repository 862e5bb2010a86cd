"""The alignment of one utterance: emissions and tokens → path → spans → edges → words.

    align_utterance   tokenize_words → find_islands → align_whole, or align_islands → build_alignment
    align_whole       choose_tokens → place_words
    place_words       place_tokens → confidences → adjust_edges → aligned_words

`align_utterance` is a generator that asks for kernel work (`ctc_align.kernels.batching`);
`ctc_align.kernels.batching.run` runs many of them together. An utterance's alignment is the same,
to the bit, alone and in any batch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from ctc_align import units
from ctc_align.alignment.confidence import confidences
from ctc_align.alignment.ctc_path import Spans, best_ctc_path, ctc_loss_steps, local_loss
from ctc_align.alignment.edges import (
    duration_of,
    frames_in,
    place_edges,
    seconds_at,
    share_out_wildcards,
    with_convention,
)
from ctc_align.alignment.fit import MOST_OF_A_TEXT, assess_fit, likely_share
from ctc_align.alignment.inputs import UtteranceInputs
from ctc_align.alignment.pause_edges import edges_beside_pauses, edges_by_convention
from ctc_align.alignment.presence import choose_stretches, is_contradicted
from ctc_align.alignment.pronunciations import (
    check_word_tokens,
    choose_pronunciations,
    in_heard_order,
    leave_out_unspoken,
    prepared_word_tokens,
    with_chosen_readings,
    without_passages,
)
from ctc_align.alignment.refined_edges import refine_edges
from ctc_align.alignment.wildcard import place_wildcards
from ctc_align.errors import InputError
from ctc_align.kernels.batching import StageSteps
from ctc_align.models.array_checks import are_distributions
from ctc_align.models.calibration import Calibration
from ctc_align.models.confidence_network import FitLimits
from ctc_align.models.edge_network import EdgeNetwork
from ctc_align.tokens.phones import shown_labels
from ctc_align.tokens.tokenizer import missing_letters
from ctc_align.types import (
    ALIGNED,
    ANY_SPEECH,
    REPEAT,
    SKIPPED,
    UNKNOWN,
    UNSPOKEN,
    AlignedToken,
    AlignedWord,
    Alignment,
    Emissions,
    Tokens,
    Word,
    Words,
    WordTokens,
)

if TYPE_CHECKING:
    from ctc_align.alignment.islands import Island

_BRACKETS = ("[", "{", "&")
MOST_CELLS = 10**9
"""With more frames times states, the local loss of a transcript with skipped words is not computed:
ten minutes of speech have as many, and take a second at most."""


@dataclass(frozen=True)
class TokenizedWords:
    """Words, the tokens of the pronunciations that fit best, and their best path.

    Attributes:
        words: in their order.
        word_tokens: all pronunciations of each word.
        tokens: of the best-fitting pronunciations; a separator inside a word belongs to no word.
        spikes: their frames on CTC's best path.
        score: the log-probability of that path.
        loss: the CTC loss over all paths; nan if it was not requested.
    """

    words: Words
    word_tokens: Sequence[WordTokens]
    tokens: Tokens
    spikes: Spans
    score: float
    loss: float = float("nan")


@dataclass(frozen=True)
class PlacedWords:
    """Every word of a transcript, in its order, and the losses of those that are aligned.

    Attributes:
        words: of the transcript.
        loss, score: CTC's, of all aligned tokens in order of time, over the whole recording;
            infinite if they have no path through it.
        ids: the ids of these tokens, with separators between words.
        local_loss: as `ctc_path.local_loss`, of the whole transcript, skipped words included; None
            if it is not known.
        limits: of `fit`, by the confidence network that has assessed the words; None if none has.
        contradicted: whether the sound contradicts all of them.
    """

    words: tuple[AlignedWord, ...]
    loss: float
    score: float
    local_loss: float | None
    ids: Sequence[int]
    limits: FitLimits | None
    contradicted: bool = False

    @property
    def loss_per_token(self) -> float:
        """CTC's loss, divided by the number of aligned tokens."""
        return self.loss / max(len(self.ids), 1)


def align_utterance(inputs: UtteranceInputs) -> StageSteps[Alignment]:
    """Align one utterance with its transcript: all of it, or the islands that are spoken.

    Raises:
        InputError: the transcript cannot be spoken or spelled, or it does not fit the emissions.
    """
    inputs.progress.begin("pronunciations")
    word_tokens = yield from tokenize_words(inputs)
    inputs.progress.begin("search")
    islands: Sequence[Island] | None = None
    if inputs.settings.match != "exact":
        from ctc_align.alignment.islands import find_islands

        islands = yield from find_islands(inputs, word_tokens)
        heard = _without_absent_passages(inputs.words, word_tokens, islands)
        if heard is not None:
            inputs = replace(inputs, words=heard)
            word_tokens = [
                own if word.spoken else WordTokens(())
                for own, word in zip(word_tokens, heard.words)
            ]
            islands = yield from find_islands(inputs, word_tokens)
        islands = with_first_copies(islands, inputs.words)
    placed: PlacedWords | None = None
    if islands:  # a text of which no word is found is aligned as a whole, and judged
        placed = yield from align_islands(inputs, word_tokens, islands)
    if placed is None:
        placed = yield from align_whole(inputs, word_tokens)
    return build_alignment(inputs, word_tokens, placed)


def _without_absent_passages(
    words: Words, word_tokens: Sequence[WordTokens], islands: Sequence[Island] | None
) -> Words | None:
    """Return words for another search: without the optional passages of which no word was found.

    Words beside such a passage are missed, if the sound of their beginning is a little like its
    end. Return None if no other word is missing.
    """
    if not islands:
        return None
    missing = {index for index, own in enumerate(word_tokens) if own.pronunciations}
    missing.difference_update(*(island.words.tolist() for island in islands))
    absent = [
        passage
        for passage in words.optional
        if missing.issuperset(range(passage.first, passage.last))
    ]
    for passage in absent:
        missing.difference_update(range(passage.first, passage.last))
    if not absent or not missing:
        return None
    kept = tuple(passage for passage in words.optional if passage not in absent)
    return replace(without_passages(words, absent), optional=kept)


def tokenize_words(inputs: UtteranceInputs) -> StageSteps[list[WordTokens]]:
    """Return the tokens of each word.

    Raises TranscriptError if no word has any, InputError if one is the blank.
    """
    word_tokens = yield from prepared_word_tokens(inputs.words, inputs.tokenizer, inputs.settings)
    check_word_tokens(word_tokens, inputs.emissions, inputs.settings)
    separator = inputs.tokenizer.separator
    return (yield from in_heard_order(inputs.emissions, word_tokens, separator, inputs.backend))


def align_whole(inputs: UtteranceInputs, word_tokens: list[WordTokens]) -> StageSteps[PlacedWords]:
    """Align a transcript whose every word is spoken. Raises as `align_utterance`."""
    chosen = yield from choose_tokens(inputs, word_tokens)
    inputs.progress.begin("edges")
    words, limits = yield from place_words(inputs, chosen)
    ids = chosen.tokens.ids
    worst = local_loss(inputs.emissions, ids, chosen.spikes)
    contradicted = False
    if limits is None or likely_share(words) < MOST_OF_A_TEXT:
        contradicted = yield from _is_contradicted(inputs, chosen)
    return PlacedWords(words, chosen.loss, chosen.score, worst, ids, limits, contradicted)


def _is_contradicted(inputs: UtteranceInputs, chosen: TokenizedWords) -> StageSteps[bool]:
    """Return whether the sound contradicts the chosen tokens."""
    emissions = inputs.emissions
    stretches = choose_stretches(chosen.tokens.ids, chosen.spikes, len(emissions))
    return (yield from is_contradicted(emissions.array, emissions.blank, stretches, inputs.backend))


def choose_tokens(
    inputs: UtteranceInputs, word_tokens: list[WordTokens] | None = None
) -> StageSteps[TokenizedWords]:
    """Choose the pronunciations that the audio prefers, and compute their CTC loss.

    Raises as `align_utterance`.
    """
    emissions, words = inputs.emissions, inputs.words
    word_tokens = word_tokens or (yield from tokenize_words(inputs))
    doubtful = words.optional
    if inputs.settings.match == "exact":  # what may be markup is no word
        doubtful = tuple(
            passage for passage in doubtful if words.words[passage.first].text.startswith(_BRACKETS)
        )
    if doubtful:
        words, word_tokens = yield from leave_out_unspoken(
            emissions,
            replace(words, optional=doubtful),
            word_tokens,
            inputs.tokenizer.separator,
            inputs.backend,
        )
    tokenized = yield from choose_pronounced_tokens(inputs, words, word_tokens)
    ids = tokenized.tokens.ids
    blank = emissions.blank
    loss = yield from ctc_loss_steps(emissions.array, ids, blank, tokenized.score, inputs.backend)
    return replace(tokenized, loss=loss)


def choose_pronounced_tokens(
    inputs: UtteranceInputs, words: Words, word_tokens: Sequence[WordTokens]
) -> StageSteps[TokenizedWords]:
    """Choose the pronunciations that the audio prefers.

    Raises InputError if they do not fit into the emissions.
    """
    separator = inputs.tokenizer.separator
    tokens, spikes, score = yield from choose_pronunciations(
        inputs.emissions, word_tokens, separator, inputs.backend
    )
    # A word of two spoken parts holds a separator, which is not a sound of it.
    owners = tuple(
        -1 if token == separator else word for token, word in zip(tokens.ids, tokens.words)
    )
    words = with_chosen_readings(words, word_tokens, tokens)
    return TokenizedWords(words, word_tokens, replace(tokens, words=owners), spikes, score)


def place_words(
    inputs: UtteranceInputs, tokenized: TokenizedWords
) -> StageSteps[tuple[tuple[AlignedWord, ...], FitLimits | None]]:
    """Return the words with times and confidences.

    The second value has the limits of the network that has assessed them, if any.
    """
    emissions = inputs.emissions
    tokens, spikes, edges = yield from place_tokens(inputs, tokenized)
    of_tokens, of_words, limits = yield from confidences(inputs, tokens, spikes, edges)
    edges = yield from adjust_edges(inputs, tokens, edges)
    tokens = with_shown_labels(tokens, inputs)
    words = aligned_words(tokenized.words, tokens, edges, of_tokens, of_words, emissions)
    words = yield from rate_words(words, inputs, tokens, spikes)
    return with_confidence_of_neighbours(words), limits


def rate_words(
    words: tuple[AlignedWord, ...], inputs: UtteranceInputs, tokens: Tokens, spikes: Spans
) -> StageSteps[tuple[AlignedWord, ...]]:
    """Return words with the goodness of their tokens, if the settings ask for it."""
    if not inputs.settings.rates_pronunciation:
        return words
    from ctc_align.alignment.goodness import add_goodness

    return (yield from add_goodness(words, inputs, tokens, spikes))


def with_shown_labels(tokens: Tokens, inputs: UtteranceInputs) -> Tokens:
    """Return tokens with the labels that the settings ask for; calibrations know the model's."""
    settings = inputs.settings
    labels = shown_labels(
        tokens.labels, inputs.emissions.vocab, settings.phones, stress=settings.stress
    )
    return replace(tokens, labels=labels)


def place_tokens(
    inputs: UtteranceInputs, tokenized: TokenizedWords
) -> StageSteps[tuple[Tokens, Spans, Spans]]:
    """Return the tokens, with wildcards for letters outside the vocabulary, spikes and edges."""
    emissions = inputs.emissions
    tokens = tokenized.tokens
    spikes = tokenized.spikes
    if inputs.settings.unknown == "wildcard":
        tokens, spikes = yield from place_wildcards(
            emissions,
            tokens,
            spikes,
            tokenized.word_tokens,
            inputs.tokenizer.separator,
            inputs.backend,
        )
    edges = yield from place_edges(
        emissions, tokens, spikes, inputs.calibration, inputs.settings, inputs.backend
    )
    return tokens, spikes, share_out_wildcards(edges, tokens)


def adjust_edges(inputs: UtteranceInputs, tokens: Tokens, edges: Spans) -> StageSteps[Spans]:
    """Return the edges of all tokens, refined by the edge network if there is one."""
    if inputs.edge_network is None or not inputs.refines_edges:
        return edges
    fine = yield from finish_edges(
        inputs.emissions, tokens, edges, inputs.calibration, inputs.edge_network
    )
    if (convention := inputs.settings.convention) == "whole":
        return fine
    return edges_by_convention(
        inputs.emissions, tokens, fine, inputs.calibration.kinds(tokens.labels), convention
    )


def finish_edges(
    emissions: Emissions,
    tokens: Tokens,
    edges: Spans,
    calibration: Calibration,
    network: EdgeNetwork,
) -> StageSteps[Spans]:
    """Return the edges of all tokens, refined by a network and moved by a convention."""
    fine = yield from refine_edges(emissions, tokens, edges, network)
    # Hand labels say where words end beside pauses; without them the level of the sound does.
    if not calibration.offsets_ms:
        fine = edges_beside_pauses(emissions, tokens, fine, calibration.kinds(tokens.labels))
    return with_convention(fine, tokens, calibration, frames_in(emissions))


def build_alignment(
    inputs: UtteranceInputs, word_tokens: Sequence[WordTokens], placed: PlacedWords
) -> Alignment:
    """Return the alignment of placed words, with its fit and the regions of disagreement."""
    inputs.warn_of_edges()
    is_normalised = inputs.emissions.state_array is not None or are_distributions(
        inputs.emissions.array
    )
    limits = placed.limits if is_normalised else None
    assessment = assess_fit(
        inputs, placed.words, placed.loss_per_token, limits, placed.contradicted
    )
    lacking = missing_letters(
        own for own, word in zip(word_tokens, assessment.words) if not word.kind
    )
    return Alignment(
        utterance=inputs.name,
        audio=inputs.audio,
        duration_s=duration_of(inputs.emissions),
        model=inputs.model,
        backend=inputs.backend,
        frame_shift_s=inputs.emissions.frame_shift_s,
        loss=placed.loss,
        score=placed.score,
        text=inputs.words.text,
        words=assessment.words,
        unknown=sum(lacking.values()),
        offset_s=inputs.emissions.offset_s,
        loss_per_token=placed.loss_per_token,
        local_loss=placed.local_loss,
        config=inputs.settings.to_dict(),
        token_kind=inputs.tokenizer.token_kind,
        unexplained=assessment.unexplained,
        unknown_letters=lacking,
        subtitles=inputs.words.subtitles,
        places=inputs.words.places,
        fit=assessment.fit,
        regions=assessment.regions,
    )


# From tokens to words


def aligned_words(
    words: Words,
    tokens: Tokens,
    edges: Spans,
    of_tokens: Sequence[float],
    of_words: Sequence[float],
    emissions: Emissions,
) -> tuple[AlignedWord, ...]:
    """Return all words of the transcript with times, and with confidences of words and tokens."""
    # Tokens are in the order of their words; those between words belong to none.
    owned = (
        (w, token)
        for w, token in zip(tokens.words, _yield_timed_tokens(tokens, edges, of_tokens, emissions))
        if w >= 0
    )
    by_word = groupby(owned, key=itemgetter(0))
    of_word = iter(of_words)
    next_word, next_tokens = next(by_word, (-1, iter(())))
    aligned = []
    for w, word in enumerate(words.words):
        if w != next_word:
            aligned.append(word_without_times(word))
            continue
        parts = tuple([token for _, token in next_tokens])
        next_word, next_tokens = next(by_word, (-1, iter(())))
        first = parts[0]
        last = parts[-1]
        aligned.append(
            AlignedWord(
                word.text,
                word.spoken,
                word.char_start,
                word.char_end,
                status=ALIGNED,
                start_s=first.start_s,
                end_s=last.end_s,
                confidence=next(of_word),
                tokens=parts,
                start_sd_ms=first.start_sd_ms,
                end_sd_ms=last.end_sd_ms,
                speaker=word.speaker,
                language=word.language,
            )
        )
    return tuple(aligned)


def with_confidence_of_neighbours(words: tuple[AlignedWord, ...]) -> tuple[AlignedWord, ...]:
    """Give words for any speech the confidence of the less sure word beside them."""
    if not any(word.spoken == ANY_SPEECH for word in words):
        return words
    timed = [index for index, word in enumerate(words) if word.confidence is not None]
    said = [index for index in timed if words[index].spoken != ANY_SPEECH]
    changed = list(words)
    for index in timed:
        if words[index].spoken == ANY_SPEECH:
            at = bisect_left(said, index)
            beside = [words[other].confidence or 0.0 for other in said[max(at - 1, 0) : at + 1]]
            changed[index] = replace(words[index], confidence=min(beside, default=0.0))
    return tuple(changed)


def word_without_times(word: Word, tokens: WordTokens | None = None) -> AlignedWord:
    """Return a word without times: skipped if it has `tokens`, otherwise unspoken or unknown."""
    skipped = tokens is not None and tokens.pronunciations and word.lookup_text
    if skipped:
        status = SKIPPED
    elif word.lookup_text:
        status = UNKNOWN
    else:
        status = UNSPOKEN
    written = (word.text, word.spoken, word.char_start, word.char_end)
    is_marked = all(other.language == word.language for other in word.others)
    return AlignedWord(
        *written,
        status=status,
        kind=word.kind,
        speaker=word.speaker,
        language=word.language if is_marked else "",
    )


def _yield_timed_tokens(
    tokens: Tokens, edges: Spans, confidence: Sequence[float], emissions: Emissions
) -> Iterator[AlignedToken]:
    shift_s = emissions.frame_shift_s
    begin_s = emissions.first_frame_s
    duration_s = duration_of(emissions)
    spreads: Iterator[tuple[float, float]] | Iterator[tuple[None, None]] = repeat((None, None))
    if edges.start_sd is not None and edges.end_sd is not None:
        ms = units.seconds_to_ms(shift_s)
        spreads = zip(
            (edges.start_sd * ms).round(2).tolist(), (edges.end_sd * ms).round(2).tolist()
        )
    for label, start, end, sure, sd in zip(
        tokens.labels, _yield_numbers(edges.start), _yield_numbers(edges.end), confidence, spreads
    ):
        start_s, end_s = seconds_at(start, shift_s, begin_s), seconds_at(end, shift_s, begin_s)
        yield AlignedToken(label, max(start_s, 0.0), min(end_s, duration_s), sure, *sd)


def _yield_numbers(numbers: np.ndarray) -> Iterator[float]:
    """Yield the numbers of an array, a few at a time: Python objects take four times the memory."""
    return chain.from_iterable(
        numbers[low : low + 2**16].tolist() for low in range(0, len(numbers), 2**16)
    )


# A transcript that is not exactly what is said: each island by itself; words of no island are
# skipped


def align_islands(
    inputs: UtteranceInputs, word_tokens: Sequence[WordTokens], islands: Sequence[Island]
) -> StageSteps[PlacedWords | None]:
    """Align the words of each island with its part of the recording; None if no word is there."""
    found: dict[int, AlignedWord] = {}
    ids: list[int] = []
    separator = inputs.tokenizer.separator
    limits: FitLimits | None = None
    for number, island in enumerate(islands, start=1):
        inputs.progress.begin(f"edges, part {number} of {len(islands)}")
        part, tokens, positions = _select_island(inputs, word_tokens, island)
        try:
            tokenized = yield from choose_pronounced_tokens(part, part.words, tokens)
            aligned, limits = yield from place_words(part, tokenized)
        except InputError:  # more sounds than fit there, or no path: something else is said there
            continue
        words = [aligned[position] for position in positions]
        if (yield from _is_contradicted(part, tokenized)):
            continue  # the search has found it by chance
        if ids and separator is not None:
            ids.append(separator)
        ids += tokenized.tokens.ids
        found.update(zip(island.words.tolist(), words))
    if not found:
        return None
    placed = _merge_in_text_order(inputs.words, word_tokens, found)
    return PlacedWords(
        placed, *(yield from score_whole_recording(inputs, word_tokens, placed, ids)), limits
    )


def with_first_copies(islands: Sequence[Island] | None, words: Words) -> Sequence[Island] | None:
    """Return islands that have the first copy of a caption line where its repeat was found."""
    repeats = [passage for passage in reversed(words.optional) if passage.kind == REPEAT]
    if not islands or not repeats:
        return islands
    found = {index for island in islands for index in island.words.tolist()}
    spoken = [index for index, word in enumerate(words.words) if word.spoken]
    moved = np.arange(len(words.words))
    for passage in repeats:
        low, high = bisect_left(spoken, passage.first), bisect_left(spoken, passage.last)
        copies = list(zip(spoken[max(2 * low - high, 0) : low], spoken[low:high]))
        if any(words.words[first].spoken != words.words[second].spoken for first, second in copies):
            continue
        begins = next(
            (rank for rank in range(len(copies), 0, -1) if copies[rank - 1][0] in found), 0
        )
        if not any(second in found for _, second in copies[:begins]):
            for first, second in copies:
                moved[moved == second] = first
            found = set(moved[sorted(found)].tolist())
    return [replace(island, words=moved[island.words]) for island in islands]


def _select_island(
    inputs: UtteranceInputs, word_tokens: Sequence[WordTokens], island: Island
) -> tuple[UtteranceInputs, list[WordTokens], list[int]]:
    """Return the inputs and tokens of an island, with wildcards for other speech.

    The last value has the positions of its words.

    The wildcards are there even if the settings leave out letters that the vocabulary lacks.
    """
    known_only = inputs.settings.unknown != "wildcard"
    words: list[Word] = []
    tokens: list[WordTokens] = []
    positions: list[int] = []
    for number in range(len(island.words) + 1):
        if island.wildcards[number]:
            words.append(Word("", ANY_SPEECH, 0, 0))
            tokens.append(WordTokens((), (ANY_SPEECH,)))
        if number < len(island.words):
            tokenized = word_tokens[island.words[number]]
            positions.append(len(words))
            words.append(inputs.words.words[island.words[number]])
            tokens.append(
                replace(tokenized, missing=()) if known_only and tokenized.missing else tokenized
            )
    part = replace(
        inputs,
        words=Words(inputs.words.text, tuple(words)),
        emissions=inputs.emissions.part(island.first_frame, island.last_frame),
        settings=replace(inputs.settings, unknown="wildcard"),
    )
    return part, tokens, positions


def score_whole_recording(
    inputs: UtteranceInputs,
    word_tokens: Sequence[WordTokens],
    words: Sequence[AlignedWord],
    ids: Sequence[int],
) -> StageSteps[tuple[float, float, float | None, Sequence[int]]]:
    """Return the loss, the best path's score and the local loss of the whole recording; and `ids`.

    Loss and score are of `ids`, the tokens of the aligned words; they are infinite without a path.
    The local loss is of the whole transcript, so that words which were skipped because the sound
    lacks them are seen in it.
    """
    emissions = inputs.emissions
    blank = emissions.blank
    try:
        spikes, score = yield from best_ctc_path(
            emissions.array, ids, blank, backend=inputs.backend
        )
    except InputError:
        return float("inf"), float("-inf"), None, ids
    loss = yield from ctc_loss_steps(emissions.array, ids, blank, score, inputs.backend)
    if not any(word.status == SKIPPED for word in words):
        return loss, score, local_loss(emissions, ids, spikes), ids
    said = [
        own if word.status != UNSPOKEN else WordTokens(()) for own, word in zip(word_tokens, words)
    ]
    if _count_states(said) * len(emissions) > MOST_CELLS:
        return loss, score, None, ids
    try:
        tokens, spikes, _ = yield from choose_pronunciations(
            emissions, said, inputs.tokenizer.separator, inputs.backend
        )
    except InputError:
        return loss, score, None, ids
    return loss, score, local_loss(emissions, tokens.ids, spikes), ids


def _count_states(word_tokens: Sequence[WordTokens]) -> int:
    """Return the states of CTC for the first pronunciations of words."""
    return 2 * sum(len(own.pronunciations[0].ids) for own in word_tokens if own.pronunciations)


def _merge_in_text_order(
    words: Words, word_tokens: Sequence[WordTokens], found: dict[int, AlignedWord]
) -> tuple[AlignedWord, ...]:
    """Return every word of the transcript; pronounceable words that were not found are skipped.

    If no word of an optional passage was found, its words are unspoken, with the kind of the
    passage.
    """
    absent = [
        passage
        for passage in words.optional
        if not found.keys() & set(range(passage.first, passage.last))
    ]
    placed = []
    for index, (word, tokens) in enumerate(zip(without_passages(words, absent).words, word_tokens)):
        aligned = found.get(index)
        if aligned is None or aligned.status != ALIGNED:
            placed.append(word_without_times(word, tokens))
        else:
            placed.append(
                replace(aligned, speaker=word.speaker)
                if aligned.speaker != word.speaker
                else aligned
            )
    return tuple(placed)
