"""Deprecations: fatal where our modules raise or cause them, listed where others do."""

from __future__ import annotations

import sysconfig
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from caused_warnings import DEPRECATIONS, ROOT

FILES = {
    "ctc_align.planted": ROOT / "ctc_align" / "planted.py",
    "tests.planted": ROOT / "tests" / "planted.py",
    "stranger": Path(sysconfig.get_path("purelib"), "stranger", "__init__.py"),
    "stranger.inner": Path(sysconfig.get_path("purelib"), "stranger", "inner.py"),
}
SOURCE = """
def warn(category, level):
    warnings.warn("planted", category, stacklevel=level)

def call(function, *arguments):
    function(*arguments)
"""


def planted(module: str, name: str) -> Callable[..., None]:
    """Return a function of a module that is written for this test."""
    names = {"__name__": module, "warnings": warnings}
    exec(compile(SOURCE, str(FILES[module]), "exec"), names)
    return names[name]


@pytest.mark.parametrize("category", [*DEPRECATIONS, UserWarning, RuntimeWarning])
def test_a_warning_of_our_modules_is_an_error(category: type[Warning]) -> None:
    for module in ("ctc_align.planted", "tests.planted"):
        with pytest.raises(category, match="planted"):
            planted("stranger", "call")(planted(module, "warn"), category, 1)


@pytest.mark.parametrize("category", DEPRECATIONS)
@pytest.mark.parametrize("level", [1, 2], ids=["blames itself", "blames its caller"])
def test_a_deprecation_that_our_modules_cause_is_an_error(
    category: type[Warning], level: int
) -> None:
    warn, call = planted("stranger", "warn"), planted("ctc_align.planted", "call")
    with pytest.raises(category, match="planted"):
        planted("stranger.inner", "call")(call, warn, category, level)


@pytest.mark.parametrize("category", DEPRECATIONS)
@pytest.mark.parametrize("level", [1, 2], ids=["blames itself", "blames its caller"])
def test_a_deprecation_between_strangers_is_listed(category: type[Warning], level: int) -> None:
    """Other warnings of strangers are errors."""
    warn, call = planted("stranger", "warn"), planted("stranger.inner", "call")
    listed = warnings._showwarnmsg_impl.__self__  # pytest's list
    call(warn, category, level)
    assert str(listed.pop().message) == "planted"
    with pytest.raises(UserWarning, match="planted"):
        call(warn, UserWarning, level)
