"""AUDIO and TRANSCRIPT: subtitles come back as subtitles, and arguments in each other's place are told."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from made_books import write_epub

SRT = "1\n00:00:05,000 --> 00:00:06,000\n<i>Hello,</i>\nbig\n\n2\n00:00:07,000 --> 00:00:08,000\nworld!\n\n"


@pytest.fixture(autouse=True)
def _with_fake(fake_aligner, here):
    """All tests of this file run beside talk.wav and talk.txt with the fake aligner."""


def test_a_subtitle_file_adds_its_format_and_is_never_replaced(cli):
    Path("talk.srt").write_text(SRT)
    result = cli("talk.wav", "talk.srt")
    assert result.code == 0
    assert (
        "note: talk.srt is an input and stays as it is: what would replace it is in talk.aligned.srt" in result.stderr
    )
    assert Path("talk.srt").read_text() == SRT
    written = Path("talk.aligned.srt").read_text()
    assert written.split("\n")[2:4] == ["<i>Hello,</i>", "big"]
    assert written.count("-->") == 2
    data = json.loads(Path("talk.json").read_text())
    assert data["text"] == "<i>Hello,</i>\nbig\nworld!"
    assert [cue["name"] for cue in data["subtitles"]["cues"]] == ["1", "2"]


@pytest.mark.parametrize("arguments", [("talk.wav", "book.epub"), ("talk.wav", "--text", "book.epub")])
def test_a_book_is_read_as_transcript_and_after_text_too(cli, arguments):
    write_epub(Path("book.epub"), {"one.xhtml": '<p id="a">Hello, big</p><p>world!</p>'})
    assert cli(*arguments, "-q").code == 0
    data = json.loads(Path("talk.json").read_text("utf-8"))
    assert data["text"] == "Hello, big\n\nworld!"
    assert [(place["char_start"], place["href"], place.get("id")) for place in data["places"]] == [
        (0, "OEBPS/one.xhtml", "a"),
        (12, "OEBPS/one.xhtml", None),
    ]


def test_elsewhere_it_has_its_own_name_and_cues_may_be_cut_again(cli):
    Path("talk.srt").write_text(SRT)
    assert cli("talk.wav", "talk.srt", "--out-dir", "out", "--format", "vtt", "-q").code == 0
    assert sorted(os.listdir("out")) == ["talk.srt", "talk.vtt"]
    assert cli("talk.wav", "talk.srt", "--out-dir", "new", "--cues", "again", "-q").code == 0
    assert Path("new/talk.srt").read_text().count("-->") == 1
    assert cli("talk.wav", "talk.srt", "--stdout").stdout.startswith("{")
    assert "cues: expected 'keep' or 'again', got 'no'" in cli("talk.wav", "talk.srt", "--cues", "no").error


def test_a_textgrid_comes_back_with_words_and_says_which_tiers_are_the_text(cli):
    rows = '"IntervalTier" "Ann" 0 2 2 0 1 "Hello, big" 1 2 "world!" "IntervalTier" "mood" 0 2 1 0 2 "fine"'
    grid = f'"ooTextFile"\n"TextGrid" 0 2 <exists> 2 {rows}\n'
    Path("talk.TextGrid").write_text(grid)
    result = cli("talk.wav", "talk.TextGrid", "--format", "json")
    assert result.code == 0
    assert "note: the text: tier Ann; mood stays as it is" in result.stderr
    assert "what would replace it is in talk.aligned.TextGrid" in result.stderr
    assert Path("talk.TextGrid").read_text() == grid
    assert Path("talk.aligned.TextGrid").read_text().startswith(grid.replace("> 2", "> 4"))


def test_segments_add_no_format(cli):
    Path("talk.json").write_text('[{"text": "Hello, big world!", "start": 0, "end": 1}]')
    assert cli("talk.wav", "talk.json", "--format", "vtt", "-q").code == 0
    assert not Path("talk.aligned.json").exists()
    assert Path("talk.vtt").read_text().endswith("\nHello, big world!\n")


def test_cues_as_they_are_wanted(cli):
    Path("talk.srt").write_text(SRT)
    wanted = ("--cues", "again", "--max-line", "8", "--max-cps", "5", "--frame-rate", "25")
    assert cli("talk.wav", "talk.srt", "--stdout", "--format", "srt", *wanted).stdout.count("-->") >= 1
    for option, value, says in (
        ("--max-line", "2", "--max-line: expected a whole number from 8 to 1000, got 2"),
        ("--max-cps", "0", "--max-cps: expected a number from 1 to 1000, got 0.0"),
        ("--frame-rate", "-25", "--frame-rate: expected a number from 0 to 1000, got -25.0"),
    ):
        assert cli("talk.wav", "talk.srt", option, value).error == says
    told = "no effect, because "
    for files, end in (
        (("talk.wav", "talk.srt"), "the cues of the transcript are kept"),
        (("talk.wav", "talk.txt"), "no"),
    ):
        assert told + end in cli(*files, "--force", *wanted[2:]).stderr
    assert "no effect" not in cli("talk.wav", "talk.txt", "--force", "--format", "vtt", *wanted).stderr
