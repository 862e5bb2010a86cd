"""The alignment of one utterance, from top to bottom: emissions + tokens → path → spans → edges → words.

`align_utterance` is a generator that asks for kernel work (`ctc_align.kernels.requests`);
`ctc_align.kernels.batching.run` runs many of them together. An utterance's alignment is the same, to the bit, alone and
in any batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ctc_align.alignment.align_islands import align_islands
from ctc_align.alignment.ctc_path import ctc_loss
from ctc_align.alignment.fit import (
    NOT_HEARD,
    fit_of,
    hardly_heard,
    region_of_all,
    regions_of,
    with_little_confidence,
    without_times,
)
from ctc_align.alignment.inputs import UtteranceInputs, warn_of_edges
from ctc_align.alignment.islands import find_islands
from ctc_align.alignment.optional_passages import leave_out_unspoken
from ctc_align.alignment.placed_words import PlacedWords, SpelledWords, place_words, spell_as_said
from ctc_align.alignment.pronunciations import nothing_to_align, refuse_letter_as_blank, spell_words
from ctc_align.alignment.sound_kinds import SPEECH
from ctc_align.alignment.unexplained_speech import unexplained_sounds
from ctc_align.alignment.words import duration_of
from ctc_align.formats import Alignment
from ctc_align.kernels.requests import Steps
from ctc_align.tokens.tokenizer import missing_letters
from ctc_align.types import NONE, POOR, AlignedWord, Region, WordTokens


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
