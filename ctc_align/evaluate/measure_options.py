"""Options of the evaluation: tiers, tolerances, resamples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ctc_align.errors import UsageError

WORDS, PHONES = "words", "phones"
TIERS = (WORDS, PHONES)
UTTERANCE, FOLDER = "utterance", "folder"
WITHIN_MS = (10, 20, 25, 50, 100)
ROUNDING_MS = 1e-6
"""Slack of limits, since differences of decimal times are not exact in floating point."""


@dataclass(frozen=True)
class Options:
    """Options of a measurement; the defaults are those of papers.

    Raises:
        UsageError: a number outside its range.
    """

    tolerance_ms: float = 20.0
    """Largest distance of a boundary of the hypothesis from the one of the reference that it hits."""
    resamples: int = 1000
    """Number of resamples of the utterances for the 95 % confidence intervals; 0: no intervals."""
    seed: int = 0
    labels: Mapping[str, str] | None = None
    """Map of labels on both sides; "" removes the interval (see `read_labels`)."""
    hypothesis_tier: str | None = None
    """Name or number (from 1) of the tier in the hypothesis's TextGrids; None: by the usual names."""
    reference_tier: str | None = None
    """The same for the reference."""
    interval_by: str = UTTERANCE
    """The units that are drawn anew for the intervals: each "utterance", or each "folder" of them (of a speaker)."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.tolerance_ms) and self.tolerance_ms > 0):
            raise UsageError(f"tolerance: expected milliseconds above 0, got {self.tolerance_ms}")
        if self.resamples < 0 or self.seed < 0:
            raise UsageError(f"resamples and seed: expected 0 or more, got {self.resamples} and {self.seed}")
        if self.interval_by not in (UTTERANCE, FOLDER):
            raise UsageError(f"intervals: expected by {UTTERANCE} or by {FOLDER}, got {self.interval_by!r}")


def parse_tier(tier: str) -> str:
    """Return the kind of a tier, "words" or "phones"; "tokens" are phones.

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
