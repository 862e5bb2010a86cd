"""The journal: lines that are whole, a state that is the latest, torn ends that are cut off."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from ctc_align.corpus.state.journal import (
    DONE,
    FAILED,
    Journal,
    Line,
    Outcomes,
    Shard,
    journal_path,
    journal_paths,
    line_key,
    read_lines,
    shard_of,
)
from ctc_align.corpus.state.summary import summarize
from ctc_align.errors import OutputError


def line(id: str, status: str = DONE, time: float = 1.0, **fields) -> Line:
    return Line(id, status, time=time, **{"fingerprint": f"{line_key(id):016x}", **fields})


def written(path, *lines: Line):
    with Journal(path) as journal:
        journal.append(lines)
    return path


@pytest.mark.parametrize("id", ["plain", 'quote " and \\', "日本語", "half \udce9 a pair", "new\nline", ""])
def test_any_id_makes_one_line_and_comes_back(id, tmp_path):
    path = written(tmp_path / "journal.jsonl", line(id, reason="why\nnot"), line("next"))
    assert path.read_bytes().count(b"\n") == 2
    assert [found.id for found in read_lines(path)] == [id, "next"]
    assert Outcomes([path]).find(line_key(id)) == (DONE, line_key(id))


def test_lines_are_json_without_nan(tmp_path):
    data = json.loads(line("a", loss=None).encoded())
    assert list(data)[:5] == ["id", "status", "reason", "loss", "seconds"]
    assert "origin" not in data
    with pytest.raises(ValueError):
        line("a", loss=float("nan")).encoded()


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_end_is_cut_off(cut, tmp_path):
    path = written(tmp_path / "journal.jsonl", line("a"), line("b"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    assert [found.id for found in read_lines(path)] == ["a"]
    written(path, line("b"))
    assert path.read_bytes() == whole


def test_a_torn_line_longer_than_a_block(tmp_path):
    path = written(tmp_path / "journal.jsonl", line("a"))
    whole = path.read_bytes()
    path.write_bytes(whole + b"x" * 200_000)
    written(path)
    assert path.read_bytes() == whole
    path.write_bytes(b"x" * 200_000)
    written(path)
    assert path.read_bytes() == b""


def test_the_latest_line_counts_whichever_journal_it_is_in(tmp_path):
    first = written(tmp_path / "journal.0-of-2.jsonl", line("a", FAILED, 5.0), line("b", DONE, 2.0))
    second = written(tmp_path / "journal.jsonl", line("a", DONE, 3.0), line("b", FAILED, 2.0), line("a", DONE, 4.0))
    outcomes = Outcomes([first, second])
    assert outcomes.find(line_key("a"))[0] == FAILED
    assert outcomes.find(line_key("b"))[0] == FAILED, "of equal times the later line"
    assert outcomes.find(line_key("c")) is None
    assert outcomes.rows.tolist() == [0, 3]
    assert len(outcomes) == 2


def test_against_a_dict(tmp_path):
    random = np.random.default_rng(0)
    expected, lines = {}, []
    for i in range(2000):
        id, status = f"u{random.integers(700)}", [DONE, FAILED][random.integers(2)]
        lines.append(line(id, status, float(i)))
        expected[id] = status
    outcomes = Outcomes([written(tmp_path / "journal.jsonl", *lines)])
    assert {id: outcomes.find(line_key(id))[0] for id in expected} == expected
    assert outcomes.find(line_key("u700")) is None


def test_no_journal_at_all():
    assert Outcomes([]).find(0) is None
    assert len(Outcomes([])) == 0
    assert Outcomes([]).rows.tolist() == []


def test_what_never_became_an_utterance_is_told_apart_by_its_origin(tmp_path):
    path = written(tmp_path / "journal.jsonl", line("a"), line("a", FAILED, 9.0, origin="line 7"))
    assert Outcomes([path]).find(line_key("a"))[0] == DONE
    assert Outcomes([path]).find(line_key("a", "line 7"))[0] == FAILED


def test_strange_lines_are_passed_over_and_said(tmp_path, caplog):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'[1]\n{"status": "done"}\nnot JSON\n\xff\n' + line("a").encoded() + b'{"id": "b", "other": 1')
    assert [found.id for found in read_lines(path)] == ["a"]
    assert "line 1" in caplog.text
    assert "line 4" in caplog.text


DOUBT = {"words": 2, "unexplained": 0, "least_confidence": 0.5}


@pytest.mark.parametrize(
    "damage",
    [
        *({"doubt": value} for value in ({}, "x", True, [1], {"words": 1}, DOUBT | {"more": 1})),
        *({"doubt": DOUBT | {"words": value}} for value in ("a", 1.5, -1, None, True, float("nan"))),
        *({"doubt": DOUBT | {"least_confidence": value}} for value in ("a", [0.5], True, float("nan"), float("inf"))),
        *({"fingerprint": value} for value in (5, "x", None, "0" * 17)),
        *({name: value} for name in ("loss", "loss_per_token", "duration_s") for value in ("x", True, float("nan"))),
        *({name: 10**400} for name in ("loss_per_token", "time")),
        *({name: None} for name in ("id", "seconds", "time")),
        {"id": 5},
        {"status": "dnoe"},
        {"status": []},
        {"reason": {}},
        {"origin": 5},
        {"time": "x"},
    ],
    ids=str,
)
def test_a_line_with_a_damaged_field_is_passed_over_and_said(damage, tmp_path, caplog):
    path = written(tmp_path / "journal.jsonl", line("a", loss=1.0, doubt=DOUBT))
    data = json.loads(line("b", doubt=DOUBT).encoded())
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(data | damage) + "\n" + json.dumps(data | {"id": "c", "later": 1}) + "\n")
    assert [found.id for found in read_lines(path)] == ["a", "c"]
    assert "line 2: not a line of a journal; its utterance is done again" in caplog.text
    outcomes = Outcomes([path])
    assert (len(outcomes), outcomes.find(line_key("b"))) == (2, None)
    summary = summarize([path])
    assert (summary.done, summary.in_doubt, summary.doubtful_words) == (2, 2, 4)


def test_a_write_that_fails_is_taken_back(tmp_path, monkeypatch):
    path = written(tmp_path / "journal.jsonl", line("a"))
    whole = path.read_bytes()
    with Journal(path) as journal:
        real = os.write
        monkeypatch.setattr(
            os, "write", lambda file, data: real(file, data[:20]) and (_ for _ in ()).throw(OSError(28, "full"))
        )
        with pytest.raises(OutputError, match=r"journal\.jsonl: the journal cannot be written \(full\)"):
            journal.append([line("b")])
        monkeypatch.undo()
        assert path.read_bytes() == whole
        journal.append([line("b")])
    assert [found.id for found in read_lines(path)] == ["a", "b"]


def test_names(tmp_path):
    paths = [journal_path(tmp_path, shard) for shard in (Shard(0, 2), Shard(10, 12), Shard())]
    assert [path.name for path in paths] == ["journal.0-of-2.jsonl", "journal.10-of-12.jsonl", "journal.jsonl"]
    for path in (*paths, tmp_path / "journal.old.jsonl", tmp_path / "journals.jsonl"):
        path.touch()
    assert journal_paths(tmp_path) == sorted(paths)
    assert [shard_of(path) for path in paths] == [Shard(0, 2), Shard(10, 12), Shard()]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes, and links only with rights")
def test_what_is_no_file_is_no_journal(tmp_path):
    """A link would have another file cut and added to, and a pipe would be waited for."""
    victim = tmp_path / "victim"
    victim.write_text("precious, and no line end")
    (tmp_path / "journal.jsonl").symlink_to(victim)
    os.mkfifo(tmp_path / "journal.0-of-2.jsonl")
    for name, reason in (("journal.jsonl", "a link"), ("journal.0-of-2.jsonl", "a pipe")):
        with pytest.raises(OutputError, match=reason):
            Journal(tmp_path / name)
    assert victim.read_text() == "precious, and no line end"
    assert list(journal_paths(tmp_path)) == [tmp_path / "journal.jsonl"]
