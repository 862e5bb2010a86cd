"""The site of the documentation: pages that are made from the code say all of it, and links lead
into the site."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from ctc_align import cli
from ctc_align.errors import UsageError

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs" / "hooks"))

import reference_pages  # noqa: E402
import site_hook  # noqa: E402


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return reference_pages.pages(ROOT)


def test_every_option_is_in_the_reference(made: dict[str, str]) -> None:
    sources = (
        path.read_text(encoding="utf-8") for path in (ROOT / "ctc_align" / "cli").glob("*.py")
    )
    declared = {
        name
        for source in sources
        for name in re.findall(r'^ +"(--[a-z-]+)[",/ ]', source, re.MULTILINE)
    }
    text = "\n".join(
        page for place, page in made.items() if place.startswith("reference/commands/")
    )
    known = set(re.findall(r"`(--[a-z-]+)`", text))
    misnomers = {"--transcript", "--audio-file", "--output"}  # of other programs, which are told
    assert len(known) > 80
    assert {name for name in declared - known if name not in misnomers} <= set(site_misnomers())


def site_misnomers() -> tuple[str, ...]:
    from ctc_align.cli import MISNOMERS

    return tuple(MISNOMERS)


def test_every_field_and_setting_is_described(made: dict[str, str]) -> None:
    from ctc_align.config import Settings
    from ctc_align.files import json_schema

    assert [
        name
        for name in Settings().to_dict()
        if f"| `{name}` |" not in made["reference/settings.md"]
    ] == []
    kinds = [json_schema(), *json_schema()["$defs"].values()]
    fields = {name for kind in kinds for name in kind.get("properties", ())}
    assert [name for name in fields if f"| `{name}` |" not in made["reference/json.md"]] == []
    assert re.findall(r"^\| `.*\| \|$", made["reference/json.md"], re.MULTILINE) == []


def test_the_navigation_names_every_page(made: dict[str, str]) -> None:
    named = re.findall(
        r"([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    brought = {place for place in site_hook.BROUGHT.values() if place.endswith(".md")}
    assert sorted(named) == sorted(written | set(made) | brought)


def options_by_command() -> dict[str, set[str]]:
    return {
        name: {
            option
            for parameter in command.params
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        for name, command in reference_pages._commands().items()
    }


def unknown_options(text: str, known: dict[str, set[str]]) -> list[str]:
    """Return the options of `ctc-align …` lines of code that the line's command does not have."""
    faults = []
    for line in re.findall(r"^ *(ctc-align .+)$", text.replace("\\\n", " "), re.MULTILINE):
        for call in re.findall(r"ctc-align ([^|;&>]+)", line):
            name = call.split()[0] if call.split()[0] in known else "align"
            given = re.findall(r"(?<=\s)--?[a-z][a-z-]*", f" {call}")
            faults += [
                f"{name} {one}"
                for one in given
                if one not in known[name] and one not in ("--help", "-h")
            ]
            try:
                cli._refuse_option_as_value(cli.with_command(call.split()))
            except UsageError as error:
                faults.append(str(error))
    return faults


def test_lines_of_all_pages_give_options_that_the_command_has() -> None:
    known = options_by_command()
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    faults = {page.name: unknown_options(page.read_text(encoding="utf-8"), known) for page in pages}
    assert {name: found for name, found in faults.items() if found} == {}
    text = (
        "    ctc-align corpus x --out-dir y --shiny\n\nctc-align a.wav b.txt \\\n  --worst 5"
        " --force\n"
    )
    assert unknown_options(text, known) == ["corpus --shiny", "align --worst"]
    swallowed = "    ctc-align corpus --summary --out-dir /shared/out\n"
    assert (
        "--summary: expected DIR, got the option --out-dir" in unknown_options(swallowed, known)[0]
    )


@pytest.mark.parametrize(
    ("text", "path", "place", "wanted"),
    [
        ("[a](../SECURITY.md#x)", "docs/server.md", "server.md", "[a](project/security.md#x)"),
        (
            "![b](confidence.svg)",
            "ctc_align/models/english/README.md",
            "models/english.md",
            "![b](confidence.svg)",
        ),
        ("[c](docs/server.md)", "SECURITY.md", "project/security.md", "[c](../server.md)"),
        ("[d](../pyproject.toml) `[e](f.md)`", "docs/gpu.md", "gpu.md", "d `[e](f.md)`"),
        ("[g](nowhere.md) [h](#i)", "docs/gpu.md", "gpu.md", "[g](nowhere.md) [h](#i)"),
    ],
)
def test_links_lead_into_the_site(text: str, path: str, place: str, wanted: str) -> None:
    assert site_hook.with_site_links(text, path, place) == wanted
