"""Many small pieces of work on all cores: a piece on each, in place of every piece on all of them.

Torch's own threads wait for one another after every operation, which on small tensors costs more than it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")
AHEAD = 32
"""So many results are made before the first of them must be taken."""


def spread(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """`function` of each item, in order; inside it torch works on one thread."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(count) as pool:
            for begin in range(0, len(items), AHEAD):
                yield from pool.map(function, items[begin : begin + AHEAD])
    finally:
        torch.set_num_threads(count)
