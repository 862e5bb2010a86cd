"""The names of Python that are promised stay, and calls that were right stay right."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from public_api import LIST, broken_promises, current

from ctc_align import Aligner, Emissions
from ctc_align.alignment import aligner as functions

ROOT = Path(__file__).resolve().parent.parent


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


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("choice", "find_choice"),
        ("edge_network", "find_edge_network"),
        ("fit_limits", "find_fit_limits"),
        ("for_texts", "find_aligner"),
        ("inputs", "read_inputs"),
        ("pronounced", "pronounce_transcript"),
        ("split", "split_transcript"),
    ],
)
def test_a_former_member_warns_at_its_caller(name: str, function: str) -> None:
    aligner = Aligner(None)
    with pytest.warns(
        DeprecationWarning, match=rf"Aligner\.{name} .* 0\.6; use {function} "
    ) as met:
        former = getattr(aligner, name)
    assert met[0].filename == __file__
    page = re.search(r"docs/[\w./-]+\.md", str(met[0].message)).group()
    assert f"`aligner.{name}" in (ROOT / page).read_text("utf-8"), "what to write instead"
    if name in ("choice", "edge_network", "fit_limits"):
        assert former is getattr(functions, function)(aligner)
    else:
        assert (former.func, former.args) == (getattr(functions, function), (aligner,))


def test_the_former_split_splits() -> None:
    aligner = Aligner(None)
    with pytest.warns(DeprecationWarning, match="split_transcript"):
        words = aligner.split("So be it.", "text")
    assert words == functions.split_transcript(aligner, "So be it.", "text")
    assert not hasattr(aligner, "splits")


def test_emissions_as_given_warn() -> None:
    log_probs = np.zeros((1, 2), np.float32)
    emissions = Emissions(log_probs, ("-", "a"), 0.02)
    with pytest.warns(DeprecationWarning, match=r"Emissions\.given .* 0\.6") as met:
        assert emissions.given is log_probs
    assert met[0].filename == __file__
