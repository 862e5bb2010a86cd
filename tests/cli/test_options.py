"""Options are made from the fields of settings: a setting is declared once."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import typer
from made_sounds import babble

from ctc_align.cli import _refuse_option_as_value, program
from ctc_align.cli.options import PANELS, formats_option, settings_options, source_option
from ctc_align.config import SUBTITLES, Settings, load_config, setting
from ctc_align.files import DEFAULT_FORMATS, FORMATS
from ctc_align.serve.openapi import api_description
from ctc_align.sources import KINDS


@dataclasses.dataclass(frozen=True)
class Trial:
    """Settings with one of each kind."""

    depth: int = setting(3, "How deep.", within=(1, 9), metavar="N", commands=("align",))
    speed: float = setting(
        1.5, "How fast.", commands=("align", "corpus"), panel=SUBTITLES, shown="as spoken"
    )
    shape: str = setting(
        "round", "Its shape.", choices=("round", "square"), commands=("align",), option="--form -f"
    )
    shiny: bool = setting(False, "Whether it shines.", commands=("align",))
    hidden_s: float = setting(0.1, "In files alone.")


def help_rows(command: str) -> dict[str, tuple[Any, ...]]:
    """Return the names, the value, the default and the heading of each option that `Trial` gives a
    command."""

    def call(**values: Any) -> None:
        pass

    call.__signature__ = inspect.Signature(list(settings_options(Trial, command)))  # type: ignore[attr-defined]
    call.__annotations__ = {
        name: made.annotation for name, made in inspect.signature(call).parameters.items()
    }
    program = typer.Typer(add_completion=False)
    program.command()(call)
    made = typer.main.get_command(program).params
    return {
        one.name: (
            [*one.opts, *one.secondary_opts],
            one.metavar,
            one.show_default,
            one.rich_help_panel,
        )
        for one in made
        if one.name != "help"
    }


def test_a_field_of_settings_is_an_option_of_its_commands() -> None:
    assert help_rows("align") == {
        "depth": (["--depth"], "N", "3", "Options"),
        "speed": (["--speed"], None, "as spoken", SUBTITLES),
        "shape": (["--form", "-f"], "round|square", "round", "Options"),
        "shiny": (["--shiny", "--no-shiny"], None, "no-shiny", "Options"),
    }
    assert set(help_rows("corpus")) == {"speed"}
    assert help_rows("score") == {}
    assert load_config(Trial, None, {"depth": 4, "speed": None}) == Trial(depth=4)


def test_each_setting_is_an_option_of_the_commands_that_it_names() -> None:
    commands = program().commands
    made = {name: {option.name for option in command.params} for name, command in commands.items()}
    for field in dataclasses.fields(Settings):
        for name in field.metadata["commands"]:
            assert field.name in made[name], f"{name} --{field.name}"


def test_a_file_or_folder_may_have_the_name_of_an_argument() -> None:
    commands = program().commands
    calls = [
        [name, argument.name, option]
        for name, command in commands.items()
        for argument in command.params
        for option in [
            option for each in command.params for option in each.opts if option.startswith("--")
        ]
        if argument.param_type_name == "argument"
    ]
    assert ["evaluate", "reference", "--worst"] in calls
    assert ["serve", "folder", "--port"] in calls
    for call in calls:
        _refuse_option_as_value([*call, "1"])


def test_requests_have_the_settings_of_the_api_and_no_other() -> None:
    form = api_description()["paths"]["/align"]["post"]["requestBody"]["content"][
        "multipart/form-data"
    ]["schema"]
    fields = form["properties"].items()
    said = {name: field["description"] for name, field in fields if name in Settings().to_dict()}
    about = {
        field.name: field.metadata
        for field in dataclasses.fields(Settings)
        if field.metadata["api"]
    }
    assert said == {name: f"{data['help']} {data['more']}".strip() for name, data in about.items()}
    assert form["properties"]["max_line"]["minimum"] == 8
    assert form["properties"]["cues"]["enum"] == ["keep", "again"]
    assert form["properties"]["channel"]["pattern"].startswith("^(mix|")
    assert form["properties"]["frame_rate"]["anyOf"] == [
        {"const": 0.0},
        {"minimum": 1.0, "maximum": 1000.0},
    ]
    assert form["oneOf"] == [{"required": ["text"]}, {"required": ["transcript"]}]


def test_help_names_every_format_and_every_kind_of_corpus() -> None:
    # Their tables import numpy, which `--help` must not, so its texts repeat the names.
    formats, kinds = formats_option().metadata, source_option().metadata
    named = re.split(r", | and ", formats["help"].partition("any of ")[2].rstrip("."))
    assert named == list(FORMATS), "formats_option in ctc_align/cli/options.py, in FORMATS' order"
    assert formats["shown"] == ",".join(DEFAULT_FORMATS)
    assert sorted(re.split(r", | or ", kinds["help"].partition(": ")[2].rstrip("."))) == sorted(
        KINDS
    )


def test_help_lists_everyday_options_first_below_headings(cli: Any) -> None:
    for name in ("align", "corpus", "score", "train", "serve"):
        text = cli(name, "--help").stdout
        found = [
            line[:-1] for line in text.splitlines() if line.endswith(":") and line[:-1] in PANELS
        ]
        assert found == [title for title in PANELS if title in found], name
        assert found[0] == "Options"
        assert len(found) > 3


NOT_READ = "language 'tlh': num2words does not know it, so digits are not read"
FAULTY = ["--set", "chunk_z=3", "--set", "context_s=-2"]
CALLS: dict[str, tuple[str, ...]] = {
    "align": ("align", "a.wav", "--text", "a"),
    "corpus": ("corpus", "train.jsonl", "--out-dir", "out"),
    "score": ("score", "a.wav", "--text", "a"),
    "score of a source": ("score", "train.jsonl"),
    "calibrate": ("calibrate", "english", "labels"),
    "train": ("train", "train.jsonl", "--out-dir", "out"),
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    soundfile.write("a.wav", babble(1.0), 16000)
    Path("train.jsonl").write_text('{"audio": "a.wav", "text": "a"}\n', encoding="utf-8")
    Path("labels").mkdir()
    return tmp_path


@pytest.mark.parametrize("call", CALLS)
def test_faults_are_told_together_and_nothing_is_done(
    call: str, cli: Callable[..., Any], here: Path
) -> None:
    Path("mine.toml").write_text("speed = 2\n", encoding="utf-8")
    before = sorted(here.rglob("*"))
    result = cli(*CALLS[call], *FAULTY, "--config", "mine.toml", code=2)
    assert "mine.toml: unknown setting 'speed'" in result.stderr
    assert "--set unknown setting 'chunk_z'" in result.stderr
    # a recipe has no context_s: to it the setting is unknown
    assert "context_s" in result.stderr
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize(
    ("language", "vocab", "text", "notes"),
    [
        ("tlh", "ab", "ab 21 2", [f"{NOT_READ}: '2' × 2, '1' × 1; they match any speech"]),
        ("tlh", "ab", "ab ç 2", ["the model's vocabulary lacks 'ç' × 1; they", f"{NOT_READ}: '2' × 1; they"]),
        ("tlh", "ab", "ab", []),
        ("tlh", "ab2", "ab 2", []),
        ("de", "ab", "ab " + "9" * 19, ["the model's vocabulary lacks '9' × 19; they match any speech"]),
    ],
)  # fmt: skip
def test_digits_that_a_language_leaves(language, vocab, text, notes, cli):
    classes = ["<blk>", *vocab]
    np.save("a.npy", np.full((80, len(classes)), -np.log(len(classes)), np.float32))
    Path("vocab.txt").write_text("\n".join(classes) + "\n", encoding="utf-8")
    reading = ("--vocab", "vocab.txt", "--frame-shift", "0.02", "--stdout", "--language", language)
    said = cli("align", "a.npy", "--text", text, *reading, code=0)
    met = [line for line in said.stderr.splitlines() if "vocabulary" in line or "num2words" in line]
    assert len(met) == len(notes)
    assert all(line.startswith(f"ctc-align: note: {note}") for line, note in zip(met, notes))
