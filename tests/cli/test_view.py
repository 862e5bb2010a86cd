"""ctc-align view, and pages that the commands that align write."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from sample_alignments import aligned, make_alignment

from ctc_align.files import read_alignment
from ctc_align.view import page


def data_of(path: str | Path) -> dict:
    """Return the data of a page, and the bytes of the sound inside as `sound`."""
    html = Path(path).read_text("utf-8")
    data = json.loads(re.search(r'id="page-data">(.*?)</script>', html, re.S)[1])
    return {**data, "sound": base64.b64decode(re.search(r'id="page-audio">(.*?)</script>', html, re.S)[1])}


@pytest.fixture
def talk(tmp_path, monkeypatch) -> Path:
    """The current directory: a recording of three seconds in sounds/, and the JSON of its last two in out/."""
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
    made, later = json.loads(Path("out/talk.json").read_text("utf-8")), Path("out/talk.corrected.json")
    fixed = {**made, "words": [{**made["words"][0], "by": "hand"}, *made["words"][1:]]}
    cases = {
        "has newer corrections: give talk.corrected.json to use them": fixed,
        "is newer but has the same corrections": made,
    }
    for told, data in cases.items():
        later.write_text(json.dumps(data), "utf-8")
        result = cli("view", "out/talk.json", "--audio", "none", "--force")
        assert f"talk.json as given; talk.corrected.json, in the same folder, {told}" in result.stderr
    result = cli("view", "out/talk.corrected.json", "out/talk.json", "--audio", "none", "--force")
    assert "as given" not in result.stderr
    later.write_text(json.dumps({**fixed, "duration_s": made["duration_s"] + 1}), "utf-8")
    result = cli("view", later, "--audio", "none", "--force")
    assert "talk.json, in the same folder, belongs to another text or recording" in result.stderr


def test_the_recording_is_linked_left_out_or_elsewhere(cli, talk) -> None:
    assert cli("view", "out/talk.json", "--audio", "link", "-o", "pages").code == 0
    data = data_of("pages/talk.html")
    assert (data["audio"], data["sound"]) == ({"href": "../sounds/talk.wav", "mime": "audio/wav", "start_s": 1.0}, b"")
    assert len(base64.b64decode(data["peaks"]["min"])) == 200
    assert cli("view", "out/talk.json", "--audio", "none", "-o", "silent").code == 0
    assert data_of("silent/talk.html")["audio"] == {"href": None}
    Path("sounds").rename("moved")
    missing = cli("view", "out/talk.json", code=2)
    assert "its recording '../sounds/talk.wav' is not there, or beside out/talk.json" in missing.error
    assert not Path("talk.html").exists()
    for number, place in enumerate(("moved", "moved/talk.wav")):
        assert cli("view", "out/talk.json", "--audio", place, "-o", number).code == 0
        assert data_of(f"{number}/talk.html")["sound"].startswith(b"OggS")


def test_a_recording_that_goes_on_is_perhaps_another(cli, talk) -> None:
    said = {}
    for seconds in (2.9, 3.5):
        soundfile.write("other.wav", np.random.default_rng(0).normal(0, 0.1, int(seconds * 16000)), 16000)
        make_alignment((), 2.0, audio="other.wav").save("other.json", force=True)
        said[seconds] = cli("view", "other.json", "--force")
    assert (said[2.9].stderr, said[3.5].code) == ("wrote other.html\n", 0)
    assert "other.wav is 3.5 s long, but the alignment covers only its first 2.0 s: is it the same" in said[3.5].stderr


def test_sound_that_is_too_much_lies_beside_the_page(cli, talk, monkeypatch) -> None:
    for module in ("ctc_align.view.page", "ctc_align.files.pages"):
        monkeypatch.setattr(f"{module}.MOST_EMBEDDED_BYTES", 1000)
    result = cli("view", "out/talk.json", "-o", "pages", code=0)
    assert "are too large to embed in pages/talk.html: they are in pages/talk.page.ogg" in result.stderr
    data = data_of("pages/talk.html")
    assert data["audio"] == {"href": "talk.page.ogg", "mime": "audio/ogg", "start_s": 0.0}
    assert data["sound"] == b""
    assert soundfile.info("pages/talk.page.ogg").duration == pytest.approx(2.0, abs=2e-3)
    assert cli("view", "out/talk.json", "--stdout").code == 2
    Path("pages/talk.ogg").write_bytes(b"of somebody else")
    assert cli("view", "out/talk.json", "-o", "pages", "--force").code == 0
    assert Path("pages/talk.ogg").read_bytes() == b"of somebody else"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.json"], "no such file"),
        (["out"], "got a folder; name files in it: out/*.json"),
        (["sounds/talk.wav"], "expected JSON of an alignment, got a sound or video file; ctc-align writes it"),
        (["out/talk.TextGrid"], "got a TextGrid; did you mean out/talk.json?"),
        (["out/talk.ctm"], "got a CTM file; did you mean"),
        (["out/talk.eaf"], "got an ELAN file; did you mean"),
        (["out/talk.srt"], "got subtitles; did you mean"),
        (["page.html"], "got an HTML page; ctc-align"),
        (["out/talk.svg"], "got a picture (SVG); did you mean"),
        (["out/talk.json", "-o", "out/talk.ctm"], "expected a folder for the outputs, but out/talk.ctm is a file"),
        (["out/talk.json", "sounds/../out/talk.json"], "two of these would be talk.html"),
        (["out/talk.json", "--audio", "nowhere.wav"], "nothing is there"),
        (["out/talk.json", "--theme", "pink"], "--theme: expected auto, light or dark, got 'pink'"),
        (["out/talk.json", "--audio", "short.wav"], "short.wav"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mistakes_are_said_and_nothing_is_written(cli, talk, arguments, said) -> None:
    for extension in ("TextGrid", "ctm", "eaf", "srt"):
        read_alignment("out/talk.json").save(f"out/talk.{extension}")
    Path("page.html").write_text("<!doctype html>\n<p>page")
    Path("out/talk.svg").write_text("<?xml version='1.0'?>\n<svg/>")
    soundfile.write("short.wav", np.random.default_rng(0).normal(0, 0.1, 16000), 16000)
    result = cli("view", *arguments)
    assert result.code == (1 if "short.wav" in said else 2)
    assert said in result.error
    assert not Path("talk.html").exists()


def test_align_and_corpus_write_pages(cli, fake_aligner, here, monkeypatch) -> None:
    soundfile.write("talk.wav", np.random.default_rng(0).normal(0, 0.1, 32000), 16000)
    assert cli("talk.wav", "talk.txt", "--format", "json,html").code == 0
    data = data_of("talk.html")
    assert data["sound"] == Path("talk.wav").read_bytes()
    assert [word["text"] for word in data["alignment"]["words"]] == ["Hello,", "big", "world!"]
    shards = cli("corpus", ".", "--layout", "shards", "--format", "html", "--out-dir", "out", code=2)
    assert "--layout shards holds json and ctm, got --format html" in shards.error
    Path("talk.html").unlink()
    fake_aligner.align, align = (lambda *args, **options: make_alignment((), 2.0, audio="x.npy")), fake_aligner.align
    try:
        silent = cli("talk.wav", "talk.txt", "--format", "html")
    finally:
        fake_aligner.align = align
    assert silent.code == 0
    assert "has no sound" in silent.stderr
    assert data_of("talk.html")["audio"] == {"href": None}


def test_aligning_puts_what_is_too_much_beside_the_page(cli, fake_aligner, here, monkeypatch) -> None:
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
    assert "out/talk.page.ogg: exists already" in refused.error
    assert list(Path("out").iterdir()) == [Path("out/talk.page.ogg")]


def test_sound_in_memory_is_inside_the_page(tmp_path) -> None:
    from ctc_align.types import Audio

    samples = np.random.default_rng(0).normal(0, 0.1, 16000).astype(np.float32)
    alignment = make_alignment((aligned("a", 0.1, 0.2, 0, "a"),), audio="-")
    alignment.save(tmp_path / "a.html", sound=Audio(samples, 16000))
    assert data_of(tmp_path / "a.html")["sound"].startswith(b"OggS")
    assert page.MOST_EMBEDDED_BYTES == 20_000_000
