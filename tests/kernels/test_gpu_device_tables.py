"""Tables that the host makes for a card, without a card: what a CUDA graph reads, and which numbers
are copied from pinned memory."""

from __future__ import annotations

import collections

import pytest
import torch

from ctc_align.ctc import operators
from ctc_align.errors import KernelError
from ctc_align.kernels.gpu import device_tables

CARD = torch.device("cuda", 0)


class OnCard:
    """A table on a card that is not there."""

    device = CARD


@pytest.fixture(autouse=True)
def _capturing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    monkeypatch.setattr(
        device_tables, "_recent", collections.deque(maxlen=device_tables.RECENT_TABLES)
    )
    monkeypatch.setattr(device_tables, "_captured", [])


def test_a_graph_reads_the_table_of_an_earlier_call() -> None:
    earlier, other = OnCard(), OnCard()
    device_tables._recent.append((torch.tensor([1, 2]), other))  # type: ignore[arg-type]
    device_tables._recent.append((torch.tensor([1, 3]), earlier))  # type: ignore[arg-type]
    for _ in range(2):
        assert device_tables.to_device(torch.tensor([1, 3]), CARD) is earlier
    assert device_tables._captured == [earlier]
    for unknown in ([1, 4], [1, 3, 0]):
        with pytest.raises(KernelError, match="CUDA graph is being captured"):
            device_tables.to_device(torch.tensor(unknown), CARD)
    with pytest.raises(KernelError, match="not on the device yet"):
        device_tables.to_device(torch.tensor([1.0, 3.0]), CARD)
    with pytest.raises(KernelError, match="not on the device yet"):
        device_tables.to_device(torch.tensor([1, 3]), torch.device("cuda", 1))


def test_tables_of_a_graph_are_not_pinned() -> None:
    assert not device_tables.new_table(3, torch.int32, CARD).is_pinned()


def test_numbers_keep_their_values_and_shape() -> None:
    numbers = torch.tensor([[3], [5]])
    found = device_tables.copied(numbers, torch.device("cpu"), torch.float32)
    assert found.tolist() == [[3.0], [5.0]]
    assert found.dtype == torch.float32


def test_compilers_and_transforms_have_no_memory() -> None:
    found = []

    def of(numbers: torch.Tensor) -> torch.Tensor:
        found.append(device_tables.has_memory(numbers))
        return numbers

    of(torch.ones(2))
    torch.vmap(of)(torch.ones(2, 2))
    assert found == [True, False]


def test_graphs_of_the_compiler_leave_the_operators_out() -> None:
    if not hasattr(torch.Tag, "cudagraph_unsafe"):
        pytest.skip("this PyTorch captures no parts of a graph")
    assert operators.defined
    for name, operator in operators.defined.items():
        assert torch.Tag.cudagraph_unsafe in operator.tags, name
