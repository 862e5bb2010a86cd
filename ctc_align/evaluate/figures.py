"""Figures: boundary errors, and the soft alignment of an utterance above its best path.

They need matplotlib (the extra `plot`), and `occupancy_figure` torch; both are imported when a figure is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ctc_align.errors import KernelError
from ctc_align.evaluate.boundary_errors import Evaluation
from ctc_align.evaluate.pairing import WITHIN_MS
from ctc_align.view import check_plotting

if TYPE_CHECKING:
    import torch
    from matplotlib.figure import Figure

MOST_TICKS = 60
"""Limit of the row labels of a figure."""
_REACH_MS, _BIN_MS = 100, 5
_ROW_INCHES, _WIDTH_INCHES = 3.6, 11.0


def error_figure(evaluations: Mapping[str, Evaluation]) -> Figure:
    """Draw for each evaluation a histogram of signed errors and the share of edges within a limit.

    Bins are 5 ms wide and include their lower edge; errors beyond ±100 ms are counted in the legend only.

    Args:
        evaluations: by title, such as the tier or the name of the hypothesis.

    Returns:
        A matplotlib figure without a window: `figure.savefig("errors.png")`; notebooks display it.

    Raises:
        UsageError: matplotlib is not installed.
    """
    check_plotting()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH_INCHES, _ROW_INCHES * len(evaluations)), layout="constrained")
    panels = figure.subplots(len(evaluations), 2, squeeze=False)
    edges = np.arange(-_REACH_MS, _REACH_MS + _BIN_MS, _BIN_MS)
    for (left, right), (title, evaluation) in zip(panels, evaluations.items()):
        signed = evaluation.measured.signed() if evaluation.measured is not None else {}
        for edge in ("onset", "offset"):
            ms = signed[edge].ms if edge in signed else np.empty(0)
            beyond = float(np.mean((ms < edges[0]) | (ms >= edges[-1]))) if len(ms) else 0.0
            # numpy's last bin includes its upper edge
            counts, _ = np.histogram(ms[ms < edges[-1]], edges)
            percent = 100 * counts / max(1, len(ms))
            left.stairs(percent, edges, label=f"{edge} ({100 * beyond:.1f} % beyond)", linewidth=1.5)
            absolute = np.sort(np.abs(ms))
            reached = 100 * np.arange(1, len(absolute) + 1) / max(1, len(absolute))
            right.step(absolute, reached, where="post", label=edge, linewidth=1.5)
        mae = evaluation.both.mae_ms
        left.set_title(f"{title}: mean absolute error {'–' if mae is None else f'{mae:.1f}'} ms", loc="left")
        left.axvline(0.0, color="grey", linewidth=0.8)
        left.set(xlabel="hypothesis minus reference, ms", ylabel="% of edges", xlim=(-_REACH_MS, _REACH_MS))
        right.set(xlabel="absolute error, ms", ylabel="% of edges within", xlim=(0, _REACH_MS), ylim=(0, 100))
        right.set_xticks(WITHIN_MS)
        right.grid(alpha=0.4)
        left.legend(frameon=False)
        right.legend(frameon=False, loc="lower right")
    return figure


def occupancy_figure(
    log_probs: torch.Tensor,
    target: torch.Tensor | np.ndarray | Sequence[int],
    blank: int = 0,
    *,
    labels: Sequence[str] | None = None,
    frame_shift_s: float | None = None,
) -> Figure:
    """Draw two panels over time: the posterior of each class given the transcript, and the best (Viterbi) path.

    Rows are the blank and the classes of the transcript as they first appear; a repeated class is one row.

    Args:
        log_probs: (T, C) of one utterance, natural log; needs no gradient.
        target: (L,) token ids, a tensor, an array or a list.
        blank: the class of the blank.
        labels: (C,) a name for each class; None: its number.
        frame_shift_s: seconds from frame to frame; None: time is in frames.

    Returns:
        A matplotlib figure without a window: `figure.savefig("soft.png")`; notebooks display it.

    Raises:
        UsageError: matplotlib is not installed.
        KernelError: arguments that do not fit together, a target that does not fit.

    >>> import torch
    >>> log_probs = torch.randn(40, 5).log_softmax(1)
    >>> figure = occupancy_figure(log_probs, torch.tensor([1, 2, 2]), labels="-abcd")    # doctest: +SKIP
    >>> figure.savefig("soft.png")                                                       # doctest: +SKIP
    """
    check_plotting()
    from matplotlib.figure import Figure

    from ctc_align.ctc.arguments import as_targets

    ids = as_targets(target)
    panels = _panels(log_probs, ids, blank)
    classes = list(dict.fromkeys([blank, *ids.tolist()]))
    if labels is not None and len(labels) != log_probs.shape[1]:
        raise KernelError(f"labels: expected {log_probs.shape[1]}, one for each class, got {len(labels)}")
    names = [str(k) if labels is None else labels[k] for k in classes]
    frames, step = len(log_probs), max(1, -(-len(names) // MOST_TICKS))
    figure = Figure(figsize=(min(6 + frames / 50, 16), min(2 + len(names) / 3, 16)), layout="constrained")
    axes = figure.subplots(2, 1, sharex=True, sharey=True)
    for axis, (title, values) in zip(axes, panels.items()):
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
    """Return the values (T, C) of each panel by its title."""
    import torch

    from ctc_align import functional

    if not isinstance(log_probs, torch.Tensor) or log_probs.dim() != 2:
        got = tuple(log_probs.shape) if isinstance(log_probs, torch.Tensor) else type(log_probs).__name__
        raise KernelError(f"log_probs: expected the log-probs of one utterance (T, C), got {got}")
    if target.dim() != 1:
        raise KernelError(f"target: expected the token ids of one utterance (L,), got {tuple(target.shape)}")
    scores, lengths = log_probs.detach(), ([len(log_probs)], [len(target)])
    paths, _ = functional.forced_align(scores[None], target[None], blank=blank)
    soft = functional.occupancy(scores, target, *lengths, blank)
    loss = functional.ctc_loss(scores, target, *lengths, blank, "sum").item()
    best = torch.nn.functional.one_hot(paths[0].long(), log_probs.shape[1])
    return {
        f"occupancy, over all paths (loss {loss:.2f})": soft.double().cpu().numpy(),
        "best path": best.cpu().numpy(),
    }
