from __future__ import annotations

import csv
import gzip
import io
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_sources import read, write

from ctc_align.corpus.sources import open_source
from ctc_align.corpus.sources.manifest_files import TableRows
from ctc_align.corpus.utterance import Utterance
from ctc_align.errors import UsageError


def table(tmp_path, text, name="t.csv"):
    return write(tmp_path, {name: text}) / name


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_all_columns(tmp_path, separator, mark, end):
    rows = [
        ["Speaker", "text", " AUDIO ", "utterance", "start", "end", "note", "channel"],
        ["anna", "One two", "wavs/a b.wav", "u 1", "0.5", "2", "x", "2"],
        ["", "drei", "/abs/é.flac", "", "", "", "", ""],
    ]
    path = table(tmp_path, mark + end.join(separator.join(row) for row in rows) + end)
    found, refused = read(path)
    assert refused == []
    first = Utterance("u 1", "u 1", f"{tmp_path}/wavs/a b.wav", "One two", "t.csv, line 2")
    assert found == [
        replace(first, offset_s=0.5, duration_s=1.5, speaker="anna", channel=2),
        Utterance("é", "é", "/abs/é.flac", "drei", "t.csv, line 3"),
    ]
    source = open_source(path)
    assert (source.kind, source.files) == ("table", (str(path),))


@pytest.mark.parametrize(
    "header",
    [
        "audio_filepath,duration,text",
        "path,duration,sentence",
        "wav_filename,duration,transcript",
        "wav,duration,wrd",
        "File_Name,Duration_S,Transcription",
    ],
)
def test_names_that_corpora_give_their_columns(tmp_path, header):
    (utterance,), _ = read(table(tmp_path, f"{header}\na.wav,1.5,one\n"))
    assert (utterance.audio, utterance.duration_s, utterance.text) == (f"{tmp_path}/a.wav", 1.5, "one")


def test_common_voice(tmp_path):
    rows = 'client_id\tpath\tsentence\tup_votes\n8f\tcv_1.mp3\t"Hello," she said.\t2\n8f\tcv_2.mp3\tSo "what?\t2\n'
    write(tmp_path, {"clips/cv_1.mp3": "", "cv_2.mp3": "", "clips/cv_2.mp3": ""})
    found, refused = read(table(tmp_path, rows + '9a\tcv_3.mp3\t"Never closed\t1\n9b\tcv_4.mp3\tlast\t1\n', "v.tsv"))
    assert refused == []
    assert [(utterance.id, utterance.text, utterance.speaker) for utterance in found] == [
        ("cv_1", '"Hello," she said.', "8f"),
        ("cv_2", 'So "what?', "8f"),
        ("cv_3", '"Never closed', "9a"),
        ("cv_4", "last", "9b"),
    ]
    assert [utterance.audio[len(str(tmp_path)) :] for utterance in found] == [
        *("/clips/cv_1.mp3", "/cv_2.mp3", "/cv_3.mp3", "/cv_4.mp3")
    ]


def test_quotes(tmp_path):
    rows = 'audio,text\na.wav,"One, ""two"""\n"b,c.wav","line one\n\nline two"\nd.wav,5" nails\n'
    found, refused = read(table(tmp_path, rows))
    assert refused == []
    assert [(utterance.id, utterance.text, utterance.origin) for utterance in found] == [
        ("a", 'One, "two"', "t.csv, line 2"),
        ("b,c", "line one\n\nline two", "t.csv, line 3"),
        ("d", '5" nails', "t.csv, line 6"),
    ]


def test_a_quote_that_is_never_closed_costs_its_own_line_only(tmp_path):
    many = "".join(f"{number}.wav,word\n" for number in range(1000))
    rows = f'audio,text\na.wav,"never closed\n{many}b.wav,"bad" quote\n{many}c.wav,"open'
    found, refused = read(table(tmp_path, rows))
    assert len(found) == 2000
    assert [item.origin for item in refused] == ["t.csv, line 2", "t.csv, line 1003", "t.csv, line 2004"]
    assert all("expected a row of CSV" in item.reason for item in refused)


CELLS = st.text(st.sampled_from("ab ,;\t\"'é\n") | st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
WORDS = CELLS.map(lambda cell: f"w{cell}w")


@given(st.lists(st.tuples(WORDS, CELLS, WORDS), min_size=1, max_size=6), st.sampled_from(",;\t"), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_the_csv_module_writes_is_read(tmp_path, rows, separator, is_quoted):
    """Lines within tab-separated cells excepted: there a quote may be a letter."""
    if separator == "\t":
        rows = [tuple(cell.replace("\n", " ") for cell in row) for row in rows]
    file = io.StringIO()
    quoting = csv.QUOTE_ALL if is_quoted else csv.QUOTE_MINIMAL
    writer = csv.writer(file, delimiter=separator, quoting=quoting, lineterminator="\n")
    writer.writerow(["utterance", "audio", "note", "text"])
    for number, (audio, note, text) in enumerate(rows):
        writer.writerow([f"u{number}", audio, note, text])
    found, refused = read(table(tmp_path, file.getvalue()))
    assert refused == []
    expected = [(f"u{number}", f"{tmp_path}/{audio}", text) for number, (audio, _, text) in enumerate(rows)]
    assert [(utterance.id, utterance.audio, utterance.text) for utterance in found] == expected


BAD = [
    (",text", "empty one"),
    ("x.wav,", "empty"),
    ("x.wav,one,,,,,,more", "8 columns, but the header has 7"),
    ("x.wav,one,,abc", "number of seconds"),
    ("x.wav,one,,nan", "number of seconds"),
    ("x.wav,one,,-1", "0 or more"),
    ("x.wav,one,,1_0", "number of seconds"),
    ("x.wav,one,,2,1", "after the start"),
    ("x.wav,one,,,,0", "more than 0"),
    ("x.wav,one,,,,1e999", "more than 0"),
    ("x.wav,one,,,,,0", "counted from 1"),
    ("x.wav,one,,,,,left", "counted from 1"),
    ("http://x/x.wav,one", "nothing is fetched"),
    ("x\0.wav,one", "NUL"),
    ("x.wav", "empty"),
    (b"x.wav,\xe4", "UTF-8"),
    ("x.wav,one,first", "line 2 has it already"),
]


@pytest.mark.parametrize(("row", "reason"), BAD)
def test_a_bad_row_is_refused_and_the_next_is_read(tmp_path, row, reason):
    row = row if isinstance(row, bytes) else row.encode()
    content = b"audio,text,id,start,end,duration,channel\na.wav,one,first\n" + row + b"\n\nb.wav,two,last,,,,\n"
    found, refused = read(table(tmp_path, content))
    assert [utterance.id for utterance in found] == ["first", "last"]
    assert [item.origin for item in refused] == ["t.csv, line 3"]
    assert reason in refused[0].reason


def test_gzip(tmp_path):
    path = write(tmp_path, {"t.tsv.gz": gzip.compress(b"path\tsentence\na.mp3\tone\n")}) / "t.tsv.gz"
    assert [utterance.text for utterance in read(path)[0]] == ["one"]


def test_a_header_alone_is_an_empty_corpus(tmp_path):
    with pytest.raises(UsageError, match="empty"):
        open_source(table(tmp_path, "audio,text\n"))


@pytest.mark.parametrize("kind", [None, "table"])
@pytest.mark.parametrize("text", ["a.wav,one\n", "audio,words\na.wav,one\n", "name|text\n", "text\nx\n"])
def test_a_header_that_is_none_is_a_wrong_call(tmp_path, text, kind):
    with pytest.raises(UsageError) as caught:
        open_source(table(tmp_path, text), kind)
    assert "header" in str(caught.value)
    assert text.split("\n")[0] in str(caught.value)


def test_stray_quotes_are_not_looked_at_again_and_again(tmp_path, monkeypatch):
    count, parsed = 2000, 0
    rows = [f'{number}.wav,"open {number}\n' if number % 3 else "x.wav,y\n" for number in range(count)]
    parse = TableRows.cells

    def counted(self, text):
        nonlocal parsed
        parsed += 1
        return parse(self, text)

    monkeypatch.setattr(TableRows, "cells", counted)
    found, refused = read(table(tmp_path, "audio,text\n" + "".join(rows)))
    assert len(found) + len(refused) == count
    assert len(found) >= count // 3
    assert parsed < 2 * 2 * count + 10
