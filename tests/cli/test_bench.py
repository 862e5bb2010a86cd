"""ctc-align bench: a table of times in which every result is checked; a wrong one is shown and
exits with 1."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from importlib.metadata import version

import numpy as np
import pytest
from made_alignments import alignment
from oracles import collapse
from rows import first_row_of

from ctc_align import kernels
from ctc_align.errors import BackendError
from ctc_align.files import OutputFiles
from ctc_align.kernels import benchmark
from ctc_align.kernels.benchmark import BEST_PATH, GRADIENT, LOSS, Case
from ctc_align.threads import thread_count

CASE = Case(2, 30, 4, 6, reference=True)


@pytest.fixture(autouse=True)
def tiny(monkeypatch) -> None:
    monkeypatch.setattr(benchmark, "QUICK", (CASE,))
    monkeypatch.setattr(benchmark, "CASES", (CASE, Case(1, 20, 2, 40, (BEST_PATH,))))


@pytest.fixture
def no_torchaudio(monkeypatch) -> None:
    monkeypatch.setattr(benchmark, "import_forced_align", lambda: (None, "cannot be imported: no"))


def test_table(cli, no_torchaudio):
    result = cli("bench", "--quick", "--device", "cpu")
    assert (
        result.code,
        [line for line in result.stderr.splitlines() if "compiled" not in line],
    ) == (0, [])
    machine, versions, _, case, head, *rows = result.stdout.splitlines()
    assert f"{thread_count()} threads" in machine
    assert f"torch {version('torch')}" in versions
    assert "torchaudio cannot be imported: no" in versions
    assert case == "2 x 30 frames, 4 tokens, 6 classes"
    assert head.split() == ["task", "by", "ms", "ns/cell", "ratio", "error"]
    assert [row[:28].rstrip() for row in rows] == [
        "best path        cpu",
        "best path        reference",
        "loss             cpu",
        "loss             reference",
        "loss             torch",
        "loss + gradient  cpu",
        "loss + gradient  reference",
        "loss + gradient  torch",
    ]
    assert max(map(len, rows)) <= 80


def test_edges_of_two_folders(cli, tmp_path):
    """Anna's edges are 10 ms late and Bert's 30: an interval by speaker goes from one to the
    other."""
    for speaker, shift_s in (("anna", 0.01), ("bert", 0.03)):
        for name in "xyz":
            OutputFiles(tmp_path / "ours" / speaker, name).write(alignment(name, shift_s))
            OutputFiles(tmp_path / "theirs" / speaker, name).write(alignment(name, 0.0))
    arguments = ("bench", "--edges", str(tmp_path / "ours"), str(tmp_path / "theirs"))
    report = json.loads(cli(*arguments, "--format", "json").stdout)
    words, phones = report["tiers"]
    assert (words["tier"], phones["tier"]) == ("words", "phones")
    assert (words["both"]["mae_ms"], words["both"]["ci95"]["mae_ms"]) == (20.0, [10.0, 30.0])
    lines = cli(*arguments).stdout.splitlines()
    assert next(line.split()[-6:-2] for line in lines if "mean absolute" in line) == [
        "20.0",
        "10.0",
        "…",
        "30.0",
    ]
    for path in (tmp_path / "ours" / "anna").glob("x.*"):
        path.unlink()
    assert "anna/x: no hypothesis" in cli(*arguments, code=1).stderr
    assert cli(*arguments, "--quick").code == 2


def test_json(cli, no_torchaudio):
    result = cli("bench", "--device", "cpu", "--format", "json", code=0)
    report = json.loads(result.stdout)
    assert report["format"] == "ctc-align-bench/1"
    assert report["machine"]["versions"]["torch"]
    assert len(report["rows"]) == 9
    for row in report["rows"]:
        assert row["ms"] > 0
        cells = row["batch"] * row["frames"] * (2 * row["tokens"] + 1)
        assert row["ns_per_cell"] == pytest.approx(row["ms"] * 1e6 / cells)
        rival = [
            other
            for other in report["rows"]
            if other["task"] == row["task"] and other["right"] is None
        ]
        if row["who"] == "torch":
            assert (row["right"], row["speedup"]) == (None, None)
        elif rival:
            assert row["speedup"] == pytest.approx(rival[0]["ms"] / row["ms"])
        assert row["right"] is not False
        assert row["error"] < 1e-4


def test_on_a_terminal(cli, monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    rows = next(benchmark.run((CASE,), ["cpu"], 1))
    from ctc_align.cli.bench import _print_table

    capsys.readouterr()
    _print_table([rows[0], dataclasses.replace(rows[1], error=float("inf"), right=False)])
    text = capsys.readouterr().out
    assert "inf WRONG" in text
    assert "─" in text


def spoil_posteriors(result):
    posteriors = result.posteriors.copy()
    posteriors[1, -1, 2] += 1e-3
    return dataclasses.replace(result, posteriors=posteriors)


SPOILS = [
    (
        "best_path",
        lambda result: dataclasses.replace(result, scores=result.scores * (1 + 1e-5)),
        BEST_PATH,
    ),
    # a path that leaves out the last token
    (
        "best_path",
        lambda r: dataclasses.replace(r, states=r.states.clip(max=int(r.states.max()) - 2)),
        BEST_PATH,
    ),
    (
        "best_path",
        lambda result: dataclasses.replace(result, scores=result.scores * math.nan),
        BEST_PATH,
    ),
    ("forward", lambda scores: scores * (1 + 1e-4 * (np.arange(2) == 1)), LOSS),
    ("forward", lambda scores: scores * math.nan, LOSS),
    ("occupancy", spoil_posteriors, GRADIENT),
    (
        "occupancy",
        lambda result: dataclasses.replace(result, scores=result.scores * math.nan),
        GRADIENT,
    ),
]


@pytest.mark.parametrize(("kernel", "spoil", "task"), first_row_of(SPOILS))
@pytest.mark.parametrize("format", first_row_of(["table", "json"]))
def test_a_wrong_result_is_shown_and_exits_with_1(cli, monkeypatch, kernel, spoil, task, format):
    real = getattr(kernels, kernel)

    def wrong(*arguments, backend):
        result = real(*arguments, backend=backend)
        return spoil(result) if backend == "cpu" else result

    monkeypatch.setattr(kernels, kernel, wrong)
    result = cli("bench", "--quick", "--device", "cpu", "--format", format, code=1)
    assert f"ctc-align: {CASE}: {task} by cpu: the error is " in result.stderr.splitlines()[-1]
    if format == "table":
        assert [line[:20].rstrip() for line in result.stdout.splitlines() if "WRONG" in line] == [
            f"{task:15}  cpu"
        ]
    else:
        rows = json.loads(result.stdout)["rows"]
        assert [(row["task"], row["who"]) for row in rows if row["right"] is False] == [
            (task, "cpu")
        ]


def test_planted_paths():
    case = Case(3, 40, 15, 5)
    log_probs, targets = benchmark.planted(case)
    again, _ = benchmark.planted(case)
    assert np.array_equal(log_probs, again), "the same for everyone"
    np.testing.assert_allclose(np.exp(log_probs).sum(2), np.ones((3, 40)), rtol=1e-5)
    # With the noise gone, the likeliest label of each frame reads the transcript.
    clean = benchmark.planted(Case(3, 40, 15, 5))[0]
    peaks = clean.argmax(2)
    assert np.mean([len(collapse(row, 0)) for row in peaks]) == pytest.approx(15, abs=3)
    assert targets.min() >= 1
    assert targets.max() <= 4


def test_torchaudio_is_measured_where_it_can_be_imported(cli, monkeypatch):
    """With something in its place: torchaudio has an environment of its own."""
    from ctc_align.functional import forced_align

    monkeypatch.setattr(benchmark, "import_forced_align", lambda: (forced_align, ""))
    report = json.loads(cli("bench", "--quick", "--device", "cpu", "--format", "json").stdout)
    (row,) = [row for row in report["rows"] if row["who"] == "torchaudio"]
    assert row["task"] == BEST_PATH
    assert row["error"] < 1e-6
    assert report["rows"][0]["speedup"] == pytest.approx(row["ms"] / report["rows"][0]["ms"])


def test_devices(monkeypatch):
    assert benchmark.devices("cpu") == ["cpu"]
    with pytest.raises(BackendError, match="the kernels run on cpu and cuda, got mps"):
        benchmark.devices("mps")

    def missing(backend):
        raise BackendError("backend 'gpu' cannot run here")

    monkeypatch.setattr(kernels, "check_backend", missing)
    assert benchmark.devices() == ["cpu"]
    with pytest.raises(BackendError, match="cannot run here"):
        benchmark.devices("cuda")
