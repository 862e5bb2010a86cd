"""TextGrids in, the same TextGrids out: their tiers to the last sign, and behind them words and phones by speaker."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import praatio.textgrid
import pytest
from made_alignments import textgrid
from rows import over_rows
from spoken_documents import spoken

from ctc_align.errors import InputError, TranscriptError
from ctc_align.files import from_dict, rendered
from ctc_align.files.textgrid import parse_textgrid
from ctc_align.files.tiers import LabelTier, sentence_tiers
from ctc_align.files.transcripts import parse_transcript

ANN = (("So be it.", 0.0, 1.0), ("", 1.0, 2.0), ('He said ""no"".', 2.0, 3.5), ("", 3.5, 5.0))
BEN = (("", 0.0, 0.8), ("Yes!", 0.8, 1.4), ("", 1.4, 5.0))
NOTES = (("noise", 0.0, 5.0),)
LONG = '''\ufeffFile type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 5.0000001234 ! of the recording
tiers? <exists>
size = 2
item []:
    item [1]:
        class = "TextTier"
        name = "size = 7"
        xmin = 0
        xmax = 5.0000001234
        points: size = 1
        points [1]:
            number = 0.25
            mark = "a ""click"""
    item [2]:
        class = "IntervalTier"
        name = "Ann"
        xmin = 0
        xmax = 5.0000001234
        intervals: size = 2
        intervals [1]:
            xmin = 0
            xmax = 1
            text = "So be it."
        intervals [2]:
            xmin = 1
            xmax = 5.0000001234
            text = ""
'''


def labels(data: bytes) -> dict[str, list[str]]:
    tiers = parse_textgrid(data, "a.TextGrid").tiers
    return {tier.name: [row.label for row in tier.intervals if row.label] for tier in tiers}


def test_words_and_phones_of_each_speaker_come_behind_the_tiers_that_are_there(tmp_path: Path) -> None:
    path = textgrid(tmp_path / "a.TextGrid", ("Ann", ANN), (".clicks", ()), ("notes", NOTES), ("Ben", BEN), end_s=5.0)
    alignment = spoken(path.read_bytes())
    assert alignment.text == 'So be it.\nYes!\nHe said "no".', "by time"
    assert [word.speaker for word in alignment.words] == ["Ann"] * 3 + ["Ben"] + ["Ann"] * 3
    data = rendered(alignment, "textgrid")
    assert data.startswith(path.read_bytes().replace(b"<exists>\n4\n", b"<exists>\n8\n"))
    names = ["Ann", "notes", "Ben", "Ann - words", "Ann - phones", "Ben - words", "Ben - phones"]
    assert list(labels(data)) == names
    assert labels(data)["Ann - words"] == ["So", "be", "it", "He", "said", "no"]
    assert labels(data)["Ben - words"] == ["Yes"]
    assert labels(data)["Ben - phones"] == ["X", "Y"]
    out = tmp_path / "out.TextGrid"
    out.write_bytes(data)
    read = praatio.textgrid.openTextgrid(str(out), includeEmptyIntervals=True)
    assert list(read.tierNames) == ["Ann", ".clicks", *names[1:]]
    assert read.maxTimestamp == 5.0
    assert rendered(from_dict(alignment.to_dict()), "textgrid") == data
    assert b"--> 00:00:01,000\nSo be it.\n\n2\n" in rendered(alignment, "srt").replace(b"00,900", b"01,000")


def test_the_long_format_keeps_its_signs_and_its_length() -> None:
    """In the long format tiers are added in it, whatever looks like the number of tiers; line ends are its own."""
    for document in (LONG, LONG.replace("\n", "\r\n")):
        data = rendered(spoken(document.encode()), "textgrid").decode()
        kept = document.removeprefix("\ufeff").replace("size = 2", "size = 4", 1)
        assert data.startswith(kept)
        added = data.removeprefix(kept).splitlines()
        assert added[0] == "    item [3]:"
        assert added[2] == '        name = "Ann - words"'
        assert ("\r" in data) == ("\r" in document)
        assert re.findall(r"xmax = (\S+)", data)[-1] == "5.0000001234"
        (xmax, *_), tiers = re.findall(r"xmax = (\S+)", data), parse_textgrid(data.encode(), "a").tiers
        assert all(tier.intervals[-1].end_s == float(xmax) for tier in tiers)
    wide = LONG.removeprefix("\ufeff").encode("utf-16")
    assert rendered(spoken(wide), "textgrid") == rendered(spoken(LONG.encode()), "textgrid")


def test_words_after_its_end_make_it_longer_and_names_stay_unique() -> None:
    document = LONG.replace("5.0000001234", "0.5").replace("size = 7", "Ann - words").replace("xmax = 1", "xmax = 0.4")
    document = document.replace("xmin = 1", "xmin = 0.4")
    data = rendered(spoken(document.encode(), 9.0), "textgrid")
    grid = parse_textgrid(data, "a.TextGrid")
    assert grid.end_s == pytest.approx(0.9)
    assert [tier.name for tier in grid.tiers] == ["Ann", "Ann - words 2", "Ann - phones"]
    assert [tier.intervals[-1].end_s for tier in grid.tiers] == [0.5, pytest.approx(0.9), pytest.approx(0.9)]
    again = parse_transcript(data, "a.TextGrid")
    assert again.text == "So be it.", "tiers of words that are there already are no text"


def rows(*texts: str, shift_s: float = 0.0) -> tuple[tuple[float, float, str], ...]:
    return tuple((at + shift_s, at + shift_s + 0.5, text) for at, text in enumerate(texts))


SENTENCES = rows("So be it.", "Here we go again")
CASES = [
    ("a sentence tier and MFA's", {"Ann": SENTENCES, "Ann - words": rows("so"), "Ann - phones": rows("S")}, ["Ann"]),
    ("a translation", {"Ann": SENTENCES, "english": rows("Let it be so.", "Off we go again")}, ["Ann"]),
    ("somebody who says little", {"Ann": SENTENCES, "Ben": rows("Yes.", "No", shift_s=0.25)}, ["Ann", "Ben"]),
    ("notes", {"Ann": SENTENCES, "noise": rows("cough", shift_s=0.25)}, ["Ann"]),
    ("characters", {"汉": rows("今天天气很好"), "拼音": rows("jin")}, ["汉"]),
    ("single words", {"vowel": rows("a", "o"), "item": rows("cat", "dog")}, ["item"]),
    ("nothing but words", {"words": rows("so", "be"), "phones": rows("S")}, ["words"]),
    (
        "words alone",
        {"A - words": rows("so"), "phones": rows("SOW"), "B - words": rows("it")},
        ["A - words", "B - words"],
    ),
    ("nothing but sounds", {"phones": rows("S", "OW")}, []),
    ("no letters", {"Ann": rows("1", "2")}, []),
]


@over_rows(("case", "tiers", "chosen"), CASES)
def test_tiers_that_are_the_text(case: str, tiers: dict, chosen: list[str]) -> None:
    given = [LabelTier(name, name, labels) for name, labels in tiers.items()]
    assert [tier.name for tier in sentence_tiers(given)] == chosen


@over_rows(
    ("document", "says"),
    [
        (LONG.replace("So be it.", "<sil>"), "talk.TextGrid: expected a tier with text between two times"),
        (
            LONG[: LONG.index("So be it")],
            "talk.TextGrid:26: not a TextGrid that can be read: expected an interval's label",
        ),
        (LONG.replace('"TextGrid"', '"Pitch 1"'), 'expected the object class "TextGrid", got "Pitch 1"'),
        ("ooBinaryFile\x08TextGrid", "talk.TextGrid: a binary TextGrid; save it in Praat with 'Save as text file'"),
    ],
)
def test_a_textgrid_that_is_no_transcript_is_an_error(document: str, says: str) -> None:
    with pytest.raises(TranscriptError) as caught:
        parse_transcript(document.encode(), "talk.TextGrid")
    assert says in str(caught.value)


def test_a_document_in_json_that_is_none_is_refused() -> None:
    alignment = spoken(LONG.encode())
    broken = replace(alignment, subtitles=replace(alignment.subtitles, document="File type"))
    with pytest.raises(InputError, match=r"subtitles\.document:1: not a TextGrid"):
        from_dict(broken.to_dict())
