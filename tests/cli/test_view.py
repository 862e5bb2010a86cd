"""ctc-align view, realign and convert, and pages that the commands that align write."""

from __future__ import annotations

import base64
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from made_books import made_epub
from sample_alignments import aligned, make_alignment

from ctc_align.alignment.aligner import Aligner
from ctc_align.config import Settings
from ctc_align.files import FORMATS, read_alignment
from ctc_align.view import page


def data_of(path: str | Path) -> dict:
    """Return the data of a page, and the bytes of the sound inside as `sound`."""
    html = Path(path).read_text("utf-8")
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', html, re.S)[1])
    return {
        **data,
        "sound": base64.b64decode(re.search(r'id="page-audio">(.*?)</script>', html, re.S)[1]),
    }


@pytest.fixture
def talk(tmp_path, monkeypatch) -> Path:
    """The current directory: a recording of three seconds in sounds/, and the JSON of its last two
    in out/."""
    monkeypatch.chdir(tmp_path)
    Path("sounds").mkdir()
    Path("out").mkdir()
    samples = np.random.default_rng(0).normal(0, 0.1, 48000)
    soundfile.write("sounds/talk.wav", samples, 16000)
    words = aligned("Hello", 0.5, 0.75, 0, "hello"), aligned("</script>", 1.0, 1.5, 6)
    config = {"times": "recording"}
    alignment = make_alignment(words, 2.0, audio="../sounds/talk.wav", offset_s=1.0, config=config)
    alignment.save("out/talk.json")
    return tmp_path


def test_a_page_has_the_utterance_and_its_stretch_of_the_recording(cli, talk) -> None:
    assert json.loads(Path("out/talk.json").read_text())["words"][0]["start_s"] == 1.5
    result = cli("view", "out/talk.json")
    assert (result.code, result.stdout, result.stderr) == (0, "", "wrote talk.html\n")
    data = data_of("talk.html")
    assert data["name"] == "talk"
    assert [word["start_s"] for word in data["alignment"]["words"]] == [0.5, 1.0]
    assert data["alignment"]["config"]["times"] == "utterance"
    Path("a.ogg").write_bytes(data["sound"])
    assert soundfile.info("a.ogg").duration == pytest.approx(2.0, abs=2e-3)
    assert cli("view", "out/talk.json").code == 2
    assert cli("view", "out/talk.json", "--force", "--stdout").stdout.startswith("<!doctype html>")


def test_later_corrections_beside_what_is_named_are_told(cli, talk) -> None:
    made, later = (
        json.loads(Path("out/talk.json").read_text("utf-8")),
        Path("out/talk.corrected.json"),
    )
    fixed = {**made, "words": [{**made["words"][0], "by": "hand"}, *made["words"][1:]]}
    cases = {
        "has newer corrections: give talk.corrected.json to use them": fixed,
        "is newer but has the same corrections": made,
    }
    for told, data in cases.items():
        later.write_text(json.dumps(data), "utf-8")
        result = cli("view", "out/talk.json", "--audio", "none", "--force")
        assert (
            f"talk.json as given; talk.corrected.json, in the same folder, {told}" in result.stderr
        )
    result = cli("view", "out/talk.corrected.json", "out/talk.json", "--audio", "none", "--force")
    assert "as given" not in result.stderr
    later.write_text(json.dumps({**fixed, "duration_s": made["duration_s"] + 1}), "utf-8")
    result = cli("view", later, "--audio", "none", "--force")
    assert (
        "talk.json, in the same folder, belongs to a different text or recording" in result.stderr
    )


def test_the_recording_is_linked_left_out_or_elsewhere(cli, talk) -> None:
    assert cli("view", "out/talk.json", "--audio", "link", "-o", "pages").code == 0
    data = data_of("pages/talk.html")
    assert (data["audio"], data["sound"]) == (
        {"href": "../sounds/talk.wav", "mime": "audio/wav", "start_s": 1.0},
        b"",
    )
    assert len(base64.b64decode(data["peaks"]["min"])) == 200
    assert cli("view", "out/talk.json", "--audio", "none", "-o", "silent").code == 0
    assert data_of("silent/talk.html")["audio"] == {"href": None}
    Path("sounds").rename("moved")
    missing = cli("view", "out/talk.json", code=2)
    assert (
        "its recording '../sounds/talk.wav' is neither at this path nor beside out/talk.json"
        in missing.error
    )
    assert not Path("talk.html").exists()
    for number, place in enumerate(("moved", "moved/talk.wav")):
        assert cli("view", "out/talk.json", "--audio", place, "-o", number).code == 0
        assert data_of(f"{number}/talk.html")["sound"].startswith(b"OggS")


def test_a_recording_that_goes_on_is_perhaps_another(cli, talk) -> None:
    said = {}
    for seconds in (2.9, 3.5):
        soundfile.write(
            "other.wav", np.random.default_rng(0).normal(0, 0.1, int(seconds * 16000)), 16000
        )
        make_alignment((), 2.0, audio="other.wav").save("other.json", force=True)
        said[seconds] = cli("view", "other.json", "--force")
    assert (said[2.9].stderr, said[3.5].code) == ("wrote other.html\n", 0)
    assert (
        "other.wav is 3.5 s long, but the alignment covers only its first 2.0 s: is it the same"
        in said[3.5].stderr
    )


def test_sound_that_is_too_much_lies_beside_the_page(cli, talk, monkeypatch) -> None:
    for module in ("ctc_align.view.page", "ctc_align.files.pages"):
        monkeypatch.setattr(f"{module}.MOST_EMBEDDED_BYTES", 1000)
    result = cli("view", "out/talk.json", "-o", "pages", code=0)
    assert "is too large to embed in pages/talk.html: it is in pages/talk.page.ogg" in result.stderr
    data = data_of("pages/talk.html")
    assert data["audio"] == {"href": "talk.page.ogg", "mime": "audio/ogg", "start_s": 0.0}
    assert data["sound"] == b""
    assert soundfile.info("pages/talk.page.ogg").duration == pytest.approx(2.0, abs=2e-3)
    assert cli("view", "out/talk.json", "--stdout").code == 2
    Path("pages/talk.ogg").write_bytes(b"of somebody else")
    assert cli("view", "out/talk.json", "-o", "pages", "--force").code == 0
    assert Path("pages/talk.ogg").read_bytes() == b"of somebody else"


def test_align_and_corpus_write_pages(cli, fake_aligner, here, monkeypatch) -> None:
    soundfile.write("talk.wav", np.random.default_rng(0).normal(0, 0.1, 32000), 16000)
    assert cli("talk.wav", "talk.txt", "--format", "json,html").code == 0
    data = data_of("talk.html")
    assert data["sound"] == Path("talk.wav").read_bytes()
    assert [word["text"] for word in data["alignment"]["words"]] == ["Hello,", "big", "world!"]
    shards = cli(
        "corpus", ".", "--layout", "shards", "--format", "html", "--out-dir", "out", code=2
    )
    assert "--layout shards holds json and ctm, got --format html" in shards.error
    Path("talk.html").unlink()
    fake_aligner.align, align = (
        (lambda *args, **options: make_alignment((), 2.0, audio="x.npy")),
        fake_aligner.align,
    )
    try:
        silent = cli("talk.wav", "talk.txt", "--format", "html")
    finally:
        fake_aligner.align = align
    assert silent.code == 0
    assert "has no sound" in silent.stderr
    assert data_of("talk.html")["audio"] == {"href": None}


def test_aligning_puts_what_is_too_much_beside_the_page(
    cli, fake_aligner, here, monkeypatch
) -> None:
    monkeypatch.setattr("ctc_align.files.pages.MOST_EMBEDDED_BYTES", 1000)
    soundfile.write("talk.wav", np.random.default_rng(0).normal(0, 0.1, 32000), 16000)
    made = cli("talk.wav", "talk.txt", "--format", "json,html", "--out-dir", "out", code=0)
    assert "wrote out/talk.json, out/talk.html, out/talk.page.ogg" in made.stderr
    data = data_of("out/talk.html")
    assert (data["audio"]["href"], data["sound"]) == ("talk.page.ogg", b"")
    assert Path("out/talk.page.ogg").read_bytes() == Path("talk.wav").read_bytes()
    Path("out/talk.json").unlink()
    Path("out/talk.html").unlink()
    refused = cli("talk.wav", "talk.txt", "--format", "json,html", "--out-dir", "out", code=2)
    assert "out/talk.page.ogg: already exists" in refused.error
    assert list(Path("out").iterdir()) == [Path("out/talk.page.ogg")]


def test_sound_in_memory_is_inside_the_page(tmp_path) -> None:
    from ctc_align.types import Audio

    samples = np.random.default_rng(0).normal(0, 0.1, 16000).astype(np.float32)
    alignment = make_alignment((aligned("a", 0.1, 0.2, 0, "a"),), audio="-")
    alignment.save(tmp_path / "a.html", sound=Audio(samples, 16000))
    assert data_of(tmp_path / "a.html")["sound"].startswith(b"OggS")
    assert page.MOST_EMBEDDED_BYTES == 20_000_000


DEMO = Path(__file__).resolve().parents[2] / "ctc_align" / "demo"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo, aligned with settings of its own, and `mended.json`: one of its words longer, by
    hand."""
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
    was, again = (
        read_alignment(folder / "mended.json"),
        read_alignment(tmp_path / "mended.aligned.json"),
    )
    assert (again.config["edges"], again.config["labels"]) == ("occupancy", "written")
    assert (again.words[3].start_s, again.words[3].end_s) == (
        was.words[3].start_s,
        was.words[3].end_s,
    )
    assert again.words[3].tokens
    assert again.words[4].start_s is not None
    assert again.audio == str(folder / "demo.flac"), "found beside the file"
    assert (folder / "mended.json").read_bytes() == before
    result = cli(
        "realign",
        folder / "mended.json",
        "--edges",
        "spikes",
        "--out-dir",
        tmp_path,
        "--force",
        "-q",
    )
    assert read_alignment(tmp_path / "mended.aligned.json").config["edges"] == "spikes"
    assert (
        "already exists"
        in cli("realign", folder / "mended.json", "--out-dir", tmp_path, code=2).stderr
    )


def test_a_textgrid_corrected_in_praat_becomes_a_table(cli, folder: Path, tmp_path: Path) -> None:
    data = json.loads((folder / "demo.json").read_text("utf-8"))
    data["words"][2]["by"] = "hand"
    (tmp_path / "demo.json").write_text(json.dumps(data), "utf-8")
    aligned = read_alignment(folder / "demo.json")
    aligned.save(tmp_path / "demo.TextGrid")
    third = aligned.words[2]
    grid = (tmp_path / "demo.TextGrid").read_text("utf-8")
    moved_s = round(third.start_s + 0.012, 5)
    (tmp_path / "demo.TextGrid").write_text(
        grid.replace(f" {third.start_s:g}\n", f" {moved_s:g}\n"), "utf-8"
    )
    out = tmp_path / "out"
    arguments = ("--hand", tmp_path, "--audio", folder, "--format", "csv,json", "--out-dir", out)
    result = cli("realign", tmp_path / "demo.json", *arguments, code=0)
    assert (
        f"demo.TextGrid: {len(aligned.words)} hand-corrected words, 2 moved (1 of them also"
        " corrected in " in result.stderr
    )
    again = read_alignment(out / "demo.aligned.json")
    assert (again.words[2].start_s, again.words[1].end_s) == (moved_s, moved_s)
    assert [(word.start_s, word.end_s) for word in again.words[3:]] == [
        (word.start_s, word.end_s) for word in aligned.words[3:]
    ]
    assert f",{moved_s:.3f}," in (out / "demo.aligned.csv").read_text("utf-8")
    refused = cli(
        "realign",
        tmp_path / "demo.json",
        folder / "mended.json",
        "--hand",
        tmp_path / "demo.TextGrid",
        code=2,
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
        "realign",
        source,
        tmp_path / "a.aligned.json",
        "--audio",
        folder,
        "--out-dir",
        tmp_path,
        "--force",
        code=2,
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
    files = [
        tmp_path / "short.json",
        tmp_path / "other.json",
        summary,
        part,
        export,
        folder / "mended.json",
    ]
    result = cli("realign", *files, "--audio", folder, "--out-dir", tmp_path / "out", code=1)
    errors = [line for line in result.stderr.splitlines() if "error" in line]
    assert len(errors) == 2
    assert "short.json: demo: 'where' (" in errors[0]
    assert "has no room for its sounds" in errors[0]
    assert "other.json: word 4 'other' (" in errors[1]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mended.aligned.json"]
    result = cli("realign", summary, part, "--out-dir", tmp_path / "out")
    assert (result.code, result.stderr.count("expected an alignment of format")) == (1, 2)


SRT = (
    "1\n00:00:00,100 --> 00:00:00,900\n<i>Hello</i>\n\n2\n00:00:01,000 --> 00:00:01,900\n[door]"
    " world\n"
)
GRID = (
    'File type = "ooTextFile"\nObject class ='
    ' "TextGrid"\n\n0\n2\n<exists>\n1\n"IntervalTier"\n"Ann"\n0\n2\n2\n0\n1\n"Hello,'
    ' big"\n1\n2\n"world it is!"\n'
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
    "talk.vtt": (
        "WEBVTT\n\nNOTE x\n\na\n00:00.000 --> 00:01.900 line:0\n<v Ann>Hello <00:01.000>big &amp;"
        " world\n"
    ),
    "talk.TextGrid": GRID,
    "talk.eaf": EAF,
    "talk.epub": made_epub({"a.xhtml": '<p id="one">Hello, big world!</p>'}),
}


@pytest.fixture
def two_seconds(here) -> None:
    """A recording as long as the fake aligner says."""
    soundfile.write("talk.wav", np.random.default_rng(0).normal(0, 0.1, 32000), 16000)


def files_in(folder: str) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in Path(folder).rglob("*.*")
    }


OPTIONS = [
    "--times",
    "recording",
    "--labels",
    "written",
    "--highlight-words",
    "--tiers",
    "sentences,words",
]


@pytest.mark.parametrize(
    ("name", "options"), [*((name, []) for name in TRANSCRIPTS), ("talk.srt", OPTIONS)]
)
def test_what_is_converted_is_what_aligning_writes(
    cli, two_seconds, fake_aligner, name, options
) -> None:
    content = TRANSCRIPTS[name]
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    formats = ",".join(format for format in FORMATS if format != "smil" or name == "talk.epub")
    assert cli("talk.wav", name, "--format", formats, "-o", "a", *options).code == 0
    assert cli("convert", "a/talk.json", "--format", formats, "-o", "b", code=0).stdout == ""
    assert files_in("b") == files_in("a")


def test_options_of_the_call_win_and_are_in_the_json(cli, two_seconds, fake_aligner) -> None:
    formats = "json,textgrid,ctm"
    assert cli("talk.wav", "talk.txt", "-o", "a").code == 0
    options = [
        "--labels",
        "written",
        "--tiers",
        "words,sentences",
        "--textgrid",
        "short",
        "--times",
        "recording",
    ]
    assert cli("talk.wav", "talk.txt", "--format", formats, "-o", "b", *options).code == 0
    assert cli("convert", "a/talk.json", "--format", formats, "-o", "c", *options).code == 0
    assert files_in("c") == files_in("b")
    assert cli(
        "convert", "b/talk.json", "--format", "ctm", "--stdout", "--labels", "bare"
    ).stdout == (Path("a/talk.ctm").read_text())


def test_folders_and_several_files(cli, two_seconds, fake_aligner) -> None:
    for name in ("one", "two"):
        shutil.copy("talk.wav", f"{name}.wav")
        assert (
            cli(f"{name}.wav", "talk.txt", "--format", "json,whisper", "-o", f"run/{name}").code
            == 0
        )
    changed = json.loads(Path("run/one/one.json").read_text())
    changed["words"][0] |= {"by": "hand", "start_s": 0.01, "tokens": []}
    Path("run/one/one.corrected.json").write_text(json.dumps(changed))
    Path("run/summary.json").write_text("{}")
    result = cli("convert", "run", "--format", "srt", "-o", "out", code=0)
    assert "one.corrected.json is used instead of one.json" in result.stderr
    assert sorted(files_in("out")) == ["one/one.srt", "two/two.srt"]
    assert files_in("out")["one/one.srt"].startswith(b"1\n00:00:00,010")
    assert (
        cli("convert", "run/one/one.json", "run/two/two.json", "--format", "vtt", "-o", "out").code
        == 0
    )
    assert {"one.vtt", "two.vtt"} <= {*files_in("out")}
    Path("run/two/two.json").write_text('{"format": "ctc-align/1"}')
    result = cli("convert", "run", "--format", "csv", "-o", "out", code=1)
    assert "run/two/two.json: not a whole alignment" in result.stderr
    assert "one/one.csv" in files_in("out")


def test_inputs_stay_and_lost_recordings_are_said(cli, two_seconds, fake_aligner) -> None:
    assert cli("talk.wav", "talk.txt", "-o", "a").code == 0
    before = Path("a/talk.json").read_bytes()
    result = cli(
        "convert", "a/talk.json", "--format", "json", "--force", "-o", "a", "--labels", "written"
    )
    assert "a/talk.json is an input and stays as it is" in result.stderr
    assert Path("a/talk.json").read_bytes() == before
    assert read_alignment("a/talk.aligned.json").config["labels"] == "written"
    Path("talk.wav").rename("moved.wav")
    result = cli("convert", "a/talk.json", "--format", "html", "-o", "b", code=0)
    assert "its recording 'talk.wav' is neither at this path" in result.stderr
    silent = Path("b/talk.html").read_bytes()
    assert (
        cli(
            "convert",
            "a/talk.json",
            "--format",
            "html",
            "-o",
            "b",
            "--force",
            "--audio",
            "moved.wav",
        ).code
        == 0
    )
    assert len(Path("b/talk.html").read_bytes()) > len(silent)


def test_notes_on_many_converted_files_are_one_line_a_kind(cli, two_seconds, fake_aligner) -> None:
    for number in range(5):
        shutil.copy("talk.wav", f"{number}.wav")
        assert cli(f"{number}.wav", "talk.txt", "--format", "json", "-o", "run").code == 0
        Path(f"{number}.wav").unlink()
    options = ("--max-line", "30", "-o", "out")
    said = cli("convert", "run", "--format", "svg,html", *options, code=0).stderr
    assert said.count("no effect, because no subtitles are written") == 1
    assert said.count("recording") == 1
    assert "no sound" not in said
    assert "not fit: 5 files: run/0.json, run/1.json, run/2.json and 2 more\n" in said
    said = cli("convert", "run/0.json", "run/3.json", "--format", "ctm", *options, code=0).stderr
    assert said.count("no effect") == 1
