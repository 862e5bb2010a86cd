"""Scores of transcripts by their exact CTC losses, and the ranks and posteriors of alternatives.

The pronunciations are chosen as for an alignment (`ctc_align.alignment.pronunciations`), and the
loss is that of plain CTC for them, over all paths. So a transcript has the same loss alone, among
others, and in its alignment, unless a vocabulary with case, digits or marks spells a word in
several ways: a score is of what is written. Losses are exact likelihoods without a prior over
texts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ctc_align.alignment.ctc_path import ctc_loss_steps, local_loss
from ctc_align.alignment.inputs import read_words, seconds_of
from ctc_align.alignment.pronunciations import (
    check_word_tokens,
    choose_pronunciations,
    prepared_word_tokens,
)
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError, InputError, UsageError
from ctc_align.kernels.batching import StageSteps
from ctc_align.models.array_checks import warn_of_frame_shift
from ctc_align.text import require_words, words_of
from ctc_align.tokens.tokenizer import Tokenizer, count_missing
from ctc_align.types import Emissions, Transcript


@dataclass(frozen=True)
class Scored:
    """One transcript of an audio.

    Args:
        text: as given.
        index: its position among the alternatives, from 0.
        rank: from 1, the best; ties in input order. Transcripts with unknown letters come after all
            others, for they are scored without these; then come those that could not be scored, or
            do not fit.
        loss: -log p(text | audio), natural log, over all paths; inf if it does not fit, nan without
            a score.
        tokens: number of tokens of the pronunciations that fit best; 0 without any.
        frames: of the audio.
        unknown: letters that the vocabulary lacks.
        posterior: probability among the alternatives, if all were equally likely before: softmax of
            -loss over those without unknown letters, 0 for one that does not fit; None if it cannot
            be compared.
        local_loss: as `ctc_path.local_loss`, of the best path; None without a path.
        error: why it could not be scored.
    """

    text: str
    index: int
    rank: int = 0
    loss: float = math.nan
    tokens: int = 0
    frames: int = 0
    unknown: int = 0
    posterior: float | None = None
    local_loss: float | None = None
    error: CtcAlignError | None = None

    @property
    def loss_per_token(self) -> float:
        if self.tokens:
            return self.loss / self.tokens
        return self.loss

    @property
    def loss_per_frame(self) -> float:
        if self.frames:
            return self.loss / self.frames
        return self.loss


def score_transcript(
    emissions: Emissions,
    text: str | Transcript,
    index: int,
    tokenizer: Tokenizer,
    settings: Settings,
    backend: str,
) -> StageSteps[Scored]:
    """Score one transcript of an audio, without rank and posterior.

    Its `error` says why it cannot be scored.

    Args:
        emissions: of the audio.
        text: the transcript; lines of its captions that are shown again are not read again.
        index: its position among the alternatives.
        tokenizer: of the emissions' vocabulary.
        settings, backend: as for an alignment.

    Raises:
        UsageError: a text that is neither a str nor a Transcript.
    """
    if not isinstance(text, (str, Transcript)):
        raise UsageError(
            f"text {index}: expected the transcript as a str, got {type(text).__name__}"
        )
    given = Transcript(text) if isinstance(text, str) else text
    scored = Scored(given.text, index, frames=len(emissions))
    try:
        words = words_of(given.text, settings, given.subtitles, given.languages)
        require_words(words, "transcript")
        words, tokenizer = read_words(
            words, emissions, tokenizer, settings.language, as_written=True
        )
        word_tokens = yield from prepared_word_tokens(words, tokenizer, settings)
        scored = replace(scored, unknown=count_missing(word_tokens))
        check_word_tokens(word_tokens, emissions, settings)
    except InputError as error:
        return replace(scored, error=type(error)(str(error).removeprefix("transcript: ")))
    try:
        tokens, spikes, score = yield from choose_pronunciations(
            emissions, word_tokens, tokenizer.separator, backend
        )
    except InputError as error:
        return replace(scored, loss=math.inf, error=error)
    if emissions.duration_s is None:  # they are another program's
        spoken = [word.spoken for word in words.words if word.spoken]
        warn_of_frame_shift(emissions, spoken, len(tokens.ids), seconds_of(emissions))
    loss = yield from ctc_loss_steps(emissions.array, tokens.ids, emissions.blank, score, backend)
    return replace(
        scored,
        tokens=len(tokens.ids),
        loss=loss,
        local_loss=local_loss(emissions, tokens.ids, spikes),
    )


def ranked(scored: Sequence[Scored]) -> list[Scored]:
    """Return the transcripts of one audio best first, with their ranks and posteriors."""
    comparable = [one for one in scored if not one.unknown and one.loss < math.inf]
    posterior = dict(
        zip((one.index for one in comparable), posteriors([one.loss for one in comparable]))
    )
    if comparable:
        posterior |= {one.index: 0.0 for one in scored if not one.unknown and one.loss == math.inf}
    order = sorted(scored, key=lambda one: (_rank_tier(one), math.inf if one.error else one.loss))
    return [
        replace(one, rank=rank, posterior=posterior.get(one.index))
        for rank, one in enumerate(order, start=1)
    ]


def _rank_tier(one: Scored) -> int:
    """Return 0 for whole transcripts, 1 for misfits, 2 with unknown letters, 3 if unreadable."""
    if one.unknown:
        return 2
    if one.error is None:
        return 0
    return 1 if one.loss == math.inf else 3


def posteriors(losses: Sequence[float]) -> list[float]:
    """Return the probabilities of alternatives that were equally likely before: softmax of -loss.

    >>> [round(p, 3) for p in posteriors([5000.0, 5001.0, 9000.0])]
    [0.731, 0.269, 0.0]
    """
    # Relative to the smallest loss: only what is too small to count underflows.
    weights = [math.exp(min(losses) - loss) for loss in losses]
    total = math.fsum(weights)
    return [weight / total for weight in weights]
