"""What a format cannot carry: control characters, formulas, markup of players; each has its own rule, and all parse."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace

import pytest
from rows import over_rows
from sample_alignments import aligned, make_alignment
from spoken_documents import timed

from ctc_align.config import Settings
from ctc_align.files import FORMATS, Alignment, rendered
from ctc_align.files.textgrid import read_textgrid
from ctc_align.files.writer import WRITTEN, Style
from ctc_align.text.characters import spreadsheet_cell
from ctc_align.types import BookPlace

CONTROLS = "a\x1b[2J\x00\x07\x08\x7f\x85\x9bb"


def of_words(*texts: str, **changes: object) -> Alignment:
    words = [aligned(text, i + 0.1, i + 0.9, 0, "ab") for i, text in enumerate(texts)]
    return make_alignment(tuple(words), len(texts) + 1.0, **changes)


def shown(format: str, *texts: str) -> str:
    return rendered(of_words(*texts), format, Style(labels=WRITTEN)).decode()


@pytest.mark.parametrize("format", [name for name, format in FORMATS.items() if not format.writers[0].is_binary])
def test_no_format_holds_control_characters(format):
    names: dict = {"utterance": f"u{CONTROLS}\n\u2028", "audio": f"{CONTROLS}.wav", "model": CONTROLS}
    names["token_kind"] = CONTROLS
    names["places"] = (BookPlace(0, 9, f"{CONTROLS}.xhtml", CONTROLS),)
    told = rendered(of_words(CONTROLS, "\x1b", "\u2028", **names), format, Style(labels=WRITTEN)).decode()
    assert {c for c in told if unicodedata.category(c) == "Cc"} <= {"\n", "\t"}
    assert not {"\u2028", "\u2029"} & set(told)


@over_rows(
    ("format", "word", "told"),
    [
        ("tsv", "=1+1", "\t'=1+1\t"),
        ("tsv", "@cmd", "\t'@cmd\t"),
        ("tsv", "+cmd|x", "\t'+cmd|x\t"),
        ("tsv", "-5", "\t-5\t"),
        ("tsv", "+1.5%", "\t+1.5%\t"),
        ("tsv", "'=x", "\t''=x\t"),
        ("tsv", "'tis", "\t'tis\t"),
        ("tsv", "a\x1bb\\c", "\ta\\x1bb\\\\c\t"),
        ("audacity", "a\x1bb", "\ta\ufffdb\n"),
        ("ctm", "a\x1bb", " a_b "),
        ("textgrid", 'a\x1b"b', 'text = "a\ufffd""b"'),
        ("json", "a\x9bb\u202e", '"text": "a\\u009bb\\u202e"'),
        ("srt", "a\x1bb", "\na\ufffdb\n"),
        ("vtt", "a\x00b", "\na\ufffdb\n"),
    ],
)
def test_what_a_format_says_in_its_place(format, word, told):
    assert told in shown(format, word)


@over_rows(
    ("word", "told"),
    [
        ("&lt;b&gt;", "‹b›"),
        ("&lt;font", "<font"),  # no tag without its end
        ("<<b>x>", "‹x›"),
        ("{\\an8}", "(\\an8)"),
        ("{m}", "{m}"),
        ("1<2", "1<2"),
    ],
)
def test_srt_has_no_markup_but_that_of_its_source(word, told):
    assert told in shown("srt", word)


def test_tags_made_of_several_words_are_none():
    texts = ("&lt;font", "color=red&gt;big", "&lt;/font&gt;", "00:00:01,000", "--&gt;", "00:00:02,000")
    told = shown("srt", *texts)
    assert "<" not in told
    assert told.count(" --> ") == told.count("\n\n")


def test_tags_of_the_source_stay_and_text_that_looks_like_them_stays_text():
    vtt = "WEBVTT\n\n00:01.000 --> 00:02.000\n<b>one</b> &lt;b&gt; <c.x>two</c>\n"
    srt = "1\n00:00:01,000 --> 00:00:02,000\n<b>one</b> {\\an8} two\n\n"
    times, config = {"one": (0.1, 0.9), "two": (1.1, 1.9)}, Settings().to_dict()
    of_vtt, of_srt = (timed(content, times, 3.0, config=config) for content in (vtt, srt))
    assert "\n<b>one</b> ‹b› two\n" in rendered(of_vtt, "srt").decode()
    assert "\n<b>one</b> &lt;b&gt; <c.x>two</c>\n" in rendered(of_vtt, "vtt").decode()
    assert "\n<b>one</b> {\\an8} two\n" in rendered(of_srt, "srt").decode()


def test_a_speaker_is_one_line_of_a_textgrid(tmp_path):
    words = [
        aligned("one", 0.1, 0.5),
        aligned("two", 0.6, 0.9, 4),
    ]
    named = [replace(word, speaker=f'{name}\n"\x1b') for word, name in zip(words, "AB")]
    (tmp_path / "a.TextGrid").write_bytes(rendered(make_alignment(tuple(named)), "textgrid"))
    assert read_textgrid(tmp_path / "a.TextGrid").tiers[0].name == 'A "\ufffd - words'


def test_json_says_the_same_with_escapes():
    text = f"{CONTROLS}\u202e\u2028\U000e0041"
    assert json.loads(shown("json", text))["words"][0]["text"] == text


@over_rows("cell", ["=x", "'=x", "''@", "-x", "-5", "+", "-", "", "'", "a=b", "＝x", "1,5"])
def test_a_spreadsheets_cell_gives_the_text_back(cell):
    made = spreadsheet_cell(cell)
    assert (made[1:] if made != cell else made) == cell
    assert made != cell or made[:1] not in "=+@＝" or not made
