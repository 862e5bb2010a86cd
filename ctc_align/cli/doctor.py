"""ctc-align doctor: what is installed here, whether it works, and text about it to paste into a report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer

from ctc_align.cli.messages import SOME_FAILED, Talk
from ctc_align.cli.options import Group, grouped
from ctc_align.cli.printing import put
from ctc_align.config import setting
from ctc_align.errors import UsageError

FORMATS = ("text", "json")


@dataclass(frozen=True)
class DoctorOptions(Group):
    """How the report is printed."""

    format: str = setting("text", "Text to paste into a report, or JSON for programs.", metavar="text|json")


@grouped
def doctor(*, wanted: DoctorOptions) -> None:
    """Say what is installed here and whether it works: versions, devices, folders, models, extras, a self-test.

    The self-test aligns the recording of `ctc-align demo` on each kind of device that is here, and compares all words
    with their known times. The output names no user: the home folder is `~`. Exits with 1 when the self-test fails.
    """
    format = wanted.format
    if format not in FORMATS:
        raise UsageError(f"--format: expected {' or '.join(FORMATS)}, got {format!r}")
    from ctc_align.cli.installation import installation, self_tests, without_user

    Talk().listen()
    found = without_user({**installation(), "self_tests": self_tests()})
    put(json.dumps(found, indent=1, allow_nan=False) if format == "json" else "\n".join(_lines(found)))
    if not all(test["passed"] for test in found["self_tests"]):
        raise typer.Exit(SOME_FAILED)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield the report as text: a heading for each part, and its rows below it."""
    versions = found["versions"]
    yield f"ctc-align {versions['ctc-align']}, Python {versions['python']}, {found['system']['system']}"
    yield f"in {found['system']['folder']}"
    packages = {name: version or "missing" for name, version in versions.items() if name not in ("ctc-align", "python")}
    models = found["models"]
    parts = {
        "versions": packages,
        "devices": found["devices"],
        "folders": [(row["holds"], _folder_line(row)) for row in found["folders"]],
        "models": {"": models}
        if isinstance(models, str)
        else {row["name"]: f"{row['megabytes']} MB, {row['about']}" for row in models},
        "extras": {row["extra"]: _extra_line(row) for row in found["extras"]},
        "self-test": {test["device"]: _test_line(test) for test in found["self_tests"]},
    }
    for heading, rows in parts.items():
        yield f"\n{heading}"
        pairs = list(rows.items()) if isinstance(rows, dict) else rows
        width = max(len(name) for name, _ in pairs)
        yield from (f"  {name:<{width}}  {value}" for name, value in pairs)


def _folder_line(row: dict[str, Any]) -> str:
    size = f"{row['free_megabytes']} MB free" if "free_megabytes" in row else f"{row['megabytes']} MB"
    return f"{row['folder']} ({'' if row['writable'] else 'not '}writable, {size})"


def _extra_line(row: dict[str, Any]) -> str:
    if "broken" in row:
        return f"BROKEN: {row['purpose']}; {row['broken']}; perhaps {row['install']} mends it"
    if row["installed"]:
        return f"installed: {row['purpose']}"
    return f"not installed: {row['purpose']}; lacks {', '.join(row['missing'])}: {row['install']}"


def _test_line(test: dict[str, Any]) -> str:
    if test["passed"]:
        error = f"all words within {test['largest_error_ms']} ms of their places"
        return f"passed in {test['seconds']} s by the backend {test['backend']}: {error}"
    return f"FAILED after {test['seconds']} s: {test['problem']}"
