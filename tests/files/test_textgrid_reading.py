from __future__ import annotations

import pytest
import textgrid as textgrid_package

from ctc_align.errors import InputError
from ctc_align.files.textgrid import read_textgrid
from ctc_align.types import Interval

LONG = """File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 2.5
tiers? <exists>
size = 2
item []:
    item [1]:
        class = "IntervalTier"
        name = "words"
        xmin = 0
        xmax = 2.5
        intervals: size = 2
        intervals [1]:
            xmin = 0
            xmax = 1e0
            text = "say ""xmax = 3"" né"
        intervals [2]:
            xmin = 1.0
            xmax = 2.5
            text = ""
    item [2]:
        class = "TextTier"
        name = "points"
        xmin = 0
        xmax = 2.5
        points: size = 1
        points [1]:
            number = 0.5
            mark = "here"
"""
SHORT = """File type = "ooTextFile short"
"TextGrid"

0
2.5
<exists>
1
"IntervalTier"
"words"
0
2.5
2
0
1
"say ""xmax = 3"" né"
! a comment with 3 numbers "and a string"
1
2.5
""
"""
WORDS = (Interval(0.0, 1.0, 'say "xmax = 3" né'), Interval(1.0, 2.5, ""))


@pytest.mark.parametrize("text", [LONG, SHORT], ids=["long", "short"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_both_formats_in_every_encoding(tmp_path, text, encoding, newline):
    path = tmp_path / "a.TextGrid"
    path.write_bytes(text.replace("\n", newline).encode(encoding))
    grid = read_textgrid(path)
    assert (grid.start_s, grid.end_s) == (0.0, 2.5)
    assert [tier.name for tier in grid.tiers] == ["words"]
    assert grid.tiers[0].intervals == WORDS


def test_what_another_program_writes(tmp_path):
    tier = textgrid_package.IntervalTier("words", 0, 2)
    tier.add(0.25, 1.5, 'a "quoted" word')
    grid = textgrid_package.TextGrid("grid", 0, 2)
    grid.append(tier)
    path = tmp_path / "a.TextGrid"
    grid.write(str(path))
    assert read_textgrid(path).tiers[0].intervals == (
        Interval(0.0, 0.25, ""),
        Interval(0.25, 1.5, 'a "quoted" word'),
        Interval(1.5, 2.0, ""),
    )


def test_no_tiers(tmp_path):
    path = tmp_path / "a.TextGrid"
    path.write_text('"ooTextFile"\n"TextGrid"\n0\n1\n<absent>\n')
    assert read_textgrid(path).tiers == ()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "got the end of the file"),
        (b'"Praat picture"', "expected the file type"),
        (b'"ooTextFile" "Sound 2"', "expected the object class"),
        (b'"ooTextFile"\n"TextGrid"\n0\nhello\n<exists>', r":5: .*expected a time in seconds, got <exists>"),
        (LONG[:400].encode(), "got the end of the file"),
        (LONG.replace("size = 2\nitem", "size = 1.5\nitem").encode(), "expected the number of tiers, got 1.5"),
        (LONG.replace("xmax = 1e0", "xmax = -1").encode(), "before its start"),
        (LONG.encode("latin-1"), "expected UTF-8 or UTF-16"),
        (b"ooBinaryFile\x08TextGrid", "Save as text file"),
    ],
)
def test_what_cannot_be_read(tmp_path, content, says):
    path = tmp_path / "a.TextGrid"
    path.write_bytes(content)
    with pytest.raises(InputError, match=says) as caught:
        read_textgrid(path)
    assert str(path) in str(caught.value)


def test_no_such_file(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_textgrid(tmp_path / "none.TextGrid")
