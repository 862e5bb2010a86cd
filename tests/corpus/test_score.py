"""A source's losses: in its order, on all cores, streamed, and what cannot be scored is told."""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import corpus_runs as runs
import numpy as np
import pytest
import soundfile
from made_models import LETTERS, tiny_folder

from ctc_align.alignment.aligner import Aligner
from ctc_align.corpus import corpus_scores
from ctc_align.corpus.corpus_scores import ScoredUtterance, ScoreTask, score_source
from ctc_align.corpus.engine.stages import WorkerOptions
from ctc_align.sources.utterance import Refused, Utterance


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A tiny model, and noise of different lengths: u0.wav … u9.wav."""
    folder = tmp_path_factory.mktemp("score")
    tiny_folder(folder / "model", LETTERS)
    random = np.random.default_rng(0)
    for i in range(10):
        samples = 0.1 * random.standard_normal(16000 * (1 + 3 * i % 7) // 2)
        soundfile.write(folder / f"u{i}.wav", samples, 16000, subtype="PCM_16")
    return folder


def utterances(folder: Path) -> list[Utterance]:
    return [
        Utterance(f"u{i}", f"u{i}", str(folder / f"u{i}.wav"), text, f"line {i}")
        for i, text in enumerate(
            ["no", "we call", "it bear", "hello", "world", "ab", "cab", "abe", "bear it", "call"]
        )
    ]


def all_scored(
    source: Iterable[Utterance | Refused], folder: Path, **more: Any
) -> Iterator[ScoredUtterance]:
    return score_source(
        source, WorkerOptions(ScoreTask(), str(folder / "model"), device="cpu"), **more
    )  # type: ignore


@pytest.mark.parametrize(
    "more",
    [
        {"workers": 1, "batch_seconds": 1.0},
        *(pytest.param(more, marks=pytest.mark.long) for more in ({}, {"workers": 2})),
    ],
)
def test_every_utterance_in_its_place_as_alone(
    folder: Path, more: dict[str, object], monkeypatch
) -> None:
    monkeypatch.setattr(corpus_scores, "WINDOW", 4)
    aligner = Aligner(str(folder / "model"), device="cpu")
    results = list(all_scored(utterances(folder), folder, **more))
    assert [one.id for one in results] == [f"u{i}" for i in range(10)]
    for i, one in enumerate(results):
        alone = aligner.score_texts(folder / f"u{i}.wav", [one.text])
        assert (one.error, one.origin) == (None, f"line {i}")
        assert one.duration_s == soundfile.info(folder / f"u{i}.wav").duration
        # Another number of threads adds up in another order.
        assert one.scored[0].loss == pytest.approx(alone[0].loss, rel=1e-5)
        assert one.scored[0].text == one.text


def test_parts_of_recordings(folder: Path) -> None:
    one = utterances(folder)[6]
    part = replace(one, offset_s=0.25, duration_s=0.5)
    (found,) = all_scored([part], folder)
    assert found.duration_s == 0.5
    samples = soundfile.read(one.audio, dtype="float32")[0][4000:12000]
    aligner = Aligner(str(folder / "model"), device="cpu")
    assert found.scored[0].loss == pytest.approx(
        aligner.score((samples, 16000), one.text), rel=1e-5
    )


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_what_cannot_be_scored_is_told_and_the_others_scored(folder: Path, workers: int) -> None:
    items = utterances(folder)[:4]
    (folder / "no.flac").write_bytes(b"fLaC and no more")
    items.insert(1, Refused("line 2", "line 2", "expected a JSON object"))
    items.insert(2, Utterance("gone", "gone", str(folder / "gone.wav"), "no", "line 3"))
    items.insert(3, Utterance("cut", "cut", str(folder / "no.flac"), "no", "line 4"))
    items.insert(4, Utterance("far", "far", str(folder / "u0.wav"), "no", "line 5", offset_s=99.0))
    items.append(Utterance("empty", "empty", str(folder / "u0.wav"), " ", "line 9"))
    results = {one.id: one for one in all_scored(items, folder, workers=workers)}
    assert list(results) == ["u0", "line 2", "gone", "cut", "far", "u1", "u2", "u3", "empty"]
    assert results["line 2"].error == "expected a JSON object"
    assert "no such audio file" in (results["gone"].error or "")
    assert "no.flac" in (results["cut"].error or "")
    assert "u0.wav" in (results["far"].error or "")
    assert all(
        results[f"u{i}"].error is None and results[f"u{i}"].scored[0].loss > 0 for i in range(4)
    )
    assert (results["empty"].error, results["empty"].scored[0].error is None) == (None, False)


def test_what_breaks_a_batch_is_one_utterance(folder: Path, monkeypatch) -> None:
    right = Aligner.score_emissions

    def breaking(aligner, emissions, texts, *more):
        if ("hello",) in texts:
            raise MemoryError("too much")
        return right(aligner, emissions, texts, *more)

    monkeypatch.setattr(Aligner, "score_emissions", breaking)
    results = list(all_scored(utterances(folder), folder, workers=1))
    assert [one.error for one in results] == [None] * 3 + ["MemoryError: too much"] + [None] * 6


def test_a_source_is_streamed(folder: Path, monkeypatch) -> None:
    """Of an endless source no more is read than two windows beyond what was asked for."""
    monkeypatch.setattr(corpus_scores, "WINDOW", 4)
    first = utterances(folder)[0]
    read = []

    def endless() -> Iterator[Utterance]:
        for i in count():
            read.append(i)
            yield replace(first, id=f"u{i}")

    results = all_scored(endless(), folder, workers=1)
    assert [one.id for one in islice(results, 10)] == [f"u{i}" for i in range(10)]
    assert len(read) <= 10 + 3 * 4
    results.close()  # type: ignore[attr-defined]


@pytest.mark.long
def test_what_dead_workers_had_is_done_again(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(corpus_scores, "WINDOW", 2)
    items = utterances(folder) * 10
    expected = list(all_scored(items, folder, workers=1))
    results = all_scored(items, folder, workers=2)
    first = next(results)
    for child in multiprocessing.active_children():
        child.kill()
    assert [first, *results] == expected


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="kills by SIGKILL")
def test_an_utterance_that_kills_its_worker_has_its_error_and_the_others_their_scores(
    folder: Path, tmp_path
) -> None:
    rows = [
        {"audio": item.audio, "text": item.text, "utterance": item.id}
        for item in utterances(folder)
    ]
    manifest = runs.write_manifest(tmp_path / "corpus.jsonl", rows)
    killers = tmp_path / "killers.json"
    killers.write_text(json.dumps({"u1": ("read", "kill"), "u4": ("read", "abort")}))
    command = [manifest, "--model", folder / "model", "--workers", 2, "--batch-seconds", 5]
    process = runs.start(*command, command="score", REAL=1, KILLERS=killers)
    stdout, stderr = runs.ended(process)
    assert process.returncode == 1, stderr
    for id, how in (("u1", "killed by SIGKILL"), ("u4", "killed by SIGABRT")):
        assert f"{id}: the worker process died of this utterance ({how}" in stderr
    scored = [line.split()[0] for line in stdout.splitlines()]
    assert {row["utterance"] for row in rows} - {"u1", "u4"} <= set(scored)
