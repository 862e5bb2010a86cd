"""The GPU's kernels where there is no GPU: copies of their files, interpreted, perhaps with a fault
planted in them.

Triton decides when it is imported, and again where a kernel is defined, whether to interpret. So it
is imported here first, while the environment says so, and the package's own modules are left as
they are. Copies are real files, for the interpreter reads the source.

The interpreter runs the programs of a launch one after the other, in ascending order, which hides
that one reads what another writes. So launches of several programs are run in three orders, which
must write the same bytes (`in_every_order`); and where it is watched what each element of a
program's tensors loads and stores, races are found whatever the order, and also those of a
program's own threads (`watched`).
"""

from __future__ import annotations

import collections
import contextlib
import functools
import importlib
import importlib.util
import os
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import ctc_align

INTERPRETING = {"TRITON_INTERPRET": "1"}
OLDEST_INTERPRETER = (3, 9)
Order = Callable[[int], "np.ndarray[Any, Any]"]
ORDERS: dict[str, Order] = {
    "forward": np.arange,
    "reversed": lambda programs: np.arange(programs)[::-1],
    "shuffled": lambda programs: np.random.default_rng(programs).permutation(programs),
}
"""In which order the programs of a launch run: from their number to the programs, one after the
other."""
KERNELS = Path(ctc_align.__file__).parent / "kernels" / "gpu"
NAMES = tuple(sorted(path.stem for path in KERNELS.glob("[a-z]*.py")))


def missing() -> str | None:
    """Why the kernels cannot be interpreted here, or None."""
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    with mock.patch.dict(os.environ, INTERPRETING):
        import triton
        import triton.language as tl

        with contextlib.suppress(ImportError):  # which Triton would import later
            importlib.import_module("triton.experimental.gluon")
    if tuple(int(part) for part in triton.__version__.split(".")[:2]) < OLDEST_INTERPRETER:
        return f"Triton {triton.__version__} is too old to interpret"
    if type(tl.max).__name__ != "InterpretedFunction":
        return "Triton was imported before, and not to interpret"
    return None


def copies(
    folder: Path, faults: Mapping[str, tuple[str, str]] | None = None
) -> dict[str, types.ModuleType]:
    """The modules of `ctc_align/kernels/gpu` again, by their names, as files of `folder`,
    interpreted.

    `faults`: by the name of a module, what to replace in its source, which must be there, and by
    what.
    """
    if reason := missing():
        pytest.skip(reason)
    package = f"gpu_copies_{len(sys.modules)}"
    (folder / package).mkdir()
    (folder / package / "__init__.py").touch()
    for path in (KERNELS / f"{name}.py" for name in NAMES):
        source = path.read_text(encoding="utf-8")
        if path.stem in (faults or {}):
            old, new = (faults or {})[path.stem]
            source, count = re.subn(_across_lines(old), lambda _, new=new: new, source)
            assert count, f"{path.name} no longer says {old!r}: plant the fault where it went"
        source = source.replace("ctc_align.kernels.gpu", package)
        (folder / package / path.name).write_text(source, encoding="utf-8")
    with (
        mock.patch.dict(os.environ, INTERPRETING),
        mock.patch.object(sys, "path", [str(folder), *sys.path]),
    ):
        importlib.invalidate_caches()
        return {name: importlib.import_module(f"{package}.{name}") for name in NAMES}


def _across_lines(code: str) -> str:
    """Return the pattern of a piece of code however the formatter folds it."""
    return r"\s*".join(map(re.escape, re.findall(r"\w+|\S", code)))


@contextlib.contextmanager
def ordered(order: Order) -> Iterator[None]:
    """The programs of launches in this order."""
    builder = interpreter().interpreter_builder
    enter = builder.set_grid_idx

    def moved(x: int, y: int, z: int) -> None:
        grid = builder.grid_dim
        place = order(int(np.prod(grid)))[np.ravel_multi_index((x, y, z), grid)]
        enter(*(int(index) for index in np.unravel_index(place, grid)))

    with mock.patch.object(builder, "set_grid_idx", moved):
        yield


@contextlib.contextmanager
def in_every_order() -> Iterator[None]:
    """Launches of several programs three times, from the same memory, in the orders of `ORDERS`.

    Of launches of a kernel in one grid, with the same switches, only the first two: interpreted,
    time is short.

    Raises:
        AssertionError: the order changes what a launch writes: its programs depend on each other.
    """
    run, seen = interpreter().GridExecutor.__call__, collections.Counter[Any]()

    @functools.wraps(run)
    def repeatedly(launch: Any, *rest: Any, **named: Any) -> None:
        given = {**dict(zip(launch.arg_names, rest)), **named}
        key = launch.fn.__name__, launch.grid, *(given.get(name) for name in launch.constexprs)
        seen[key] += 1
        if np.prod(launch.grid) < 2 or seen[key] > 2:
            run(launch, **given)
            return
        memory = {
            name: value.untyped_storage()
            for name, value in given.items()
            if isinstance(value, torch.Tensor)
        }
        before = {name: storage.clone() for name, storage in memory.items()}
        written: dict[str, torch.UntypedStorage] = {}
        for name, order in ORDERS.items():
            for kept, storage in memory.items():
                storage.copy_(before[kept])
            with ordered(order):
                run(launch, **given)
            written = written or {kept: storage.clone() for kept, storage in memory.items()}
            differ = [
                kept for kept, storage in memory.items() if not same_bytes(storage, written[kept])
            ]
            assert not differ, (
                f"{launch.fn.__name__} {launch.grid}: {name} order changes {', '.join(differ)}"
            )

    with mock.patch.object(interpreter().GridExecutor, "__call__", repeatedly):
        yield


class Accesses:
    """What the programs of a launch load and store: no program may meet another's, nor, between two
    barriers, one element of a program's tensors (on a card a thread) another's, unless both
    load."""

    def __init__(self) -> None:
        self.programs: list[dict[bool, list[np.ndarray]]] = []
        self.since_barrier: dict[bool, list[np.ndarray]] = {}
        self.found: list[str] = []

    def enter(self) -> None:
        """A program begins."""
        self.barrier()
        self.programs.append({False: [], True: []})

    def note(self, pointers: Any, mask: Any, stored: bool) -> None:
        where = np.broadcast_to(mask.data, pointers.data.shape).ravel()
        at = np.flatnonzero(where)
        addresses = pointers.data.ravel()[at].astype(np.int64)
        self.since_barrier.setdefault(stored, []).append(
            np.stack((addresses, at + (where.size << 32)))
        )
        self.programs[-1][stored].append(addresses)

    def barrier(self) -> None:
        both = {stored: np.concatenate(some, axis=1) for stored, some in self.since_barrier.items()}
        if (
            self.since_barrier
            and True in both
            and meeting(both[True], np.concatenate(list(both.values()), axis=1))
        ):
            self.found.append("threads of a program, between two barriers")
        self.since_barrier = {}

    def leave(self) -> None:
        """All programs of a launch have run."""
        self.barrier()
        both = {
            stored: np.concatenate(
                [
                    np.stack((each, np.full(each.shape, number)))
                    for number, program in enumerate(self.programs)
                    for each in [
                        np.unique(np.concatenate([*program[stored], np.zeros(0, np.int64)]))
                    ]
                ],
                axis=1,
            )
            for stored in (True, False)
        }
        if meeting(both[True], np.concatenate((both[True], both[False]), axis=1)):
            self.found.append("programs of a launch")
        self.programs = []


def meeting(stores: np.ndarray, all_accesses: np.ndarray) -> bool:
    """Return whether an address (row 0) is stored by one (row 1) and met by another."""
    addresses, first = np.unique(stores[0], return_index=True)
    if not len(addresses):
        return False
    place = np.minimum(np.searchsorted(addresses, all_accesses[0]), len(addresses) - 1)
    same = addresses[place] == all_accesses[0]
    return bool((stores[1, first][place] != all_accesses[1])[same].any())


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """No thread of any launch meets what another one writes, whatever the order.

    Raises:
        AssertionError: some do.
    """
    builder, executor, accesses = (
        interpreter().interpreter_builder,
        interpreter().GridExecutor,
        Accesses(),
    )
    run = getattr(
        executor.__call__, "__wrapped__", executor.__call__
    )  # once, where launches run in every order
    enter = builder.set_grid_idx
    load, store = builder.create_masked_load, builder.create_masked_store

    def watched_run(launch: Any, *rest: Any, **given: Any) -> None:
        run(launch, *rest, **given)
        accesses.leave()
        assert not accesses.found, f"{launch.fn.__name__} {launch.grid}: a race of {accesses.found}"

    def watched_enter(*index: int) -> None:
        accesses.enter()
        enter(*index)

    def watched_load(pointers: Any, mask: Any, *rest: Any) -> Any:
        accesses.note(pointers, mask, stored=False)
        return load(pointers, mask, *rest)

    def watched_store(pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        accesses.note(pointers, mask, stored=True)
        return store(pointers, value, mask, *rest)

    new = {
        "set_grid_idx": watched_enter,
        "create_masked_load": watched_load,
        "create_masked_store": watched_store,
    }
    with (
        mock.patch.object(executor, "__call__", watched_run),
        mock.patch.multiple(builder, **new, create_barrier=accesses.barrier),
    ):
        yield


def interpreter() -> Any:
    return importlib.import_module("triton.runtime.interpreter")


def same_bytes(one: torch.UntypedStorage, other: torch.UntypedStorage) -> bool:
    return torch.equal(
        *(torch.tensor([], dtype=torch.uint8).set_(storage) for storage in (one, other))
    )


def backend(folder: Path) -> dict[str, types.ModuleType]:
    """The modules of the backend: on a card if there is one, else interpreted."""
    if torch.cuda.is_available():
        return {name: importlib.import_module(f"ctc_align.kernels.gpu.{name}") for name in NAMES}
    return copies(folder)
