"""Nothing that a source says ends a run: what cannot be is refused under its name, and the others
are there."""

from __future__ import annotations

import gzip
import json
import os
import socket
from pathlib import Path

import pytest
from rows import over_rows

from ctc_align.errors import CtcAlignError, UsageError
from ctc_align.evaluate.corrected_labels import OUTPUT
from ctc_align.evaluate.utterance_files import open_source as alignments_in
from ctc_align.evaluate.utterance_files import read_intervals
from ctc_align.sources import open_source
from ctc_align.sources.utterance import Refused, Utterance

LONG = "9" * 5000
NUMBERS = ("1e999", "-1e999", "1e400", "-1", "1e300", "9" * 400, LONG)
DEEP = "[" * 100_000
GRID = (
    '"ooTextFile" "TextGrid" {xmin} {xmax} <exists> {size} "{kind}" "words" 0 2 {count} {start}'
    ' {end} "hello"\n'
)
SOUND = {
    "xmin": "0",
    "xmax": "2",
    "size": "1",
    "kind": "IntervalTier",
    "count": "1",
    "start": "0",
    "end": "1",
}


def entries(path: Path, kind: str | None = None) -> tuple[list[str], list[Refused]]:
    """Return the ids of a source's utterances, and its refusals."""
    items = list(open_source(path, kind))
    refused = [item for item in items if isinstance(item, Refused)]
    assert all("\n" not in item.reason and item.reason and item.origin for item in refused)
    return [item.id for item in items if isinstance(item, Utterance)], refused


@over_rows(
    ("field", "value"), [(field, value) for field in SOUND if field != "kind" for value in NUMBERS]
)
def test_a_textgrid_of_a_folder(tmp_path_factory, field: str, value: str):
    """The recording fails with the file's name and line, or is read; the one beside it is there."""
    root = tmp_path_factory.mktemp("folder")
    for name in ("a.wav", "b.wav"):
        (root / name).write_bytes(b"RIFF")
    (root / "b.txt").write_text("hello")
    (root / "a.TextGrid").write_text(GRID.format(**SOUND | {field: value}))
    done, refused = entries(root)
    assert done[-1:] == ["b"]
    assert [item.origin.partition(",")[0] for item in refused] == ["a.TextGrid"] * (2 - len(done))
    assert refused or value == "-1", "times before the start of a recording are times"
    [read] = alignments_in(root, "words", None, OUTPUT).utterances.values()
    if value != "-1":
        with pytest.raises(CtcAlignError, match=r"a\.TextGrid:"):
            read()


MANIFEST = {
    "audio_filepath": "a.wav",
    "text": "a",
    "utterance": "u",
    "duration": 2.0,
    "offset": 0.0,
    "channel": 1,
}
LINES = [
    ('"duration": 2.0', f'"duration": {value}')
    for value in (*NUMBERS, "NaN", "Infinity", "true", '"1"', "[1]", DEEP)
]
LINES += [
    ('"offset": 0.0', f'"offset": {value}') for value in (*NUMBERS, "-Infinity", "{}", '"x"', DEEP)
]
LINES += [
    ('"channel": 1', f'"channel": {value}')
    for value in ("0", "-1", "1e999", "1.5", "9" * 400, LONG, '"1"')
]
LINES += [
    ('"utterance": "u"', f'"utterance": {value}') for value in (LONG, DEEP, '"\\ud800"', "1e999")
]
LINES += [('"text": "a"', f'"text": {value}') for value in (LONG, DEEP, '"\\ud800"', "1", "null")]
LINES += [
    ('"audio_filepath": "a.wav"', f'"audio_filepath": {value}')
    for value in ('"a\\u0000b"', LONG, '"\\udfff"')
]


@over_rows(("old", "new"), LINES)
def test_a_line_of_a_manifest(tmp_path_factory, old: str, new: str):
    path = tmp_path_factory.mktemp("manifest") / "m.jsonl"
    path.write_text(
        json.dumps(MANIFEST).replace(old, new)
        + '\n{"audio": "b.wav", "text": "b", "utterance": "after"}\n'
    )
    done, refused = entries(path, "manifest")
    assert done == ["after"]
    assert [item.origin for item in refused] == ["m.jsonl, line 1"]


@over_rows("value", [*NUMBERS, "nan", "inf", "1e", "x", "0x10", "١e999", LONG + ".5"])
def test_a_row_of_a_table_and_of_kaldi(tmp_path_factory, value: str):
    root = tmp_path_factory.mktemp("table")
    for column in ("start", "duration", "end", "channel"):
        (root / "t.csv").write_text(f"audio,text,{column}\na.wav,a,{value}\nb.wav,b,\n")
        done, refused = entries(root / "t.csv")
        assert (done, [item.origin for item in refused]) == (["b"], ["t.csv, line 2"])
    (root / "wav.scp").write_text("r a.wav\n")
    (root / "text").write_text("u a\nv b\n")
    for fields in (f"{value} 2", f"0 {value}", f"0 2 {value}"):
        (root / "segments").write_text(f"u r {fields}\nv r 0 1\n")
        done, refused = entries(root, "kaldi")
        rest = ["u"] if fields == "0 -1" else []  # Kaldi's way to say: to the end
        assert (done, [item.origin for item in refused]) == (
            [*rest, "v"],
            ["segments, line 1"][len(rest) :],
        )


CUT = (
    '{"id": "c", "type": "MonoCut", "start": 0, "channel": 0, "recording": {"duration": 9,'
    ' "sources": [{"type": "file", "source": "a.wav", "channels": [0]}]}, "supervisions": [{"id":'
    ' "u", "start": 0, "duration": 1, "text": "a"}]}'
)
CUTS = [
    (place, value)
    for place in ('"start": 0', '"duration": 9', '"duration": 1')
    for value in (*NUMBERS, DEEP)
]
CUTS += [('"channels": [0]', value) for value in ("[1e999]", "[3, 4]", LONG, "[-1]", DEEP)]
CUTS += [('"type": "MonoCut"', value) for value in ("[]", "{}", DEEP, LONG, "1e999")]
CUTS += [('"type": "file"', value) for value in ("[]", "{}", LONG)]


@over_rows(("place", "value"), CUTS)
def test_a_cut(tmp_path_factory, place: str, value: str):
    path = tmp_path_factory.mktemp("cuts") / "cuts.jsonl"
    hostile = CUT.replace(place, f"{place.partition(':')[0]}: {value}")
    path.write_text(hostile + "\n" + CUT.replace('"u"', '"after"') + "\n")
    done, refused = entries(path, "lhotse")
    assert done == (
        ["u", "after"] if value == "-1" and "start" in place and not refused else ["after"]
    )
    assert {item.origin for item in refused} <= {"cuts.jsonl, line 1"}


def not_regular(folder: Path, name: str, kind: str) -> Path:
    """Make what is no regular file."""
    path = folder / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(os.path.relpath(path))
    return path


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@over_rows(
    ("name", "kind"),
    [(n, k) for n in ("a.TextGrid", "a.json", "a.ctm") for k in ("pipe", "device", "socket")],
)
def test_alignments_that_are_no_files(tmp_path_factory, monkeypatch, name: str, kind: str):
    """A pipe in a folder of alignments fails under its name, and is never waited for."""
    folder = tmp_path_factory.mktemp("alignments")
    monkeypatch.chdir(folder)
    path = not_regular(folder, name, kind)
    (folder / "b.TextGrid").write_text(GRID.format(**SOUND))
    source = alignments_in(folder, "words", None, OUTPUT)
    reasons = [reason for _, reason in source.failures]
    for read in source.utterances.values():
        try:
            read()
        except CtcAlignError as error:
            reasons.append(str(error))
    assert len(reasons) == 1
    assert "expected a regular file" in reasons[0]
    with pytest.raises(CtcAlignError, match="expected a regular file"):
        read_intervals(path)


def test_a_packed_file_of_a_kaldi_folder_is_named(tmp_path: Path):
    """Its lines are looked up by their place, which a packed file does not have."""
    (tmp_path / "wav.scp").write_text("u a.wav\n")
    (tmp_path / "text").write_bytes(gzip.compress(b"u hello\nv world\n"))
    with pytest.raises(UsageError, match="text: expected a text file, got a gzip archive"):
        open_source(tmp_path, "kaldi")
    (tmp_path / "text").write_text("u hello\n")
    os.mkfifo(tmp_path / "segments")
    with pytest.raises(
        UsageError, match="segments: expected segments of a Kaldi data folder, got a pipe"
    ):
        open_source(tmp_path, "kaldi")


def test_a_small_packed_file_of_endless_text_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A line that does not end, and blank lines that do not, are told and left; what came before is
    there."""
    monkeypatch.setattr("ctc_align.sources.source.MAX_LINE_BYTES", 2**10)
    monkeypatch.setattr("ctc_align.sources.source._MOST_SKIPPED", 2**12)
    monkeypatch.setattr("ctc_align.sources.source._MOST_BLANK", 100)
    first = b'{"audio": "a.wav", "text": "a"}\n'
    for endless in (b"x" * 2**14, b"\n" * 101 + first):
        (tmp_path / "m.jsonl").write_bytes(
            gzip.compress(first + b"y" * 2**11 + b"\n" + first + endless)
        )
        done, refused = entries(tmp_path / "m.jsonl", "manifest")
        assert done == ["a", "a-2"]
        assert [item.reason.partition(":")[0] for item in refused] == [
            "expected a line of text, got one of more than 0 MiB",
            "the file cannot be read from here on",
        ]
