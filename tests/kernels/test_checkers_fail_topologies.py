"""Planted faults where every topology is walked, each of which the tests' comparisons must see:
faults in the source of the builders, of the reference, and of the kernels of `general_viterbi`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from interpreted_checks import first_fault, first_of, mixed, of_every_topology, quiet
from kernel_problems import TOPOLOGIES, random_bands, same_paths
from kernel_problems import batch as random_batch
from planted import interpreted

from ctc_align.kernels import reference
from ctc_align.kernels.cpu import general_viterbi
from ctc_align.lattice import topology as topologies

pytestmark = pytest.mark.planted
REFERENCE = "ctc_align.kernels.reference"


def first_in_batches() -> list[str]:
    """Return the first path that differs from the reference: lengths, bands, ties that tiny
    problems lack."""
    rng = np.random.default_rng(23)
    for number, topology in zip(range(60), TOPOLOGIES * 60):
        kind = ("tied", "continuous")[number % 2]
        given = random_batch(rng, 3, 24, 7, 5, kind, topology=topology, wild=number % 4 > 1)
        bands = random_bands(rng, given) if number % 3 else None
        try:
            same_paths(given, "cpu", torch.float64, bands)
        except AssertionError:
            return [f"batch {number}: {topology} {kind}"]
    return []


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    yield from quiet()


def plant_in_builders(patch: pytest.MonkeyPatch, old: str = "", new: str = "") -> None:
    planted = interpreted(topologies, old, new)
    for name in ("ctc_row", "segmentation_row"):
        patch.setattr(topologies, name, getattr(planted, name))


def plant_in_reference(patch: pytest.MonkeyPatch, old: str = "", new: str = "") -> None:
    patch.setitem(sys.modules, REFERENCE, interpreted(reference, old, new))


def plant_in_detours(patch: pytest.MonkeyPatch, old: str = "", new: str = "") -> None:
    patch.setattr(general_viterbi, "_block", lambda frames, needed: min(frames, 5))
    patch.setattr(general_viterbi, "utterance", interpreted(general_viterbi, old, new).utterance)


def fault_of_builders() -> list[str]:
    return first_fault(of_every_topology(21), "cpu") or first_fault(
        of_every_topology(21), "reference"
    )


BUILDER_FAULTS = [
    # Who may come next, begin and end; what parts equal tokens; which silence is whose.
    ("earliest[required + 1] = required + 1", "earliest[required + 1] = required"),
    ("max(int(earliest[k]) - 1, 0)", "max(int(earliest[k]), 0)"),
    ("apart is None or apart[j] != apart[k]", "True"),
    ("apart is None or apart[j] != apart[k]", "apart is None or j < k - 1 or apart[j] != apart[k]"),
    ("row.begin[gap] = earliest[k] == 0", "row.begin[gap] = gap == 0"),
    ("row.begin[state] = earliest[k] == 0", "row.begin[state] = k == 0"),
    ("row.end[[size - 1, *(lasts[j] for j in before(tokens))]]", "row.end[-2:]"),
    ("earliest[k] <= plan.group_start", "earliest[k] < plan.group_start"),
    ("if earliest[k] <= plan.group_start[plan.group[k]]", "if True"),
    ("lasts = plan.last.tolist()", "lasts = plan.first.tolist()"),
    ("source < state - 2", "source < state - 3"),
    ("state - 2 in sources", "False"),
    ("kept = target[~optional]", "kept = target"),
    ("parts[~optional].sum()", "parts.sum()"),
    (
        "np.where(target < 0, 1, states_per_token)",
        "np.where(target < 0, states_per_token, states_per_token)",
    ),
]
REFERENCE_FAULTS = [
    ("np.stack((stay, ", "np.stack((np.ones_like(stay), "),
    ("np.ones_like(stay), skip)", "np.ones_like(stay), np.ones_like(skip))"),
    ("allowed & (entered >= 0)", "allowed"),
    ("np.where(emit < 0, wildcard_column, emit)", "emit.clip(min=0)"),
    ("begin = topology.detours.begin", "begin = state < 2"),
    ("end = topology.detours.end", "end = state >= size - 2"),
    ("reversed(ends)", "ends"),
    ("row[b, other] > row", "row[b, other] >= row"),
    ("state < topology.starts", "state <= topology.starts"),
    # Lengths and bands, which batches have.
    ("(t < lengths)", "(t <= lengths)"),
    ("state >= bands[:, :, 1:]", "state > bands[:, :, 1:]"),
    ("transitions.begin & ~banned[:, 0]", "transitions.begin"),
]
DETOUR_FAULTS = [
    # Ties: another order, another end.
    ("old[s - 1] > best", "old[s - 1] >= best"),
    ("old[s - 2] > best", "old[s - 2] >= best"),
    ("old[sources[s, p]] > best", "old[sources[s, p]] >= best"),
    ("row[s] > row[state]", "row[s] >= row[state]"),
    # Ways that are none, or lead elsewhere.
    ("old[s] if stay[s] else -np.inf, 0", "old[s], 0"),
    ("s > 1 and skip[s] and", "s > 1 and"),
    ("best, choice = old[sources[s, p]], 3 + p", "best, choice = old[sources[s, p]], 3"),
    ("sources[state, choice - 3]", "sources[state, 0]"),
    ("if begin[s]:", "if s < 2:"),
    ("if end[s] and", "if"),
    ("best + (wildcard[t] if", "best + (wildcard[0] if"),
    ("row[s] = wildcard[0] if emit[s] < 0 else x[emit[s]]", "row[s] = x[emit[s]]"),
    ("new[s] = best", "new[s] = best + 1"),
    # Blocks and bands.
    ("old[:] = saved[k]", "old[:] = saved[k - 1]"),
    ("top - reach * (last - t)", "top - reach * (last - t) + 1"),
    ("min(high, top + 1)", "min(high, top)"),
    ("new[:] = -np.inf", "pass"),
    ("max(0, bands[t, 0])", "max(0, bands[t, 0] + 1)"),
    ("min(size, bands[t, 1])", "min(size, bands[t, 1] + 1)"),
    ("row, spare = spare, row", "pass"),
    ("last = first", "last = first + 1"),
    ("if t % block == 0:", "if t % block == 1:"),
]
SUITES: dict[str, tuple[Callable[..., None], Callable[[], list[str]], list[tuple[str, str]]]] = {
    "builders": (plant_in_builders, fault_of_builders, BUILDER_FAULTS),
    "reference": (
        plant_in_reference,
        lambda: first_fault(mixed(), "reference") or first_in_batches(),
        REFERENCE_FAULTS,
    ),
    "detours": (
        plant_in_detours,
        lambda: first_fault(mixed(), "cpu") or first_in_batches(),
        DETOUR_FAULTS,
    ),
}
"""How a fault is planted, what sees it, and the faults: source, and its replacement."""


@pytest.mark.parametrize("suite", SUITES)
def test_no_fault_without_a_fault(suite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, first, _ = SUITES[suite]
    plant(monkeypatch)
    assert first_of(first) == []


@pytest.mark.parametrize(
    ("suite", "old", "new"), [(suite, *row) for suite, (*_, rows) in SUITES.items() for row in rows]
)
def test_planted_faults_are_seen(
    suite: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, first, _ = SUITES[suite]
    plant(monkeypatch, old, new)
    assert first_of(first) != []
