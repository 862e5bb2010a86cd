"""CTM, TSV and Audacity's labels."""

from __future__ import annotations

import csv
import dataclasses
import io
import math

import pytest
from hypothesis import given
from rows import over_rows
from sample_alignments import aligned, make_alignment, swapped_alignments

from ctc_align.files import CtmWriter, OutputFiles, Style, TokenCtmWriter, output_paths, rendered
from ctc_align.types import AlignedWord, aligned_words


def by_time(alignment) -> list[AlignedWord]:
    return sorted(aligned_words(alignment), key=lambda word: word.start_s)


def lines_of(writer, alignment) -> list[str]:
    file = io.StringIO()
    writer.write(alignment, file)
    return file.getvalue().splitlines()


@over_rows(
    ("format", "lines"),
    [
        (
            "ctm",
            [
                ";; my_talk loss 12.345000 loss_per_token 0.617000 score -13.002000",
                "my_talk 1 0.100 0.300 Hello 0.7500",
                "my_talk 1 0.400 0.300 12 0.7500",
                "my_talk 1 0.750 0.250 שלום 0.7500",
            ],
        ),
        (
            "tsv",
            [
                "start_s\tend_s\tword\tconfidence\tchar_start\tchar_end",
                "0.100\t0.400\tHello\t0.7500\t0\t8",
                "0.400\t0.700\t12\t0.7500\t11\t14",
                "0.750\t1.000\tשלום\t0.7500\t15\t20",
            ],
        ),
        ("audacity", ["0.100000\t0.400000\tHello", "0.400000\t0.700000\t12", "0.750000\t1.000000\tשלום"]),
    ],
)
def test_lines(format, lines, talk):
    assert rendered(talk, format).decode().splitlines() == lines


@over_rows(
    ("format", "line"),
    [
        ("ctm", "my_talk 1 10.100 0.300 “Hello,” 0.7500"),
        ("tsv", "10.100\t10.400\t“Hello,”\t0.7500\t0\t8"),
        ("audacity", "10.100000\t10.400000\t“Hello,”"),
    ],
)
def test_times_of_the_recording_and_labels_as_written(format, line, talk):
    style = Style(times="recording", labels="written")
    assert line in rendered(dataclasses.replace(talk, offset_s=10.0), format, style).decode().splitlines()


def test_tokens(talk):
    rows = [line.split() for line in lines_of(TokenCtmWriter(), talk)[1:]]
    assert [row[4] for row in rows] == [*"hello", *"ab", *"שלום"]
    assert rows[0][2:4] == ["0.100", "0.060"]


def test_losses_that_are_no_numbers_and_names_that_look_like_comments():
    alignment = make_alignment((aligned("a", 0.0, 0.5),), utterance=";;b c", loss=math.inf)
    comment, row = lines_of(CtmWriter(), alignment)
    assert "loss inf " in comment
    assert row.startswith("__b_c 1 0.000 ")


def test_words_shorter_than_a_millisecond_stay_apart():
    words = tuple(aligned("a", i * 0.0002, (i + 1) * 0.0002) for i in range(5))
    rows = [line.split() for line in lines_of(CtmWriter(), make_alignment(words))[1:]]
    assert [(row[2], row[3]) for row in rows] == [(f"0.00{i}", "0.001") for i in range(5)]


@given(swapped_alignments())
def test_six_fields_never_empty_never_overlapping(alignment):
    for writer, count in (
        (CtmWriter(), len(aligned_words(alignment))),
        (TokenCtmWriter(), sum(len(word.tokens) for word in alignment.words)),
    ):
        rows = [line.split() for line in lines_of(writer, alignment) if not line.startswith(";;")]
        assert len(rows) == count
        at_ms = 0
        for row in rows:
            assert len(row) == 6
            assert row[1] == "1"
            start_ms, duration_ms = round(float(row[2]) * 1000), round(float(row[3]) * 1000)
            assert start_ms >= at_ms
            assert duration_ms > 0
            at_ms = start_ms + duration_ms
    starts = [float(line.split()[2]) for line in lines_of(CtmWriter(), alignment)[1:]]
    for start, word in zip(starts, by_time(alignment), strict=True):
        assert abs(start - word.start_s) <= 0.0005 + 1e-9


def test_the_last_word_ends_with_the_audio_though_milliseconds_are_coarse():
    words = (aligned("a", 0.0, 0.0372, tokens="a"), aligned("b", 0.0372, 0.0375, 2, tokens="b"))
    rows = [line.split()[2:4] for line in lines_of(CtmWriter(), make_alignment(words, duration_s=0.0375))[1:]]
    assert rows == [["0.000", "0.036"], ["0.036", "0.001"]]


def read_tsv(data: bytes) -> list[dict[str, str]]:
    rows = list(csv.DictReader(io.StringIO(data.decode(), newline=""), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert all(None not in row and None not in row.values() for row in rows), "as many fields as the header has"
    return rows


def unescaped(label: str) -> str:
    out, rest = "", iter(label)
    for char in rest:
        out += {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}[next(rest)] if char == "\\" else char
    return out


def test_tabs_and_line_ends_in_a_label_are_escaped():
    word = "a\tb\\n\r\nc"
    alignment = make_alignment((aligned(word, 0.0, 0.5), aligned("d", 0.5, 1.0)))
    rows = read_tsv(rendered(alignment, "tsv", Style(labels="written")))
    assert [unescaped(row["word"]) for row in rows] == [word, "d"]
    assert rendered(alignment, "audacity", Style(labels="written")).decode().count("\n") == 2


@given(swapped_alignments())
def test_every_aligned_word_is_there_once(alignment):
    words = by_time(alignment)
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
