"""Emissions and words of many utterances to their alignments, every kernel run once for many.

What is wrong with one utterance stands in its place and concerns no other. An utterance's alignment is the same, to the
bit, alone and in any batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from ctc_align.alignment.confidence import confidences
from ctc_align.alignment.edges import Drawing, Edges, Utterance, draw_batch, shared_out
from ctc_align.alignment.pronunciations import (
    GAP_FRAMES,
    Spikes,
    choose_pronunciations_batch,
    ctc_scores,
    word_spikes_batch,
)
from ctc_align.alignment.unexplained_speech import unexplained
from ctc_align.alignment.wildcard import scores_of, widened, with_wildcards
from ctc_align.alignment.words import aligned_words, duration_of
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError, InputError, TranscriptError
from ctc_align.formats import Alignment
from ctc_align.models.calibration import Calibration
from ctc_align.tokens.tokenizer import Tokenizer, missing_letters, refuse_missing, tokenize
from ctc_align.types import Emissions, Tokens, Words, WordTokens


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
    word_tokens = [_word_tokens(task, tokenizer, means.settings) for task in tasks]
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


def _word_tokens(task: Task, tokenizer: Tokenizer, settings: Settings) -> list[WordTokens] | CtcAlignError:
    try:
        word_tokens = tokenize(task.words, tokenizer)
        if settings.unknown == "error":
            refuse_missing(task.words, word_tokens)
    except CtcAlignError as error:
        return error
    if any(word.pronunciations for word in word_tokens):
        return word_tokens
    lacking = "".join(dict.fromkeys(letter for word in word_tokens for letter in word.missing))
    return TranscriptError(
        f"the model's vocabulary has nothing for any word of the transcript (it lacks {lacking[:40]!r}); "
        f"is it the right model for this language{'' if settings.romanize else ', or one for romanize = true'}?"
    )


def align_emissions(tasks: Sequence[Task], means: Means) -> list[Alignment | CtcAlignError]:
    """Of each task its alignment, or why there is none. Errors are not named yet."""
    chosen = choose(tasks, means)
    good = [i for i, one in enumerate(chosen) if isinstance(one, Chosen)]
    results: list[Alignment | CtcAlignError] = [
        one if isinstance(one, CtcAlignError) else InputError() for one in chosen
    ]
    rows = [one for one in chosen if isinstance(one, Chosen)]
    heard = _heard(rows, means)
    for i, one, given, edges in zip(good, rows, heard, _edges(heard, means)):
        results[i] = _alignment(one, given, shared_out(edges, given.tokens), means)
    return results


def _heard(rows: Sequence[Chosen], means: Means) -> list[Utterance]:
    """What times are made from: the tokens on CTC's best path, with wildcards where letters are lacking."""
    heard = [Utterance(one.task.emissions, one.tokens, one.spikes) for one in rows]
    if means.settings.unknown != "wildcard":
        return heard
    kinds: dict[Any, list[tuple[int, Tokens]]] = {}
    for i, one in enumerate(rows):
        if any(word.missing for word in one.word_tokens):
            emissions = one.task.emissions
            row = with_wildcards(one.tokens, one.word_tokens, means.tokenizer(emissions).separator)
            if row is not None:
                kinds.setdefault(_kind(emissions), []).append((i, row))
    for same in kinds.values():
        found = _with_wildcards([(rows[i].task.emissions, row) for i, row in same], means.backend)
        for (i, row), spikes in zip(same, found):
            # Where they do not fit, the other words have times all the same.
            if not isinstance(spikes, InputError):
                heard[i] = Utterance(rows[i].task.emissions, row, spikes)
    return heard


def _with_wildcards(given: Sequence[tuple[Emissions, Tokens]], backend: str) -> list[Spikes | InputError]:
    """Spikes of rows with wildcards; errors where they do not fit."""
    gaps = [len(emissions.log_probs) if emissions.states is None else GAP_FRAMES for emissions, _ in given]
    scores = [scores_of(emissions) for emissions, _ in given]
    found = word_spikes_batch(
        [emissions.log_probs for emissions, _ in given],
        [row for _, row in given],
        given[0][0].blank,
        gaps,
        wildcards=scores,
        backend=backend,
    )
    return [
        spikes if isinstance(spikes, InputError) else widened(spikes, row, emissions, own)
        for spikes, (emissions, row), own in zip(found, given, scores)
    ]


def _edges(heard: Sequence[Utterance], means: Means) -> list[Edges]:
    """Where the tokens are."""
    edges: list[Any] = [None] * len(heard)
    kinds: dict[Any, list[int]] = {}
    for i, one in enumerate(heard):
        kinds.setdefault((_kind(one.emissions), one.emissions.frame_shift_s), []).append(i)
    settings = means.settings
    for places in kinds.values():
        calibration = means.calibration(heard[places[0]].emissions)
        drawing = Drawing(settings.edges, calibration, settings.band_s, settings.shortest_pause_s, means.backend)
        for i, drawn in zip(places, draw_batch([heard[i] for i in places], drawing)):
            edges[i] = drawn
    return edges


def _alignment(one: Chosen, given: Utterance, edges: Edges, means: Means) -> Alignment:
    task = one.task
    emissions, words = task.emissions, task.words
    lacking = missing_letters(one.word_tokens)
    sure = confidences(given, edges, means.calibration(emissions))
    aligned = aligned_words(words, given.tokens, edges, sure, emissions)
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
        words=aligned,
        unknown=sum(lacking.values()),
        offset_s=emissions.offset_s,
        loss_per_token=one.loss / len(one.tokens.ids),
        config=means.settings.to_dict(),
        token_kind=means.tokenizer(emissions).token_kind,
        unexplained=unexplained(emissions, aligned),
        unknown_letters=lacking,
    )
