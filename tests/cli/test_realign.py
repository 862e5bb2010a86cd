"""ctc-align realign as people call it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ctc_align.alignment.aligner import Aligner
from ctc_align.config import Settings
from ctc_align.files import read_alignment

DEMO = Path(__file__).resolve().parents[2] / "ctc_align" / "demo"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo, aligned with settings of its own, and `mended.json`: one of its words longer, by hand."""
    place = tmp_path_factory.mktemp("realign")
    shutil.copy(DEMO / "demo.flac", place / "demo.flac")
    settings = Settings(edges="occupancy", labels="written")
    aligned = Aligner("english", device="cpu", settings=settings).align(
        place / "demo.flac", (DEMO / "demo.txt").read_text("utf-8")
    )
    aligned.save(place / "demo.json")
    data = json.loads((place / "demo.json").read_text("utf-8"))
    data["audio"] = "elsewhere/demo.flac"
    data["config"]["later"] = "what a later version knows"
    word = data["words"][3]
    word |= {"end_s": round(word["end_s"] - 0.01, 5), "tokens": [], "by": "hand"}
    (place / "mended.json").write_text(json.dumps(data), "utf-8")
    return place


def test_it_writes_beside_with_the_settings_of_the_file(cli, folder: Path, tmp_path: Path) -> None:
    before = (folder / "mended.json").read_bytes()
    result = cli("realign", folder / "mended.json", "--format", "json,ctm", "--out-dir", tmp_path)
    assert (result.code, result.stdout) == (0, "")
    assert "is it the same recording" not in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "mended.aligned.ctm",
        "mended.aligned.json",
        "mended.aligned.tokens.ctm",
    ]
    was, again = read_alignment(folder / "mended.json"), read_alignment(tmp_path / "mended.aligned.json")
    assert (again.config["edges"], again.config["labels"]) == ("occupancy", "written")
    assert (again.words[3].start_s, again.words[3].end_s) == (was.words[3].start_s, was.words[3].end_s)
    assert again.words[3].tokens
    assert again.words[4].start_s is not None
    assert again.audio == str(folder / "demo.flac"), "found beside the file"
    assert (folder / "mended.json").read_bytes() == before
    result = cli("realign", folder / "mended.json", "--edges", "spikes", "--out-dir", tmp_path, "--force", "-q")
    assert read_alignment(tmp_path / "mended.aligned.json").config["edges"] == "spikes"
    assert "exists already" in cli("realign", folder / "mended.json", "--out-dir", tmp_path, code=2).stderr


def test_a_textgrid_corrected_in_praat_becomes_a_table(cli, folder: Path, tmp_path: Path) -> None:
    data = json.loads((folder / "demo.json").read_text("utf-8"))
    data["words"][2]["by"] = "hand"
    (tmp_path / "demo.json").write_text(json.dumps(data), "utf-8")
    aligned = read_alignment(folder / "demo.json")
    aligned.save(tmp_path / "demo.TextGrid")
    third = aligned.words[2]
    grid = (tmp_path / "demo.TextGrid").read_text("utf-8")
    moved_s = round(third.start_s + 0.012, 5)
    (tmp_path / "demo.TextGrid").write_text(grid.replace(f" {third.start_s:g}\n", f" {moved_s:g}\n"), "utf-8")
    out = tmp_path / "out"
    arguments = ("--hand", tmp_path, "--audio", folder, "--format", "csv,json", "--out-dir", out)
    result = cli("realign", tmp_path / "demo.json", *arguments, code=0)
    assert (
        f"demo.TextGrid: {len(aligned.words)} hand-corrected words, 2 moved (1 of them also corrected in "
        in result.stderr
    )
    again = read_alignment(out / "demo.aligned.json")
    assert (again.words[2].start_s, again.words[1].end_s) == (moved_s, moved_s)
    assert [(word.start_s, word.end_s) for word in again.words[3:]] == [
        (word.start_s, word.end_s) for word in aligned.words[3:]
    ]
    assert f",{moved_s:.3f}," in (out / "demo.aligned.csv").read_text("utf-8")
    refused = cli(
        "realign", tmp_path / "demo.json", folder / "mended.json", "--hand", tmp_path / "demo.TextGrid", code=2
    )
    assert "one TextGrid for 2 alignments: give their folder" in refused.stderr


def test_an_output_never_takes_the_place_of_an_input(cli, folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.json"
    shutil.copy(folder / "mended.json", source)
    shutil.copy(folder / "mended.json", tmp_path / "a.aligned.json")
    audio = ("--audio", folder / "demo.flac", "--out-dir", tmp_path, "--force")
    assert cli("realign", tmp_path / "a.aligned.json", *audio).code == 0
    assert (tmp_path / "a.aligned.json").read_bytes() == source.read_bytes()
    assert (tmp_path / "a.aligned.aligned.json").is_file()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    both = cli(
        "realign", source, tmp_path / "a.aligned.json", "--audio", folder, "--out-dir", tmp_path, "--force", code=2
    )
    assert f"{source} and {tmp_path / 'a.aligned.json'} would both be written to" in both.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def broken(data: dict[str, Any]) -> None:
    data["words"][3] |= {"end_s": data["words"][3]["start_s"] + 0.02, "tokens": []}


def test_of_several_files_those_that_fail_are_named(cli, folder: Path, tmp_path: Path) -> None:
    data = json.loads((folder / "mended.json").read_text("utf-8"))
    broken(data)
    (tmp_path / "short.json").write_text(json.dumps(data), "utf-8")
    data["words"][3]["text"] = "other"
    (tmp_path / "other.json").write_text(json.dumps(data), "utf-8")
    summary = tmp_path / "summary.json"  # a pattern such as OUT/*.json names it, too
    summary.write_text('{"format": "ctc-align-corpus/1", "utterances": 3}')
    part, export = tmp_path / "summary.0-of-2.json", tmp_path / "short.whisper.json"
    part.write_bytes(summary.read_bytes())
    export.write_text('{"text": "short"}')
    files = [tmp_path / "short.json", tmp_path / "other.json", summary, part, export, folder / "mended.json"]
    result = cli("realign", *files, "--audio", folder, "--out-dir", tmp_path / "out", code=1)
    errors = [line for line in result.stderr.splitlines() if "error" in line]
    assert len(errors) == 2
    assert "short.json: demo: 'where' (" in errors[0]
    assert "has no room for its sounds" in errors[0]
    assert "other.json: word 4 'other' (" in errors[1]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mended.aligned.json"]
    result = cli("realign", summary, part, "--out-dir", tmp_path / "out")
    assert (result.code, result.stderr.count("expected an alignment of format")) == (1, 2)


def test_wrong_calls(cli, folder: Path, tmp_path: Path) -> None:
    data = json.loads((folder / "mended.json").read_text("utf-8"))
    files = {"setting": {"config": {"edges": "bent"}}, "probs": {"model": "log-probs"}, "nowhere": {"audio": ""}}
    files["piped"] = {"audio": "-"}
    for name, fields in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(data | fields), "utf-8")
    sound = ("--audio", folder / "demo.flac")
    for arguments, message in {
        (tmp_path / "none.json",): "none.json: expected JSON of an alignment, got no such file",
        (tmp_path,): "got a folder; name files in it",
        (folder / "demo.flac",): "demo.flac: expected JSON of an alignment, got a sound or video file; did you mean",
        (
            folder / "mended.json",
            "--audio",
            tmp_path / "x.wav",
        ): "x.wav: expected a recording or a folder of",
        (folder / "mended.json", folder / "demo.json", *sound): "one recording for 2 alignments: give their folder",
        (folder / "mended.json", "--audio", tmp_path): "'elsewhere/demo.flac' is not in",
        (tmp_path / "setting.json", *sound): "setting.json: config.edges: expected 'auto' or 'spikes'",
        (tmp_path / "probs.json", *sound): "was aligned from log-probs: give them with --audio FILE, --vocab and",
        (tmp_path / "nowhere.json",): "this alignment names no recording; give it with --audio",
        (tmp_path / "piped.json",): "this alignment names no recording; give it with --audio",
        (tmp_path / "nowhere.json", "--audio", tmp_path): "its recording 'nowhere' is not in",
        (folder / "mended.json", "--format", "smil"): "--format smil needs an EPUB book as transcript; the transcr",
    }.items():
        result = cli("realign", *arguments, "--out-dir", tmp_path / "out", code=2)
        assert message in result.stderr, result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
