"""The wildcard: a token for speech that the transcript or the vocabulary does not spell.

A wildcard among the tokens (`lattice.WILDCARD`) is one state, in which a path may remain as long as
the unknown speech lasts, through labels and the blanks between them. Its score is therefore that of
the likeliest class, but a label costs `penalty` nats more than as a token of the transcript, so
that the transcript keeps the speech that it can explain.

Letters that the model's vocabulary lacks become wildcards, so that their words get times, too. The
loss and the score ignore them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import pairwise

import numpy as np

from ctc_align import units
from ctc_align.alignment.ctc_path import PIECE_FRAMES, Spans, best_word_path
from ctc_align.errors import InputError, KernelError
from ctc_align.kernels import ArrayT, is_floating
from ctc_align.kernels.batching import StageSteps
from ctc_align.lattice import WILDCARD
from ctc_align.machine.rows_on_disk import ArrayOnDisk
from ctc_align.tokens.alphabet import SEPARATORS, SILENCES, STAR
from ctc_align.types import Emissions, Tokens, WordTokens

PENALTY = 1.0
"""In nats, tuned by `research/wildcard.py` with the English model on recorded sentences: a
wildcard beside tokens takes 36 % of those that were said (57 % without a penalty, 32 % however high
it is), and 94 % of those that were not (87 % at 4). A higher penalty moves the words beside speech
that is not in the transcript: 87 % of them stay within two frames, 81 % at 2."""
LETTER_S = 0.15
"""The longest time for a letter where the model finds no label: the frames may be a long pause."""


def wildcard_scores(
    log_probs: ArrayT, blank: int = 0, penalty: float = PENALTY, *, without: Collection[int] = ()
) -> ArrayT:
    """Return each frame's wildcard score: the best class minus `penalty`, or the blank's.

    Without the blank a wildcard would be as short as one label: CTC's blanks between labels are so
    much likelier than any label that the neighbours would take the rest of the unknown speech.

    Args:
        log_probs: (..., T, C) floating point, natural log, an array or a tensor; no copy of it is
            made.
        blank: the class of the blank, or of silence in a model without a blank.
        penalty: in nats, 0 or more. The higher, the more of what fits badly goes to the words of
            the transcript.
        without: classes that do not count: a star, which is as likely as anything at every frame.

    Returns:
        (..., T), of the same kind, dtype and device.

    Raises:
        KernelError: another array, class or penalty than expected.

    >>> x = np.array([[-0.1, -3.0, -5.0], [-4.0, -6.0, -0.5]])
    >>> wildcard_scores(x, blank=0, penalty=1.0).tolist()
    [-0.1, -1.5]
    """
    if not is_floating(log_probs) or log_probs.ndim < 2:
        if hasattr(log_probs, "shape"):
            got = f"{log_probs.dtype} of shape {tuple(log_probs.shape)}"
        else:
            got = "none"
        raise KernelError(f"log_probs: expected floating-point numbers (..., T, C), got {got}")
    if not 0 <= blank < log_probs.shape[-1]:
        raise KernelError(f"blank: expected a class below {log_probs.shape[-1]}, got {blank}")
    if not 0 <= penalty < math.inf:
        raise KernelError(f"penalty: expected nats, 0 or more, got {penalty}")
    scores = log_probs[..., blank]
    # Slices between the classes that do not count are views: the maximum needs no copy of the
    # log-probs.
    bounds = sorted({-1, blank, *without, log_probs.shape[-1]})
    for before, after in pairwise(bounds):
        others = log_probs[..., before + 1 : after]
        if others.shape[-1]:
            if isinstance(scores, np.ndarray):
                scores = np.maximum(scores, others.max(-1) - scores.dtype.type(penalty))
            else:
                scores = scores.maximum(others.amax(-1) - penalty)
    return scores


def scores_of(emissions: Emissions) -> np.ndarray:
    """Return (T,) the wildcard's scores; stars (as in MMS_FA) and separators do not count."""
    return wildcard_scores(emissions.array, emissions.blank, without=soundless(emissions))


def soundless(emissions: Emissions) -> list[int]:
    """Return the classes that are no sounds, without the blank: separators, silences, a star."""
    return [
        index
        for index, token in enumerate(emissions.vocab)
        if token in (STAR, *SEPARATORS, *SILENCES)
    ]


def speech_scores(states: np.ndarray | ArrayOnDisk) -> np.ndarray:
    """Return (T,) the wildcard's scores on states (T, K): the best sound minus the penalty.

    The last state is silence. The topology has it beside the wildcard, which therefore need not
    score silence.
    """
    pieces = [states[low : low + PIECE_FRAMES] for low in range(0, len(states), PIECE_FRAMES)]
    return np.concatenate([piece[:, :-1].max(-1) - np.float32(PENALTY) for piece in pieces])


def with_wildcards(
    tokens: Tokens, word_tokens: Sequence[WordTokens], separator: int | None
) -> Tokens | None:
    """Return the tokens with a labelled wildcard wherever the vocabulary lacks letters.

    None if it lacks no letters, or where they are is unknown (inside a word pronounced by rules).

    Args:
        tokens: of the chosen pronunciations, as `ctc_align.tokens.tokenizer.join` makes them.
        word_tokens: one per word, with all pronunciations and what they lack.
        separator: id of the token between words, None without one.
    """
    spans: dict[int, tuple[int, int]] = {}
    for at, word in enumerate(tokens.words):
        if word >= 0:
            spans[word] = (spans.get(word, (at, 0))[0], at + 1)
    row: list[tuple[int, str, int]] = []
    for index, word_token in enumerate(word_tokens):
        start, end = spans.get(index, (0, 0))
        chosen = next(
            (said for said in word_token.pronunciations if said.ids == tokens.ids[start:end]), None
        )
        if chosen:
            gaps = dict(chosen.gaps)
        elif word_token.missing:
            gaps = {0: "".join(word_token.missing)}
        else:
            gaps = {}
        if row and separator is not None and (gaps or end):
            row.append((separator, "|", -1))
        for at in range(start, end + 1):
            if at - start in gaps:
                row.append((WILDCARD, gaps[at - start], index))
            if at < end:
                row.append((tokens.ids[at], tokens.labels[at], tokens.words[at]))
    if not any(token == WILDCARD for token, _, _ in row):
        return None
    ids, labels, owners = zip(*row)
    return Tokens(ids, labels, owners)


def place_wildcards(
    emissions: Emissions,
    tokens: Tokens,
    spikes: Spans,
    word_tokens: Sequence[WordTokens],
    separator: int | None,
    backend: str = "auto",
) -> StageSteps[tuple[Tokens, Spans]]:
    """Return the tokens with wildcards for missing letters, and their spikes on the best path.

    Where no letters are lacking, or wildcards do not fit, return tokens and spikes unchanged: the
    other words have times all the same. Arguments as `with_wildcards`; `spikes` are those of the
    best path through the tokens.
    """
    if any(word.missing for word in word_tokens):
        row = with_wildcards(tokens, word_tokens, separator)
    else:
        row = None
    if row is None:
        return tokens, spikes
    scores = scores_of(emissions)
    try:
        on_path, _ = yield from best_word_path(emissions, row, wildcard=scores, backend=backend)
    except InputError:
        return tokens, spikes
    return row, widened(on_path, row, emissions, scores)


def widened(spikes: Spans, tokens: Tokens, emissions: Emissions, scores: np.ndarray) -> Spans:
    """Return the spikes with each wildcard from its first to its last label in the model.

    A blank scores as well in a wildcard as beside it: on the best path a wildcard may have a single
    frame of the speech that it covers. Where the model finds no label, the wildcard begins at its
    left neighbour (or ends at the right one, at the beginning of the audio) and has at most
    `LETTER_S` for each letter. Wildcards in a row share by letters.

    Args:
        spikes: on the best path through the row `tokens`.
        scores: (T,) as `scores_of` the emissions.
    """
    lacking = np.asarray(tokens.ids) == WILDCARD
    labelled = scores > emissions.array[:, emissions.blank]
    first, last = spikes.start.copy(), spikes.end.copy()
    weights = np.where(lacking, [len(label) for label in tokens.labels], 0)
    words = np.asarray(tokens.words)
    for low, high in _find_runs(lacking, words):
        # Separators beside a wildcard may be anywhere among the blanks: they follow its edges.
        before = low - 1
        after = high
        while before >= 0 and words[before] < 0:
            before -= 1
        while after < len(words) and words[after] < 0:
            after += 1
        begin = int(last[before]) if before >= 0 else 0
        if after < len(first):
            end = int(first[after])
        else:
            end = len(scores)
        labels = begin + np.flatnonzero(labelled[begin:end])
        most = max(
            1,
            units.seconds_to_frames(
                int(weights[low:high].sum()) * LETTER_S, emissions.frame_shift_s
            ),
        )
        if len(labels):
            begin = labels[0]
            end = labels[-1] + 1
        elif before >= 0:
            end = min(end, begin + most)
        else:
            begin = max(begin, end - most)
        if end - begin >= np.count_nonzero(lacking[low:high]):
            first[low:high], last[low:high] = _share_frames(weights[low:high], begin, end)
            first[before + 1 : low] = np.minimum(first[before + 1 : low], begin)
            last[before + 1 : low] = np.minimum(last[before + 1 : low], begin)
            first[high:after] = np.maximum(first[high:after], end)
            last[high:after] = np.maximum(last[high:after], end)
    return Spans(first, last)


def _find_runs(lacking: np.ndarray, words: np.ndarray) -> list[tuple[int, int]]:
    """Return runs of wildcards, with their separators, as (first, last exclusive)."""
    stretches: list[tuple[int, int]] = []
    for at in np.flatnonzero(lacking).tolist():
        if stretches and (words[stretches[-1][1] : at] < 0).all():
            stretches[-1] = (stretches[-1][0], at + 1)
        else:
            stretches.append((at, at + 1))
    return stretches


def _share_frames(weights: np.ndarray, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Return starts and ends that share out the frames [begin, end) by weights.

    Each has at least one frame, none for weight 0.

    >>> [part.tolist() for part in _share_frames(np.array([1, 0, 9]), 5, 9)]
    [[5, 6, 6], [6, 6, 9]]
    """
    one_each = (weights > 0).astype(np.int64)
    spare = end - begin - one_each.sum()
    lasts = begin + np.cumsum(one_each) + np.cumsum(weights) * spare // weights.sum()
    return np.append(begin, lasts[:-1]), lasts
