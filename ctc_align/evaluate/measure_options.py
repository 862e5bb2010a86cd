"""What is measured, and how: tiers, tolerances, resamples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ctc_align.errors import UsageError

WORDS, PHONES = "words", "phones"
TIERS = (WORDS, PHONES)
WITHIN_MS = (10, 20, 25, 50, 100)
ROUNDING_MS = 1e-6
"""Differences of decimal times are not exact in floating point: a limit is met within this."""


@dataclass(frozen=True)
class Options:
    """How to measure; the defaults are what papers report.

    Raises:
        UsageError: a number outside its range.
    """

    tolerance_ms: float = 20.0
    """A boundary is found when one of the hypothesis's lies at most this far from it."""
    resamples: int = 1000
    """Of the utterances, for the 95 % confidence intervals; 0: no intervals."""
    seed: int = 0
    labels: Mapping[str, str] | None = None
    """Labels and what they become on both sides; "" removes the interval (see `read_labels`)."""
    hypothesis_tier: str | None = None
    """The name, or the number as Praat counts, of the tier in the hypothesis's TextGrids; None: by the usual names."""
    reference_tier: str | None = None
    """The same for the reference."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.tolerance_ms) and self.tolerance_ms > 0):
            raise UsageError(f"tolerance: expected milliseconds above 0, got {self.tolerance_ms}")
        if self.resamples < 0 or self.seed < 0:
            raise UsageError(f"resamples and seed: expected 0 or more, got {self.resamples} and {self.seed}")


def parse_tier(tier: str) -> str:
    """The kind of a tier, "words" or "phones"; "tokens" are phones.

    Raises:
        UsageError: another name.

    >>> parse_tier("tokens")
    'phones'
    """
    kind = {"word": WORDS, "phone": PHONES, "tokens": PHONES, "token": PHONES}.get(tier, tier)
    if kind not in TIERS:
        raise UsageError(
            f"expected the tier {' or '.join(TIERS)} (words=NAME where a TextGrid calls it otherwise), got {tier!r}"
        )
    return kind
