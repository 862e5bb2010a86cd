"""The journal: lines that are whole, a state that is the latest, torn ends that are cut off."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from typing import Any

import pytest
from corpus_runs import journal_line
from rows import over_rows

from ctc_align.corpus.state.journal import (
    DONE,
    FAILED,
    Journal,
    Line,
    journal_path,
    journal_paths,
    line_key,
    parsed_line,
    read_lines,
    shard_of,
)
from ctc_align.corpus.state.resume import Outcomes
from ctc_align.corpus.state.summary import summarize
from ctc_align.errors import OutputError
from ctc_align.files.folder_lock import Shard
from ctc_align.sources.utterance import UtteranceResult


def line(id: str, status: str = DONE, time: float = 1.0, **fields) -> Line:
    return journal_line(id, status, time=time, **{"fingerprint": f"{line_key(id):016x}", **fields})


def written(path, *lines: Line):
    with Journal(path) as journal:
        journal.append(lines)
    return path


@pytest.mark.parametrize(
    "id", ["plain", 'quote " and \\', "日本語", "half \udce9 a pair", "new\nline", ""]
)
def test_any_id_makes_one_line_and_comes_back(id, tmp_path):
    path = written(tmp_path / "journal.jsonl", line(id, reason="why\nnot"), line("next"))
    assert path.read_bytes().count(b"\n") == 2
    assert [found.id for found in read_lines(path)] == [id, "next"]
    assert Outcomes([path]).find(line_key(id)) == (DONE, line_key(id))


WHOLE: dict[str, Any] = {
    "doubt": {"words": 2, "unexplained": 0, "least_confidence": 0.5},
    "fit": "good",
    "skipped": 1,
}
WHOLE |= {
    "words": 9,
    "too_many_skipped": True,
    "unexplained_s": 1.5,
    "looks": "de",
    "text": "0a",
    "book": "b.txt",
}
WHOLE |= {
    "part": (0, 9),
    "left_out": ((1, 2),),
    "files": {"a.json": (3, "0b")},
    "row": (4, "0c"),
    "local_loss": 2.5,
}
WHOLE |= {"audio": (5, "0d"), "fast_cues": 4, "notes": ("why",)}


def test_fields_and_their_order_are_a_promise(tmp_path):
    """Other programs read the journal."""
    bare = line("a", loss=None).encoded()
    assert list(json.loads(bare)) == [
        *(
            "id",
            "status",
            "reason",
            "loss",
            "seconds",
            "run",
            "line",
            "loss_per_token",
            "duration_s",
        ),
        *("fingerprint", "time", "crc"),
    ]
    whole = line("a", origin="line 7", **WHOLE).encoded(2, 3)
    assert whole.startswith(
        b'{"id": "a", "status": "done", "reason": null, "loss": null, "seconds": 0.0, "run": 2, '
    )
    assert list(json.loads(whole))[11:-1] == ["origin", *WHOLE]
    assert parsed_line(whole)[0].encoded(2, 3) == whole
    with pytest.raises(ValueError):
        line("a", loss=float("nan")).encoded()


def test_each_field_of_a_result_is_in_its_line_and_where_it_says_so_in_the_summary(tmp_path):
    fields = dataclasses.fields(UtteranceResult)
    assert {field.name for field in fields} - {*WHOLE} == {
        "loss",
        "seconds",
        "loss_per_token",
        "duration_s",
    }
    summary = summarize(
        [written(tmp_path / "journal.jsonl", line("a", **WHOLE), line("b", **WHOLE))]
    ).to_dict()
    for field in fields:
        if "sum" in field.metadata:
            assert summary[field.metadata["sum"]] == 2 * WHOLE[field.name], field.name
        if "count" in field.metadata:
            assert summary[field.metadata["count"]] == {WHOLE[field.name]: 2}, field.name


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


def test_within_a_journal_the_order_of_lines_decides_and_no_clock(tmp_path):
    path = written(tmp_path / "journal.jsonl", line("a", FAILED, 5000.0), line("b", DONE, 9.0))
    written(path, line("a", DONE, 4.0), line("b", FAILED, 3.0))
    outcomes = Outcomes([path])
    assert outcomes.find(line_key("a"))[0] == DONE
    assert outcomes.find(line_key("b"))[0] == FAILED
    assert outcomes.find(line_key("c")) is None
    assert [(found.id, found.number) for found in outcomes.lines()] == [("a", 3), ("b", 4)]
    assert len(outcomes) == 2


def in_run(path, run: int, *lines: Line):
    with Journal(path, run=run) as journal:
        journal.append(lines)
    return path


def old_line(id: str, status: str = DONE, **fields) -> bytes:
    """A line as versions before 0.2 wrote them: without run, number and checksum."""
    data = json.loads(line(id, status, **fields).encoded())
    return (
        json.dumps({name: data[name] for name in data if name not in ("run", "line", "crc")}) + "\n"
    ).encode()


def test_between_journals_the_run_decides_and_a_tie_is_done_again(tmp_path):
    names = ("journal.0-of-2.jsonl", "journal.1-of-2.jsonl", "journal.jsonl")
    first, second, whole = (tmp_path / name for name in names)
    in_run(
        whole,
        2,
        line("late", DONE, 1.0),
        line("early", FAILED, 9.0),
        line("same", DONE, 1.0),
        line("tie", FAILED),
    )
    in_run(first, 1, line("late", FAILED, 8.0), line("old", FAILED))
    in_run(first, 3, line("early", DONE, 2.0))
    in_run(second, 2, line("same", DONE, 7.0), line("tie", DONE))
    in_run(second, 2, line("mended", FAILED), line("mended", DONE))
    (tmp_path / "journal.2-of-3.jsonl").write_bytes(
        old_line("old", DONE, time=99.0) + old_line("late", FAILED)
    )
    outcomes = Outcomes(journal_paths(tmp_path))
    found = {
        id: outcomes.find(line_key(id)) for id in ("late", "early", "same", "tie", "old", "mended")
    }
    statuses = {id: None if outcome is None else outcome[0] for id, outcome in found.items()}
    assert statuses == {
        "late": DONE,
        "early": DONE,
        "same": DONE,
        "tie": None,
        "old": FAILED,
        "mended": DONE,
    }
    assert (outcomes.last_run, outcomes.ties) == (3, 1)


def test_lines_of_an_earlier_version_count(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(
        old_line("a", FAILED, time=50.0) + old_line("b") + old_line("a", DONE, time=2.0)
    )
    in_run(path, 1, line("b", FAILED))
    outcomes = Outcomes([path])
    assert [outcomes.find(line_key(id))[0] for id in "ab"] == [DONE, FAILED]
    assert [found.number for found in read_lines(path)] == [0, 0, 0, 4]
    assert not outcomes.has_unsure


def test_what_never_became_an_utterance_is_told_apart_by_its_origin(tmp_path):
    path = written(tmp_path / "journal.jsonl", line("a"), line("a", FAILED, 9.0, origin="line 7"))
    assert Outcomes([path]).find(line_key("a"))[0] == DONE
    assert Outcomes([path]).find(line_key("a", "line 7"))[0] == FAILED


def test_strange_lines_are_passed_over_and_said(tmp_path, caplog):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(
        b'[1]\n{"status": "done"}\nnot JSON\n\xff\n'
        + line("a").encoded()
        + b'{"id": "b", "other": 1'
    )
    assert [found.id for found in read_lines(path)] == ["a"]
    assert "line 1" in caplog.text
    assert "line 4" in caplog.text


DOUBT = WHOLE["doubt"]


DAMAGES: list[dict[str, Any]] = [
    *({"doubt": value} for value in ({}, "x", True, [1], {"words": 1})),
    *({"doubt": DOUBT | {"words": value}} for value in ("a", 1.5, -1, None, True, float("nan"))),
    *(
        {"doubt": DOUBT | {"least_confidence": value}}
        for value in ("a", [0.5], True, float("nan"), float("inf"))
    ),
    *({"fingerprint": value} for value in (5, "x", None, "0" * 17)),
    *(
        {name: value}
        for name in ("loss", "loss_per_token", "duration_s")
        for value in ("x", True, float("nan"))
    ),
    *({name: 10**400} for name in ("loss_per_token", "time")),
    *({name: None} for name in ("id", "seconds", "time")),
    *({"id": 5}, {"status": "dnoe"}, {"status": []}, {"reason": {}}, {"origin": 5}, {"time": "x"}),
]


def test_a_line_with_a_damaged_field_is_passed_over_and_said(tmp_path, caplog):
    path = written(tmp_path / "journal.jsonl", line("a", loss=1.0, doubt=DOUBT))
    data = json.loads(old_line("b", doubt=DOUBT))
    for damage in DAMAGES:
        assert parsed_line(json.dumps(data | damage).encode() + b"\n")[0] is None, damage
    with open(path, "a", encoding="utf-8") as file:
        file.write(
            json.dumps(data | DAMAGES[0]) + "\n" + json.dumps(data | {"id": "c", "later": 1}) + "\n"
        )
    assert [found.id for found in read_lines(path)] == ["a", "c"]
    assert "line 2: not a line of a journal; its utterance is redone" in caplog.text
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
            os,
            "write",
            lambda file, data: real(file, data[:20]) and (_ for _ in ()).throw(OSError(28, "full")),
        )
        with pytest.raises(
            OutputError, match=r"journal\.jsonl: the journal cannot be written \(full\)"
        ):
            journal.append([line("b")])
        monkeypatch.undo()
        assert path.read_bytes() == whole
        journal.append([line("b")])
    assert [found.id for found in read_lines(path)] == ["a", "b"]


def test_names(tmp_path):
    paths = [journal_path(tmp_path, shard) for shard in (Shard(0, 2), Shard(10, 12), Shard())]
    assert [path.name for path in paths] == [
        "journal.0-of-2.jsonl",
        "journal.10-of-12.jsonl",
        "journal.jsonl",
    ]
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


def flipped(row: bytes, place: int) -> bytes:
    data = bytearray(row)
    data[place] ^= 1
    return bytes(data)


@over_rows(
    ("damage", "told", "unsure"),
    [
        (
            lambda r: [*r[:3], flipped(r[3], 30), *r[4:]],
            "line 4: its checksum does not match",
            "012",
        ),
        (
            lambda r: [*r[:3], flipped(r[3], -1), *r[4:]],
            "line 4: its checksum does|line 4: not a line",
            "012",
        ),
        (lambda r: [*r[:3], *r[4:]], r"line 4: expected line 4 of this journal, got line 5", "012"),
        (
            lambda r: [*r[:4], *r[3:]],
            r"line 5: expected line 5 of this journal, got line 4",
            "0123",
        ),
        (
            lambda r: [*r[:3], r[4], r[3], *r[5:]],
            r"line 5: expected line 6 of this journal, got line 4",
            "0124",
        ),
        (
            lambda r: [*r[:3], r[3].partition(b', "crc"')[0] + b"}\n", *r[4:]],
            "line 4: not a line of a journal",
            "012",
        ),
        (lambda r: [*r[:9], r[9][:-1]], None, ""),
    ],
)
def test_a_line_that_is_damaged_or_lost_is_told_and_those_before_it_are_unsure(
    damage, told, unsure, tmp_path_factory, caplog
):
    """u0 to u9, a line each: the lines before a lost one may not be the last of theirs."""
    folder = tmp_path_factory.mktemp("journal")
    path = written(folder / "journal.jsonl", *(line(f"u{i}") for i in range(10)))
    rows = damage(path.read_bytes().splitlines(keepends=True))
    path.write_bytes(b"".join(rows))
    caplog.clear()
    outcomes = Outcomes([path])
    assert (re.search(told, caplog.text) is not None) if told else not caplog.text
    assert {i for i in range(10) if outcomes.is_unsure(line_key(f"u{i}"))} >= set(map(int, unsure))
    assert outcomes.has_unsure == bool(unsure)
    assert not outcomes.is_unsure(line_key("u8"))
    with Journal(path, run=outcomes.last_run + 1) as journal:
        journal.append([line(f"u{i}") for i in range(10)])
    again = Outcomes([path])
    assert not again.has_unsure, "what is done again is sure"
    assert len(again) == 10


def test_a_last_line_that_is_torn_is_not_replaced_by_an_older_one(tmp_path):
    path = written(tmp_path / "journal.jsonl", line("a", FAILED), line("b"), line("a"))
    path.write_bytes(path.read_bytes()[:-30])
    outcomes = Outcomes([path])
    assert outcomes.find(line_key("a")) is None
    assert outcomes.find(line_key("b")) is not None
