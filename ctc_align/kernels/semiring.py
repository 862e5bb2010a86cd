"""The two semirings over which the reference scan runs (Goodman 1999): max-plus and log-plus."""

from __future__ import annotations

from typing import Protocol

import torch


class Semiring(Protocol):
    def combine(self, *alternatives: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The sum of alternatives of one shape and, where it has a meaning, which of them (from 0) it was."""
        ...


class MaxPlus:
    """Best path. Ties are contract: the alternative that comes first. NaN wins always, as it does in sums."""

    def combine(self, *alternatives: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        best, choice = alternatives[0], torch.zeros_like(alternatives[0], dtype=torch.int64)
        for number, other in enumerate(alternatives[1:], start=1):
            better = (other > best) | other.isnan()
            choice = torch.where(better, number, choice)
            best = torch.where(better, other, best)
        return best, choice


class LogPlus:
    """All paths."""

    def combine(self, *alternatives: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        together = torch.stack(alternatives)
        nothing = (together == float("-inf")).all(0)
        # The derivative of logsumexp at nothing but -inf is not a number; there it must be zero.
        total = torch.logsumexp(torch.where(nothing, 0.0, together), 0)
        total = torch.where(nothing, float("-inf"), total)
        return total, torch.zeros_like(alternatives[0], dtype=torch.int64)
