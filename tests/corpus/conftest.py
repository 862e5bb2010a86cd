"""Runs over corpora in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from inline_corpus import inline_corpus  # noqa: F401 (a fixture)


@pytest.fixture
def run(cli: Any, inline_corpus: None) -> Callable[..., Any]:  # noqa: F811
    """Runs `ctc-align corpus` here, with an aligner that does not listen: `run(corpus, "--out-dir", folder)`."""

    def call(*arguments: Any, code: int | None = None) -> Any:
        result = cli("corpus", *arguments)
        assert result.stdout == ""
        assert code in (None, result.code), result.stderr
        return result

    return call


@pytest.fixture
def run_into(run: Callable[..., Any]) -> Callable[..., Any]:
    """As `run`, of a corpus of which some fail: `run_into(corpus, folder)`."""

    def call(corpus: Any, out_dir: Any, *options: Any, code: int = 1) -> Any:
        return run(corpus, "--out-dir", out_dir, *options, code=code)

    return call
