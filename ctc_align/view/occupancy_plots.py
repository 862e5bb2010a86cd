"""The soft alignment of one utterance next to the best path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from ctc_align import functional
from ctc_align.errors import KernelError, UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_TICKS = 60
"""Rows whose names can be read; of more, some are named."""


def occupancy_figure(
    log_probs: torch.Tensor,
    target: torch.Tensor,
    blank: int = 0,
    *,
    labels: Sequence[str] | None = None,
    frame_shift_s: float | None = None,
) -> Figure:
    """Two panels over time: the posterior of each class given the transcript, and the most likely (Viterbi) path.

    Rows are the blank and the classes of the transcript as they first appear; a class that is said twice is one row.

    Args:
        log_probs: (T, C) of one utterance, natural log; needs no gradient.
        target: (L,) token ids.
        blank: the class of the blank.
        labels: (C,) a name for each class; None means its number.
        frame_shift_s: seconds from frame to frame; None means that time is counted in frames.

    Returns:
        A matplotlib figure, which belongs to no window: `figure.savefig("soft.png")`; in notebooks it shows itself.

    Raises:
        UsageError: matplotlib is not installed.
        KernelError: arguments that do not fit together, a target that does not fit.

    >>> log_probs = torch.randn(40, 5).log_softmax(1)
    >>> figure = occupancy_figure(log_probs, torch.tensor([1, 2, 2]), labels="-abcd")    # doctest: +SKIP
    >>> figure.savefig("soft.png")                                                       # doctest: +SKIP
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("pictures need the package matplotlib: pip install 'ctc-align[plot]'") from error
    panels = _panels(log_probs, target, blank)
    classes = list(dict.fromkeys([blank, *target.tolist()]))
    if labels is not None and len(labels) != log_probs.shape[1]:
        raise KernelError(f"labels: expected {log_probs.shape[1]}, one for each class, got {len(labels)}")
    names = [str(k) if labels is None else labels[k] for k in classes]
    frames, step = len(log_probs), max(1, -(-len(names) // MOST_TICKS))
    figure = Figure(figsize=(min(6 + frames / 50, 16), min(2 + len(names) / 3, 16)), layout="constrained")
    axes = figure.subplots(2, 1, sharex=True, sharey=True)
    for axis, (title, values) in zip(axes, panels.items()):
        # Each cell is a whole frame, from its start to its end.
        extent = (0, frames * (frame_shift_s or 1), len(names) - 0.5, -0.5)
        image = axis.imshow(
            values[:, classes].T, aspect="auto", extent=extent, interpolation="nearest", cmap="Greys", vmin=0, vmax=1
        )
        axis.set_title(title, loc="left")
        axis.set_yticks(range(0, len(names), step), names[::step])
    axes[-1].set_xlabel("frames" if frame_shift_s is None else "seconds")
    figure.colorbar(image, ax=axes, label="posterior")
    return figure


def _panels(log_probs: torch.Tensor, target: torch.Tensor, blank: int) -> dict[str, np.ndarray]:
    """What is drawn under which title: (T, C) each."""
    if not isinstance(log_probs, torch.Tensor) or log_probs.dim() != 2:
        met = tuple(log_probs.shape) if isinstance(log_probs, torch.Tensor) else type(log_probs).__name__
        raise KernelError(f"log_probs: expected those of one utterance (T, C), got {met}")
    if not isinstance(target, torch.Tensor) or target.dim() != 1:
        met = tuple(target.shape) if isinstance(target, torch.Tensor) else type(target).__name__
        raise KernelError(f"target: expected the token ids of one utterance (L,), got {met}")
    scores, lengths = log_probs.detach(), ([len(log_probs)], [len(target)])
    paths, _ = functional.forced_align(scores[None], target[None], blank=blank)
    soft = functional.occupancy(scores, target, *lengths, blank)
    loss = functional.ctc_loss(scores, target, *lengths, blank, "sum").item()
    best = torch.nn.functional.one_hot(paths[0].long(), log_probs.shape[1])
    return {
        f"occupancy, over all paths (loss {loss:.2f})": soft.double().cpu().numpy(),
        "best path": best.cpu().numpy(),
    }
