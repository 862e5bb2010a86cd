"""What the wildcard scores: speech of which nobody wrote down what it says.

A wildcard in a transcript (`lattice.WILDCARD` in the place of a token) is one state, in which a path may remain for as
long as the unknown speech lasts: through the labels that the model hears and through the blanks between them. So it
scores what the model thinks likeliest, but a label costs `penalty` nats more than it would as a token of the
transcript: what the transcript explains is left to the transcript.
"""

from __future__ import annotations

import math

import torch

from ctc_align.errors import KernelError

PENALTY = 2.0
"""In nats. `tests/benchmarks/wildcard.py`, the English model on recorded sentences: of the tokens that may be left out
to a wildcard beside them, 22 % of those that were said are (51 % without a penalty, 19 % however high it is), and 93 %
of those that were not (86 % at 4). A higher penalty moves the words beside speech that nobody wrote down."""


def wildcard_scores(log_probs: torch.Tensor, blank: int = 0, penalty: float = PENALTY) -> torch.Tensor:
    """The wildcard's score at each frame: the best class but the blank minus `penalty`, or the blank if it is better.

    Without the blank's part a wildcard would be as short as one label: CTC's blanks between labels are so much likelier
    than any label that the rest of the unknown speech would be left to the neighbours.

    Args:
        log_probs: (..., T, C) floating point, natural log; no copy of it is made.
        blank: the class of the blank, or of silence where that plays its part.
        penalty: in nats, 0 or more. The higher, the more of what fits badly is left to the words of the transcript.

    Returns:
        (..., T), of the same dtype and device.

    Raises:
        KernelError: no such array, no such class, a penalty that is none.

    >>> x = torch.tensor([[-0.1, -3.0, -5.0], [-4.0, -6.0, -0.5]])
    >>> wildcard_scores(x, blank=0, penalty=1.0).tolist()
    [-0.10000000149011612, -1.5]
    """
    if not isinstance(log_probs, torch.Tensor) or not log_probs.is_floating_point() or log_probs.dim() < 2:
        met = f"{log_probs.dtype} of shape {tuple(log_probs.shape)}" if isinstance(log_probs, torch.Tensor) else "none"
        raise KernelError(f"log_probs: expected a floating-point tensor (..., T, C), met {met}")
    if not 0 <= blank < log_probs.shape[-1]:
        raise KernelError(f"blank: expected a class below {log_probs.shape[-1]}, met {blank}")
    if not 0 <= penalty < math.inf:
        raise KernelError(f"penalty: expected nats, 0 or more, met {penalty}")
    scores = log_probs[..., blank]
    for others in (log_probs[..., :blank], log_probs[..., blank + 1 :]):
        if others.shape[-1]:
            scores = torch.maximum(scores, others.amax(-1) - penalty)
    return scores
