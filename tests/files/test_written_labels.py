"""The record of the labels that were written with an alignment's JSON, and the readers of files of
labels."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_alignments import conversation, talk_alignment

from ctc_align.errors import InputError
from ctc_align.files import FORMATS, OutputFiles, read_alignment
from ctc_align.files.formats import LABELS
from ctc_align.types import Alignment, Interval


def in_ms(labels: list[Interval]) -> list[tuple[int, int, str]]:
    return sorted(
        (round(1000 * each.start_s), round(1000 * each.end_s), each.label) for each in labels
    )


@pytest.mark.parametrize(
    "alignment", [talk_alignment(), conversation()], ids=["one speaker", "two speakers"]
)
@pytest.mark.parametrize("extension", LABELS)
def test_each_file_of_labels_has_the_labels_that_json_records(
    tmp_path: Path, alignment: Alignment, extension: str
) -> None:
    format = next(name for name in FORMATS if extension in FORMATS[name].files)
    json_path, path = OutputFiles(tmp_path, "a", ["json", format]).write(alignment)
    written = read_alignment(json_path).written
    assert written is not None
    assert written.files == (extension,)
    read = LABELS[extension](path.read_bytes(), path.name)
    has_tokens = extension != ".audacity.txt"
    recorded = [word for word, _ in written.words] + [
        token for _, own in written.words for token in own * has_tokens
    ]
    kept = [tier for tier in read if not tier.name.endswith("speakers")]
    assert in_ms([label for tier in kept for label in tier.intervals if label.label]) == in_ms(
        recorded
    )


def test_json_that_was_written_alone_has_no_record_and_a_renamed_file_is_in_it(
    tmp_path: Path,
) -> None:
    (alone,) = OutputFiles(tmp_path, "alone", ["json"]).write(talk_alignment())
    assert read_alignment(alone).written is None
    transcript = tmp_path / "b.TextGrid"
    transcript.touch()
    files = OutputFiles(tmp_path, "b", ["json", "textgrid"], protect=[transcript], beside=True)
    written = read_alignment(files.write(talk_alignment())[0]).written
    assert written is not None
    assert written.files == (".aligned.TextGrid",)


def test_tables_that_spreadsheets_saved_again() -> None:
    rows = "tier;speaker;label;start_s;end_s\r\nwords;Ann;So;0,1;0,25\r\nwords;Ann;gone;;\r\n"
    (tier,) = LABELS[".csv"](b"\xef\xbb\xbf" + rows.encode(), "a.csv")
    assert (tier.name, tier.intervals) == ("Ann - words", (Interval(0.1, 0.25, "So"),))
    with pytest.raises(
        InputError, match=r"a\.csv:2: expected the columns of a table that ctc-align wrote"
    ):
        LABELS[".csv"](b"one,two\n1,2\n", "a.csv")
    with pytest.raises(InputError, match=r"a\.audacity\.txt:1: expected start, end and label"):
        LABELS[".audacity.txt"](b"text\n", "a.audacity.txt")
