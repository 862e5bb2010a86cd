"""ctc-align praat: the plug-in in Praat's folder, its jobs, and each entry of Praat's menu."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ctc_align.cli import praat
from ctc_align.files import read_alignment
from ctc_align.files.textgrid import read_textgrid
from ctc_align.types import Interval

DEMO = Path(__file__).resolve().parents[2] / "ctc_align" / "demo"
LATE_S = 0.04
needs_praat = pytest.mark.skipif(shutil.which("praat") is None, reason="Praat is not installed")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_is_installed_is_removed_and_nothing_else(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "prefs5").write_text("mine")
    plugin = tmp_path / praat.PLUGIN
    cli("praat", "install", tmp_path, code=0)
    names = {path.name for path in praat.SCRIPTS.glob("*.praat")} | {praat.COMMAND, praat.MANIFEST}
    assert set(contents(plugin)) == names
    cli("praat", "install", tmp_path, code=0)  # over its own
    (plugin / "notes.txt").write_text("mine")
    (plugin / "align.praat").write_text("changed")
    result = cli("praat", "remove", tmp_path, code=0)
    assert contents(plugin) == {"notes.txt": b"mine", "align.praat": b"changed"}
    assert "1 file was changed" in result.stderr
    assert (tmp_path / "prefs5").read_text() == "mine"
    shutil.rmtree(plugin)
    cli("praat", "install", tmp_path, code=0)
    cli("praat", "remove", tmp_path, code=0)
    assert not plugin.exists()


@pytest.mark.parametrize("before", ["another's", "changed"])
def test_a_users_file_is_never_overwritten(cli: Any, tmp_path: Path, before: str) -> None:
    plugin = tmp_path / praat.PLUGIN
    if before == "changed":
        cli("praat", "install", tmp_path, code=0)
    plugin.mkdir(exist_ok=True)
    (plugin / "setup.praat").write_text("mine")
    found = contents(plugin)
    assert "move or rename it" in cli("praat", "install", tmp_path, code=2).stderr
    assert contents(plugin) == found


def test_the_preferences_folders_of_each_system(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    found = {
        system: [
            path.relative_to(tmp_path).as_posix() for path in praat.preferences_folders(system)
        ]
        for system in ("linux", "darwin", "win32")
    }
    assert found == {
        "linux": ["settings/praat", ".praat-dir"],
        "darwin": ["Library/Application Support/Praat", "Library/Preferences/Praat Prefs"],
        "win32": ["AppData/Roaming/Praat", "Praat"],
    }
    assert "start Praat once" in cli("praat", "install", code=2).stderr
    (tmp_path / ".praat-dir").mkdir()
    monkeypatch.setattr(sys, "platform", "linux")
    cli("praat", "install", code=0)
    assert (tmp_path / ".praat-dir" / praat.PLUGIN / "setup.praat").is_file()


def test_the_command_line_of_windows_is_in_outer_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["__main__.py"])
    monkeypatch.setattr(sys, "executable", r"C:\Program Files\Python\python.exe")
    script = praat.command_script(Path(r"C:\Users\Jö Ann\Praat"), "win32")
    assert (
        r'ctc_align_command$ = """""C:\Program Files\Python\python.exe"" -m ctc_align praat run'
        in script
    )
    assert 'ctc_align_command_end$ = """"""\n' in script


SPECIAL = """ "O'Brien" $(touch stolen) %PATH% & é"""
"""Words that no shell may see."""
DRIVER = """
plugin$ = preferencesDirectory$ + "/plugin_ctc_align/"
sound = Read from file: "sounds/demo.flac"
Rename: "Jürg's (1)"
text$ = readFile$ ("sounds/demo.txt") + "{special}"
runScript: plugin$ + "align.praat", text$, "en", 1, 1, 0, 1, "ipa"
appendInfoLine: "selected ", numberOfSelected ()
first = selected ("TextGrid")
selectObject: first
Save as text file: "first.TextGrid"

# a later alignment of the sound, of another text: not that of the TextGrid below
selectObject: sound
runScript: plugin$ + "align.praat", "Forced alignment", "en", 1, 0, 0, 0, "ipa"

# a person moves an edge
selectObject: first
label$ = Get label of interval: 1, {moved}
time = Get end time of interval: 1, {moved}
next$ = Get label of interval: 1, {moved} + 1
Remove right boundary: 1, {moved}
Insert boundary: 1, time + {late}
Set interval text: 1, {moved}, label$
Set interval text: 1, {moved} + 1, next$
selectObject: sound, first
runScript: plugin$ + "realign.praat", ""
realigned = selected ("TextGrid")
selectObject: realigned
Save as text file: "realigned.TextGrid"

# both TextGrids of the list, then a file as reference
selectObject: first, realigned
runScript: plugin$ + "compare.praat", "words", "", "", "the lower TextGrid in the list", ""
appendInfoLine: "selected ", numberOfSelected ()
selectObject: realigned
runScript: plugin$ + "compare.praat", "phones", "", "phones", "the lower TextGrid in the list",
... defaultDirectory$ + "/first.TextGrid"

# a part with its times in the recording, and a TextGrid with the text
selectObject: sound
part = Extract part: 0.2, end_s, "rectangular", 1, "yes"
textgrid = To TextGrid: "note text", ""
Set interval text: 1, 1, "Ünïcode"
Set interval text: 2, 1, readFile$ ("sounds/demo.txt")
selectObject: part, textgrid
runScript: plugin$ + "align_textgrid.praat", "text", "", 1, 0, 0, 0, "as the model has them"
selectObject: selected ("TextGrid")
Save as text file: "part.TextGrid"

runScript: plugin$ + "align_folder.praat", defaultDirectory$ + "/sounds/", "", "", 1, 1, 0, 0, "arpabet"
"""
MOVED = 4
"""The interval of `words` whose end is moved; the first is a pause."""


def drive(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in Praat without windows, with the plug-in that is installed in `prefs`."""
    path = folder / "driver.praat"
    path.write_text(script, "utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "DISPLAY"}
    return subprocess.run(
        ["praat", f"--pref-dir={folder / 'prefs'}", "--run", str(path)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recording and its text, and the plug-in in `prefs`; its name has a space, a
    quote and a letter that is not ASCII."""
    folder = tmp_path_factory.mktemp("praat") / "Jürg's folder"
    (folder / "sounds").mkdir(parents=True)
    for name in ("demo.flac", "demo.txt"):
        shutil.copy(DEMO / name, folder / "sounds")
    (folder / "prefs").mkdir()
    praat.install_plugin(folder / "prefs")
    return folder


@pytest.fixture(scope="module")
def driven(folder: Path) -> tuple[Path, str]:
    """The folder after a driver has run each entry of the menu, and what the Info window showed."""
    values = {"special": SPECIAL.replace('"', '""'), "moved": str(MOVED), "late": str(LATE_S)}
    script = DRIVER.replace("end_s", "4.5")
    for name, value in values.items():
        script = script.replace(f"{{{name}}}", value)
    result = drive(folder, script)
    assert result.returncode == 0, result.stderr
    return folder, result.stdout


def words_of(path: Path) -> list[Interval]:
    tiers = read_textgrid(path).tiers
    return [
        each
        for tier in tiers
        if tier.name.endswith("words")
        for each in tier.intervals
        if each.label
    ]


@needs_praat
def test_align_adds_a_textgrid_and_passes_every_character(driven: tuple[Path, str]) -> None:
    folder, log = driven
    assert [tier.name for tier in read_textgrid(folder / "first.TextGrid").tiers] == [
        "words",
        "phones",
        "sentences",
    ]
    assert words_of(folder / "first.TextGrid")[0].label == "Forced"
    kept = folder / "prefs" / "apps" / "ctc_align" / "alignments"
    texts = {read_alignment(path).text.strip() for path in kept.glob("*/*/Jürg_s__1_.json")}
    assert any(text.endswith(SPECIAL.strip()) for text in texts)
    assert not list(folder.rglob("stolen"))
    assert "fit" in log
    assert (
        log.count("selected 2") == 2
    )  # the Sound and its TextGrid, and the two that were compared


@needs_praat
def test_realign_keeps_the_corrected_edge(driven: tuple[Path, str]) -> None:
    folder, log = driven
    first = words_of(folder / "first.TextGrid")
    again = words_of(folder / "realigned.TextGrid")
    moved = MOVED - 2
    assert again[moved].end_s == pytest.approx(first[moved].end_s + LATE_S, abs=1e-5)
    assert [word.label for word in again] == [word.label for word in first]
    assert "corrections of 2 words are used" in log


@needs_praat
def test_compare_shows_the_table_of_evaluate(driven: tuple[Path, str]) -> None:
    _, log = driven
    assert "boundaries of words" in log
    assert "boundaries of phones" in log
    assert "+40.0" in log.partition("boundaries of phones")[2]  # of a file as reference


@needs_praat
def test_a_part_keeps_its_times_and_its_tiers(driven: tuple[Path, str]) -> None:
    folder, _ = driven
    grid = read_textgrid(folder / "part.TextGrid")
    assert [tier.name for tier in grid.tiers][:1] == ["text"]
    assert (grid.start_s, grid.end_s) == (pytest.approx(0.2), pytest.approx(4.5))
    whole = {word.label: word.end_s for word in words_of(folder / "first.TextGrid")}
    for word in words_of(folder / "part.TextGrid")[1:8]:
        assert word.end_s == pytest.approx(whole[word.label], abs=0.03)


@needs_praat
def test_align_folder_writes_beside_the_folder(driven: tuple[Path, str]) -> None:
    folder, log = driven
    assert (folder / "sounds-aligned" / "demo.TextGrid").is_file()
    assert f"The TextGrids are in {folder}/sounds-aligned" in log


@needs_praat
@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('"align.praat", "...", "", 1, 1, 0, 0, "ipa"', "ctc-align: text.txt: "),
        ('"align.praat", "a", "xx-none", 1, 1, 0, 0, "ipa"', "ctc-align: --language "),
        ('"align.praat", "a", "", 0, 0, 0, 0, "ipa"', "Choose at least one tier."),
        ('"realign.praat", ""', "ctc-align: expected an earlier alignment of this sound"),
        ('"align_folder.praat", "/nowhere", "", "", 1, 1, 0, 0, "ipa"', "ctc-align: /nowhere"),
    ],
)
def test_errors_are_dialogs_with_one_line(folder: Path, call: str, said: str) -> None:
    sound = """sound = Read from file: "sounds/demo.flac"\ntextgrid = To TextGrid: "text", ""\n"""
    chosen = "selectObject: sound\n" + ("plusObject: textgrid\n" if "realign" in call else "")
    result = drive(
        folder, f'{sound}{chosen}runScript: preferencesDirectory$ + "/plugin_ctc_align/" + {call}'
    )
    assert result.returncode != 0
    dialog = result.stderr.partition("Script exited.")[0]
    assert dialog.startswith(f"Error: {said}"), result.stderr
    assert dialog.count("\n") == 1


@needs_praat
def test_a_program_that_is_gone_is_named(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    command = tmp_path / "prefs" / praat.PLUGIN / praat.COMMAND
    command.write_text(
        command.read_text("utf-8").replace(sys.executable, "/nowhere/python"), "utf-8"
    )
    result = drive(
        tmp_path,
        'Read from file: "sounds/demo.flac"\nrunScript: preferencesDirectory$ +'
        ' "/plugin_ctc_align/align.praat", "a", "", 1, 1, 0, 0, "ipa"',
    )
    assert "ctc-align praat install" in result.stderr


def test_a_job_that_cannot_start_still_ends(tmp_path: Path) -> None:
    (tmp_path / praat.JOB).write_text("earlier\t/nowhere.json\tx\nargument\trealign\n", "utf-16")
    praat.work_on_job(tmp_path)
    assert (tmp_path / praat.EXIT).read_text() == "1\n"
    assert "/nowhere.json" in (tmp_path / praat.MESSAGES).read_text("utf-8")
