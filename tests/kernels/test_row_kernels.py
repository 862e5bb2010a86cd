"""Kernels by rows, without compilation: the same bits as the compiled kernels, and used for small
problems only."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from cpu_checks import poison
from kernel_problems import Batch, random_bands
from kernel_problems import batch as random_batch

from ctc_align import kernels, lattice
from ctc_align.kernels.cpu import cpu_backend, row_kernels

KINDS = ("tied", "continuous", "holes", "unnormalised")
SHAPES = ((70, 25), (12, 4), (110, 80))


def problems() -> list[tuple[str, Batch, np.ndarray | None]]:
    rng, made = np.random.default_rng(61), []
    for number, (kind, topology, shape) in enumerate(
        itertools.product(KINDS, ("ctc", "simple", "segments"), SHAPES)
    ):
        given = random_batch(rng, 4, *shape, 9, kind, topology=topology, wild=number % 2 == 1)
        bands = random_bands(rng, given) + np.array([-9, 9]) if number % 3 == 1 else None
        made.append((f"{kind} {topology} {shape}", given, bands))
    return made


def bits(given: Batch, bands: np.ndarray | None) -> list[bytes]:
    """Return all results of the kernels for a batch."""
    rest = given.log_probs, given.topology, given.lengths
    path = kernels.best_path(*rest, wildcard=given.wildcard, bands=bands, backend="cpu")
    occupancy = kernels.occupancy(*rest, wildcard=given.wildcard, backend="cpu")
    forward = kernels.forward(*rest, wildcard=given.wildcard, backend="cpu")
    found = [path.states, path.scores, occupancy.posteriors, occupancy.scores, forward]
    found += [] if occupancy.wildcard is None else [occupancy.wildcard]
    if given.wildcard is None:
        found += kernels.best_labels(*rest, 0, backend="cpu")
    return [numbers.contiguous().numpy().tobytes() for numbers in found]


class Routes:
    """Sends calls to the kernels by rows if `by_rows`, and counts those that did the work and those
    that refused."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.by_rows, self.done, self.refused = True, 0, 0
        patch.setattr(cpu_backend, "_is_done_by_rows", lambda *_: self.by_rows)
        for name in ("_paths_by_rows", "_sums_by_rows"):
            patch.setattr(cpu_backend, name, self._counted(getattr(cpu_backend, name)))

    def _counted(self, function):  # type: ignore[no-untyped-def]
        def counted(*arguments: object) -> bool:
            done = function(*arguments)
            self.done, self.refused = self.done + done, self.refused + (not done)
            return bool(done)

        return counted


@pytest.fixture
def routes(monkeypatch: pytest.MonkeyPatch) -> Routes:
    poison(monkeypatch)
    return Routes(monkeypatch)


def test_the_same_bits_without_compilation(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    right = []
    for by_rows in (False, True):
        routes.by_rows = by_rows
        right.append({name: bits(given, bands) for name, given, bands in problems()})
    assert [name for name in right[0] if right[0][name] != right[1][name]] == []
    # Sums that scaled numbers cannot hold are refused, as by the compiled kernels.
    assert routes.done > 4 * routes.refused > 0
    # The comparison can fail: another order of the sums over states, ties decided otherwise.
    name, given, bands = next(
        problem for problem in problems() if problem[0].startswith("tied ctc (110")
    )
    monkeypatch.setattr(row_kernels, "WIDTH", 24 - row_kernels.WIDTH)
    assert bits(given, bands) != right[0][name]


def test_what_is_no_log_prob_is_left_to_the_compiled_kernels(routes: Routes) -> None:
    x = torch.randn(2, 9, 4).log_softmax(2)
    x[1, 5, 2] = float("nan")
    given = Batch(x, torch.tensor([9, 9]), lattice.ctc([[1, 2], [2, 3]]))
    met = bits(given, None)
    routes.by_rows = False
    assert met == bits(given, None)
    assert not routes.done


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little is done by rows while nothing is compiled, for some time; then all is compiled."""

    class Kernel:
        overloads: tuple[int, ...] = ()
        _cache = cpu_backend.viterbi.walk._cache

    monkeypatch.setattr(type(Kernel._cache), "is_filled", lambda self, forms: False)
    monkeypatch.setitem(cpu_backend.FORMS, Kernel, 1)
    patience = row_kernels.Patience()
    monkeypatch.setattr(cpu_backend, "_patience", patience)
    topology = lattice.ctc([[1, 2]])

    def by_rows(frames: int) -> bool:
        return cpu_backend._is_done_by_rows(Kernel, topology, np.array([frames]))

    assert by_rows(1000)
    assert not by_rows(10**6)
    with patience.used():
        pass
    assert 0 < patience.spent_s < 1
    patience.spent_s = row_kernels.PATIENCE_S
    assert not by_rows(1000)
    patience.spent_s = 0.0
    Kernel.overloads = (1,)
    assert not by_rows(1000)
    Kernel.overloads = ()
    assert by_rows(1000)
    cpu_backend.compile_at_once()
    assert not by_rows(1)
