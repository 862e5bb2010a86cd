"""Options are made from the fields of settings: a setting is declared once."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

import typer

from ctc_align.cli import app
from ctc_align.cli.options import PANELS, formats_option, settings_options, source_option
from ctc_align.config import SUBTITLES, Settings, load_config, setting
from ctc_align.corpus.sources import KINDS
from ctc_align.files import DEFAULT_FORMATS, FORMATS
from ctc_align.serve.openapi import api_description


@dataclasses.dataclass(frozen=True)
class Trial:
    """Settings with one of each kind."""

    depth: int = setting(3, "How deep.", within=(1, 9), metavar="N", commands=("align",))
    speed: float = setting(1.5, "How fast.", commands=("align", "corpus"), panel=SUBTITLES, shown="as spoken")
    shape: str = setting("round", "Its shape.", choices=("round", "square"), commands=("align",), option="--form -f")
    shiny: bool = setting(False, "Whether it shines.", commands=("align",))
    hidden_s: float = setting(0.1, "In files alone.")


def help_rows(command: str) -> dict[str, tuple[Any, ...]]:
    """Return the names, the value, the default and the heading of each option that `Trial` gives a command."""

    def call(**values: Any) -> None:
        pass

    call.__signature__ = inspect.Signature(list(settings_options(Trial, command)))  # type: ignore[attr-defined]
    call.__annotations__ = {name: made.annotation for name, made in inspect.signature(call).parameters.items()}
    program = typer.Typer(add_completion=False)
    program.command()(call)
    made = typer.main.get_command(program).params
    return {
        one.name: ([*one.opts, *one.secondary_opts], one.metavar, one.show_default, one.rich_help_panel)
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
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    made = {name: {option.name for option in command.params} for name, command in commands.items()}
    for field in dataclasses.fields(Settings):
        for name in field.metadata["commands"]:
            assert field.name in made[name], f"{name} --{field.name}"


def test_requests_have_the_settings_of_the_api_and_no_other() -> None:
    form = api_description()["paths"]["/align"]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
    fields = form["properties"].items()
    said = {name: field["description"] for name, field in fields if name in Settings().to_dict()}
    about = {field.name: field.metadata for field in dataclasses.fields(Settings) if field.metadata["api"]}
    assert said == {name: f"{data['help']} {data['more']}".strip() for name, data in about.items()}
    assert form["properties"]["max_line"]["minimum"] == 8
    assert form["properties"]["cues"]["enum"] == ["keep", "again"]


def test_help_names_every_format_and_every_kind_of_corpus() -> None:
    # Their tables import numpy, which `--help` must not, so its texts repeat the names.
    formats, kinds = formats_option().metadata, source_option().metadata
    assert re.split(r", | and ", formats["help"].partition("out of ")[2].rstrip(".")) == list(FORMATS)
    assert formats["shown"] == ",".join(DEFAULT_FORMATS)
    assert sorted(re.split(r", | or ", kinds["help"].partition(": ")[2].rstrip("."))) == sorted(KINDS)


def test_help_lists_everyday_options_first_below_headings(cli: Any) -> None:
    for name in ("align", "corpus", "score", "train", "serve"):
        text = cli(name, "--help").stdout
        found = [line[:-1] for line in text.splitlines() if line.endswith(":") and line[:-1] in PANELS]
        assert found == [title for title in PANELS if title in found], name
        assert found[0] == "Options"
        assert len(found) > 3
