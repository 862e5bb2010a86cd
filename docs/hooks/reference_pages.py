"""Pages of reference, made from the code: commands and their options, settings, the fields of
JSON."""

from __future__ import annotations

import dataclasses
import inspect
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

SEE_ALSO = {
    "align": "[What can be aligned](../../transcripts.md) · [Formats](../../formats.md) · "
    "[Transcripts that are not exact](../../inexact.md)",
    "calibrate": "[Learn from corrections](../../correcting.md#learn-from-corrections)",
    "check": "[Corpora](../../corpora.md#check-it-before-a-run)",
    "convert": "[Formats](../../formats.md)",
    "corpus": "[Corpora](../../corpora.md)",
    "filter": "[Corpora](../../corpora.md#what-is-good-enough)",
    "realign": "[Correct and align again](../../correcting.md)",
    "report": "[Corpora](../../corpora.md#the-report-of-a-run)",
    "serve": "[The app and the HTTP API](../../server.md)",
    "view": "[The page of an alignment](../../page.md)",
    "models": "[The model english](../../models/english.md)",
    "book": "[Books](../../formats.md#books)",
}
"""Pages that say more about a command."""


def pages(root: Path) -> dict[str, str]:
    """Return the Markdown of each page by its place in the site."""
    made = {f"reference/commands/{name}.md": text for name, text in command_pages()}
    made["reference/commands.md"] = commands_page()
    made["reference/settings.md"] = settings_page(root / "configs")
    made["reference/json.md"] = schema_page()
    made["reference/phones.md"] = phones_page()
    return made


def phones_page() -> str:
    """Return the phones of the model universal, by their classes."""
    from ctc_align.text.phone_sets import IPA_CLASSES, IPA_PHONES

    about = (
        f"The tokens of the model `universal`, {len(IPA_PHONES)} broad phones of the International Phonetic Alphabet. "
        "`ctc-align models show universal` lists them, too. In a lexicon for the model, separate phones by spaces, "
        "omit marks of length, tone, stress, aspiration and palatalisation (`e` for eː), and write a diphthong as two "
        "vowels (`ɔ y` for ɔʏ)."
    )
    rows = [
        f"| {name} | {' '.join(f'`{phone}`' for phone in phones)} |"
        for name, phones in IPA_CLASSES.items()
    ]
    end = "There is no `ʌ`: the English *cup* has `ə` unless labels come from a lexicon with stress (AH1 of CMUdict)."
    return (
        "\n".join(
            [
                "# Phones of universal",
                "",
                about,
                "",
                "| class | phones |",
                "|---|---|",
                *rows,
                "",
                end,
            ]
        )
        + "\n"
    )


def _commands() -> dict[str, Any]:

    from ctc_align.cli import program

    return dict(sorted(program().commands.items()))


def commands_page() -> str:
    """Return the list of commands."""
    lines = [
        "# Commands",
        "",
        "`ctc-align AUDIO TRANSCRIPT` is short for `ctc-align align AUDIO TRANSCRIPT`.",
        "",
    ]
    lines += ["| command | |", "|---|---|"]
    lines += [
        f"| [`{name}`](commands/{name}.md) | {_first(command.help)} |"
        for name, command in _commands().items()
    ]
    lines += [
        "",
        "`ctc-align help COMMAND` prints the same. All commands share their [exit codes](exit-codes.md).",
    ]
    return "\n".join(lines) + "\n"


def command_pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the page of each command."""
    from ctc_align.cli.options import GENERAL, PANELS

    for name, command in _commands().items():
        context = command.context_class(command, info_name=f"ctc-align {name}")
        usage = command.get_usage(context).removeprefix("Usage:")
        lines = [f"# {name}", "", f"    {' '.join(usage.split())}", "", _about(command.help), ""]
        parameters = [
            parameter for parameter in command.params if not getattr(parameter, "hidden", False)
        ]
        arguments = [
            parameter for parameter in parameters if parameter.param_type_name == "argument"
        ]
        options = [
            parameter for parameter in command.get_params(context) if parameter not in arguments
        ]
        if arguments:
            lines += ["## Arguments", "", "| argument | |", "|---|---|"]
            lines += [
                f"| `{one.metavar or one.name.upper()}` | {_cell(one.help or '')} |"
                for one in arguments
            ]
            lines += [""]
        for panel in PANELS:
            below = [
                option
                for option in options
                if (getattr(option, "rich_help_panel", None) or GENERAL) == panel
            ]
            if below:
                lines += [
                    f"## {panel}",
                    "",
                    "| option | default | |",
                    "|---|---|---|",
                    *map(_option_row, below),
                    "",
                ]
        examples = getattr(command.callback, "examples", ())
        if examples:
            lines += ["## Examples", "", *[f"    {line}" for line in examples], ""]
        if name in SEE_ALSO:
            lines += [f"See also: {SEE_ALSO[name]}."]
        yield name, "\n".join(lines).rstrip() + "\n"


def _option_row(option: Any) -> str:
    names = sorted(
        (*option.opts, *option.secondary_opts), key=lambda text: (not text.startswith("--"), text)
    )
    shown = " ".join(f"`{name}`" for name in names)
    metavar = (option.metavar or "").replace("|", "|\u200b")  # where the line may break
    value = "" if option.is_flag or not metavar else f"<br>`{metavar}`"
    return f"| {shown}{value} | {_default(option)} | {_cell(option.help or '')} |"


def _default(option: Any) -> str:
    if isinstance(option.show_default, str):
        return _cell(option.show_default)
    if option.default in (None, "") or isinstance(option.default, bool) or not option.show_default:
        return ""
    return f"`{option.default}`"


def settings_page(configs: Path) -> str:
    """Return the table of the settings of an alignment, and the files of settings that the package
    has."""
    from ctc_align.config import Settings, allowed_values, settings_toml

    lines = [
        *("# Settings", ""),
        "`--config FILE.toml` reads settings from a file, and `--set KEY=VALUE` sets one. Options override both.",
        "In Python, use `ctc_align.Settings`. The JSON of an alignment has its settings in `config`.",
        "A request to `ctc-align serve` may set those marked in the column request.",
        *("", "| key | default | values | request | |", "|---|---|---|---|---|"),
    ]
    types = get_type_hints(Settings)
    for field in dataclasses.fields(Settings):
        values = _cell(allowed_values(field, types[field.name]))
        about = _cell(f"{field.metadata['help']} {field.metadata['more']}")
        request = "yes" if field.metadata["api"] else ""
        lines.append(
            f"| `{field.name}` | `{json.dumps(field.default)}` | {values} | {request} | {about} |"
        )
    lines += ["", "## Files of settings in the package", ""]
    lines += [
        "`--config NAME` reads them: `default` for alignments, the others for models and training.",
        "",
    ]
    files = {path.stem: path.read_text(encoding="utf-8") for path in configs.glob("*.toml")}
    for name, text in sorted({"default": settings_toml(), **files}.items()):
        lines += [f"### {name}", "", f'??? note "{name}.toml"', "", "    ```toml"]
        lines += [f"    {line}".rstrip() for line in text.rstrip().split("\n")] + ["    ```", ""]
    return "\n".join(lines)


def schema_page() -> str:
    """Return the fields of `ctc-align/1`, a table for each kind of object."""
    from ctc_align.files import json_schema

    schema = json_schema()
    lines = [
        "# JSON, field by field",
        "",
        "The fields of `NAME.json`, of `--format json --stdout` and of each line of a shard.",
        "",
    ]
    lines += [schema["description"], "", "For a validator, this prints the schema:", ""]
    command = "import json, ctc_align.files as f; print(json.dumps(f.json_schema()))"
    lines += ["```sh", f'python -c "{command}" > schema.json', "```"]
    lines += ["", "## The alignment", "", *_fields(schema)]
    for name, kind in schema["$defs"].items():
        if "properties" in kind:
            lines += ["", f"## {name}", "", kind.get("description", ""), "", *_fields(kind)]
        else:
            lines += ["", f"## {name}", "", f"{kind.get('description', '')} {_type(kind)}."]
    return "\n".join(lines) + "\n"


def _fields(kind: dict[str, Any], prefix: str = "") -> list[str]:
    """Return the table of an object's fields, those of objects in it after a dot."""
    rows = [] if prefix else ["| field | type | always | |", "|---|---|---|---|"]
    for name, field in kind["properties"].items():
        always = "yes" if name in kind.get("required", ()) else ""
        rows.append(
            f"| `{prefix}{name}` | {_type(field)} | {always} | {_cell(field.get('description', ''))} |"
        )
        if "properties" in field:
            rows += _fields(field, f"{prefix}{name}.")
        elif "properties" in field.get("items", {}):
            rows += _fields(field["items"], f"{prefix}{name}[].")
    return rows


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return ", ".join(f"`{json.dumps(value)}`" for value in field["enum"])
    for choice in ("oneOf", "anyOf"):
        if choice in field:
            return " or ".join(_type(one) for one in field[choice])
    kinds = field.get("type", "any")
    if kinds == "array" and "items" in field:
        return f"list of {_type(field['items'])}"
    limits = "".join(
        f", {said} {field[name]:g}"
        for name, said in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"))
        if name in field
    )
    return (" or ".join(kinds) if isinstance(kinds, list) else kinds) + limits


def _about(help: str) -> str:
    """Return a command's help as Markdown: a paragraph whose lines stand as they are (Click's \\b)
    is a code block."""
    paragraphs = inspect.cleandoc(help).split("\n\n")
    return "\n\n".join(
        textwrap.indent(paragraph.removeprefix("\b\n"), "    ")
        if paragraph.startswith("\b\n")
        else paragraph
        for paragraph in paragraphs
    )


def _first(help: str) -> str:
    """Return the first sentence of a command's help."""
    return _cell(inspect.cleandoc(help).split("\n\n")[0])


def _cell(text: str) -> str:
    """Return a text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
