from __future__ import annotations

import gzip
import json
import logging
import os
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from made_sources import jsonl, read, write

from ctc_align.corpus.sources import open_source, with_channel
from ctc_align.corpus.sources.manifest_files import COLUMNS, KEYS
from ctc_align.corpus.state.resume import Fingerprints
from ctc_align.corpus.utterance import Utterance
from ctc_align.errors import UsageError
from ctc_align.types import Transcript

GOOD = {"audio_filepath": "a.wav", "text": "one"}


def manifest(tmp_path, *rows, name="train.jsonl"):
    return write(tmp_path, {name: "".join(row if isinstance(row, str) else jsonl(row) for row in rows)}) / name


def test_all_keys(tmp_path):
    everything = {"audio_filepath": "wavs/a.wav", "text": " One two. ", "utterance": "spk/é 1", "duration": 2.5}
    everything |= {"offset": 1, "speaker": "anna", "channel": 2, "something": {"else": [1]}}
    path = manifest(
        tmp_path,
        everything,
        {"audio": "/abs/b.flac", "duration_s": 3, "texts": ["best", "second"], "speaker": 17},
        {"audio": "c.wav", "text": "given", "texts": ["best", "second"]},
        {"audio": "d.wav", "texts": ["only"], "utterance": None, "duration": None, "offset": None, "speaker": None},
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
    path = manifest(tmp_path, {"audio": "first.wav", "text": "x"}, row, "\n", {"audio": "last.wav", "text": "y"})
    found, refused = read(path)
    assert [utterance.id for utterance in found] == ["first", "last"]
    assert len(refused) == 1
    assert refused[0].origin == "train.jsonl, line 2"
    assert reason in refused[0].reason
    assert len(refused[0].reason) < 400


def test_refusals_go_by_the_name_that_the_line_has(tmp_path):
    path = manifest(tmp_path, GOOD, {**GOOD, "utterance": "named", "text": ""}, {**GOOD, "text": ""}, "nothing\n")
    _, refused = read(path)
    assert [item.id for item in refused] == ["named", "a-2", "train.jsonl, line 4"]


def test_bytes_that_are_not_utf8(tmp_path):
    bad = json.dumps({"audio": "b.wav", "text": "ä"}, ensure_ascii=False).encode("latin-1")
    path = write(tmp_path, {"m.jsonl": b"\xef\xbb\xbf" + jsonl(GOOD).encode() + bad + b"\r\n" + jsonl(GOOD).encode()})
    found, refused = read(path / "m.jsonl")
    assert [utterance.id for utterance in found] == ["a", "a-2"]
    assert [item.origin for item in refused] == ["m.jsonl, line 2"]
    assert "byte 0xe4" in refused[0].reason


def test_stems_are_made_unique_and_explicit_ids_may_not_take_them(tmp_path):
    rows = [{"audio": f"{folder}/x.wav", "text": "t"} for folder in "abc"]
    rows += [{"audio": "d/y.wav", "text": "t", "utterance": "x-2"}, {"audio": "x-2.wav", "text": "t"}]
    rows += [{"audio": "d/y.wav", "text": "t", "utterance": "x-4"}, {"audio": "e/x.wav", "text": "t"}]
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
    names = ['it\'s "so".wav', "../up/x y.wav", "ünï/日本.wav", "cat a.wav |", "$(touch evil).wav", "-"]
    path = manifest(tmp_path, *({"audio": name, "text": "t"} for name in names), name="sub/train é.jsonl")
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
    assert "cut or damaged" in refused[0].reason


def test_a_line_without_end_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("ctc_align.corpus.sources.source.MAX_LINE_BYTES", 2**20)
    long = '{"audio": "b.wav", "text": "' + "x" * (20 * 2**20) + '"}'
    path = manifest(tmp_path, GOOD, long + "\n", GOOD, long)
    tracemalloc.start()
    source = open_source(path)
    items = list(source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [type(item).__name__ for item in items] == ["Utterance", "Refused", "Utterance", "Refused"]
    assert [item.origin[-1] for item in items] == list("1234")
    assert peak < 6 * 2**20


@pytest.mark.long
def test_a_large_manifest_is_streamed(tmp_path):
    """Of many lines 16 bytes a slot of the table are all that stay (and half as much again while it grows)."""
    path = tmp_path / "m.jsonl"
    count = 50_000
    with open(path, "w") as file:
        for number in range(count):
            file.write(f'{{"audio": "f/{number}.wav", "text": "{"word " * 40}", "utterance": "utterance {number}"}}\n')
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
    rows = [{"audio": "a.wav", "text": "a"}, {"audio": "b.wav", "text": "b", "channel": 1}, {"audio": "c.wav"}]
    path = tmp_path / "m.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    source = with_channel(open_source(path), 2)
    assert (source.kind, source.name) == ("manifest", str(path))
    assert [getattr(entry, "channel", "refused") for entry in source] == [2, 1, "refused"]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"wav": "a.wav", "text": "one", "duration": 1, "language": "de"}, "did you mean audio_filepath by 'wav'?"),
        ({"audio": "a.wav", "transcription": "one"}, "did you mean text by 'transcription'?"),
        ({"audio_filepth": "a.wav", "text": "one"}, "did you mean audio_filepath by 'audio_filepth'?"),
    ],
)
def test_a_missing_key_is_told_with_all_that_are_there(tmp_path, row, says):
    reason = read(manifest(tmp_path, row, GOOD))[1][0].reason
    assert f"got {', '.join(map(repr, sorted(row)))}; {says}" in reason


def test_the_page_lists_the_keys_of_manifests_and_the_columns_of_tables():
    text = (Path(__file__).resolve().parents[2] / "docs" / "corpora.md").read_text("utf-8")
    rows = re.findall(r"^\| `?(\w+)`? \| ([^|]*) \| ([^|]*) \|[^|]*\|$", text.partition("## What a line has")[2], re.M)
    listed = {what: [re.findall("`([^`]+)`", cell) for cell in cells] for what, *cells in rows if what != "Value"}
    assert list(listed) == list(COLUMNS)
    assert {what: keys for what, (keys, _) in listed.items() if keys} == {w: list(k) for w, k in KEYS.items()}
    assert {what: columns for what, (_, columns) in listed.items()} == {w: list(c) for w, c in COLUMNS.items()}


LANGUAGES = (
    {"audio": "a.wav", "text": "ja", "language": "German"},
    {"audio": "b.wav", "text": "ja", "locale": "fy-NL"},
    {"audio": "c.wav", "text": "ja", "lang": None, "language": 7},
)


def cut_in(name: str, language: str | None) -> dict[str, object]:
    sources = [{"type": "file", "source": f"{name}.wav", "channels": [0]}]
    supervision = {"id": name, "start": 0, "duration": 1.0, "text": "ja", "language": language}
    return {"id": name, "recording": {"sources": sources, "duration": 2.0}, "supervisions": [supervision]}


SOURCES = {
    "manifest.jsonl": jsonl(*LANGUAGES),
    "table.tsv": "path\tsentence\tlocale\na.wav\tja\tde\nb.wav\tja\tfy-NL\nc.wav\tja\t\n",
    "cuts.jsonl": jsonl(cut_in("a", "de"), cut_in("b", "fy-NL"), cut_in("c", None)),
    "kaldi": {"wav.scp": "a a.wav\nb b.wav\nc c.wav\n", "text": "a ja\nb ja\nc ja\n", "utt2lang": "a de\nb fy-NL\n"},
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_kind_of_source_may_say_the_language(name: str, tmp_path: Path) -> None:
    content = SOURCES[name]
    root = write(tmp_path / name, content) if isinstance(content, dict) else write(tmp_path, {name: content}) / name
    found, refused = read(root)
    assert refused == []
    assert [one.language for one in found] == ["de", "fy-NL", ""]
    assert [one.spoken for one in found] == [Transcript("ja", language="de"), Transcript("ja", language="fy-NL"), "ja"]
    marks = {Fingerprints("run").of(replace(found[0], language=language)) for language in ("", "de", "nl")}
    assert len(marks) == 3


def test_a_language_that_nothing_knows_is_told_and_the_line_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = write(tmp_path, {"m.jsonl": jsonl({"audio": "a.wav", "text": "nuqneH", "lang": "Klingonisch"})})
    with caplog.at_level(logging.WARNING):
        found, refused = read(root / "m.jsonl")
    assert ([one.language for one in found], refused) == ([""], [])
    assert [("Klingonisch" in line, "no language were given" in line) for line in caplog.messages] == [(True, True)]
