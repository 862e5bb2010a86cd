"""Manifests, tables and cuts: what a line gives, and how a line that is of no use is refused."""

from __future__ import annotations

import copy
import csv
import gzip
import io
import json
import logging
import os
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_sources import jsonl, read, write

from ctc_align.corpus.state.resume import Fingerprints
from ctc_align.errors import UsageError
from ctc_align.sources import open_source, with_channel
from ctc_align.sources.manifest_files import COLUMNS, KEYS, TableRows
from ctc_align.sources.utterance import Utterance
from ctc_align.types import Transcript

GOOD = {"audio_filepath": "a.wav", "text": "one"}


def manifest(tmp_path, *rows, name="train.jsonl"):
    return (
        write(
            tmp_path, {name: "".join(row if isinstance(row, str) else jsonl(row) for row in rows)}
        )
        / name
    )


def test_all_keys(tmp_path):
    everything = {
        "audio_filepath": "wavs/a.wav",
        "text": " One two. ",
        "utterance": "spk/é 1",
        "duration": 2.5,
    }
    everything |= {"offset": 1, "speaker": "anna", "channel": 2, "something": {"else": [1]}}
    path = manifest(
        tmp_path,
        everything,
        {"audio": "/abs/b.flac", "duration_s": 3, "texts": ["best", "second"], "speaker": 17},
        {"audio": "c.wav", "text": "given", "texts": ["best", "second"]},
        {
            "audio": "d.wav",
            "texts": ["only"],
            "utterance": None,
            "duration": None,
            "offset": None,
            "speaker": None,
        },
    )
    found, refused = read(path)
    name, folder = "train.jsonl, line", str(tmp_path)
    assert refused == []
    first = Utterance("spk/é 1", "spk/é 1", f"{folder}/wavs/a.wav", " One two. ", f"{name} 1")
    second = Utterance("b", "b", "/abs/b.flac", "best", f"{name} 2", texts=("best", "second"))
    assert found == [
        replace(first, offset_s=1.0, duration_s=2.5, speaker="anna", channel=2),
        replace(second, duration_s=3.0, speaker="17"),
        Utterance("c", "c", f"{folder}/c.wav", "given", f"{name} 3", texts=("best", "second")),
        Utterance("d", "d", f"{folder}/d.wav", "only", f"{name} 4"),
    ]
    assert open_source(path).files == (str(path),)


BAD = [
    ("not json", "expected a JSON object"),
    ('{"audio_filepath": "a.wav", "text": "one"', "expected a JSON object"),
    ("[1, 2]", "got a list"),
    ("17", "got a number"),
    ('"text"', "got a string"),
    ("null", "got null"),
    ("[" * 100_000, "expected a JSON object"),
    ("1" * 5000, "expected a JSON object"),
    ({"text": "one"}, "the audio is missing"),
    ({"audio_filepath": "a.wav"}, "the transcript is missing"),
    ({"audio_filepath": None, "text": "one"}, "the audio is missing"),
    ({"audio_filepath": "", "text": "one"}, "got an empty one"),
    ({"audio_filepath": ["a.wav"], "text": "one"}, "got a list"),
    ({"audio_filepath": "a\0.wav", "text": "one"}, "NUL"),
    ({"audio_filepath": "https://example.org/a.wav", "text": "one"}, "nothing is fetched"),
    ({"audio_filepath": "s3://bucket/a.wav", "text": "one"}, "nothing is fetched"),
    ({**GOOD, "text": ""}, "empty"),
    ({**GOOD, "text": " \n\t"}, "empty"),
    ({**GOOD, "text": 5}, "got a number"),
    ({**GOOD, "text": ["one"]}, "got a list"),
    ('{"audio": "a.wav", "text": "\\ud800"}', "surrogate"),
    ('{"audio": "\\udcff.wav", "text": "one"}', "surrogate"),
    ({**GOOD, "utterance": 1.7}, "got a number"),
    ({**GOOD, "utterance": True}, "got "),
    ({**GOOD, "utterance": " "}, "empty"),
    ('{"audio": "a.wav", "text": "one", "utterance": "\\udfff"}', "surrogate"),
    ({**GOOD, "duration": "3.5"}, "duration: expected a number"),
    ({**GOOD, "duration": True}, "duration: expected a number"),
    ({**GOOD, "duration": 0}, "more than 0"),
    ({**GOOD, "duration": -1}, "more than 0"),
    ({**GOOD, "duration": float("nan")}, "NaN"),
    ({**GOOD, "duration_s": float("inf")}, "Infinity"),
    ('{"audio": "a.wav", "text": "one", "duration": 1e999}', "inf"),
    ('{"audio": "a.wav", "text": "one", "duration": 1' + "0" * 400 + "}", "more than 0"),
    ({**GOOD, "offset": -0.1}, "offset: expected 0 or more"),
    ({**GOOD, "offset": [0]}, "offset: expected a number"),
    ({**GOOD, "channel": 0}, "counted from 1"),
    ({**GOOD, "channel": 1.5}, "counted from 1"),
    ({**GOOD, "speaker": {"id": 1}}, "speaker: expected a string"),
    ({**GOOD, "texts": []}, "texts: expected a list"),
    ({**GOOD, "texts": "one"}, "texts: expected a list"),
    ({**GOOD, "texts": ["one", 2]}, "texts, entry 2"),
    ({**GOOD, "texts": ["", " "]}, "empty"),
]


@pytest.mark.parametrize(("row", "reason"), BAD)
def test_a_bad_line_is_refused_and_the_next_is_read(tmp_path, row, reason):
    row = row + "\n" if isinstance(row, str) else row
    path = manifest(
        tmp_path, {"audio": "first.wav", "text": "x"}, row, "\n", {"audio": "last.wav", "text": "y"}
    )
    found, refused = read(path)
    assert [utterance.id for utterance in found] == ["first", "last"]
    assert len(refused) == 1
    assert refused[0].origin == "train.jsonl, line 2"
    assert reason in refused[0].reason
    assert len(refused[0].reason) < 400


def test_refusals_go_by_the_name_that_the_line_has(tmp_path):
    path = manifest(
        tmp_path,
        GOOD,
        {**GOOD, "utterance": "named", "text": ""},
        {**GOOD, "text": ""},
        "nothing\n",
    )
    _, refused = read(path)
    assert [item.id for item in refused] == ["named", "a-2", "train.jsonl, line 4"]


def test_bytes_that_are_not_utf8(tmp_path):
    bad = json.dumps({"audio": "b.wav", "text": "ä"}, ensure_ascii=False).encode("latin-1")
    path = write(
        tmp_path,
        {"m.jsonl": b"\xef\xbb\xbf" + jsonl(GOOD).encode() + bad + b"\r\n" + jsonl(GOOD).encode()},
    )
    found, refused = read(path / "m.jsonl")
    assert [utterance.id for utterance in found] == ["a", "a-2"]
    assert [item.origin for item in refused] == ["m.jsonl, line 2"]
    assert "byte 0xe4" in refused[0].reason


def test_stems_are_made_unique_and_explicit_ids_may_not_take_them(tmp_path):
    rows = [{"audio": f"{folder}/x.wav", "text": "t"} for folder in "abc"]
    rows += [
        {"audio": "d/y.wav", "text": "t", "utterance": "x-2"},
        {"audio": "x-2.wav", "text": "t"},
    ]
    rows += [
        {"audio": "d/y.wav", "text": "t", "utterance": "x-4"},
        {"audio": "e/x.wav", "text": "t"},
    ]
    found, refused = read(manifest(tmp_path, *rows))
    assert [utterance.id for utterance in found] == ["x", "x-2", "x-3", "x-2-2", "x-4", "x-5"]
    assert [item.id for item in refused] == ["x-2 (train.jsonl, line 4)"]
    assert "line 2 was named so after its audio" in refused[0].reason


def test_a_duplicate_id_names_both_lines_and_the_others_go_on(tmp_path):
    row = {"audio": "a.wav", "text": "t", "utterance": "same"}
    found, refused = read(manifest(tmp_path, row, GOOD, row, row, {**GOOD, "utterance": "other"}))
    assert [utterance.id for utterance in found] == ["same", "a", "other"]
    assert [item.origin for item in refused] == ["train.jsonl, line 3", "train.jsonl, line 4"]
    assert all("train.jsonl, line 1 has it already" in item.reason for item in refused)


def test_ids_that_differ_in_case_share_no_file_where_case_is_folded(tmp_path):
    path = manifest(tmp_path, *({**GOOD, "utterance": id} for id in ("A", "a", "é", "e\u0301")))
    kept, _ = read(path)
    assert [utterance.output for utterance in kept] == ["A", "a", "é", "e\u0301"]
    folded, _ = read(path, fold_case=True)
    assert [utterance.id for utterance in folded] == ["A", "a", "é", "e\u0301"]
    assert len({utterance.output.casefold() for utterance in folded}) == 4


def test_paths_are_as_given_and_count_from_the_manifest(tmp_path, monkeypatch):
    names = [
        'it\'s "so".wav',
        "../up/x y.wav",
        "ünï/日本.wav",
        "cat a.wav |",
        "$(touch evil).wav",
        "-",
    ]
    path = manifest(
        tmp_path, *({"audio": name, "text": "t"} for name in names), name="sub/train é.jsonl"
    )
    found, _ = read(path)
    assert [utterance.audio for utterance in found] == [str(path.parent / name) for name in names]
    monkeypatch.chdir(path.parent)
    found, _ = read("train é.jsonl")
    assert [utterance.audio for utterance in found] == names


def test_gzip_whole_and_cut(tmp_path):
    rows = [{"audio": f"{number}.wav", "text": os.urandom(200).hex()} for number in range(500)]
    data = gzip.compress(jsonl(*rows).encode())
    write(tmp_path, {"m.jsonl.gz": data, "cut.jsonl.gz": data[: len(data) // 2]})
    assert len(read(tmp_path / "m.jsonl.gz")[0]) == 500
    found, refused = read(tmp_path / "cut.jsonl.gz")
    assert 100 < len(found) < 400
    assert len(refused) == 1
    assert "truncated or damaged" in refused[0].reason


def test_a_line_without_end_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("ctc_align.sources.source.MAX_LINE_BYTES", 2**20)
    long = '{"audio": "b.wav", "text": "' + "x" * (20 * 2**20) + '"}'
    path = manifest(tmp_path, GOOD, long + "\n", GOOD, long)
    tracemalloc.start()
    source = open_source(path)
    items = list(source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [type(item).__name__ for item in items] == [
        "Utterance",
        "Refused",
        "Utterance",
        "Refused",
    ]
    assert [item.origin[-1] for item in items] == list("1234")
    assert peak < 6 * 2**20


@pytest.mark.long
def test_a_large_manifest_is_streamed(tmp_path):
    """Of many lines 16 bytes a slot of the table are all that stay (and half as much again while it
    grows)."""
    path = tmp_path / "m.jsonl"
    count = 50_000
    with open(path, "w") as file:
        for number in range(count):
            file.write(
                f'{{"audio": "f/{number}.wav", "text": "{"word " * 40}", "utterance": "utterance'
                f' {number}"}}\n'
            )
    tracemalloc.start()
    source = open_source(path)
    found = sum(isinstance(item, Utterance) for item in source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == count
    slots = 2 ** (4 * count // 3).bit_length()
    assert peak < 1.5 * 16 * slots + 2**20
    assert peak < os.path.getsize(path) / 3


@pytest.mark.parametrize("content", ["", "\n \n", "\ufeff"])
def test_an_empty_manifest_is_a_wrong_call(tmp_path, content):
    path = manifest(tmp_path, content)
    for kind in (None, "manifest"):
        with pytest.raises(UsageError, match="empty"):
            open_source(path, kind)


@pytest.mark.parametrize(
    ("content", "got"),
    [
        (jsonl([GOOD, GOOD]), "one JSON list"),
        ('{\n "audio": "a.wav"\n}\n', "several lines"),
        (jsonl(GOOD).encode("utf-16"), "UTF-16"),
        ("once upon a time\n", "once upon a time"),
        (b"RIFF\0\0\xff\xff" * 50, "got"),
    ],
)
def test_a_file_of_another_kind_is_a_wrong_call(tmp_path, content, got):
    path = write(tmp_path, {"m.jsonl": content}) / "m.jsonl"
    for kind in (None, "manifest", "lhotse"):
        with pytest.raises(UsageError, match=r"expected .*JSON") as caught:
            open_source(path, kind)
        assert got in str(caught.value)
        assert str(path) in str(caught.value)


def test_a_channel_for_all_that_name_none(tmp_path):
    rows = [
        {"audio": "a.wav", "text": "a"},
        {"audio": "b.wav", "text": "b", "channel": 1},
        {"audio": "c.wav"},
    ]
    path = tmp_path / "m.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    source = with_channel(open_source(path), 2)
    assert (source.kind, source.name) == ("manifest", str(path))
    assert [getattr(entry, "channel", "refused") for entry in source] == [2, 1, "refused"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (
            {"wav": "a.wav", "text": "one", "duration": 1, "language": "de"},
            "did you mean audio_filepath by 'wav'?",
        ),
        ({"audio": "a.wav", "sentence": "one"}, "did you mean text by 'sentence'?"),
        (
            {"audio_filepth": "a.wav", "text": "one"},
            "did you mean audio_filepath by 'audio_filepth'?",
        ),
    ],
)
def test_a_missing_key_is_told_with_all_that_are_there(tmp_path, row, says):
    reason = read(manifest(tmp_path, row, GOOD))[1][0].reason
    assert f"got {', '.join(map(repr, sorted(row)))}; {says}" in reason


def test_the_page_lists_the_keys_of_manifests_and_the_columns_of_tables():
    text = (Path(__file__).resolve().parents[2] / "docs" / "corpora.md").read_text("utf-8")
    rows = re.findall(
        r"^\| `?(\w+)`? \| ([^|]*) \| ([^|]*) \|[^|]*\|$",
        text.partition("## What a line has")[2],
        re.M,
    )
    listed = {
        what: [re.findall("`([^`]+)`", cell) for cell in cells]
        for what, *cells in rows
        if what != "Value"
    }
    assert list(listed) == list(COLUMNS)
    assert {what: keys for what, (keys, _) in listed.items() if keys} == {
        w: list(k) for w, k in KEYS.items()
    }
    assert {what: columns for what, (_, columns) in listed.items()} == {
        w: list(c) for w, c in COLUMNS.items()
    }


LANGUAGES = (
    {"audio": "a.wav", "text": "ja", "language": "German"},
    {"audio": "b.wav", "text": "ja", "locale": "fy-NL"},
    {"audio": "c.wav", "text": "ja", "lang": None, "language": 7},
)


def cut_in(name: str, language: str | None) -> dict[str, object]:
    sources = [{"type": "file", "source": f"{name}.wav", "channels": [0]}]
    supervision = {"id": name, "start": 0, "duration": 1.0, "text": "ja", "language": language}
    return {
        "id": name,
        "recording": {"sources": sources, "duration": 2.0},
        "supervisions": [supervision],
    }


SOURCES = {
    "manifest.jsonl": jsonl(*LANGUAGES),
    "table.tsv": "path\tsentence\tlocale\na.wav\tja\tde\nb.wav\tja\tfy-NL\nc.wav\tja\t\n",
    "cuts.jsonl": jsonl(cut_in("a", "de"), cut_in("b", "fy-NL"), cut_in("c", None)),
    "kaldi": {
        "wav.scp": "a a.wav\nb b.wav\nc c.wav\n",
        "text": "a ja\nb ja\nc ja\n",
        "utt2lang": "a de\nb fy-NL\n",
    },
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_kind_of_source_may_say_the_language(name: str, tmp_path: Path) -> None:
    content = SOURCES[name]
    root = (
        write(tmp_path / name, content)
        if isinstance(content, dict)
        else write(tmp_path, {name: content}) / name
    )
    found, refused = read(root)
    assert refused == []
    assert [one.language for one in found] == ["de", "fy-NL", ""]
    assert [one.spoken for one in found] == [
        Transcript("ja", language="de"),
        Transcript("ja", language="fy-NL"),
        "ja",
    ]
    marks = {
        Fingerprints("run").of(replace(found[0], language=language))
        for language in ("", "de", "nl")
    }
    assert len(marks) == 3


def test_a_language_that_nothing_knows_is_told_and_the_line_stays(tmp_path, caplog):
    root = write(
        tmp_path, {"m.jsonl": jsonl({"audio": "a.wav", "text": "nuqneH", "lang": "Klingonisch"})}
    )
    with caplog.at_level(logging.WARNING):
        found, refused = read(root / "m.jsonl")
    assert ([one.language for one in found], refused) == ([""], [])
    assert [
        ("Klingonisch" in line, "no language were given" in line) for line in caplog.messages
    ] == [(True, True)]


def table(tmp_path, text, name="t.csv"):
    return write(tmp_path, {name: text}) / name


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_all_columns(tmp_path, separator, mark, end):
    rows = [
        ["Speaker", "text", " AUDIO File ", "Utt-ID", "start", "end", "note", "channel"],
        ["anna", "One two", "wavs/a b.wav", "u 1", "0.5", "2", "x", "2.0"],
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


def test_common_voice(tmp_path):
    rows = (
        'client_id\tpath\tsentence\tup_votes\n8f\tcv_1.mp3\t"Hello," she said.\t2\n8f\tcv_2.mp3\tSo'
        ' "what?\t2\n'
    )
    write(tmp_path, {"clips/cv_1.mp3": "", "cv_2.mp3": "", "clips/cv_2.mp3": ""})
    found, refused = read(
        table(tmp_path, rows + '9a\tcv_3.mp3\t"Never closed\t1\n9b\tcv_4.mp3\tlast\t1\n', "v.tsv")
    )
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


@pytest.mark.parametrize(
    ("lines", "text", "speaker"),
    [
        ("LJ001-0001|In 1980|In nineteen eighty\nLJ001-0002|So be it.|So be it.", "In nineteen eighty", ""),
        ("LJ001-0001|Of Dr. Who\nLJ001-0002|So be it.", "Of Dr. Who", ""),
        ("LJ001-0001|Of Dr. Who|\nLJ001-0002|So be it.|So", "Of Dr. Who", ""),
        ("LJ001-0001|p225|Of Dr. Who and more\nLJ001-0002|p226|So be it.", "Of Dr. Who and more", "p225"),
        ("wavs/LJ001-0001.wav|7|Of \"Dr. Who and\nLJ001-0002|7|So be it.", 'Of "Dr. Who and', "7"),
        ("audio_file|text|speaker_name\nLJ001-0001|Of Dr. Who|kim\nLJ001-0002|So.|kim", "Of Dr. Who", "kim"),
    ],
)  # fmt: skip
def test_lists_of_speech_corpora(tmp_path, lines, text, speaker):
    write(
        tmp_path,
        {"wavs/LJ001-0001.wav": "", "wavs/LJ001-0002.flac": "", "metadata.csv": lines + "\n"},
    )
    found, refused = read(tmp_path / "metadata.csv")
    assert refused == []
    assert [utterance.id for utterance in found] == ["LJ001-0001", "LJ001-0002"]
    assert [utterance.audio for utterance in found] == [
        f"{tmp_path}/wavs/LJ001-0001.wav",
        f"{tmp_path}/wavs/LJ001-0002.flac",
    ]
    assert (found[0].text, found[0].speaker or "") == (text, speaker)


def test_bad_lines_of_lists_are_refused_alone(tmp_path):
    good = "LJ-1|Of Dr. Who|Of Doctor Who\nLJ-2|So be it.|So be it.\n"
    write(tmp_path, {"wavs/LJ-1.wav": "", "wavs/LJ-2.flac": "", "wavs/LJ-4.wav": ""})
    for bad, reason in {
        "LJ-4": "the text",
        "||": "the audio",
        "LJ-1|a|b|c": "4 columns, but others have 3",
        "LJ-3|So.|So.": (
            "'LJ-3' with .wav .flac .mp3 .ogg .opus, beside the table or in clips wavs wav"
        ),
    }.items():
        for lines in (good + bad, good[:-25] + bad + "\n" + good[-25:]):
            write(tmp_path, {"metadata.csv": lines})
            found, [refused] = read(tmp_path / "metadata.csv")
            assert [utterance.text for utterance in found] == ["Of Doctor Who", "So be it."]
            assert reason in refused.reason
    for lines, got in {
        "id|text|normalized\n": (
            r"a header without a column for the audio, one of audio_filepath .* omit this line"
        ),
        "LJ-1|a|b|c\nLJ-2|a|b|c\n": "with 4 columns .lists have 2 or 3.",
    }.items():
        write(tmp_path, {"metadata.csv": lines + good[:30]})
        with pytest.raises(UsageError, match=got):
            read(tmp_path / "metadata.csv")


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
    assert [item.origin for item in refused] == [
        "t.csv, line 2",
        "t.csv, line 1003",
        "t.csv, line 2004",
    ]
    assert all("expected a row of CSV" in item.reason for item in refused)


CELLS = st.text(
    st.sampled_from("ab ,;\t\"'é\n") | st.characters(exclude_categories=["Cs", "Cc"]), max_size=8
)
WORDS = CELLS.map(lambda cell: f"w{cell}w")


@given(
    st.lists(st.tuples(WORDS, CELLS, WORDS), min_size=1, max_size=6),
    st.sampled_from(",;\t"),
    st.booleans(),
)
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
    expected = [
        (f"u{number}", f"{tmp_path}/{audio}", text) for number, (audio, _, text) in enumerate(rows)
    ]
    assert [(utterance.id, utterance.audio, utterance.text) for utterance in found] == expected


BAD_ROWS = [
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


@pytest.mark.parametrize(("row", "reason"), BAD_ROWS)
def test_a_bad_row_is_refused_and_the_next_is_read(tmp_path, row, reason):
    row = row if isinstance(row, bytes) else row.encode()
    content = (
        b"audio,text,id,start,end,duration,channel\na.wav,one,first\n"
        + row
        + b"\n\nb.wav,two,last,,,,\n"
    )
    found, refused = read(table(tmp_path, content))
    assert [utterance.id for utterance in found] == ["first", "last"]
    assert [item.origin for item in refused] == ["t.csv, line 3"]
    assert reason in refused[0].reason


def test_a_header_alone_is_an_empty_corpus(tmp_path):
    with pytest.raises(UsageError, match="empty"):
        open_source(table(tmp_path, "audio,text\n"))


@pytest.mark.parametrize("kind", [None, "table"])
@pytest.mark.parametrize(
    "text", ["a.wav,one\n", "audio,words\na.wav,one\n", "name|text\n", "text\nx\n"]
)
def test_a_header_that_is_none_is_a_wrong_call(tmp_path, text, kind):
    with pytest.raises(UsageError) as caught:
        open_source(table(tmp_path, text), kind)
    assert "header" in str(caught.value)
    assert text.split("\n")[0] in str(caught.value)


def test_stray_quotes_are_not_looked_at_again_and_again(tmp_path, monkeypatch):
    count, parsed = 2000, 0
    rows = [
        f'{number}.wav,"open {number}\n' if number % 3 else "x.wav,y\n" for number in range(count)
    ]
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


SUPERVISION = {
    "id": "sup-1",
    "start": 0.0,
    "duration": 4.2,
    "channel": 0,
    "text": "One.",
    "speaker": "a",
}
RECORDING = {
    "id": "rec",
    "sampling_rate": 16000,
    "num_samples": 160000,
    "duration": 10.0,
    "channel_ids": [0],
}
RECORDING["sources"] = [{"type": "file", "channels": [0], "source": "wavs/rec 1.flac"}]
CUT = {
    "id": "cut-1",
    "type": "MonoCut",
    "start": 0,
    "duration": 10.0,
    "channel": 0,
    "recording": RECORDING,
}
CUT["supervisions"] = [SUPERVISION]


def changed(path: str = "", value: object = None, **cut: object) -> dict:
    """CUT with the value at "supervisions.0.text" or the like put in the place of what is there."""
    result = copy.deepcopy(CUT) | cut
    if path:
        *way, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        inner = result
        for key in way:
            inner = inner[key]
        inner[last] = value
    return result


def cuts(tmp_path, *rows):
    return write(tmp_path, {"cuts.jsonl": jsonl(*rows)}) / "cuts.jsonl"


def test_a_cut(tmp_path):
    path = cuts(tmp_path, CUT)
    found, refused = read(path)
    assert refused == []
    audio = f"{tmp_path}/wavs/rec 1.flac"
    assert found == [
        Utterance(
            "sup-1", "sup-1", audio, "One.", "cuts.jsonl, line 1", duration_s=4.2, speaker="a"
        )
    ]
    source = open_source(path)
    assert (source.kind, source.files) == ("lhotse", (str(path),))
    write(tmp_path, {"cuts.jsonl.gz": gzip.compress(path.read_bytes())})
    assert read(tmp_path / "cuts.jsonl.gz", "lhotse")[0][0].text == "One."


def test_several_supervisions_are_several_utterances(tmp_path):
    first = CUT["supervisions"][0]
    several = [first, first | {"id": "sup-2", "start": 1.1, "duration": 0.2, "text": "Two."}]
    several += [
        {"start": -0.5, "duration": 1, "text": "before the cut"},
        {"start": 2, "duration": 1, "text": ""},
    ]
    found, refused = read(cuts(tmp_path, changed(start=2.2, supervisions=several)))
    assert [(utterance.id, utterance.offset_s, utterance.duration_s) for utterance in found] == [
        ("sup-1", 2.2, 4.2),
        ("sup-2", 3.3, 0.2),
        ("cut-1", 1.7, 1.0),
    ]
    assert [(item.id, item.origin) for item in refused] == [
        ("cut-1-2", "cuts.jsonl, line 1, supervision 4")
    ]


def test_channels(tmp_path):
    stereo = [{"type": "file", "channels": [0, 1], "source": "a.wav"}]
    two = [
        {"type": "file", "channels": [0], "source": "l.wav"},
        {"type": "file", "channels": [1], "source": "r.wav"},
    ]
    rows = [
        changed("recording.sources", stereo, channel=0),
        changed("recording.sources", stereo, type="MultiCut"),
    ]
    rows[0]["supervisions"][0]["channel"] = 1
    rows[1]["supervisions"][0] |= {"channel": [0, 1], "id": "both"}
    rows.append(changed("recording.sources", two))
    rows[2]["supervisions"][0] |= {"channel": 1, "id": "right"}
    rows.append(changed("recording.sources", two))
    rows[3]["supervisions"][0] |= {"channel": [0, 1], "id": "parted"}
    found, refused = read(cuts(tmp_path, *rows))
    assert [
        (utterance.id, utterance.audio[len(str(tmp_path)) :], utterance.channel)
        for utterance in found
    ] == [
        ("sup-1", "/a.wav", 2),
        ("both", "/a.wav", None),
        ("right", "/r.wav", None),
    ]
    assert [item.id for item in refused] == ["parted"]


BAD_CUTS = [
    (changed("recording.sources.0.type", "command"), "nothing is run or fetched"),
    (changed("recording.sources.0.type", "url"), "nothing is run or fetched"),
    (changed("recording.sources.0.source", "https://x/a.wav"), "nothing is fetched"),
    (changed("recording.sources.0.source", ["a.wav"]), "a list"),
    (changed("recording.sources", []), "list of sources"),
    (changed("recording.sources", ["a.wav"]), "list of sources"),
    (changed("recording.transforms", [{"name": "Speed", "kwargs": {"factor": 1.1}}]), "transforms"),
    (changed(recording=None), "recording"),
    (changed(type="MixedCut", tracks=[]), "MixedCut"),
    (changed(type="PaddingCut"), "PaddingCut"),
    (changed(type="Other"), "Other"),
    (changed(supervisions=[]), "no transcript"),
    (changed(supervisions=None), "no transcript"),
    (changed(supervisions=["x"]), "got a string"),
    (changed("supervisions.0.text", None), "text"),
    (changed("supervisions.0.text", " "), "empty"),
    (changed("supervisions.0.text", 5), "got a number"),
    (changed("supervisions.0.duration", 0), "more than 0"),
    (changed("supervisions.0.duration", "3"), "number of seconds, got '3'"),
    (changed("supervisions.0.start", -5), "inside its recording"),
    (changed("supervisions.0.start", 8), "inside its recording"),
    (changed("supervisions.0.start", float("nan")), "NaN"),
    (changed(start=-1), "0 or more"),
    (changed(start="0"), "number of seconds"),
    (changed("supervisions.0.channel", "left"), "numbers from 0"),
    (changed("supervisions.0.id", ""), "an id"),
    (changed(id=["x"]), "got a list"),
]


@pytest.mark.parametrize(("row", "reason"), BAD_CUTS)
def test_what_is_no_utterance_is_refused_and_the_next_is_read(tmp_path, row, reason):
    good = [changed("supervisions.0.id", name) for name in ("first", "last")]
    found, refused = read(cuts(tmp_path, good[0], row, good[1]))
    assert [utterance.id for utterance in found] == ["first", "last"]
    assert [item.origin for item in refused] == ["cuts.jsonl, line 2"]
    assert reason in refused[0].reason


def test_rounding_is_forgiven(tmp_path):
    rows = [changed("supervisions.0", {"id": "a", "start": -0.004, "duration": 2.0, "text": "x"})]
    rows.append(
        changed("supervisions.0", {"id": "b", "start": 5.0, "duration": 5.004, "text": "x"})
    )
    found, refused = read(cuts(tmp_path, *rows))
    assert refused == []
    assert [(utterance.offset_s, utterance.duration_s) for utterance in found] == [
        (0.0, 1.996),
        (5.0, 5.0),
    ]


def test_cuts_and_manifests_are_told_apart(tmp_path):
    row = {"audio": "a.wav", "text": "one", "recording": "r1", "type": "read"}
    path = write(tmp_path, {"m.jsonl": jsonl(row), "c.jsonl": jsonl(CUT)})
    assert open_source(path / "m.jsonl").kind == "manifest"
    with pytest.raises(UsageError, match="give --source manifest"):
        open_source(path / "m.jsonl", "lhotse")
    with pytest.raises(UsageError, match="give --source lhotse"):
        open_source(path / "c.jsonl", "manifest")
