"""Pictures of boundary errors and of a soft alignment: what they draw, and that matplotlib is asked for only then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from rows import over_rows

from ctc_align.errors import KernelError, UsageError
from ctc_align.evaluate import WITHIN_MS, error_figure, evaluate_intervals, occupancy_figure
from ctc_align.functional import forced_align, occupancy
from ctc_align.types import Interval

TARGET = torch.tensor([3, 1, 1])


@pytest.fixture
def log_probs() -> torch.Tensor:
    return torch.randn(30, 5, generator=torch.Generator().manual_seed(0)).log_softmax(1)


def test_panels_of_a_soft_alignment(log_probs: torch.Tensor, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure = occupancy_figure(log_probs.requires_grad_(), TARGET, blank=2, labels="abcde", frame_shift_s=0.02)
    soft, best, _ = figure.axes
    rows = [2, 3, 1]
    np.testing.assert_allclose(
        soft.images[0].get_array(), occupancy(log_probs, TARGET, [30], [3], 2)[:, rows].T, rtol=0, atol=1e-7
    )
    drawn = best.images[0].get_array()
    assert [rows[row] for row in drawn.argmax(0)] == forced_align(log_probs[None], TARGET[None], blank=2)[0][0].tolist()
    assert drawn.sum() == 30
    assert [label.get_text() for label in soft.get_yticklabels()] == ["c", "d", "b"]
    assert soft.images[0].get_extent() == [0, pytest.approx(0.6), 2.5, -0.5]
    assert best.get_xlabel() == "seconds"
    assert "loss" in soft.get_title(loc="left")
    figure.savefig(tmp_path / "soft.png")
    assert (tmp_path / "soft.png").read_bytes().startswith(b"\x89PNG")
    pytest.importorskip("matplotlib")
    figure = occupancy_figure(log_probs, TARGET)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["0", "3", "1"]
    assert figure.axes[1].get_xlabel() == "frames"
    long = torch.zeros(400, 200), torch.arange(1, 180)
    assert len(occupancy_figure(*long).axes[0].get_yticklabels()) == 60


@over_rows("kind", [list, tuple, np.array])
def test_targets_of_any_kind(kind: type, log_probs: torch.Tensor) -> None:
    pytest.importorskip("matplotlib")
    met, right = (occupancy_figure(log_probs, target) for target in (kind(TARGET.tolist()), TARGET))
    for one, other in zip(met.axes[:2], right.axes[:2]):
        np.testing.assert_array_equal(one.images[0].get_array(), other.images[0].get_array())


def test_matplotlib_is_imported_late_and_its_absence_is_said(log_probs, monkeypatch) -> None:
    code = "import sys; from ctc_align.evaluate import error_figure; print({'matplotlib', 'torch'} & {*sys.modules})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match=r"pip install 'ctc-align\[plot\]'"):
        occupancy_figure(log_probs, TARGET)


@over_rows(
    ("change", "said"),
    [
        (
            {"log_probs": torch.zeros(4, 1, 3)},
            "log_probs: expected the log-probs of one utterance (T, C), got (4, 1, 3)",
        ),
        ({"log_probs": [[0.0]]}, "log_probs: expected the log-probs of one utterance (T, C), got list"),
        ({"target": torch.tensor([[1]])}, "target: expected the token ids of one utterance (L,), got (1, 1)"),
        ({"target": [[1], [2]]}, "target: expected the token ids of one utterance (L,), got (2, 1)"),
        ({"target": "ab"}, "targets: expected token ids, a tensor, an array or a list, got str"),
        ({"target": torch.tensor([1, 1, 1])}, "targets length is too long for CTC"),
        ({"labels": "ab"}, "labels: expected 3, one for each class, got 2"),
    ],
)
def test_wrong_arguments(change: dict, said: str) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(KernelError) as error:
        occupancy_figure(**({"log_probs": torch.zeros(4, 3), "target": torch.tensor([1, 2])} | change))
    assert said in str(error.value)


def evaluated(errors_ms: np.ndarray):
    reference = [Interval(float(i), i + 0.5, f"w{i}") for i in range(len(errors_ms))]
    ours = [Interval(i.start_s + ms / 1000, i.end_s + ms / 2000, i.label) for i, ms in zip(reference, errors_ms)]
    return evaluate_intervals([("a", ours, reference)])


def test_curves_and_bars_are_the_figures():
    pytest.importorskip("matplotlib")
    found = evaluated(np.random.default_rng(0).normal(5, 60, 400))
    figure = error_figure({"words": found, "again": found})
    assert len(figure.axes) == 4
    left, right = figure.axes[:2]
    assert left.get_title(loc="left") == f"words: mean absolute error {found.both.mae_ms:.1f} ms"
    for curve, stairs, legend, errors in zip(
        right.get_lines(), left.patches, left.get_legend().get_texts(), (found.onset, found.offset)
    ):
        ms, percent = curve.get_data()
        for limit in WITHIN_MS:
            reached = percent[np.searchsorted(ms, limit, side="right") - 1]
            assert reached == pytest.approx(errors.within_ms[limit])
        beyond = float(legend.get_text().split("(")[1].split(" %")[0])
        assert stairs.get_data().values.sum() + beyond == pytest.approx(100, abs=0.06)


def test_errors_of_a_bins_edge_and_none_at_all():
    pytest.importorskip("matplotlib")
    figure = error_figure({"words": evaluated(np.array([-100.0, 0.0, 5.0, 100.0]))})
    counts, edges, _ = figure.axes[0].patches[0].get_data()
    assert edges[np.flatnonzero(counts)].tolist() == [-100.0, 0.0, 5.0]
    assert "25.0 % beyond" in figure.axes[0].get_legend().get_texts()[0].get_text()
    pytest.importorskip("matplotlib")
    figure = error_figure({"words": evaluate_intervals([("a", [], [])])})
    assert figure.axes[0].get_title(loc="left") == "words: mean absolute error – ms"
