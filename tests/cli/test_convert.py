"""ctc-align convert: the bytes that aligning had written, in any format, from JSON alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
from made_books import made_epub

from ctc_align.files import FORMATS, read_alignment

SRT = "1\n00:00:00,100 --> 00:00:00,900\n<i>Hello</i>\n\n2\n00:00:01,000 --> 00:00:01,900\n[door] world\n"
GRID = (
    'File type = "ooTextFile"\nObject class = "TextGrid"\n\n0\n2\n<exists>\n1\n"IntervalTier"\n"Ann"\n0\n2\n2\n'
    '0\n1\n"Hello, big"\n1\n2\n"world it is!"\n'
)
EAF = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT FORMAT="3.0" VERSION="3.0">
<HEADER MEDIA_FILE="" TIME_UNITS="milliseconds"/>
<TIME_ORDER><TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="0"/><TIME_SLOT TIME_SLOT_ID="ts2" TIME_VALUE="1900"/></TIME_ORDER>
<TIER LINGUISTIC_TYPE_REF="t" TIER_ID="Ann"><ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="ts1"
 TIME_SLOT_REF2="ts2"><ANNOTATION_VALUE>Hello, big world!</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>
<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="t" TIME_ALIGNABLE="true"/></ANNOTATION_DOCUMENT>
"""
TRANSCRIPTS: dict[str, str | bytes] = {
    "talk.txt": "ANN: Hello, “big” world!\n\nBOB: Straße? — [coughs] twenty-two & more.\n",
    "talk.srt": SRT,
    "talk.vtt": "WEBVTT\n\nNOTE x\n\na\n00:00.000 --> 00:01.900 line:0\n<v Ann>Hello <00:01.000>big &amp; world\n",
    "talk.TextGrid": GRID,
    "talk.eaf": EAF,
    "talk.epub": made_epub({"a.xhtml": '<p id="one">Hello, big world!</p>'}),
}


@pytest.fixture(autouse=True)
def two_seconds(here) -> None:
    """A recording as long as the fake aligner says."""
    soundfile.write("talk.wav", np.random.default_rng(0).normal(0, 0.1, 32000), 16000)


def files_in(folder: str) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in Path(folder).rglob("*.*")}


OPTIONS = ["--times", "recording", "--labels", "written", "--highlight-words", "--tiers", "sentences,words"]


@pytest.mark.parametrize(("name", "options"), [*((name, []) for name in TRANSCRIPTS), ("talk.srt", OPTIONS)])
def test_what_is_converted_is_what_aligning_writes(cli, here, fake_aligner, name, options) -> None:
    content = TRANSCRIPTS[name]
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    formats = ",".join(format for format in FORMATS if format != "smil" or name == "talk.epub")
    assert cli("talk.wav", name, "--format", formats, "-o", "a", *options).code == 0
    assert cli("convert", "a/talk.json", "--format", formats, "-o", "b", code=0).stdout == ""
    assert files_in("b") == files_in("a")


def test_options_of_the_call_win_and_are_in_the_json(cli, here, fake_aligner) -> None:
    formats = "json,textgrid,ctm"
    assert cli("talk.wav", "talk.txt", "-o", "a").code == 0
    options = ["--labels", "written", "--tiers", "words,sentences", "--textgrid", "short", "--times", "recording"]
    assert cli("talk.wav", "talk.txt", "--format", formats, "-o", "b", *options).code == 0
    assert cli("convert", "a/talk.json", "--format", formats, "-o", "c", *options).code == 0
    assert files_in("c") == files_in("b")
    assert cli("convert", "b/talk.json", "--format", "ctm", "--stdout", "--labels", "bare").stdout == (
        Path("a/talk.ctm").read_text()
    )


def test_folders_and_several_files(cli, here, fake_aligner) -> None:
    for name in ("one", "two"):
        shutil.copy("talk.wav", f"{name}.wav")
        assert cli(f"{name}.wav", "talk.txt", "--format", "json,whisper", "-o", f"run/{name}").code == 0
    changed = json.loads(Path("run/one/one.json").read_text())
    changed["words"][0] |= {"by": "hand", "start_s": 0.01, "tokens": []}
    Path("run/one/one.corrected.json").write_text(json.dumps(changed))
    Path("run/summary.json").write_text("{}")
    result = cli("convert", "run", "--format", "srt", "-o", "out", code=0)
    assert "one.corrected.json is used instead of one.json" in result.stderr
    assert sorted(files_in("out")) == ["one/one.srt", "two/two.srt"]
    assert files_in("out")["one/one.srt"].startswith(b"1\n00:00:00,010")
    assert cli("convert", "run/one/one.json", "run/two/two.json", "--format", "vtt", "-o", "out").code == 0
    assert {"one.vtt", "two.vtt"} <= {*files_in("out")}
    Path("run/two/two.json").write_text('{"format": "ctc-align/1"}')
    result = cli("convert", "run", "--format", "csv", "-o", "out", code=1)
    assert "run/two/two.json: not a whole alignment" in result.stderr
    assert "one/one.csv" in files_in("out")


def test_inputs_stay_and_lost_recordings_are_said(cli, here, fake_aligner) -> None:
    assert cli("talk.wav", "talk.txt", "-o", "a").code == 0
    before = Path("a/talk.json").read_bytes()
    result = cli("convert", "a/talk.json", "--format", "json", "--force", "-o", "a", "--labels", "written")
    assert "a/talk.json is an input and stays as it is" in result.stderr
    assert Path("a/talk.json").read_bytes() == before
    assert read_alignment("a/talk.aligned.json").config["labels"] == "written"
    Path("talk.wav").rename("moved.wav")
    result = cli("convert", "a/talk.json", "--format", "html", "-o", "b", code=0)
    assert "its recording 'talk.wav' is not there" in result.stderr
    silent = Path("b/talk.html").read_bytes()
    assert cli("convert", "a/talk.json", "--format", "html", "-o", "b", "--force", "--audio", "moved.wav").code == 0
    assert len(Path("b/talk.html").read_bytes()) > len(silent)
