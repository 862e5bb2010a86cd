"""What makes figures doubtful: other units, other recordings, other transcripts, arguments the wrong way round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ctc_align.evaluate.pairing import Pairing

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
_SHIFT_S, _SHIFT_SPREAD, _SHIFT_PAIRS = 0.25, 0.2, 3
_NAMED = 3


@dataclass(frozen=True)
class Facts:
    """What is known of one utterance."""

    utterance: str
    pairing: Pairing
    durations_s: tuple[float | None, float | None] = (None, None)
    """Of the hypothesis and of the reference."""
    ours: tuple[bool, bool] = (False, False)
    """Which of the two ctc-align made."""

    @property
    def mismatched(self) -> int:
        return sum(pair.mismatch for pair in self.pairing.pairs)


def doubts(facts: Sequence[Facts]) -> tuple[str, ...]:
    """Sentences that say why the figures of these utterances may mean nothing; none where all looks well."""
    found = [_swapped(facts), _units(facts)]
    if found[1] is None:
        found += [_shifted(facts), _durations(facts)]
    return tuple(doubt for doubt in [*found, _labels(facts)] if doubt is not None)


def _swapped(facts: Sequence[Facts]) -> str | None:
    if not facts or any(ours or not theirs for ours, theirs in (fact.ours for fact in facts)):
        return None
    return "the reference was made by ctc-align, the hypothesis was not: is the hypothesis given first?"


def _units(facts: Sequence[Facts]) -> str | None:
    pairs = [pair for fact in facts for pair in fact.pairing.pairs]
    ratios = [
        pair.hypothesis.end_s / pair.reference.end_s
        for pair in pairs
        if pair.reference.end_s > _EARLIEST_S and pair.hypothesis.end_s > _EARLIEST_S
    ]
    ratio = median(ratios) if ratios else 1.0
    # a shift makes ratios too, but not the same one everywhere
    spread = median(abs(math.log(other / ratio)) for other in ratios) if ratios else 0.0
    if 1 / _OTHER_UNIT < ratio < _OTHER_UNIT or spread > _RATIO_SPREAD:
        return None
    whose, times = ("hypothesis", ratio) if ratio > 1 else ("reference", 1 / ratio)
    unit = min(_UNITS, key=lambda factor: abs(math.log(times / factor)))
    if 1 / _UNIT_SLACK < times / unit < _UNIT_SLACK:
        return f"the times of the {whose} look like {_UNITS[unit]}; seconds are expected"
    return f"the times of the {whose} are {times:.3g} times the other's: seconds are expected on both sides"


def _shifted(facts: Sequence[Facts]) -> str | None:
    shifts: dict[str, float] = {}
    for fact in facts:
        pairs = fact.pairing.pairs
        if len(pairs) < _SHIFT_PAIRS:
            continue
        errors = [pair.hypothesis.start_s - pair.reference.start_s for pair in pairs]
        errors += [pair.hypothesis.end_s - pair.reference.end_s for pair in pairs]
        shift = median(errors)
        if abs(shift) > _SHIFT_S and median(abs(error - shift) for error in errors) < _SHIFT_SPREAD * abs(shift):
            shifts[fact.utterance] = shift
    if not shifts:
        return None
    return (
        f"all times are off by about the same, {_signed_range(list(shifts.values()))}, in {_some(list(shifts))}: "
        "do both count from the start of the same recording?"
    )


def _signed_range(shifts: Sequence[float]) -> str:
    low, high = f"{min(shifts):+.2f} s", f"{max(shifts):+.2f} s"
    return low if low == high else f"{low} to {high}"


def _durations(facts: Sequence[Facts]) -> str | None:
    other = []
    for fact in facts:
        ours, theirs = fact.durations_s
        if ours is None or theirs is None:
            continue
        if abs(ours - theirs) > max(_DURATIONS_DIFFER_S, _DURATIONS_DIFFER * max(ours, theirs)):
            other.append(f"{fact.utterance} ({ours:.2f} s against {theirs:.2f} s)")
    if not other:
        return None
    return f"the recordings differ in length: {_some(other)}: are they the same ones?"


def _labels(facts: Sequence[Facts]) -> str | None:
    paired, mismatched = sum(len(fact.pairing.pairs) for fact in facts), sum(fact.mismatched for fact in facts)
    if mismatched > paired / 2:
        pairs = "pair" if paired == 1 else "pairs"
        return f"the labels of {mismatched} of {paired} {pairs} differ: are these the same transcripts?"
    others = []
    for fact in facts:
        reference = len(fact.pairing.pairs) + len(fact.pairing.missing)
        if fact.mismatched + len(fact.pairing.missing) > reference / 2:
            others.append(fact.utterance)
    if not others:
        return None
    return f"more than half of the reference has another label or none in {_some(others)}: is that the same transcript?"


def _some(names: Sequence[str]) -> str:
    """
    >>> _some(["a", "b"]), _some(list("abcde"))
    ('2 utterances: a, b', '5 utterances: a, b, c …')
    """
    count = "1 utterance" if len(names) == 1 else f"{len(names)} utterances"
    return f"{count}: {', '.join(names[:_NAMED])}{' …' if len(names) > _NAMED else ''}"
