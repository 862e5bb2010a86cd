"""Emissions and words of many utterances to their alignments, every kernel run once for many.

What is wrong with one utterance stands in its place and concerns no other. An utterance's alignment is the same, to the
bit, alone and in any batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from ctc_align.assembling import aligned_words, duration_of
from ctc_align.calibration import Calibration
from ctc_align.config import Settings
from ctc_align.ctc_path import Spikes, choose_pronunciations_batch, ctc_scores
from ctc_align.edges import Drawing, Edges, Utterance, draw_batch
from ctc_align.errors import CtcAlignError, InputError, TranscriptError
from ctc_align.evidence import confidences
from ctc_align.tokens import Tokenizer, count_missing, tokenize
from ctc_align.types import Alignment, Emissions, Tokens, Words, WordTokens


@dataclass(frozen=True)
class Task:
    """An utterance that was listened to: its name, the audio as it was given, its words, what the model says."""

    name: str
    source: str
    words: Words
    emissions: Emissions


@dataclass(frozen=True)
class Means:
    """What all tasks share. `tokenizer`, `model_name` and `calibration` are asked with emissions."""

    tokenizer: Callable[[Emissions], Tokenizer]
    model_name: Callable[[Emissions], str]
    calibration: Callable[[Emissions], Calibration]
    settings: Settings
    backend: str


@dataclass(frozen=True)
class Chosen:
    """A task whose pronunciations are chosen: tokens, their spikes on the best path, and the exact loss."""

    task: Task
    word_tokens: Sequence[WordTokens]
    tokens: Tokens
    spikes: Spikes
    loss: float


def choose(tasks: Sequence[Task], means: Means) -> list[Chosen | CtcAlignError]:
    """Which pronunciations the audio prefers, and the loss; or why there is none. Errors are not named yet."""
    results: list[Chosen | CtcAlignError] = [InputError()] * len(tasks)
    kinds: dict[Any, list[int]] = {}
    for i, task in enumerate(tasks):
        kinds.setdefault(_kind(task.emissions), []).append(i)
    for places in kinds.values():
        for i, result in zip(places, _choose([tasks[i] for i in places], means)):
            results[i] = result
    return results


def _kind(emissions: Emissions) -> Any:
    """What must be the same for utterances that go together."""
    width = None if emissions.states is None else emissions.states.shape[1]
    return emissions.vocab, emissions.blank, width


def _choose(tasks: Sequence[Task], means: Means) -> list[Chosen | CtcAlignError]:
    """As `choose`, of one kind."""
    first = tasks[0].emissions
    tokenizer = means.tokenizer(first)
    tokenizer.prepare(word.said for word in chain.from_iterable(task.words.words for task in tasks))
    word_tokens = [_word_tokens(task, tokenizer) for task in tasks]
    results: list[Chosen | CtcAlignError] = [InputError()] * len(tasks)
    good: list[tuple[int, Sequence[WordTokens]]] = []
    for i, told in enumerate(word_tokens):
        if isinstance(told, CtcAlignError):
            results[i] = told
        else:
            good.append((i, told))
    log_probs = [tasks[i].emissions.log_probs for i, _ in good]
    found = choose_pronunciations_batch(
        log_probs,
        [told for _, told in good],
        tokenizer.separator,
        first.blank,
        whole_words=first.states is not None,
        backend=means.backend,
    )
    fits = [
        (i, words, x, *one) for (i, words), x, one in zip(good, log_probs, found) if not isinstance(one, InputError)
    ]
    for (i, _), one in zip(good, found):
        if isinstance(one, InputError):
            results[i] = one
    losses = ctc_scores([fit[2] for fit in fits], [fit[3].ids for fit in fits], first.blank, backend=means.backend)
    for (i, words, _, tokens, spikes), loss in zip(fits, losses):
        # A word of two spoken parts holds a separator, which is none of its sounds.
        parted = (-1 if token == tokenizer.separator else w for token, w in zip(tokens.ids, tokens.words))
        # One path is never likelier than all; where it is all there is, rounding may say so.
        loss = min(loss, -spikes.score)
        results[i] = Chosen(tasks[i], words, replace(tokens, words=tuple(parted)), spikes, loss)
    return results


def _word_tokens(task: Task, tokenizer: Tokenizer) -> list[WordTokens] | CtcAlignError:
    try:
        word_tokens = tokenize(task.words, tokenizer)
    except CtcAlignError as error:
        return error
    if any(word.pronunciations for word in word_tokens):
        return word_tokens
    lacking = "".join(dict.fromkeys(letter for word in word_tokens for letter in word.missing))
    return TranscriptError(
        f"the model's vocabulary has nothing for any word of the transcript (it lacks {lacking[:40]!r}); "
        "is it the right model for this language?"
    )


def align_emissions(tasks: Sequence[Task], means: Means) -> list[Alignment | CtcAlignError]:
    """Of each task its alignment, or why there is none. Errors are not named yet."""
    chosen = choose(tasks, means)
    good = [i for i, one in enumerate(chosen) if isinstance(one, Chosen)]
    results: list[Alignment | CtcAlignError] = [
        one if isinstance(one, CtcAlignError) else InputError() for one in chosen
    ]
    rows = [one for one in chosen if isinstance(one, Chosen)]
    for i, one, edges in zip(good, rows, _edges(rows, means)):
        results[i] = _alignment(one, edges, means)
    return results


def _edges(rows: Sequence[Chosen], means: Means) -> list[Edges]:
    """Where the tokens are."""
    edges: list[Any] = [None] * len(rows)
    kinds: dict[Any, list[int]] = {}
    for i, one in enumerate(rows):
        emissions = one.task.emissions
        kinds.setdefault((_kind(emissions), emissions.frame_shift_s), []).append(i)
    settings = means.settings
    for places in kinds.values():
        calibration = means.calibration(rows[places[0]].task.emissions)
        drawing = Drawing(settings.edges, calibration, settings.band_s, settings.shortest_pause_s, means.backend)
        given = [Utterance(rows[i].task.emissions, rows[i].tokens, rows[i].spikes) for i in places]
        for i, drawn in zip(places, draw_batch(given, drawing)):
            edges[i] = drawn
    return edges


def _alignment(one: Chosen, edges: Edges, means: Means) -> Alignment:
    task, tokens = one.task, one.tokens
    emissions, words = task.emissions, task.words
    given = Utterance(emissions, tokens, one.spikes)
    return Alignment(
        utterance=task.name,
        audio=task.source,
        duration_s=duration_of(emissions),
        model=means.model_name(emissions),
        backend=one.spikes.backend,
        frame_shift_s=emissions.frame_shift_s,
        loss=one.loss,
        score=one.spikes.score,
        text=words.text,
        words=aligned_words(words, tokens, edges, confidences(given, edges, means.calibration(emissions)), emissions),
        unknown=count_missing(one.word_tokens),
        offset_s=emissions.offset_s,
        loss_per_token=one.loss / len(tokens.ids),
        config=means.settings.to_dict(),
        token_kind=means.tokenizer(emissions).token_kind,
    )
