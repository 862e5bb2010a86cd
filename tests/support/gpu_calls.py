"""Calls of the GPU's kernels that, between them, launch each specialisation that users' calls can
need.

Functions × topologies × lengths × dtypes × whether what is kept fits into memory, else frames are
walked again; and enough frames that their addresses need 64 bits. Log-probs lie on a card, which
may be simulated (`absent_card`).
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ctc_align import kernels, lattice
from ctc_align.lattice import WILDCARD, Topology

FUNCTIONS = ("best_path", "forward", "occupancy")
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
LENGTHS = {"one strip": 20, "eight strips": 170, "strips": 250, "tiles": 1000}
"""Tokens: 41 states are one strip, 341 eight, 501 sixteen; 2001 are three tiles."""
CLASSES = 64
MANY_CELLS = 2**33 + 2**30
"""Frames × states of a row, of all utterances, of which neither rows nor back-pointers fit."""


def _targets(tokens: int, batch: int, wild: bool) -> list[list[int]]:
    row = (np.arange(tokens) % (CLASSES - 2) + 1).tolist()
    return [[WILDCARD, *row[1:]] if wild else row] * batch


def _words(tokens: int, batch: int) -> list[list[int]]:
    return [(np.arange(tokens) // 4).tolist()] * batch


def _optional(tokens: int, batch: int) -> list[list[bool]]:
    return [(np.arange(tokens) % 7 == 3).tolist()] * batch


def _segmentation(tokens: int, batch: int, wild: bool, optional: bool) -> Topology:
    """Two states a token, so half the tokens; their classes are below `CLASSES` with the
    silence."""
    tokens //= 2
    targets = [
        [token if token < 0 else token % 30 for token in row]
        for row in _targets(tokens, batch, wild)
    ]
    free = _optional(tokens, batch) if optional else None
    return lattice.segmentation(targets, _words(tokens, batch), 2, 60, free)


TOPOLOGIES: dict[str, Callable[[int, int], Topology]] = {
    "ctc": lambda tokens, batch: lattice.ctc(_targets(tokens, batch, False)),
    "simple": lambda tokens, batch: lattice.simple_ctc(_targets(tokens, batch, False)),
    "segmentation": lambda tokens, batch: _segmentation(tokens, batch, False, False),
    "ctc, wildcards": lambda tokens, batch: lattice.ctc(_targets(tokens, batch, True)),
    "segmentation, wildcards": lambda tokens, batch: _segmentation(tokens, batch, True, False),
    "ctc, optional": lambda tokens, batch: lattice.ctc(
        _targets(tokens, batch, False), 0, _optional(tokens, batch)
    ),
    "segmentation, optional, wildcards": lambda tokens, batch: _segmentation(
        tokens, batch, True, True
    ),
}


def call(
    function: str,
    topology: Topology,
    frames: int,
    dtype: torch.dtype,
    device: torch.device,
    *,
    bands: bool = False,
) -> Any:
    """Call a function of the kernels' door with log-probs that nobody has written."""
    x = torch.empty(topology.batch, frames, CLASSES, dtype=dtype, device=device)
    wildcard = torch.empty(topology.batch, frames, device=device) if topology.has_wildcard else None
    limits = {}
    if bands:
        limits["bands"] = np.broadcast_to(np.array([0, 2**20]), (topology.batch, frames, 2))
    return getattr(kernels, function)(x, topology, wildcard=wildcard, backend="gpu", **limits)


@dataclass(frozen=True)
class Combination:
    """What a call is about: names of `TOPOLOGIES` and `LENGTHS`, a dtype, and whether frames are
    walked again."""

    kind: str
    length: str
    dtype: torch.dtype
    again: bool

    def __str__(self) -> str:
        return (
            f"{self.kind}; {self.length};"
            f" {str(self.dtype).rpartition('.')[2]}{'; walked again' * self.again}"
        )

    def calls(self, device: torch.device) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield the name of each call, and the call, of log-probs on a device."""
        batch, tokens = 64 if self.again else 2, LENGTHS[self.length]
        topology = TOPOLOGIES[self.kind](tokens, batch)
        row = 2 * max(64, topology.emit.shape[1] // 2)
        frames = MANY_CELLS // (batch * row) if self.again else 2 * tokens + 50
        for function in FUNCTIONS:
            yield (
                f"{function}: {self}",
                partial(call, function, topology, frames, self.dtype, device),
            )
        if not self.again:
            bands = partial(call, "best_path", topology, frames, self.dtype, device, bands=True)
            yield f"best_path in bands: {self}", bands


def combinations() -> list[Combination]:
    return [Combination(*each) for each in product(TOPOLOGIES, LENGTHS, DTYPES, (False, True))]


def long_calls(device: torch.device) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield calls with enough frames and classes that strides and offsets need 64 bits."""
    topology = TOPOLOGIES["ctc"](20, 1)
    for function in FUNCTIONS:
        yield (
            f"{function}: strides of 64 bits",
            partial(call, function, topology, 2**26, torch.float16, device),
        )


LIMITS = {"stack": 160, "shared": 48 * 1024}
"""The most that a program may take: bytes of stack, where registers do not suffice, and of shared
memory."""


def source_hash() -> str:
    """Return a hash of the kernels' code and of what launches them, comments and docstrings left
    out."""
    state = hashlib.sha256()
    for path in sorted((Path(kernels.__file__).parent / "gpu").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)):
                node.body = [
                    one
                    for one in node.body
                    if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
                ]
        state.update(f"{path.name} {ast.unparse(tree)}".encode())
    return state.hexdigest()[:16]


def replace_block(page: Path, name: str, text: str) -> None:
    """Replace what stands between `<!-- name -->` and `<!-- end of name -->`."""
    old = page.read_text(encoding="utf-8")
    before, _, rest = old.partition(f"<!-- {name} -->\n")
    _, _, after = rest.partition(f"<!-- end of {name} -->")
    assert after, f"{page.name} has no block {name!r}"
    page.write_text(
        f"{before}<!-- {name} -->\n{text}\n<!-- end of {name} -->{after}", encoding="utf-8"
    )
