"""Names, texts and labels that a terminal would obey, through every command: they are shown, and
not obeyed."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import subprocess
import sys
import unicodedata
import warnings
from pathlib import Path

import numpy as np
import pytest
import soundfile
from inline_corpus import inline_corpus  # noqa: F401 (a fixture)
from made_sounds import babble
from rows import over_rows

from ctc_align.cli import COMMANDS, as_everywhere, printing
from ctc_align.cli.printing import Talk

CONTROLS = "\x1b[2J\x1b]0;title\x07\x08\r\x85\x9b31m"
HOSTILE = f"x{CONTROLS}\u202e\u2066\u2028[bold red][/nothing]{{task}}%s\udcff"
SHOWN = "\\x1b[2J\\x1b]0;title\\x07\\x08"
DIRECTIONS = set(
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\u200e\u200f\u061c"
)
NAME = HOSTILE.replace("/", ":")
WAV, TXT, GRID = f"{NAME}.wav", f"{NAME}.txt", f"{NAME}.TextGrid"
LINES: list[tuple[list[str], str]] = [
    # files that are not there, are the wrong ones, or are full of it
    (["none" + WAV, "talk.txt"], SHOWN),
    (["talk.wav", TXT, "--out-dir", "out"], SHOWN),
    ([WAV, "talk.txt"], SHOWN),
    ([WAV, "talk.txt", "--out-dir", NAME], "wrote"),
    ([WAV, "talk.txt", "--out-dir", NAME], "already exists"),
    (["talk.wav", "--text", HOSTILE, "--out-dir", "out2"], "wrote"),
    (["talk.wav", "hostile.txt", "--out-dir", "out3", "--format", "srt"], "wrote"),
    (["realign", f"none{NAME}.json"], SHOWN),
    (["convert", TXT, "--format", "srt"], SHOWN),
    (["view", f"none{NAME}.json"], SHOWN),
    (["report", f"none{NAME}"], SHOWN),
    (["filter", f"none{NAME}"], SHOWN),
    (["check", f"none{NAME}"], SHOWN),
    (["help", NAME], SHOWN),
    (["praat", "install", f"none{NAME}"], SHOWN),
    (["serve", f"none{NAME}"], SHOWN),
    (["talk.wav", "talk.txt", "--lexicon", f"{NAME}.dict"], SHOWN),
    (["talk.wav", "talk.txt", "--model", f"none{NAME}"], SHOWN),
    (["talk.wav", "talk.txt", "--config", f"{NAME}.toml"], SHOWN),
    (["talk.wav", "talk.txt", "--set", f"{NAME}=1"], SHOWN),
    (["talk.wav", "talk.txt", "--format", NAME], "\\x1b[2j"),
    (["talk.wav", "talk.txt", f"--{NAME}"], SHOWN),
    (["talk.wav", "talk.txt", "--language", NAME], "\\x1b"),
    (["talk.wav", "talk.txt", "--calibration", f"{NAME}.toml"], SHOWN),
    ([f"{NAME}.npy", "talk.txt", "--vocab", f"{NAME}.dict", "--frame-shift", "0.01"], SHOWN),
    ([NAME, "talk.txt"], SHOWN),
    (["score", "talk.wav", TXT, "talk.txt"], SHOWN),
    (["score", "talk.wav", "--text", HOSTILE, "--text", "=1+1"], ""),
    (["score", "talk.wav", "--text", HOSTILE, "--format", "table"], ""),
    (["score", f"{NAME}.jsonl"], ""),
    (["corpus", f"{NAME}.jsonl", "--out-dir", "runs", "--workers", "1"], "\\x1b"),
    (["corpus", "--summary", "runs"], "\\x1b"),
    (["corpus", NAME, "--out-dir", "runs"], SHOWN),
    (["evaluate", GRID, "grid.TextGrid"], SHOWN),
    (["evaluate", "grid.TextGrid", "grid.TextGrid", "--tier", f"words={NAME}"], SHOWN),
    (["evaluate", "labels.TextGrid", "labels.TextGrid"], "\\x1b"),
    (["evaluate", "labels.TextGrid", "labels.TextGrid", "--map", f"{NAME}.dict"], ""),
    (["train", f"{NAME}.jsonl", "--out-dir", "model", "--config", f"{NAME}.toml"], SHOWN),
    (["adapt", f"{NAME}.jsonl", "--out-dir", "model", "--model", NAME], SHOWN),
    (["calibrate", "english", NAME, "--out-dir", "out"], SHOWN),
    (["models", "show", f"none{NAME}"], SHOWN),
    (["book", f"none{NAME}.epub", "talk.json"], SHOWN),
    (["demo", "--out-dir", TXT], SHOWN),
    (["doctor", "--format", TXT], SHOWN),
]


def grid_of(label: str, tier: str = "words") -> str:
    quoted = label.replace('"', '""')
    return (
        f'"ooTextFile"\n"TextGrid"\n0 1 <exists> 1\n"IntervalTier" "{tier}" 0 1 2\n0 0.5 "{quoted}"'
        ' 0.5 1 "b"\n'
    )


@pytest.fixture(scope="module")
def hostile_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    text = HOSTILE.encode("utf-8", "replace").decode()
    soundfile.write(folder / "talk.wav", babble(1.0), 16000)
    (folder / "talk.txt").write_text("Hello, big world!\n")
    (folder / "hostile.txt").write_text(f"Hello {text} =1+1 <b>big</b> [bold] world\n", "utf-8")
    (folder / TXT).write_bytes(b"")
    (folder / WAV).write_bytes((folder / "talk.wav").read_bytes())
    (folder / f"{NAME}.dict").write_text(f"{text}\n", "utf-8")
    (folder / f"{NAME}.toml").write_text(f'"{json.dumps(text)[1:-1]}" = 1\n', "utf-8")
    np.save(folder / f"{NAME}.npy", np.zeros((5, 3), np.float32))
    (folder / NAME).mkdir()
    (folder / "grids").mkdir()
    rows = [
        {"audio_filepath": f"none{HOSTILE}.wav", "text": HOSTILE, "utterance": HOSTILE},
        {"audio_filepath": WAV, "text": "", "utterance": f"u{HOSTILE}", "speaker": HOSTILE},
        {"audio_filepath": "talk.wav", "text": f"Hello {HOSTILE}", "utterance": f"v{HOSTILE}"},
    ]
    (folder / f"{NAME}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / GRID).write_text(
        f'"ooTextFile"\n"TextGrid"\n0 1 <exists> 1\n"{text}" "words"\n', "utf-8"
    )
    (folder / "grid.TextGrid").write_text(grid_of("a"), "utf-8")
    (folder / "labels.TextGrid").write_text(grid_of(text), "utf-8")
    return folder


def obeyed(text: str, allowed: str = "\n") -> set[str]:
    """The characters that a terminal would obey."""
    return {
        c
        for c in text
        if c not in allowed and (unicodedata.category(c) in ("Cc", "Cs") or c in DIRECTIONS)
    }


def test_every_command_shows_what_a_terminal_would_obey(
    cli,
    hostile_files,
    monkeypatch,
    inline_corpus,  # noqa: F811
):
    """The fitting part of the message is there, with escapes, and no character that is obeyed."""
    monkeypatch.chdir(hostile_files)
    faults = []
    for line, shown in LINES:
        result = cli(*line)
        said = result.stderr + result.stdout
        bad = obeyed(result.stderr) | obeyed(result.stdout, "\n\t")
        if bad or "Traceback" in said or shown not in said or result.code not in (0, 1, 2, 3):
            faults.append(f"{line!a}: {bad}, {result.code}, {ascii(said)[:600]}")
    assert not faults, f"{len(faults)} of {len(LINES)}:\n" + "\n".join(faults)
    assert {line[0] for line, _ in LINES} >= set(COMMANDS) - {"align"}


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_a_table_and_a_bar_show_it_too(terminal):

    from rich.progress import Progress, TextColumn
    from rich.table import Table
    from rich.text import Text

    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    stream = Stream()
    console = printing.console_for(stream)
    table = Table(title=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(Text(HOSTILE))
    console.print(table, HOSTILE, Text(HOSTILE))
    with Progress(
        TextColumn("{task.description}", markup=False), console=console, transient=True
    ) as bar:
        bar.add_task(HOSTILE, total=1.0)
    shown = re.sub(
        r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue()
    )  # what rich itself says to a terminal
    assert obeyed(shown, "\n\r") == set()
    assert "\\x1b[2J" in shown
    assert "[bold red][/nothing]" in shown.replace("\n", "")


def test_messages_of_the_library_and_of_python_pass_the_door(capsys):

    Talk().listen()
    logging.getLogger("ctc_align.any").warning("%s: no good", HOSTILE)
    hooks = sys.excepthook, warnings.showwarning
    try:
        printing.route_python_warnings()
        warnings.showwarning(HOSTILE, UserWarning, "file", 1)
        try:
            raise RuntimeError(HOSTILE)
        except RuntimeError as error:
            sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.excepthook, warnings.showwarning = hooks
    said = capsys.readouterr().err
    assert obeyed(said) == set()
    assert said.count(SHOWN) == 3


def test_data_goes_to_a_pipe_as_it_is_and_to_a_terminal_with_escapes(monkeypatch):

    data = f"1\tcaf\u00e9\u202e{CONTROLS}\n".encode()
    for terminal in (False, True):
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding="utf-8")
        monkeypatch.setattr(stream, "isatty", lambda terminal=terminal: terminal, raising=False)
        monkeypatch.setattr(sys, "stdout", stream)
        printing.put_bytes(data)
        assert (raw.getvalue() == data) is not terminal
        assert (obeyed(raw.getvalue().decode(), "\n\t") == set()) is terminal


@over_rows(
    ("cell", "printed"),
    [
        ("=1+1", "'=1+1"),
        ("@cmd", "'@cmd"),
        ("+1", "+1"),
        ("-2.5", "-2.5"),
        ("a\tb\n", "a\\x09b\\x0a"),
        (None, "None"),
    ],
)
def test_cells_of_printed_tables(cell, printed):
    assert printing.tsv_cell(cell) == printed


def test_a_terminal_of_few_characters_gets_escapes():
    program = (
        "from ctc_align.cli import printing; printing.say('caf\u00e9 \u4e00\\x1b');"
        " printing.put('\u4e00')"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, env=environment, check=True
    )
    assert done.stderr == b"caf\\xe9 \\u4e00\\x1b\n"
    assert done.stdout == b"\\u4e00\n"


def test_a_pipe_of_windows_gets_utf_8_and_line_feeds() -> None:
    data = io.BytesIO()
    stream = io.TextIOWrapper(data, encoding="cp1252", newline="\r\n")
    as_everywhere(stream)
    print("日本", 1.5, sep="\t", file=stream, flush=True)
    assert data.getvalue() == "日本\t1.5\n".encode()


def test_tables_in_logs_are_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    from ctc_align.cli.tables import figures_table

    monkeypatch.delenv("COLUMNS", raising=False)
    table, log = figures_table("", ""), io.StringIO()
    table.add_row("x" * 300, "1")
    printing.console_for(log, whole=True).print(table)
    assert "x" * 300 in log.getvalue()
