"""The two semirings over which the reference scan runs (Goodman 1999): max-plus and log-plus."""

from __future__ import annotations

from typing import Protocol

import torch

STAY, STEP, SKIP = 0, 1, 2


class Semiring(Protocol):
    def combine(self, stay: torch.Tensor, step: torch.Tensor, skip: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The sum of three alternatives and, where it has a meaning, which of them it was."""
        ...


class MaxPlus:
    """Best path. Ties are contract: stay, then step, then skip."""

    def combine(self, stay: torch.Tensor, step: torch.Tensor, skip: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        best, choice = stay, torch.full_like(stay, STAY, dtype=torch.int8)
        choice = torch.where(step > best, STEP, choice)
        best = torch.where(step > best, step, best)
        choice = torch.where(skip > best, SKIP, choice)
        best = torch.where(skip > best, skip, best)
        return best, choice.to(torch.int8)


class LogPlus:
    """All paths."""

    def combine(self, stay: torch.Tensor, step: torch.Tensor, skip: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        alternatives = torch.stack((stay, step, skip))
        nothing = (alternatives == float("-inf")).all(0)
        # The derivative of logsumexp at three -inf is not a number; there it must be zero.
        total = torch.logsumexp(torch.where(nothing, 0.0, alternatives), 0)
        total = torch.where(nothing, float("-inf"), total)
        return total, torch.zeros_like(stay, dtype=torch.int8)
