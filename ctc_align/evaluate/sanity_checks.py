"""Checks for meaningless figures: different units, recordings or transcripts, swapped arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from ctc_align.evaluate.pairing import Pairing
from ctc_align.text.note_kinds import name_first

_UNITS = {
    1e3: "milliseconds",
    1e6: "microseconds",
    1e7: "HTK's units of 100 ns",
    100.0: "frames of 10 ms",
    50.0: "frames of 20 ms",
    8000.0: "samples at 8 kHz",
    16000.0: "samples at 16 kHz",
    22050.0: "samples at 22.05 kHz",
    44100.0: "samples at 44.1 kHz",
    48000.0: "samples at 48 kHz",
}
_OTHER_UNIT = 4.0
_UNIT_SLACK = 1.2
_RATIO_SPREAD = 0.1
_EARLIEST_S = 0.05
_DURATIONS_DIFFER_S, _DURATIONS_DIFFER = 0.5, 0.05
_SHIFT_S = 0.25
_SHIFT_SPREAD = 0.2
_SHIFT_PAIRS = 3
_FAR_S = 0.25
"""Half of a recording's own labels are never farther off than this, with any aligner."""


def find_doubts(utterances: Sequence[Pairing]) -> tuple[str, ...]:
    """Return sentences that explain why the figures of these utterances may be meaningless."""
    doubts = [_swapped(utterances), _units(utterances)]
    if doubts[1] is None:
        doubts += [_shifted(utterances), _durations(utterances)]
        doubts += [] if doubts[2] else [_far(utterances)]
    return tuple(
        doubt
        for doubt in [*doubts, _labels(utterances), _unlabelled(utterances)]
        if doubt is not None
    )


def find_time_doubts(utterances: Sequence[Pairing]) -> tuple[str, ...]:
    """Return why the times of both sides can hardly be of one recording, in a sentence, if so."""
    doubt = _shifted(utterances) or _far(utterances)
    return (doubt,) if doubt else ()


def _swapped(utterances: Sequence[Pairing]) -> str | None:
    if not utterances or any(
        ours or not theirs for ours, theirs in (paired.ours for paired in utterances)
    ):
        return None
    return (
        "the reference was made by ctc-align, the hypothesis was not: is the hypothesis given"
        " first?"
    )


def _units(utterances: Sequence[Pairing]) -> str | None:
    pairs = [pair for paired in utterances for pair in paired.pairs]
    ratios = [
        pair.hypothesis.end_s / pair.reference.end_s
        for pair in pairs
        if pair.reference.end_s > _EARLIEST_S and pair.hypothesis.end_s > _EARLIEST_S
    ]
    ratio = median(ratios) if ratios else 1.0
    # a shift makes ratios too, but they differ
    if ratios:
        spread = median(abs(math.log(other / ratio)) for other in ratios)
    else:
        spread = 0.0
    if 1 / _OTHER_UNIT < ratio < _OTHER_UNIT or spread > _RATIO_SPREAD:
        return None
    if ratio > 1:
        side = "hypothesis"
        times = ratio
    else:
        side = "reference"
        times = 1 / ratio
    unit = min(_UNITS, key=lambda factor: abs(math.log(times / factor)))
    if 1 / _UNIT_SLACK < times / unit < _UNIT_SLACK:
        return f"the times of the {side} look like {_UNITS[unit]}; seconds are expected"
    return (
        f"the times of the {side} are {times:.3g} times the other's: seconds are expected on both"
        " sides"
    )


def _shifted(utterances: Sequence[Pairing]) -> str | None:
    shifts: dict[str, float] = {}
    for paired in utterances:
        pairs = paired.pairs
        if len(pairs) < _SHIFT_PAIRS:
            continue
        errors = _errors_s(paired)
        shift = median(errors)
        if abs(shift) > _SHIFT_S and median(
            abs(error - shift) for error in errors
        ) < _SHIFT_SPREAD * abs(shift):
            shifts[paired.utterance] = shift
    if not shifts:
        return None
    return (
        f"all times are off by about the same, {_signed_range(list(shifts.values()))}, in"
        f" {_some(list(shifts))}: do both count from the start of the same recording?"
    )


def _errors_s(paired: Pairing) -> list[float]:
    pairs = paired.pairs
    errors = [pair.hypothesis.start_s - pair.reference.start_s for pair in pairs]
    return errors + [pair.hypothesis.end_s - pair.reference.end_s for pair in pairs]


def _far(utterances: Sequence[Pairing]) -> str | None:
    far = [
        paired.utterance
        for paired in utterances
        if len(paired.pairs) >= _SHIFT_PAIRS and median(map(abs, _errors_s(paired))) > _FAR_S
    ]
    if not far:
        return None
    return (
        f"half of the edges are more than {_FAR_S:g} s off, which no aligner does, in {_some(far)}:"
        " are they of the same recording?"
    )


def _signed_range(shifts: Sequence[float]) -> str:
    low = f"{min(shifts):+.2f} s"
    high = f"{max(shifts):+.2f} s"
    return low if low == high else f"{low} to {high}"


def _durations(utterances: Sequence[Pairing]) -> str | None:
    other = []
    for paired in utterances:
        ours, theirs = paired.durations_s
        if ours is None or theirs is None:
            continue
        if abs(ours - theirs) > max(_DURATIONS_DIFFER_S, _DURATIONS_DIFFER * max(ours, theirs)):
            other.append(f"{paired.utterance} ({ours:.2f} s against {theirs:.2f} s)")
    if not other:
        return None
    return f"the recordings differ in length: {_some(other)}: are they the same ones?"


def _labels(utterances: Sequence[Pairing]) -> str | None:
    count = sum(len(paired.pairs) for paired in utterances)
    mismatched = sum(paired.mismatched for paired in utterances)
    if mismatched > count / 2:
        pairs = "pair" if count == 1 else "pairs"
        return (
            f"the labels of {mismatched} of {count} {pairs} differ: are these the same transcripts?"
        )
    others = []
    for paired in utterances:
        reference = len(paired.pairs) + len(paired.missing)
        if paired.mismatched + len(paired.missing) > reference / 2:
            others.append(paired.utterance)
    if not others:
        return None
    return (
        f"more than half of the reference has a different label or none in {_some(others)}: is it"
        " the same transcript?"
    )


def _unlabelled(utterances: Sequence[Pairing]) -> str | None:
    empty = [
        paired.utterance
        for paired in utterances
        if paired.extra and not paired.pairs and not paired.missing
    ]
    if empty:
        return f"the reference has no labels in {_some(empty)}: is all of it labelled?"
    return None


def _some(names: Sequence[str]) -> str:
    """Return the number of names and the first of them.

    >>> _some(["a", "b"]), _some(list("abcde"))
    ('2 utterances: a, b', '5 utterances: a, b, c and 2 more')
    """
    count = "1 utterance" if len(names) == 1 else f"{len(names)} utterances"
    return f"{count}: {name_first(list(names), len(names))}"
