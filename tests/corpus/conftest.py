"""Runs over corpora in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from corpus_runs import make_corpus
from inline_corpus import inline_corpus  # noqa: F401 (a fixture)


@pytest.fixture(scope="module")
def corpus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manifest of a corpus of as many utterances as the module's UTTERANCES says."""
    return make_corpus(tmp_path_factory.mktemp("corpus"), request.module.UTTERANCES)


@pytest.fixture(scope="module")
def audio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of 2.25 s at 8 kHz with two channels."""
    path = tmp_path_factory.mktemp("sound") / "two channels.wav"
    soundfile.write(
        path, np.random.default_rng(0).integers(-3000, 3000, (18000, 2)).astype(np.int16), 8000
    )
    return path


@pytest.fixture
def run(cli: Any, inline_corpus: None) -> Callable[..., Any]:  # noqa: F811
    """Runs `ctc-align corpus` here, with an aligner that does not listen: `run(corpus, "--out-dir",
    folder)`."""

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
