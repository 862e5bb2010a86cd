"""Notes on an alignment: what has no times, what is doubtful, and where transcript and recording disagree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ctc_align.cli.messages import counted
from ctc_align.types import DIRECTION, MARKUP, NONE, POOR, SKIPPED, SPEAKER, UNEXPLAINED, UNKNOWN, UNSPOKEN

if TYPE_CHECKING:
    from ctc_align.formats import Alignment

_SEVERAL = 5


def notes(alignment: Alignment) -> list[str]:
    """Return notes on words without times, doubtful words, unexplained speech, and a poor fit."""
    from ctc_align.text.control_characters import printable

    if alignment.fit == NONE and alignment.skipped:
        lost = f"{alignment.regions[0].reason}: no word has times (--match exact places them all the same)"
        return [lost, *cue_notes(alignment)]
    found = []
    reasons = {
        UNKNOWN: "the model can stand for none of it",
        UNSPOKEN: "nothing to pronounce",
        SKIPPED: "not in the audio",
    }
    for status, reason in reasons.items():
        words = [printable(word.text) for word in alignment.words if word.status == status and not word.kind]
        if words:
            found.append(f"without times ({reason}): {several(words)}")
    found += markup_notes(alignment) + cue_notes(alignment)
    doubtful = doubtful_words(alignment)
    if doubtful:
        found.append(f"doubtful: {several(doubtful, ', ')}")
    if alignment.unexplained:
        stretches = [f"{start_s:.2f}–{end_s:.2f} s" for start_s, end_s in alignment.unexplained]
        found.append(f"speech that no word explains: {several(stretches, ', ')}")
    found += region_notes(alignment)
    found += lone_word_notes(alignment)
    return found


def region_notes(alignment: Alignment) -> list[str]:
    """Return notes on the words that do not fit the recording, and where they are; else on a poor fit of all."""
    regions = [region for region in alignment.regions if region.kind != UNEXPLAINED]
    found = [f"{region.reason} ({region.start_s:.2f}–{region.end_s:.2f} s)" for region in regions[:_SEVERAL]]
    if len(regions) > _SEVERAL:
        found.append(f"and {len(regions) - _SEVERAL} more stretches of words do not fit: see `regions` in JSON")
    if alignment.fit == POOR and not regions:
        loss = f"{alignment.loss_per_token:.1f} a token"
        found.append(f"the transcript fits the recording badly (loss {loss}): is it what is said, and all of it?")
    return found


def lone_word_notes(alignment: Alignment) -> list[str]:
    """Return a note on single words that are likely elsewhere, or not spoken: those in a row are regions, and those
    of less than the least confidence are told as doubtful."""
    from ctc_align.alignment.fit import UNLIKELY
    from ctc_align.text.control_characters import printable

    if alignment.fit is None:
        return []
    stretches = [
        (region.char_start, region.char_end)
        for region in alignment.regions
        if region.char_start is not None and region.char_end is not None
    ]
    lone = [
        f"{printable(word.text)} ({word.start_s:.2f} s)"
        for word in alignment.words
        if word.confidence is not None
        and alignment.min_confidence <= word.confidence <= UNLIKELY
        and not any(start <= word.char_start < end for start, end in stretches)
    ]
    which = "a word is likely" if len(lone) == 1 else f"{len(lone)} single words are likely"
    return [f"{which} not spoken, or elsewhere: {several(lone, ', ')}"] if lone else []


def markup_notes(alignment: Alignment) -> list[str]:
    """Return notes on what is written and not spoken: how much of each kind, and how many parentheses."""
    from ctc_align.text.control_characters import printable
    from ctc_align.text.stage_directions import parentheses

    groups: dict[str, list[str]] = {SPEAKER: [], DIRECTION: [], MARKUP: []}
    for word in alignment.words:
        if word.kind in groups:
            groups[word.kind].append(printable(word.text))
    names = {SPEAKER: "names of speakers", DIRECTION: "stage directions", MARKUP: "markup"}
    parts = [f"{names[kind]} ({several(words)})" for kind, words in groups.items() if words]
    found = [f"not spoken: {', '.join(parts)}"] if parts else []
    directions = {
        at for word in alignment.words if word.kind == DIRECTION for at in range(word.char_start, word.char_end)
    }
    spans = parentheses(alignment.text)
    left_out = sum(all(at in directions for at in (start, end - 1)) for start, end in spans)
    if left_out:
        found.append(f"{left_out} of {counted(len(spans), 'parenthesis is', 'parentheses are')} not spoken")
    return found


def several(items: Sequence[str], separator: str = " ") -> str:
    """Return the first of some different items, and how many more there are."""
    different = list(dict.fromkeys(items))
    more = f" and {len(different) - _SEVERAL} more" if len(different) > _SEVERAL else ""
    return separator.join(different[:_SEVERAL]) + more


def cue_notes(alignment: Alignment) -> list[str]:
    """Return a note on the cues of a subtitle file that have text and no word with a time."""
    from ctc_align.formats.source_cues import cues_without_times

    places = cues_without_times(alignment)
    if not places or alignment.config.get("cues") == "again":
        return []
    which = counted(len(places), "cue has", "cues have")
    return [
        f"{which} no word with a time (number {several([str(place) for place in places], ', ')}): "
        "shown at the old time, moved as its neighbours are, or between them"
    ]


def doubtful_words(alignment: Alignment) -> list[str]:
    """Return the words of less than the least confidence, with their times."""
    from ctc_align.text.control_characters import printable

    return [f"{printable(word.text)} ({word.start_s:.2f} s, {word.confidence:.2f})" for word in alignment.doubtful]
