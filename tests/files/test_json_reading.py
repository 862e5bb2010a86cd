"""What `read_alignment` returns every format can write; what none could is refused under the file's name."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rows import over_rows
from sample_alignments import talk_alignment

from ctc_align.errors import CtcAlignError, InputError, OutputError
from ctc_align.files import Alignment, from_dict, read_alignment, to_dict
from ctc_align.files.formats import FORMATS
from ctc_align.types import Region, SourceCue, Subtitles

HOSTILE: tuple[Any, ...] = (
    *(None, True, "", "x", "9" * 5000, -1, 10**400, -(10**400), 1e300, -1e300, 0.5, [], [[]], {}, {"x": {}}, [1]),
    *(float("nan"), float("inf"), "\ud800", "a\0b", "1"),
)


def whole() -> dict[str, Any]:
    """Return the JSON object of an alignment with every field."""
    source = talk_alignment()
    cues = (SourceCue(0, 8, 0.1, 0.5, "1", "line:0"), SourceCue(9, 20, 0.5, 1.0, "2", "", "NOTE", "payload"))
    fields = vars(source) | {
        "subtitles": Subtitles("srt", "", cues, "after"),
        "regions": (Region("unexplained", 0.1, 0.2), Region("misfit", None, None, 0, 3, "why")),
        "unexplained": ((0.1, 0.2),),
        "unknown_letters": {"ß": 2},
        "fit": "good",
        "config": {"times": "recording", "min_confidence": 0.5, "labels": "bare"},
        "offset_s": 1.5,
    }
    data = json.loads(json.dumps(to_dict(Alignment(**fields))))
    del data["version"]  # so that nobody takes what is made of it for what ctc-align wrote
    return data


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a JSON value; of a list those in its first two."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def with_value(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    data = whole()
    inner: Any = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return data


def write_all(alignment: Alignment) -> None:
    for name, format in FORMATS.items():
        for writer in format.writers if name not in PICTURES else ():
            for style in (None, writer.__init__.__defaults__[0]):
                file = io.StringIO()
                with suppress(OutputError):  # what a format cannot hold: SMIL is of books alone
                    writer(style).write(alignment, file)
                file.getvalue().encode("utf-8", writer.encoding_errors)


def read(reader: Callable[[], Alignment], name: str) -> Alignment | None:
    """Return what was read, None where it is refused by its name in one line."""
    refused = pytest.raises(CtcAlignError, match=rf"\A{re.escape(name)}[^\n]{{,300}}\Z")
    with suppress(InputError):
        return reader()
    with refused:
        reader()
    return None


@over_rows("path", list(places(whole())))
def test_every_field_may_be_anything(path: tuple[Any, ...]):
    for value in HOSTILE:
        alignment = read(
            lambda value=value: from_dict(with_value(path, value), "a.json"), "a.json: not a whole alignment:"
        )
        if alignment is not None:
            write_all(alignment)
    alignment = from_dict(whole())
    write_all(alignment)
    assert from_dict(to_dict(alignment)) == alignment


PICTURES = ("png", "svg")
"""Formats that are drawn, which takes long: they have tests of their own."""
DEEP = "[" * 100_000


@over_rows(
    "content", [DEEP, '{"a":' * 100_000, "9" * 5000, "1e999", "NaN", '"\\ud800"', "[1e400]", "", "\0", "\ufeff{}"]
)
def test_json_that_is_none(tmp_path_factory, content: str):
    path = Path(tmp_path_factory.mktemp("json"), "a.json")
    for text in (content, json.dumps(whole()).replace('"bare"', content or "{")):
        path.write_text(text, encoding="utf-8")
        alignment = read(lambda: read_alignment(path), str(path))
        if alignment is not None:
            assert text != content
            write_all(alignment)


def test_fields_of_a_later_version_pass():
    data = whole()
    data["new"] = data["words"][0]["new"] = data["regions"][0]["new"] = data["subtitles"]["cues"][0]["new"] = [1]
    assert from_dict(data) == from_dict(whole())


def test_a_field_that_is_missing_is_named():
    data = whole()
    del data["words"][1]["spoken"]
    with pytest.raises(InputError, match=r"words\[1\].spoken is missing"):
        from_dict(data)
