"""Every alignment that the tests write as JSON is what the schema says, and has no field that it
does not describe.

`Watch` looks at each object that `to_dict` returns while the tests run, or would for what is
written as JSON. Files that other processes wrote are read at the end (`files_against_schema`).
"""

from __future__ import annotations

import functools
import gzip
import json
import zlib
from pathlib import Path
from typing import Any, TextIO

from ctc_align import files
from ctc_align.files import alignment_files, json_files
from ctc_align.types import FORMAT, Alignment

SCHEMA = "ctc_align/files/ctc-align-1.schema.json"


def strict(schema: Any) -> Any:
    """Return the schema with no field allowed that it does not describe: the published one lets
    them pass."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(part) for key, part in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        closed.setdefault("additionalProperties", False)
    return closed


@functools.cache
def _validator() -> Any:
    from jsonschema_rs import Draft202012Validator  # hundreds of times as fast as jsonschema

    return Draft202012Validator(strict(json_files.json_schema()))


def faults_of(data: Any) -> list[str]:
    """Return what is wrong with the JSON object of an alignment, each fault with its place."""
    return [
        f"$.{'.'.join(map(str, error.instance_path))}: {error.message[:300]} (a new field is"
        f" described in {SCHEMA})"
        for error in _validator().iter_errors(data)
    ]


class Watch:
    """Checks what `to_dict` returns from now on; `faults` are kept for the case that the error is
    caught."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        original = json_files.to_dict

        @functools.wraps(original)
        def to_dict(*args: Any, **options: Any) -> dict[str, Any]:
            data = original(*args, **options)
            found = faults_of(data)
            self.faults += found
            assert not found, found
            return data

        for module in (json_files, alignment_files, files):
            module.to_dict = to_dict  # type: ignore[attr-defined]
        write = json_files.JsonWriter.write

        @functools.wraps(write)
        def watched(writer: json_files.JsonWriter, alignment: Alignment, file: TextIO) -> None:
            to_dict(
                alignment, writer.style(alignment)
            )  # of which a writer makes one word at a time
            write(writer, alignment, file)

        json_files.JsonWriter.write = watched  # type: ignore[method-assign]


def files_against_schema(folder: Path) -> list[str]:
    """Return the faults of all alignments in `folder` that ctc-align wrote, in files and in shards.

    Those without a version were written by hand for a test; the same bytes are looked at once.
    """
    seen: set[bytes] = set()
    faults = []
    for path in sorted(folder.rglob("*")):
        for text in _texts(path):
            if b'"version"' in text and text not in seen:
                seen.add(text)
                faults += [f"{path}: {fault}" for fault in _faults_of_text(text)]
    return faults


def _texts(path: Path) -> list[bytes]:
    """Return what may be alignments in a file: all of it, or each line of a shard; nothing where it
    is spoilt."""
    if not path.name.endswith((".json", ".jsonl.gz")) or not path.is_file():
        return []
    content = path.read_bytes()
    try:
        return gzip.decompress(content).splitlines() if path.suffix == ".gz" else [content]
    except (OSError, EOFError, zlib.error):
        return []


def _faults_of_text(text: bytes) -> list[str]:
    try:
        data = json.loads(text, parse_constant=str)  # NaN is no number
    except (ValueError, RecursionError):
        return []
    return faults_of(data) if isinstance(data, dict) and data.get("format") == FORMAT else []
