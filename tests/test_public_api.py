"""The names of Python that are promised stay, and calls that were right stay right."""

from __future__ import annotations

import pytest
from public_api import LIST, broken_promises, current


def test_no_promise_is_broken() -> None:
    pytest.importorskip("griffe", reason="no griffe, which reads the names from the code")
    promised, found = LIST.read_text(encoding="utf-8").splitlines(), current()
    assert len(found) > 50
    assert broken_promises(promised, found) == []
    assert found == promised, "names are new, or parameters: run python tests/support/public_api.py"


@pytest.mark.parametrize(
    ("now", "fault"),
    [
        ("f(a, b, c=1, *, d=None)", None),
        ("f(a, b, c=1, *, d=None, e=2)", None),
        ("f(a, b=0, c=1, d=None)", None),
        ("g(a, b, c=1, *, d=None)", "f is promised, and gone"),
        ("f", "it is no function any more"),
        ("f(a, c=1, *, d=None)", "the parameter b is gone"),
        ("f(b, a, c=1, *, d=None)", "the parameter a has another place"),
        ("f(a, b, *, c=1, d=None)", "the parameter c has another place"),
        ("f(a, b, c=2, *, d=None)", "the default of c was 1 and is 2"),
        ("f(a, b, c, *, d=None)", "the default of c was 1 and is none"),
        ("f(a, b, c=1, *, d=None, e)", "the parameter e is new and has no default"),
    ],
)
def test_a_broken_promise_is_told(now: str, fault: str | None) -> None:
    faults = broken_promises(["f(a, b, c=1, *, d=None)"], [now])
    assert (faults == []) if fault is None else any(fault in told for told in faults)
