"""`ctc-align check`: what is wrong with a corpus, found before a run, without hearing it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from corpus_runs import write_clip, write_manifest

from ctc_align.corpus.corpus_check import header_of

CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "right": ({"text": "we call it bear"}, []),
    "no audio": ({"audio": "nowhere.wav", "text": "we call"}, ["audio"]),
    "no sound": ({"audio": "m.jsonl", "text": "we call"}, ["audio"]),
    "empty": ({"text": " "}, ["refused"]),
    "dots": ({"text": "... !", "offset": 0.1}, ["unspoken"]),
    "late": ({"text": "we call", "offset": 9}, ["length"]),
    "beyond": ({"text": "we call", "offset": 1, "duration": 3}, ["beyond"]),
    "fast": ({"text": "we call it bear " * 3, "duration": 1.0}, ["fast"]),
    "crowded": ({"text": "we call it bear " * 9, "duration": 0.5}, ["crowded"]),
    "slow": ({"audio": "long.wav", "text": "we"}, ["slow"]),
    "low": ({"audio": "low.wav", "text": "we call it"}, ["rate"]),
    "channel": ({"text": "we call", "channel": 2}, ["channel"]),
    "cut": ({"audio": "cut.wav", "text": "we call it bear"}, ["cut"]),
    "marked": ({"text": "we <b>call</b> it", "duration": 1.1}, ["strange"]),
    "coded": ({"text": "the cafÃ© bear", "duration": 1.2}, ["strange"]),
    "cyrillic": ({"text": "we call медведь", "duration": 1.3}, ["letters"]),
    "twin": ({"text": "we call it so"}, ["twice"]),
}


def corpus(folder: Path) -> Path:
    write_clip(folder / "a.wav", 2.0)
    write_clip(folder / "long.wav", 8.0)
    cut = write_clip(folder / "cut.wav", 2.0)
    cut.write_bytes(cut.read_bytes()[:40_000])
    import numpy as np
    import soundfile

    noise = np.random.default_rng(1).normal(0, 0.1, 16000)
    soundfile.write(folder / "low.wav", noise, 8000)
    return write_manifest(
        folder / "m.jsonl",
        [{"utterance": id, "audio": "a.wav", **row} for id, (row, _) in CASES.items()],
    )


def test_each_problem_is_found_and_what_would_fail_fails(tmp_path: Path, cli: Any) -> None:
    source = corpus(tmp_path)
    result = cli("check", source, "--format", "jsonl", "--model", "english", code=1)
    found: dict[str, list[str]] = {id: [] for id in CASES}
    fails: set[str] = set()
    for line in result.stdout.splitlines():
        row = json.loads(line)
        found[row["utterance"]].append(row["problem"])
        assert row["detail"]
        fails |= {row["utterance"]} if row["fails"] else set()
    assert found == {id: problems for id, (_, problems) in CASES.items()}
    cli("corpus", source, "--out-dir", tmp_path / "out", "--model", "english", code=1)
    journal = (tmp_path / "out" / "journal.jsonl").read_text("utf-8").splitlines()
    assert fails == {row["id"] for row in map(json.loads, journal) if row["status"] == "failed"}


def test_log_probs_are_no_recordings_that_would_fail(tmp_path: Path, cli: Any) -> None:
    source = write_manifest(tmp_path / "m.jsonl", [{"audio": "a.npy", "text": "we call"}])
    assert "a.npy: expected recordings" in cli("check", source, code=2).stderr


def test_warnings_of_the_source_are_those_of_the_command(tmp_path: Path, cli: Any) -> None:
    row = {"audio": write_clip(tmp_path / "a.wav", 2.0).name, "text": "we", "lang": "klingon"}
    source = write_manifest(tmp_path / "m.jsonl", [row])
    assert "ctc-align: warning: language klingon" in cli("check", source, code=0).stderr


@pytest.mark.parametrize("kind", ["flac", "ogg", "aiff", "au", "w64", "rf64", "nist", "mp3"])
def test_recordings_that_end_early_are_found_by_their_structure(kind: str, tmp_path: Path) -> None:
    whole = write_clip(tmp_path / f"a.{kind}", 3.0, format=kind.upper())
    found = header_of(str(whole))
    assert (found.cut, found.fault) == ("", "")
    assert found.length_s == pytest.approx(3.0, abs=0.1)
    cut = tmp_path / f"b.{kind}"
    for share in (2, 50):
        cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // share])
        found = header_of(str(cut))
        assert found.cut or found.fault, f"1/{share}"


def test_the_report_counts_and_names_them(tmp_path: Path, cli: Any) -> None:
    (tmp_path / "words.dict").write_text("we\tW IY1\ncall\tK AO1 L\nit\tIH1 T\n", "utf-8")
    source = corpus(tmp_path)
    text = cli(
        "check", source, "--lexicon", tmp_path / "words.dict", "--examples", "1", code=1
    ).stdout
    for part in (
        "utterances               16",
        "2  recordings that are missing",
        "no audio: ",
        "late: from 9 s",
    ):
        assert part in text, text
    assert "no sound: " not in text, "one example of each"
    assert "words are not in the dictionary" in text
    assert "bear 1" in text
    write_manifest(source, [{"audio": "a.wav", "text": "we call it bear"}])
    assert "No problem was found." in cli("check", source).stdout


def test_a_refused_file_is_named_once_with_what_to_do(tmp_path: Path, cli: Any) -> None:
    write_clip(tmp_path / "a.wav", 1.0)
    (tmp_path / "a.txt").write_bytes(
        "G\u00fcnler \u015fimdi \u0131l\u0131k ve g\u00fczel".encode("cp1254")
    )
    said = cli("check", tmp_path, code=1).stdout
    assert said.count("a.txt") == 1
    assert "--encoding cp1254" in said
    assert "utterances               1" in cli("check", tmp_path, "--encoding", "cp1254").stdout


def test_a_line_that_cannot_be_read_is_named_once(tmp_path: Path, cli: Any) -> None:
    (tmp_path / "m.jsonl").write_text('{"audio": "a.wav", "text": "a"}\nnot json\n', "utf-8")
    assert cli("check", tmp_path / "m.jsonl", code=1).stdout.count("m.jsonl, line 2") == 1


def test_tiers_that_are_no_utterances_are_named(tmp_path: Path, cli: Any) -> None:
    write_clip(tmp_path / "a.wav", 2.0)
    rows = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "0 2 <exists> 2"]
    for name, labels in (("ann - words", ("we", "call")), ("ann - phones", ("W", "K"))):
        rows += [f'"IntervalTier" "{name}" 0 2 2', f'0 1 "{labels[0]}"', f'1 2 "{labels[1]}"']
    (tmp_path / "a.TextGrid").write_text("\n".join(rows) + "\n", "utf-8")
    said = cli("check", tmp_path).stdout
    assert "utterances               1" in said
    assert "a: ann - words, ann - phones: words and sounds, not utterances" in said
