"""How well transcripts fit an audio: exact CTC losses, their ranks, and the posteriors of alternatives.

Everybody is judged alike: of each transcript the pronunciations that the audio prefers are chosen as for an alignment
(`ctc_align.alignment.pronunciations`), and the loss is that of plain CTC over them, over all paths. So a transcript has
the same loss alone, among others, and in its alignment. Losses are exact likelihoods without any prior over texts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ctc_align import kernels, lattice, units
from ctc_align.alignment.pronunciations import Spikes, choose_pronunciations_batch, ctc_scores
from ctc_align.errors import CtcAlignError, InputError, TranscriptError, UsageError
from ctc_align.text import require_words, words_of
from ctc_align.tokens.tokenizer import Tokenizer, count_missing, refuse_missing, tokenize
from ctc_align.types import Emissions, Tokens, WordTokens

LOCAL_S = 0.3
"""Length of the worst place: a short word. On read speech 0.2 to 0.4 s tell a wrong word equally well."""


@dataclass(frozen=True)
class Scored:
    """One transcript of an audio.

    Args:
        text: as given.
        index: its place among the alternatives, from 0.
        rank: from 1, the best; ties in input order. Transcripts with unknown letters come after all others, for they
            are scored without these; then come those that could not be scored, or do not fit.
        loss: -log p(text | audio), natural log, over all paths; inf where it does not fit, nan where there is none.
        tokens: of the pronunciations that fit best; 0 where there are none.
        frames: of the audio.
        unknown: letters that the vocabulary lacks.
        posterior: probability among the alternatives, if all were equally likely before: softmax of -loss over those
            without unknown letters, 0 for one that does not fit; None where it cannot be compared.
        local_loss: nats that the best path lies below the frames' best labels, in the worst `LOCAL_S` seconds: it tells
            one wrong word in a long text, which a mean over all tokens hides. None where there is no path.
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
        return self.loss / self.tokens if self.tokens else self.loss

    @property
    def loss_per_frame(self) -> float:
        return self.loss / self.frames if self.frames else self.loss


class Listener(Protocol):
    """What scoring needs of an `Aligner`."""

    backend: str
    settings: Any

    def emissions(self, audio: Any) -> Emissions: ...

    def _tokenizer(self, emissions: Emissions) -> Tokenizer: ...


def score_texts(aligner: Listener, audio: Any, texts: Sequence[str]) -> list[Scored]:
    """Alternatives for one audio, best first; the audio is listened to once.

    Args:
        aligner: an `Aligner`.
        audio: as for `Aligner.emissions`.
        texts: the transcripts. One that cannot be scored has its reason in `error`, and the others are scored.

    Raises:
        AudioError, EmissionsError: the audio cannot be used.
        UsageError: a text that is no str, or one str in the place of several.
    """
    if isinstance(texts, str):
        raise UsageError("texts: expected a list of transcripts, got a str; write [text]")
    return score_emissions(aligner, [aligner.emissions(audio)], [list(texts)])[0]


def score_emissions(
    aligner: Listener, emissions: Sequence[Emissions], texts: Sequence[Sequence[str]]
) -> list[list[Scored]]:
    """As `score_texts` for a batch of audios that were listened to already, each with its own alternatives."""
    audios = [
        [_spelt(aligner, one, text, index) for index, text in enumerate(mine)] for one, mine in zip(emissions, texts)
    ]
    _choose([row for rows in audios for row in rows if row.word_tokens], aligner.backend)
    alternatives = [[row for row in rows if row.tokens is not None] for rows in audios]
    for rows in alternatives:
        if len(rows) > 1:
            _add_losses(rows, _losses_of_one_audio(rows, aligner.backend))
    single = [rows[0] for rows in alternatives if len(rows) == 1]
    for blank in {row.emissions.blank for row in single}:
        same = [row for row in single if row.emissions.blank == blank]
        log_probs = [row.emissions.log_probs for row in same]
        _add_losses(same, ctc_scores(log_probs, [_ids(row) for row in same], blank, backend=aligner.backend))
    return [_ranked([_finished(row) for row in rows]) for rows in audios]


@dataclass
class _Row:
    """A transcript on its way: its words, then the pronunciations that fit best and their best path."""

    scored: Scored
    emissions: Emissions
    separator: int | None = None
    word_tokens: Sequence[WordTokens] = ()
    tokens: Tokens | None = None
    spikes: Spikes | None = None


def _spelt(aligner: Listener, emissions: Emissions, text: str, index: int) -> _Row:
    if not isinstance(text, str):
        raise UsageError(f"text {index}: expected the transcript as a str, got {type(text).__name__}")
    scored = Scored(text, index, frames=len(emissions.log_probs))
    tokenizer = aligner._tokenizer(emissions)
    try:
        words = words_of(text, aligner.settings)
        require_words(words, "transcript")
        word_tokens = tokenize(words, tokenizer)
        if aligner.settings.unknown == "error":
            refuse_missing(words, word_tokens)
        scored = replace(scored, unknown=count_missing(word_tokens))
        if not any(word.pronunciations for word in word_tokens):
            raise TranscriptError("the model's vocabulary has nothing for any word of the transcript")
    except InputError as error:
        told = type(error)(str(error).removeprefix("transcript: "))
        return _Row(replace(scored, error=told), emissions)
    return _Row(scored, emissions, tokenizer.separator, word_tokens)


def _choose(rows: Sequence[_Row], backend: str) -> None:
    """Of each row the pronunciations that the audio prefers; or why it does not fit."""
    kinds: dict[tuple[tuple[str, ...], int, bool], list[_Row]] = {}
    for row in rows:
        kinds.setdefault((row.emissions.vocab, row.emissions.blank, row.emissions.states is None), []).append(row)
    for (_, blank, without_states), same in kinds.items():
        found = choose_pronunciations_batch(
            [row.emissions.log_probs for row in same],
            [row.word_tokens for row in same],
            same[0].separator,
            blank,
            whole_words=not without_states,
            backend=backend,
        )
        for row, one in zip(same, found):
            if isinstance(one, InputError):
                row.scored = replace(row.scored, loss=math.inf, error=one)
            else:
                row.tokens, row.spikes = one
                row.scored = replace(row.scored, tokens=len(row.tokens.ids))


def _losses_of_one_audio(rows: Sequence[_Row], backend: str) -> list[float]:
    """One call of the kernel; the audio is not copied, all rows are views of it."""
    emissions = rows[0].emissions
    together = emissions.log_probs[None].expand(len(rows), *emissions.log_probs.shape)
    topology = lattice.ctc([np.asarray(_ids(row), np.int64) for row in rows], emissions.blank)
    return [-score for score in kernels.forward(together, topology, backend=backend).scores.tolist()]


def _ids(row: _Row) -> Sequence[int]:
    assert row.tokens is not None
    return row.tokens.ids


def _add_losses(rows: Sequence[_Row], losses: Sequence[float]) -> None:
    for row, loss in zip(rows, losses):
        assert row.spikes is not None
        # One path is never likelier than all; where it is all there is, rounding may say so.
        row.scored = replace(row.scored, loss=min(loss, -row.spikes.score))


def _finished(row: _Row) -> Scored:
    if row.tokens is None or row.spikes is None:
        return row.scored
    return replace(row.scored, local_loss=_local_loss(row.emissions, row.tokens, row.spikes))


def _local_loss(emissions: Emissions, tokens: Tokens, spikes: Spikes) -> float:
    """Nats that a path lies below the best label of each frame, in the window of `LOCAL_S` where they are most."""
    log_probs = emissions.log_probs.numpy()
    emitted = np.full(len(log_probs), emissions.blank)
    for token, first, last in zip(tokens.ids, spikes.first.tolist(), spikes.last.tolist()):
        emitted[first:last] = token
    below = log_probs.max(1).astype(np.float64) - log_probs[np.arange(len(log_probs)), emitted]
    window = min(max(1, units.seconds_to_frames(LOCAL_S, emissions.frame_shift_s)), len(below))
    sums = np.concatenate(([0.0], np.cumsum(below)))
    return float((sums[window:] - sums[:-window]).max())


def _ranked(scored: Sequence[Scored]) -> list[Scored]:
    """Best first, with ranks and posteriors."""
    comparable = [one for one in scored if not one.unknown and one.loss < math.inf]
    posterior = dict(zip((one.index for one in comparable), posteriors([one.loss for one in comparable])))
    if comparable:
        posterior |= {one.index: 0.0 for one in scored if not one.unknown and one.loss == math.inf}
    order = sorted(scored, key=lambda one: (_tier(one), math.inf if one.error else one.loss))
    return [replace(one, rank=rank, posterior=posterior.get(one.index)) for rank, one in enumerate(order, start=1)]


def _tier(one: Scored) -> int:
    """0: whole transcripts, 1: those that do not fit, 2: those with unknown letters, 3: those that are none."""
    if one.unknown:
        return 2
    if one.error is None:
        return 0
    return 1 if one.loss == math.inf else 3


def posteriors(losses: Sequence[float]) -> list[float]:
    """Probabilities of alternatives that were equally likely before, of their losses: softmax of -loss.

    >>> [round(p, 3) for p in posteriors([5000.0, 5001.0, 9000.0])]
    [0.731, 0.269, 0.0]
    """
    # Relative to the smallest one, so that nothing underflows but what is too small to count.
    weights = [math.exp(min(losses) - loss) for loss in losses]
    total = math.fsum(weights)
    return [weight / total for weight in weights]
