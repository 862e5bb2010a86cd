"""The other commands, and the program itself."""

from __future__ import annotations

import getpass
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ctc_align._version import __version__
from ctc_align.alignment import aligner
from ctc_align.alignment.inputs import ProgressValue
from ctc_align.cli import COMMANDS, printing, program, with_command
from ctc_align.cli.doctor import KNOWN_TIMES, _extra, _extra_line, compared, without_user
from ctc_align.cli.printing import ProgressBar, Talk
from ctc_align.cli.tables import words_table
from ctc_align.extras import EXTRAS, Extra
from ctc_align.types import AlignedWord, Alignment

WORD = AlignedWord("a", "a", 0, 1, "aligned", 0.5, 1.0, 0.5)
ALIGNMENT = Alignment("a", "a.wav", 2.0, "m", "cpu", 0.01, 1.0, -1.0, "a", (WORD,))


def test_help_and_version(cli):
    for arguments in ([], ["--help"], ["-h"]):
        result = cli(*arguments)
        assert (result.code, result.stderr) == (0, "")
        assert all(f"\n  {name} " in result.stdout for name in COMMANDS)
    assert cli("--version").stdout == f"ctc-align {__version__}\n"
    usages = {}
    for name in COMMANDS:
        said = cli(name, "--help").stdout
        usages[name] = said.partition("\n")[0]
        assert said.startswith(f"Usage: ctc-align {name}")
        assert not re.search(r"[<{]", said), "nothing of the parser's, such as <list[str]>"
    assert [usages[name] for name in ("view", "align", "serve")] == [
        "Usage: ctc-align view [OPTIONS] ALIGNMENT.json...",
        "Usage: ctc-align align [OPTIONS] AUDIO [TRANSCRIPT]",
        "Usage: ctc-align serve [OPTIONS] [FOLDER]",
    ]


def test_demo_writes_below_its_own_folder_and_may_run_twice(
    cli, fake_aligner, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        result = cli("demo")
        assert (result.code, result.stderr) == (0, "")
    assert os.listdir() == ["ctc-align-demo"]
    for name in ("demo.json", "demo.ctm", "demo.tokens.ctm", "demo.TextGrid"):
        assert Path("ctc-align-demo", name).is_file()
        assert f"ctc-align-demo/{name}\n" in result.stdout
    assert "twenty-two" in result.stdout
    assert "█" in result.stdout
    assert "CTC loss 3.250" in result.stdout
    assert cli("demo", "--out-dir", "x", "--quiet").stdout == ""
    assert Path("x", "demo.json").is_file()


@pytest.mark.parametrize("width", [36, 40, 50, 60, 80, 120, 200])
def test_the_table_fits_the_terminal(width):
    import io

    from rich.console import Console

    words = tuple(
        AlignedWord("alignment", "alignment", 0, 9, "aligned", i / 2, i / 2 + 0.5, 0.5)
        for i in range(4)
    )
    file = io.StringIO()
    Console(file=file, width=width).print(
        words_table(Alignment(**{**vars(ALIGNMENT), "words": words}), width)
    )
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines).replace("0 … 2.00 s", ""), "nothing is cut"
    assert all(f"{i / 2:.2f}" in lines[3 + i] for i in range(4))
    assert ("█" in lines[3]) == (width >= 50)


def test_a_long_table_is_cut():
    import dataclasses

    table = words_table(dataclasses.replace(ALIGNMENT, words=(WORD,) * 100), most_rows=10)
    assert table.row_count == 11


def test_warnings_of_the_library_are_said_once(capsys):
    for _ in range(2):
        Talk().listen()
    logging.getLogger("ctc_align.audio.loading").warning("cut short")
    assert capsys.readouterr().err == "ctc-align: warning: cut short\n"
    Talk(quiet=True).listen()
    logging.getLogger("ctc_align.audio.loading").warning("cut short")
    assert capsys.readouterr().err == ""


def test_progress_appears_after_a_second_on_a_terminal(capsys, monkeypatch):
    """Whether it is called in the meantime or not."""
    monkeypatch.setenv("TERM", "xterm")
    for patience_s, shown, appears in ((30.0, True, False), (0.0, True, True), (0.0, False, False)):
        monkeypatch.setattr(printing, "PATIENCE_S", patience_s)
        with ProgressBar("aligning", shown=shown) as bar:
            bar(ProgressValue(0.25, "edges, part 2 of 9"))
            if appears:
                bar.timer.join()
            assert (bar.bar is not None) == appears
            if bar.bar is not None:
                assert bar.bar.tasks[0].description == "edges, part 2 of 9"
                bar(1.5)
                assert (bar.bar.tasks[0].completed, bar.what) == (1.0, "edges, part 2 of 9")
        assert bar.timer.finished.is_set()
        bar.show()
        assert (bar.bar is not None) == appears, "a bar that comes late does not come"
    assert capsys.readouterr().out == "", "never on stdout"


def test_only_settings_and_messages_stand_under_that_heading(cli):
    everywhere = {"--config", "--set", "--seed", "-q,", "-v,", "-h,"}
    for name in COMMANDS:
        section = cli(name, "--help").stdout.partition("Settings and messages:\n")[2]
        lines = section.partition("\n\n")[0].splitlines()
        options = {line.split()[0] for line in lines if line.startswith("  -")}
        assert options <= everywhere, name


def test_help_of_a_command_is_its_own(cli):
    assert cli("help").stdout == cli("--help").stdout
    for name in ("align", "help"):
        assert cli("help", name).stdout == cli(name, "--help").stdout != ""
    result = cli("help", "scroe")
    assert (result.code, result.stdout) == (2, "")
    assert "help scroe: no such command; did you mean score?" in result.error


def test_every_command_with_a_folder_takes_o():
    commands = program().commands
    folders = [
        option
        for command in commands.values()
        for option in command.params
        if option.name == "out_dir"
    ]
    assert len(folders) >= 5
    assert all(set(option.opts) == {"--out-dir", "-o"} for option in folders)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("co", {"convert", "corpus"}),
        ("talk.wav talk.txt --qu", {"--quiet"}),
        ("score a.wav --max-loss-p", {"--max-loss-per-token"}),
    ],
)
def test_shells_complete_commands_and_options(line, expected):
    """As bash asks, in a process: nothing heavy is loaded for it."""
    words = ["ctc-align", *line.split(" ")]
    code = (
        "import sys; from ctc_align.cli import main\n"
        "try:\n    sys.argv = ['ctc-align']; main()\n"
        "finally:\n    assert not {'torch', 'numpy', 'numba'} & sys.modules.keys()"
    )
    asked = {
        "_CTC_ALIGN_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    call = [sys.executable, "-c", code]
    done = subprocess.run(
        call, env={**os.environ, **asked}, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == expected


def test_the_script_for_completion_is_installed_and_shown_by_the_program():
    for option in ("--show-completion", "--install-completion"):
        assert with_command([option]) == [option], "not taken for a recording"


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_confidences_have_colours_on_a_terminal(no_color, coloured, monkeypatch):
    import dataclasses
    import io

    from ctc_align.cli.printing import console_for

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_color)
    words = tuple(
        dataclasses.replace(WORD, confidence=confidence) for confidence in (0.95, 0.5, 0.2)
    )
    for file, shown in ((Terminal(), coloured), (io.StringIO(), False)):
        console_for(file).print(words_table(dataclasses.replace(ALIGNMENT, words=words), 100))
        for colour, confidence in (("32", "0.95"), ("33", "0.50"), ("31", "0.20")):
            assert (f"\x1b[{colour}m" in file.getvalue()) == shown
            assert confidence in file.getvalue()


def test_data_that_end_too_early_are_an_error_and_no_interruption(
    cli, fake_aligner, tmp_path, monkeypatch
):
    """The parser takes EOFError for Ctrl-D at a prompt."""

    def ended(*_: object) -> None:
        raise EOFError("Ran out of input")

    monkeypatch.setattr(sys.modules["ctc_align.cli.align"], "check_audio", ended)
    (tmp_path / "a.txt").write_text("a")
    result = cli("a.wav", tmp_path / "a.txt")
    assert (result.code, result.stdout) == (1, "")
    assert (
        result.stderr
        == "ctc-align: error: a file ends too early (Ran out of input): is it truncated or damaged?\n"
    )


HOME = "/".join(["", "home", "ada"])
ROOT = Path(__file__).resolve().parents[2]


def test_an_installation_that_works(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kaldiio", None)
    result = cli("doctor", "--format", "json")
    assert (result.code, json.loads(result.stdout)["format"]) == (0, "ctc-align-doctor/1")
    found = json.loads(result.stdout)
    assert found["self_tests"][0]["device"] == "cpu"
    assert all(test["passed"] and test["largest_error_ms"] <= 10 for test in found["self_tests"])
    assert "broken" not in result.stdout
    kaldi = next(row for row in found["extras"] if row["extra"] == "kaldi")
    assert (kaldi["missing"], kaldi["install"]) == (["kaldiio"], "pip install 'ctc-align[kaldi]'")


def test_an_installation_that_does_not(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch cannot be imported, from a folder of the user's: all else is told, as text."""
    lost = Path.home() / "cache" / "libtorch.so"

    def broken(**_: object) -> None:
        raise OSError(f"{lost}: cannot open shared object file")

    monkeypatch.setattr(aligner, "Aligner", broken)
    monkeypatch.setitem(sys.modules, "av", None)
    result = cli("doctor", code=1)
    assert re.search(
        r"^  cpu +FAILED after .* s: OSError: ~.cache.libtorch.so: cannot open", result.stdout, re.M
    )
    assert re.search(r"^  ffmpeg +broken: ModuleNotFoundError", result.stdout, re.M)
    assert re.search(r"^  numpy +\d", result.stdout, re.M)
    assert not re.search(rf"{re.escape(str(Path.home()))}\b", result.stdout)


@pytest.mark.parametrize("spoiled", ["word", "time", "skipped"])
def test_the_self_test_sees_what_is_wrong(spoiled: str) -> None:
    words: list[tuple[str, float | None, float | None]] = list(KNOWN_TIMES)
    assert compared(words) == {"passed": True, "largest_error_ms": 0}
    text, start_s, end_s = words[3]
    words[3] = {
        "word": ("wear", start_s, end_s),
        "time": (text, start_s, 1.9),
        "skipped": (text, None, None),
    }[spoiled]
    assert "passed" not in compared(words)


def test_no_folder_names_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path(HOME))
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    for told, shown in {
        f"{HOME}/a b": "~/a b",
        f"{HOME}-2/x": f"{HOME}-2/x",
        "/scratch/ada/venv": "/scratch/USER/venv",
        "C:\\Users\\ada\\x": "C:\\Users\\USER\\x",
        "/opt/canada": "/opt/canada",
    }.items():
        assert without_user({"folder": [told]}) == {"folder": [shown]}


def test_the_table_of_extras_is_that_of_the_package() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = text.partition("[project.optional-dependencies]")[2].partition("[project.scripts]")[0]
    declared = set(re.findall(r"^([\w-]+) = \[", table, re.M))
    developers = {"test", "browser-test", "gpu-test", "dev", "docs", "research"}
    assert set(EXTRAS) == declared - developers, (
        "ctc_align/extras.py has the extras of pyproject.toml that users need"
    )


def test_an_extra_that_cannot_be_imported_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its modules are there, and one of them wants what is not."""
    (tmp_path / "half_there.py").write_text("import not_there_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(EXTRAS, "lhotse", Extra(("half_there",), "manifests"))
    row = _extra("lhotse")
    assert row["broken"] == "half_there: ModuleNotFoundError: No module named 'not_there_at_all'"
    assert _extra_line(row).startswith("BROKEN: manifests; half_there: ModuleNotFoundError")
