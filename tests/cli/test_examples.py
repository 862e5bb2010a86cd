"""The example calls at the end of each command's help: all of them run."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import soundfile
from inline_corpus import inline_alignment, inline_pool  # noqa: F401 (a fixture)
from made_alignments import textgrid
from made_books import made_epub
from made_media import Coding, write_media

from ctc_align.alignment.aligner import Aligner
from ctc_align.cli import COMMANDS, program, run
from ctc_align.corpus import run as corpus

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "ctc_align" / "demo"
EXAMPLES = ROOT / "examples"
TEXT = (DEMO / "demo.txt").read_text("utf-8").strip()
CODINGS = {"interview.wav": Coding("pcm_s16le"), "film.mp4": Coding("aac")}
REPLACED = {
    "train": "ctc_align.training.pipeline.train",
    "adapt": "ctc_align.training.adaptation.adapt",
    "serve": "ctc_align.serve.server.AlignServer.run",
}
"""What is not run, because it takes minutes or does not end: the call up to it is."""


class WorkBeganError(Exception):
    """The call is right: its work would begin now."""


def examples_of(command: str) -> tuple[str, ...]:
    return getattr(program().commands[command].callback, "examples", ())


@pytest.fixture(scope="module")
def made_folder(tmp_path_factory: pytest.TempPathFactory, english: Aligner) -> Path:
    """Return a folder with the files that the examples name, made from the demo and the tutorials."""
    folder = tmp_path_factory.mktemp("examples")
    for name in ("talk.wav", "recordings/anna/one.wav", "recordings/bert/two.wav"):
        put_recording(folder / name)
    put_recording(folder / "chapters" / "one.wav").with_suffix(".txt").unlink()
    (folder / "book.epub").write_bytes(made_epub({"page.xhtml": f"<p>{TEXT}</p>"}))
    for name in ("interview.wav", "film.mp4"):
        samples, rate = soundfile.read(EXAMPLES / "interview.flac", dtype="float32")
        write_media(folder / name, [(0.0, samples[:, None])], rate, CODINGS[name])
    for name in ("interview.txt", "film.srt"):
        shutil.copy(EXAMPLES / f"interview{Path(name).suffix}", folder / name)
    (folder / "first.txt").write_text(TEXT, "utf-8")
    (folder / "second.txt").write_text(TEXT.replace("twenty-two", "thirty-two"), "utf-8")
    (folder / "words.dict").write_text("forced F AO R S T\n", "utf-8")
    for preferences in ("praat", ".praat-dir", "D:\\Praat preferences"):
        (folder / preferences).mkdir()
    lines = [{"audio": f"recordings/{name}.wav", "text": TEXT} for name in ("anna/one", "bert/two")]
    (folder / "corpus.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    put_alignments(folder, english)
    return folder


def put_recording(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(DEMO / "demo.flac", path)
    path.with_suffix(".txt").write_text(TEXT, "utf-8")
    return path


def put_alignments(folder: Path, english: Aligner) -> None:
    """Write talk.json with a corrected word, labels, and three runs over corpora."""
    talk = english.align(folder / "talk.wav", TEXT)
    corrected = replace(talk.words[0], by="hand")
    replace(talk, words=(corrected, *talk.words[1:])).save(folder / "talk.json")
    words = [(word.text, word.start_s, word.end_s) for word in talk.words]
    for name in ("talk.hand", "labels/anna/one", "labels/bert/two"):
        textgrid(folder / f"{name}.TextGrid", ("words", words), end_s=talk.duration_s)
    for name in ("anna/one", "bert/two"):
        shutil.copy(folder / f"recordings/{name}.wav", folder / f"labels/{name}.wav")
    spoken = ("chapters", "--text", "book.epub", "--out-dir", "spoken", "--format", "json")
    aligned = ("recordings", "--out-dir", "aligned")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "plan_pool", inline_pool)
        patch.chdir(folder)
        assert run(["corpus", *spoken]) == 0
        assert run(["corpus", *aligned]) == 0
    shutil.copytree(folder / "aligned", folder / "earlier")


def test_every_command_has_three_examples_that_end_its_help(cli: Callable[..., Any]) -> None:
    for command in COMMANDS:
        lines = examples_of(command)
        assert len(lines) == 3, command
        said = cli(command, "--help").stdout
        assert said.endswith("\nExamples:\n" + "".join(f"  {line}\n" for line in lines))
        assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - REPLACED.keys()))
@pytest.mark.usefixtures("inline_alignment")
def test_the_examples_run(
    command: str, made_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    monkeypatch.chdir(shutil.copytree(made_folder, tmp_path / "made"))
    monkeypatch.setenv("HOME", str(tmp_path / "made"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "made"))
    for line in examples_of(command):
        call, _, file = line.partition(" > ")
        result = cli(*shlex.split(call)[1:])
        assert result.code == 0, f"{line}\n{result.stderr}"
        if file:
            Path(file).write_text(result.stdout, "utf-8")


@pytest.mark.parametrize("command", REPLACED)
def test_the_examples_of_long_work_come_to_its_beginning(
    command: str, made_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    if command == "serve":
        pytest.importorskip("uvicorn", reason="no extra [serve]")

    def begin(*_: object) -> None:
        raise WorkBeganError

    monkeypatch.chdir(shutil.copytree(made_folder, tmp_path / "made"))
    monkeypatch.setattr(REPLACED[command], begin)
    for line in examples_of(command):
        with pytest.raises(WorkBeganError):
            cli(*shlex.split(line)[1:], code=0)


@pytest.mark.parametrize("columns", ["50", "80"])
def test_no_summary_in_the_list_of_commands_is_cut(
    columns: str, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Any]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert "..." not in cli("--help").stdout.partition("\nCommands:\n")[2]


def test_options_of_log_probs_are_the_last(cli: Callable[..., Any]) -> None:
    options = cli("align", "--help").stdout.partition("\nExamples:\n")[0]
    names = ("--quiet", "--help", "--vocab", "--frame-shift", "--blank", "--separator", "--silence")
    places = [options.index(f"{name} ") for name in names]
    assert places == sorted(places)
