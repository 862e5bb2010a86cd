"""Emissions and token ids to the best CTC path and the CTC loss: of one utterance, or of many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ctc_align import kernels, lattice
from ctc_align.errors import EmissionsError, InputError, TooShortError
from ctc_align.kernels.padding import buckets, pad
from ctc_align.types import Tokens

GAP_FRAMES = 50
"""Between the spikes of two sounds of one word: more is a word torn apart."""

GAP_COST = 0.1
"""Nats that each frame between the spikes of a word costs when a word was torn apart."""


@dataclass(frozen=True)
class Spikes:
    """Where the best CTC path is in each token: frames `first` (L,) to `last` (L,), exclusive; `score` its log-prob."""

    first: np.ndarray
    last: np.ndarray
    score: float
    backend: str


def best_spikes(log_probs: torch.Tensor, ids: Sequence[int], blank: int, *, backend: str = "auto") -> Spikes:
    """Best CTC path of one utterance.

    Args:
        log_probs: (T, C).
        ids: L token ids.
        blank: the class of the blank.

    Raises:
        TooShortError: L plus repeats is more than T.
        EmissionsError: every path has probability zero.
    """
    return raised(best_spikes_batch([log_probs], [ids], blank, backend=backend)[0])


def best_spikes_batch(
    log_probs: Sequence[torch.Tensor],
    ids: Sequence[Sequence[int]],
    blank: int,
    *,
    wildcards: Sequence[torch.Tensor] | None = None,
    backend: str = "auto",
) -> list[Spikes | InputError]:
    """As `best_spikes` of each of many utterances; an error stands in the place of the one that it concerns.

    `wildcards` are the scores (T,) of `lattice.WILDCARD` among the ids of each.
    """
    found: list[Spikes | InputError] = [InputError()] * len(ids)
    for places in buckets(log_probs):
        topology = lattice.ctc([np.asarray(ids[i], np.int64) for i in places], blank)
        batch, lengths = pad([log_probs[i] for i in places])
        wildcard = None if wildcards is None else pad([wildcards[i] for i in places])[0]
        path = kernels.best_path(batch, topology, lengths, wildcard=wildcard, backend=backend)
        first, last = runs_batch(path.states.cpu().numpy(), topology.token)
        scores, needed = path.scores.tolist(), topology.min_frames.tolist()
        for row, (i, frames) in enumerate(zip(places, lengths)):
            try:
                check_fits(frames, needed[row], len(ids[i]))
                if scores[row] == float("-inf"):
                    raise EmissionsError(
                        "the log-probs give this transcript probability zero (every path meets -inf): nothing can be "
                        "aligned; is it the right transcript?"
                    )
            except InputError as error:
                found[i] = error
                continue
            found[i] = Spikes(first[row, : len(ids[i])], last[row, : len(ids[i])], scores[row], path.backend)
    return found


def word_spikes(
    log_probs: torch.Tensor, tokens: Tokens, blank: int, *, backend: str = "auto", gap_frames: int = GAP_FRAMES
) -> Spikes:
    """As `best_spikes`, but no word is torn apart: to CTC a second of blanks inside a word is as good as outside.

    In long pauses with noise, and where something is said that is not in the transcript, the best path leaves single
    sounds far from the rest of their word. Then the frames come from the best path on which blanks inside words cost
    something; the score stays that of the best path.
    """
    return raised(word_spikes_batch([log_probs], [tokens], blank, [gap_frames], backend=backend)[0])


def word_spikes_batch(
    log_probs: Sequence[torch.Tensor],
    tokens: Sequence[Tokens],
    blank: int,
    gap_frames: Sequence[int],
    *,
    wildcards: Sequence[torch.Tensor] | None = None,
    backend: str = "auto",
) -> list[Spikes | InputError]:
    """As `word_spikes` of each of many utterances; an error stands in the place of the one that it concerns.

    `wildcards` as in `best_spikes_batch`.
    """
    found = best_spikes_batch(log_probs, [row.ids for row in tokens], blank, wildcards=wildcards, backend=backend)
    insides = [_inside(row) for row in tokens]
    torn = [
        i
        for i, (spikes, inside, gap) in enumerate(zip(found, insides, gap_frames))
        if isinstance(spikes, Spikes) and (inside & (spikes.first[1:] - spikes.last[:-1] > gap)).any()
    ]
    costly = [torch.cat((log_probs[i], log_probs[i][:, blank, None] - GAP_COST), 1) for i in torn]
    for bucket in buckets(costly):
        topology = lattice.ctc([np.asarray(tokens[torn[k]].ids, np.int64) for k in bucket], blank)
        emit = topology.emit.copy()
        for row, k in enumerate(bucket):
            inside = insides[torn[k]]
            emit[row, 2 : 2 * len(inside) + 1 : 2][inside] = costly[k].shape[1] - 1
        batch, lengths = pad([costly[k] for k in bucket])
        wildcard = None if wildcards is None else pad([wildcards[torn[k]] for k in bucket])[0]
        path = kernels.best_path(batch, replace(topology, emit=emit), lengths, wildcard=wildcard, backend=backend)
        first, last = runs_batch(path.states.cpu().numpy(), topology.token)
        for row, k in enumerate(bucket):
            count = len(tokens[torn[k]].ids)
            found[torn[k]] = replace(found[torn[k]], first=first[row, :count], last=last[row, :count])  # type: ignore[type-var]
    return found


def _inside(tokens: Tokens) -> np.ndarray:
    """(L - 1,) bool: whether a token and the next belong to one word."""
    owner = np.asarray(tokens.words)
    inside: np.ndarray = (owner[1:] == owner[:-1]) & (owner[1:] >= 0)
    return inside


def raised(result: Spikes | InputError) -> Spikes:
    """The result, or the error that stands in its place."""
    if isinstance(result, InputError):
        raise result
    return result


def check_fits(frames: int, needed: int, tokens: int) -> None:
    """Raises TooShortError when the shortest path is longer than the audio."""
    if needed > frames:
        raise TooShortError(
            f"the transcript is longer than the audio can hold: {tokens} tokens need at least {needed} frames, "
            f"the audio has {frames}; is it the right transcript, and the whole recording?"
        )


def runs(states: np.ndarray, token_of_state: np.ndarray, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """First and last (exclusive) frame of each token along a path of states (T,); -1 where it is never met."""
    first, last = runs_batch(states[None], token_of_state[None])
    room = np.full((2, max(0, tokens - first.shape[1])), -1)
    return np.concatenate((first[0, :tokens], room[0])), np.concatenate((last[0, :tokens], room[1]))


def runs_batch(states: np.ndarray, token_of_state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As `runs` of paths (B, T), -1 beyond their ends, through states whose tokens are (B, S): both (B, tokens).

    A path that has left a token never comes back to it.
    """
    batch, frames = states.shape
    tokens = int(token_of_state.max(initial=-1)) + 1
    first, last = np.full((2, batch, tokens), -1, np.int64)
    if not frames:
        return first, last
    place = np.arange(batch)[:, None] * token_of_state.shape[1]
    token = np.where(states < 0, -1, token_of_state.reshape(-1)[place + np.maximum(states, 0)])
    begins = token >= 0
    ends, changes = begins.copy(), token[:, 1:] != token[:, :-1]
    begins[:, 1:] &= changes
    ends[:, :-1] &= changes
    for edge, at, add in ((first, begins, 0), (last, ends, 1)):
        row, frame = np.nonzero(at)
        edge[row, token[row, frame]] = frame + add
    return first, last


def ctc_score(log_probs: torch.Tensor, ids: Sequence[int], blank: int, *, backend: str = "auto") -> float:
    """The exact CTC loss -log p(ids | log_probs), natural log; inf where it does not fit."""
    return ctc_scores([log_probs], [ids], blank, backend=backend)[0]


def ctc_scores(
    log_probs: Sequence[torch.Tensor], ids: Sequence[Sequence[int]], blank: int, *, backend: str = "auto"
) -> list[float]:
    """As `ctc_score` of each of many utterances."""
    losses = [0.0] * len(ids)
    for places in buckets(log_probs):
        topology = lattice.ctc([np.asarray(ids[i], np.int64) for i in places], blank)
        batch, lengths = pad([log_probs[i] for i in places])
        for i, score in zip(places, kernels.forward(batch, topology, lengths, backend=backend).scores.tolist()):
            losses[i] = -score
    return losses
