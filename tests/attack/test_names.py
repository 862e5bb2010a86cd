"""Hostile names and texts through commands: nothing is obeyed, nothing lands outside, and all that
is written parses.

Seeded; the plain suite takes the first cases. For hours: `HOSTILE_CASES=100000 pytest
tests/attack/test_names.py`.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
import re
import sys
import unicodedata
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import corpus_runs as runs
import pytest
from inline_corpus import inline_corpus  # noqa: F401 (a fixture)
from praatio import textgrid as praatio
from subtitle_checks import read_srt, read_vtt

from ctc_align.cli import run

CASES = int(os.environ.get("HOSTILE_CASES", "64"))
"""Names and texts in all; a corpus takes twenty of them."""
EACH = 20
FORMATS = "json,ctm,textgrid,srt,vtt,tsv,audacity,eaf"
PIECES = (
    *(
        "\x1b[2J",
        "\x1b]0;x\x07",
        "\x9b31m",
        "\x08",
        "\r",
        "\n",
        "\t",
        "\0",
        "\x7f",
        "\x85",
        "\x1c",
        "\u2028",
        "\u202e",
    ),
    *(
        "\u2066",
        "\u200f",
        "\ufeff",
        "\ufffe",
        "\U000e0041",
        "\udcff",
        "\ud800",
        "e\u0301",
        "\u00e9",
        "ﬁ",
        "İ",
        "ß",
    ),
    *("=1+1", "@SUM(1)", "+cmd|'/c calc'!A0", "-2+3", "\t=x", "'=x"),
    *('"', "'", "\\", "`id`", "$(id)", ";rm", "%s", "{0}"),
    *(
        "<b>",
        "</b>",
        "<script>alert(1)</script>",
        "&lt;b&gt;",
        "{\\an8}",
        "[bold]",
        "[/red]",
        "-->",
        "1\n00:00:01,000",
    ),
    *(
        "..",
        "../",
        "/",
        "//",
        "/etc/passwd",
        "~",
        "C:",
        "CON",
        ".",
        " ",
        "x ",
        "x.",
        "-",
        "--force",
        "-rf",
        "*",
        "?",
    ),
    *(
        ".json",
        ".ctc-align-spool",
        "journal.jsonl",
        "summary",
        "word",
        "two words",
        "日本",
        "שלום",
        "😀",
        "x" * 300,
    ),
)
TIMES = re.compile(r"^\d\d:\d\d:\d\d[,.]\d{3} --> \d\d:\d\d:\d\d[,.]\d{3}$", re.MULTILINE)
DIRECTIONS = set(
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\u2028\u2029"
)


def hostile(chance: random.Random) -> str:
    return "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 4)))


def file_name(chance: random.Random) -> str:
    """A name that a file can have."""
    name = re.sub("[/\0]|[\ud800-\udbff]", "_", hostile(chance)).encode("utf-8", "surrogateescape")[
        :200
    ]
    return name.decode("utf-8", "surrogateescape").strip(".") or "x"


def obeyed(text: str, allowed: str = "\n") -> list[str]:
    """The characters that a terminal would obey."""
    return [
        c
        for c in text
        if c not in allowed and (unicodedata.category(c) in ("Cc", "Cs") or c in DIRECTIONS)
    ]


def called(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> int:
    """Run a command; what it prints must be harmless."""
    code = run(arguments)
    said = capsys.readouterr()
    assert obeyed(said.err) == [], ascii(said.err)
    # a file's content, to a pipe: marks of direction are what the text has
    assert obeyed(said.out, "\n\t" + "".join(DIRECTIONS) * ("--stdout" in arguments)) == [], ascii(
        said.out
    )
    assert "Traceback" not in said.err
    assert code in (0, 1, 2, 3)
    return code


def check_file(path: Path, keeps_cues: bool = False) -> None:
    """Parse a file with a parser that is not ours, and look for what it must not hold.

    Subtitles that are those of a source again have its own header, names and markup.
    """
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if path.suffix == ".flac":
        return
    text = data.decode("utf-8")
    assert [c for c in text if unicodedata.category(c) == "Cc" and c not in "\n\t"] == [], ascii(
        path.name
    )
    name = path.name
    if (
        name.startswith(("journal", "alignments")) and name.endswith((".jsonl", ".jsonl.gz"))
    ) or ".nemo." in name:
        assert all(isinstance(json.loads(line), dict) for line in text.split("\n")[:-1])
    elif name.endswith(".json"):
        assert isinstance(json.loads(text), dict)
    elif name.endswith(".ctm"):
        rows = [line.split() for line in text.split("\n")[:-1] if not line.startswith(";;")]
        assert all(len(row) == 6 and float(row[3]) >= 0 for row in rows)
    elif name.endswith(".TextGrid"):
        grid = praatio.openTextgrid(str(path), includeEmptyIntervals=False)
        assert len(grid.tierNames) >= 2
    elif name.endswith((".srt", ".vtt")) and keeps_cues:
        assert " --> " in text
    elif name.endswith(".srt"):
        assert len(read_srt(text)) == len(TIMES.findall(text))
        assert not re.search(r"</?(?:b|script)\b[^<>]*>|\{\\[^{}]*\}", text)
    elif name.endswith(".vtt"):
        assert len(read_vtt(text)) == len(TIMES.findall(text))
    elif name.endswith(".tsv"):
        table = list(csv.reader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE))
        assert {len(row) for row in table} == {6}
        assert not [
            row for row in table[1:] if re.match(r"[=@]|[+-](?!\d+(\.\d+)*%?$)(?=.)", row[2])
        ]
    elif name.endswith(".eaf"):
        assert len(list(ElementTree.fromstring(data).iter("TIER"))) >= 2
    elif name.endswith(".audacity.txt"):
        assert all(len(line.split("\t")) == 3 for line in text.split("\n")[:-1])


def tree(folder: Path, *, without: str) -> dict[str, bytes]:
    files = [
        path
        for path in folder.rglob("*")
        if path.is_file() and without not in path.relative_to(folder).parts
    ]
    return {str(path): path.read_bytes() for path in files}


@pytest.mark.parametrize("layout", ["files", "shards"])
def test_a_hostile_corpus(layout, tmp_path, monkeypatch, capsys, inline_corpus):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    chance = random.Random(f"corpus {layout}")
    sound = runs.write_clip(tmp_path / "clip.wav", 0.3)
    for number in range(max(1, CASES // EACH // 2)):
        rows: list[dict[str, Any]] = []
        for _ in range(EACH):
            name = file_name(chance)
            if not (tmp_path / "in" / f"{name}.wav").exists():
                (tmp_path / "in").mkdir(exist_ok=True)
                (tmp_path / "in" / f"{name}.wav").write_bytes(sound.read_bytes())
            audio = chance.choice([str(sound), f"in/{name}.wav", f"none {hostile(chance)}"])
            row = {
                "audio_filepath": audio,
                "text": f"one {hostile(chance)}",
                "utterance": hostile(chance),
            }
            rows.append(row if chance.random() < 0.5 else {**row, "speaker": hostile(chance)})
        source = runs.write_manifest(tmp_path / f"{number}.jsonl", rows)
        before = tree(tmp_path, without="out")
        formats = FORMATS if layout == "files" else "json,ctm"
        options = ["--layout", layout, "--format", formats, "--manifest", "nemo"]
        called(["corpus", str(source), "--out-dir", f"out/{number}", *options], capsys)
        called(["corpus", "--summary", f"out/{number}"], capsys)
        assert tree(tmp_path, without="out") == before
        for path in (tmp_path / "out" / str(number)).rglob("*"):
            if path.is_file():
                check_file(path)


def transcript_of(chance: random.Random) -> tuple[str, bytes]:
    """An extension and a transcript: text, or subtitles full of what subtitles have."""
    text = f"Hello {hostile(chance)} there {hostile(chance)}".replace("\0", "")
    kind = chance.choice([".txt", ".srt", ".vtt", ".json", "", ".TextGrid"])
    if kind == ".srt":
        text = f"1\n00:00:00,100 --> 00:00:00,300 {hostile(chance)}\n{text}\n\n"
    if kind == ".vtt":
        text = f"WEBVTT {hostile(chance)}\n\n{hostile(chance)}\n00:00.100 --> 00:00.300\n{text}\n"
    return kind, text.encode("utf-8", chance.choice(["replace", "surrogatepass"]))


def test_hostile_files(tmp_path, monkeypatch, capsys, english):
    """One recording and its transcript, by every name; what was written is scored and evaluated
    again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules["ctc_align.cli.align"], "load_aligner", lambda *_: english)
    chance = random.Random("files")
    sound = runs.write_clip(tmp_path / "clip.wav", 0.5).read_bytes()
    for number in range(CASES // 8):
        name, (kind, transcript) = file_name(chance), transcript_of(chance)
        audio, text = Path("in", f"{name}.wav"), Path("in", f"{name}{kind}")
        audio.parent.mkdir(exist_ok=True)
        text.write_bytes(transcript)
        audio.write_bytes(sound)
        out_dir = Path("out", str(number), name)
        before = tree(tmp_path, without="out")
        call = [str(audio), str(text), "--out-dir", str(out_dir)]
        code = called(
            [*call, "--format", FORMATS, *(["--cues", "again"] if number % 2 else [])], capsys
        )
        called([*call[:2], "--stdout", "--format", chance.choice(FORMATS.split(","))], capsys)
        called(
            ["score", str(audio), str(text), "--text", hostile(chance).replace("\0", "")], capsys
        )
        if code == 0:
            called([*call, "--format", "json"], capsys)  # already exists
            called(
                ["evaluate", *[str(out_dir / f"{name}.TextGrid")] * 2, "--bootstrap", "0"], capsys
            )
        assert tree(tmp_path, without="out") == before
        for path in out_dir.rglob("*"):
            check_file(path, keeps_cues=kind in (".srt", ".vtt") and not number % 2)
