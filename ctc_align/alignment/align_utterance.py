"""The alignment of one utterance, from top to bottom: emissions + tokens → path → spans → edges → words.

`align_utterance` is a generator that asks for kernel work (`ctc_align.kernels.requests`);
`ctc_align.kernels.batching.run` runs many of them together. An utterance's alignment is the same, to the bit, alone and
in any batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ctc_align.alignment.align_islands import PlacedWords, align_islands, without_inner_separators
from ctc_align.alignment.confidence import confidences
from ctc_align.alignment.ctc_path import CtcPath, Spans
from ctc_align.alignment.edges import place_edges, share_out_wildcards
from ctc_align.alignment.fit import (
    NOT_HEARD,
    fit_of,
    hardly_heard,
    region_of_all,
    regions_of,
    with_little_confidence,
    without_times,
)
from ctc_align.alignment.inputs import UtteranceInputs
from ctc_align.alignment.islands import find_islands
from ctc_align.alignment.optional_passages import leave_out_unspoken
from ctc_align.alignment.pronunciations import choose_pronunciations, nothing_to_align, spell_words
from ctc_align.alignment.sound_kinds import SPEECH
from ctc_align.alignment.unexplained_speech import unexplained_sounds
from ctc_align.alignment.wildcard import place_wildcards
from ctc_align.alignment.words import aligned_words, duration_of
from ctc_align.formats import Alignment
from ctc_align.kernels.requests import CtcTargets, Forward, Steps
from ctc_align.tokens.tokenizer import missing_letters
from ctc_align.types import NONE, AlignedWord, Emissions, Region, Tokens, Words, WordTokens


@dataclass(frozen=True)
class ChosenTokens:
    """The tokens of the pronunciations that fit best, their best path, and the CTC loss over all paths."""

    words: Words
    """The transcript's, without the passages that are not spoken."""
    word_tokens: Sequence[WordTokens]
    tokens: Tokens
    path: CtcPath
    loss: float


def align_utterance(inputs: UtteranceInputs) -> Steps[Alignment]:
    """Align one utterance with its transcript: all of it, or the islands of it that are in the recording.

    Raises:
        InputError: the transcript cannot be spoken or spelled, or it does not fit the emissions.
    """
    word_tokens = yield from spell(inputs)
    islands = None
    if inputs.settings.match != "exact":
        islands = yield from find_islands(inputs, word_tokens)
    if islands is None:
        placed = yield from align_whole(inputs, word_tokens)
    else:
        placed = yield from align_islands(inputs, word_tokens, islands)
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
    emissions = inputs.emissions
    chosen = yield from choose_tokens(inputs, word_tokens)
    tokens, spikes, edges = yield from place_tokens(inputs, chosen)
    confidence = confidences(emissions, tokens, spikes, edges, inputs.calibration, inputs.confidence_network)
    words = aligned_words(chosen.words, tokens, edges, confidence, emissions)
    path = chosen.path
    return PlacedWords(words, chosen.loss, path.score, len(chosen.tokens.ids), path.backend, confidence.judged)


def place_tokens(inputs: UtteranceInputs, chosen: ChosenTokens) -> Steps[tuple[Tokens, Spans, Spans]]:
    """Return the tokens with wildcards for the letters that the vocabulary lacks, their spikes, and their edges."""
    emissions, tokens, spikes = inputs.emissions, chosen.tokens, chosen.path.spans
    if inputs.settings.unknown == "wildcard":
        separator = inputs.tokenizer.separator
        tokens, spikes = yield from place_wildcards(
            emissions, tokens, spikes, chosen.word_tokens, separator, inputs.backend
        )
    edges = yield from place_edges(emissions, tokens, spikes, inputs.edge_settings)
    return tokens, spikes, share_out_wildcards(edges, tokens)


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
    if fit != NONE:
        return fit, words, unexplained, regions_of(words, sounds)
    region = region_of_all(inputs.words.text, duration_of(inputs.emissions))
    if inputs.settings.match == "exact":
        return fit, with_little_confidence(words), unexplained, (region,)
    return fit, without_times(words), (), (region,)


def spell(inputs: UtteranceInputs) -> Steps[list[WordTokens]]:
    """Return the tokens of each word. Raises TranscriptError where none has any."""
    word_tokens = yield from spell_words(inputs.words, inputs.tokenizer, inputs.settings)
    if not any(word.pronunciations for word in word_tokens):
        raise nothing_to_align(word_tokens, inputs.settings)
    return word_tokens


def choose_tokens(inputs: UtteranceInputs, word_tokens: list[WordTokens] | None = None) -> Steps[ChosenTokens]:
    """Choose the pronunciations that the audio prefers, and compute their CTC loss. Raises as `align_utterance`."""
    emissions, tokenizer = inputs.emissions, inputs.tokenizer
    words, word_tokens = inputs.words, word_tokens or (yield from spell(inputs))
    if words.optional and inputs.settings.match != "exact":
        words, word_tokens = yield from leave_out_unspoken(
            emissions.log_probs, words, word_tokens, tokenizer.separator, emissions.blank, inputs.backend
        )
    tokens, path = yield from choose_pronunciations(
        emissions.log_probs,
        word_tokens,
        tokenizer.separator,
        emissions.blank,
        whole_words=emissions.states is not None,
        backend=inputs.backend,
    )
    loss = yield from ctc_loss(emissions, tokens, path, inputs.backend)
    return ChosenTokens(words, word_tokens, without_inner_separators(tokens, tokenizer.separator), path, loss)


def ctc_loss(emissions: Emissions, tokens: Tokens, path: CtcPath, backend: str) -> Steps[float]:
    """Return the exact CTC loss -log p(tokens | audio), natural log, over all paths; `path` is the best of them."""
    score = yield Forward(emissions.log_probs, CtcTargets(tokens.ids, emissions.blank), backend=backend)
    # One path is never likelier than all; where it is all there is, rounding may say so.
    return min(-score, -path.score)
