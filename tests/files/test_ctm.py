from __future__ import annotations

import dataclasses
import io
import math

from hypothesis import given
from sample_alignments import aligned, make_alignment, random_alignments

from ctc_align.files import CtmWriter, Style, TokenCtmWriter
from ctc_align.types import aligned_words


def lines_of(writer, alignment) -> list[str]:
    file = io.StringIO()
    writer.write(alignment, file)
    return file.getvalue().splitlines()


def test_words(talk):
    assert lines_of(CtmWriter(), talk) == [
        ";; my_talk loss 12.345000 loss_per_token 0.617000 score -13.002000",
        "my_talk 1 0.100 0.300 Hello 0.7500",
        "my_talk 1 0.400 0.300 12 0.7500",
        "my_talk 1 0.750 0.250 שלום 0.7500",
    ]


def test_written_labels_keep_punctuation(talk):
    labels = [line.split()[4] for line in lines_of(CtmWriter(Style(labels="written")), talk)[1:]]
    assert labels == ["“Hello,”", '12"', "שלום!"]


def test_tokens(talk):
    rows = [line.split() for line in lines_of(TokenCtmWriter(), talk)[1:]]
    assert [row[4] for row in rows] == [*"hello", *"ab", *"שלום"]
    assert rows[0][2:4] == ["0.100", "0.060"]


def test_times_of_the_recording(talk):
    alignment = dataclasses.replace(talk, offset_s=10.0)
    assert lines_of(CtmWriter(Style(times="recording")), alignment)[1].split()[2:4] == ["10.100", "0.300"]


def test_loss_that_is_no_number_is_said_in_words(talk):
    assert "loss inf " in lines_of(CtmWriter(), dataclasses.replace(talk, loss=math.inf))[0]


def test_utterance_that_looks_like_a_comment():
    alignment = make_alignment((aligned("a", 0.0, 0.5),), utterance=";;b c")
    assert lines_of(CtmWriter(), alignment)[1].startswith("__b_c 1 0.000 ")


def test_words_shorter_than_a_millisecond_stay_apart():
    words = tuple(aligned("a", i * 0.0002, (i + 1) * 0.0002) for i in range(5))
    rows = [line.split() for line in lines_of(CtmWriter(), make_alignment(words))[1:]]
    assert [(row[2], row[3]) for row in rows] == [(f"0.00{i}", "0.001") for i in range(5)]


@given(random_alignments())
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
    for start, word in zip(starts, aligned_words(alignment)):
        assert abs(start - word.start_s) <= 0.0005 + 1e-9


def test_the_last_word_ends_with_the_audio_though_milliseconds_are_coarse():
    words = (aligned("a", 0.0, 0.0372, tokens="a"), aligned("b", 0.0372, 0.0375, 2, tokens="b"))
    rows = [line.split()[2:4] for line in lines_of(CtmWriter(), make_alignment(words, duration_s=0.0375))[1:]]
    assert rows == [["0.000", "0.036"], ["0.036", "0.001"]]
