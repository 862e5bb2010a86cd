"""Outputs that others changed since a run wrote them: none is overwritten in silence."""

from __future__ import annotations

import json
from pathlib import Path

import corpus_runs as runs
import pytest
from made_alignments import textgrid

UTTERANCES = 12


@pytest.fixture
def corpus(tmp_path) -> Path:
    return runs.make_corpus(tmp_path / "corpus", UTTERANCES)


def test_what_a_person_corrected_is_not_lost(run_into, corpus, tmp_path):
    out_dir = tmp_path / "out"
    run_into(corpus, out_dir)
    corrected = out_dir / "part 1" / "u1.json"
    data = json.loads(corrected.read_text("utf-8"))
    data["words"][0]["by"] = "hand"
    corrected.write_text(json.dumps(data), "utf-8")
    before = corrected.read_bytes()
    run_into(corpus, out_dir, "--verify")
    assert corrected.read_bytes() == before
    assert len(runs.lines(out_dir)) == UTTERANCES, "it counts as whole"

    runs.edit(corpus, lambda rows: rows[1].update(text="another text"))
    stderr = run_into(corpus, out_dir).stderr
    assert json.loads(corrected.read_text("utf-8"))["text"] == "another text"
    assert corrected.with_name("u1.hand.json").read_bytes() == before
    assert "u1.hand.json" in stderr


def test_what_a_person_changed_in_other_outputs_is_not_lost(run_into, corpus, tmp_path):
    """A TextGrid that is whole is left; what may be torn, or is of other settings, is made again
    and theirs kept."""
    out_dir = tmp_path / "out"
    run_into(corpus, out_dir, "--format", "json,textgrid,csv")
    grid, table = out_dir / "part 1" / "u1.TextGrid", out_dir / "part 2" / "u2.csv"
    for path in (grid, table):
        path.write_text(path.read_text("utf-8").replace("number", "corrected"), "utf-8")
    theirs = grid.read_bytes(), table.read_bytes()
    stderr = run_into(corpus, out_dir, "--format", "json,textgrid,csv").stderr
    assert (grid.read_bytes(), table.with_name("u2.hand.csv").read_bytes()) == theirs
    assert (
        "1 output of a run was changed by others since, and left alone: part 1/u1.TextGrid"
        in stderr
    )
    assert "moved aside, not replaced: part 2/u2.hand.csv" in stderr
    effort = runs.summary(out_dir)["run"]
    assert [effort[name]["names"] for name in ("left", "kept")] == [
        ["part 1/u1.TextGrid"],
        ["part 2/u2.hand.csv"],
    ]

    runs.edit(corpus, lambda rows: rows[1].update(text="another text"))
    stderr = run_into(corpus, out_dir, "--format", "json,textgrid,csv").stderr
    assert b"another" in grid.read_bytes()
    assert grid.with_name("u1.hand.TextGrid").read_bytes() == theirs[0]
    assert "moved aside, not replaced: part 1/u1.hand.TextGrid" in stderr
    runs.edit(corpus, lambda rows: rows[1].update(audio_filepath="nowhere.wav"))
    grid.write_bytes(theirs[0])
    run_into(corpus, out_dir, "--format", "json,textgrid,csv")
    assert (grid.exists(), grid.with_name("u1.hand-2.TextGrid").read_bytes()) == (False, theirs[0])


def test_other_formats_of_an_earlier_run_follow_the_text(run_into, tmp_path):
    """No file of an utterance stays behind with the text that it had; one that was removed does not
    come back."""
    out_dir, clip = tmp_path / "out", runs.write_clip(tmp_path / "clip.wav")
    rows = [{"utterance": "u0", "audio": str(clip), "text": "number one"}]
    manifest = runs.write_manifest(tmp_path / "m.jsonl", rows)
    run_into(manifest, out_dir, "--format", "json,csv,textgrid", code=0)
    (out_dir / "u0.csv").unlink()
    run_into(manifest, out_dir, "--format", "ctm", code=0)
    runs.write_manifest(manifest, [rows[0] | {"text": "number two"}])
    run_into(manifest, out_dir, "--format", "ctm", code=0)
    files = {
        path.name: path.read_text("utf-8")
        for path in out_dir.glob("u0.*")
        if "tokens" not in path.name
    }
    assert files.keys() == {"u0.json", "u0.TextGrid", "u0.ctm"}
    assert not [name for name, content in files.items() if "two" not in content]


def test_what_a_run_leaves_of_earlier_options_is_told(run_into, tmp_path):
    out_dir, clip = tmp_path / "out", runs.write_clip(tmp_path / "clip.wav")
    rows = [{"utterance": "u0", "audio": str(clip), "text": "number one"}]
    manifest = runs.write_manifest(tmp_path / "m.jsonl", rows)
    cut = ("--format", "json", "--cut-audio", "--manifest", "nemo")
    assert "earlier run" not in run_into(manifest, out_dir, *cut, code=0).stderr
    runs.write_manifest(manifest, [rows[0] | {"text": "number two"}])
    stderr = run_into(manifest, out_dir, "--format", "json", code=0).stderr
    assert (
        "manifest.nemo.jsonl, cuts: made by an earlier run with other options, and not brought up"
        " to date" in stderr
    )
    assert "earlier run" not in run_into(manifest, out_dir, "--format", "json", code=0).stderr, (
        "nothing was aligned"
    )


def test_the_textgrid_of_a_whole_recording_that_a_person_changed_is_kept(run_into, tmp_path):
    folder, out_dir = tmp_path / "speech", tmp_path / "out"
    runs.write_clip(folder / "clip.wav", 2.0)
    said = folder / "clip.TextGrid"
    textgrid(said, ("anna", [("one two", 0.1, 0.8), ("three", 1.0, 1.8)]))
    run_into(folder, out_dir, code=0)
    ours = out_dir / "clip.TextGrid"
    theirs = ours.read_text("utf-8").replace('"three"', '"tree"')
    ours.write_text(theirs, "utf-8")
    assert "changed" not in run_into(folder, out_dir, code=0).stderr
    textgrid(said, ("anna", [("one four", 0.1, 0.8), ("three", 1.0, 1.8)]))
    assert (
        "moved aside, not replaced: clip.hand.TextGrid" in run_into(folder, out_dir, code=0).stderr
    )
    assert ours.with_name("clip.hand.TextGrid").read_text("utf-8") == theirs
    assert '"tree"' in ours.read_text("utf-8"), "that utterance was not done again"
