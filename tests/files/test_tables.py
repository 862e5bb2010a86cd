from __future__ import annotations

import csv
import dataclasses
import io

import pytest
from hypothesis import given
from sample_alignments import aligned, make_alignment, random_alignments

from ctc_align.files import OutputFiles, Style, output_paths, rendered
from ctc_align.types import aligned_words


def read_tsv(data: bytes) -> list[dict[str, str]]:
    rows = list(csv.DictReader(io.StringIO(data.decode(), newline=""), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert all(None not in row and None not in row.values() for row in rows), "as many fields as the header has"
    return rows


def unescaped(label: str) -> str:
    out, rest = "", iter(label)
    for char in rest:
        out += {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}[next(rest)] if char == "\\" else char
    return out


def test_tsv(talk):
    assert rendered(talk, "tsv").decode().splitlines() == [
        "start_s\tend_s\tword\tconfidence\tchar_start\tchar_end",
        "0.100\t0.400\tHello\t0.7500\t0\t8",
        "0.400\t0.700\t12\t0.7500\t11\t14",
        "0.750\t1.000\tשלום\t0.7500\t15\t20",
    ]


def test_audacity(talk):
    assert rendered(talk, "audacity").decode().splitlines() == [
        "0.100000\t0.400000\tHello",
        "0.400000\t0.700000\t12",
        "0.750000\t1.000000\tשלום",
    ]


@pytest.mark.parametrize("format", ["tsv", "audacity"])
def test_times_and_labels_are_heeded(talk, format):
    style = Style(times="recording", labels="written")
    text = rendered(dataclasses.replace(talk, offset_s=10.0), format, style).decode()
    assert "10.100" in text
    assert "“Hello,”" in text


def test_tabs_and_line_ends_in_a_label_are_escaped():
    word = "a\tb\\n\r\nc"
    alignment = make_alignment((aligned(word, 0.0, 0.5), aligned("d", 0.5, 1.0)))
    rows = read_tsv(rendered(alignment, "tsv", Style(labels="written")))
    assert [unescaped(row["word"]) for row in rows] == [word, "d"]
    assert rendered(alignment, "audacity", Style(labels="written")).decode().count("\n") == 2


@given(random_alignments())
def test_every_aligned_word_is_there_once(alignment):
    words = aligned_words(alignment)
    rows = read_tsv(rendered(alignment, "tsv", Style(labels="written")))
    assert [unescaped(row["word"]) for row in rows] == [word.text for word in words]
    labels = [
        line.split("\t") for line in rendered(alignment, "audacity", Style(labels="written")).decode().splitlines()
    ]
    assert [label for _, _, label in labels] == [word.text for word in words]
    at_s = 0.0
    for row, (start, end, _), word in zip(rows, labels, words):
        assert alignment.text[int(row["char_start"]) : int(row["char_end"])] == word.text
        assert at_s <= float(row["start_s"]) < float(row["end_s"])
        assert float(row["start_s"]) == pytest.approx(word.start_s, abs=6e-4)
        assert float(start) == pytest.approx(word.start_s, abs=1e-5)
        assert float(start) < float(end)
        at_s = float(row["end_s"])


def test_a_label_track_never_takes_the_transcripts_name(talk, tmp_path):
    (tmp_path / "talk.txt").write_text("mine")
    OutputFiles(tmp_path, "talk", ("audacity",), force=True).write(talk)
    assert (tmp_path / "talk.txt").read_text() == "mine"
    assert [path.name for path in output_paths(tmp_path, "talk", ("audacity",))] == ["talk.audacity.txt"]


@pytest.mark.parametrize("extension", [".srt", ".vtt", ".tsv", ".audacity.txt"])
def test_save_knows_the_extension(talk, tmp_path, extension):
    talk.save(tmp_path / f"a{extension}")
    assert (tmp_path / f"a{extension}").stat().st_size > 20
