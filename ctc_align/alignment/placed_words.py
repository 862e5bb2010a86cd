"""Words with chosen pronunciations, and the way from them to words with times, of an utterance or an island of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ctc_align.alignment.confidence import confidences
from ctc_align.alignment.ctc_path import CtcPath, Spans
from ctc_align.alignment.edges import place_edges, share_out_wildcards
from ctc_align.alignment.inputs import UtteranceInputs
from ctc_align.alignment.pronunciations import choose_pronunciations
from ctc_align.alignment.quiet_edges import edges_out_of_pauses
from ctc_align.alignment.refined_edges import refine_edges
from ctc_align.alignment.wildcard import place_wildcards
from ctc_align.alignment.words import aligned_words
from ctc_align.kernels.requests import Steps
from ctc_align.types import AlignedWord, Tokens, Words, WordTokens


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
