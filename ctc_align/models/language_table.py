"""The languages of the model `universal`: `languages.tsv` in its folder, which its training and its figures come from.

The columns `language` (a code), `script` and `hours` (of speech in the training) are always there; all others are
figures, each named by its column, and are shown as they stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ctc_align.errors import UsageError
from ctc_align.models import UNIVERSAL, embedded_folder
from ctc_align.text.languages import name_of_language
from ctc_align.text.spoken_form import reads_digits

FILE = "languages.tsv"
COLUMNS = ("language", "script", "hours")


@dataclass(frozen=True)
class ModelLanguage:
    """A language of the model: its name and code, script, whether numbers are read, hours in training, and figures."""

    name: str
    code: str
    script: str
    reads_digits: bool
    hours: str
    figures: tuple[str, ...]


def model_languages() -> tuple[tuple[str, ...], Sequence[ModelLanguage]]:
    """Return the names of the figures, and the languages by their names.

    Raises:
        UsageError: the model has no table, or one that lacks a column.
    """
    path = embedded_folder(UNIVERSAL) / FILE
    try:
        header, *lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line]
    except (OSError, ValueError):
        raise UsageError(f"{path}: expected a table of the model's languages, got none that can be read") from None
    lacking = [name for name in COLUMNS if name not in header]
    uneven = [number for number, line in enumerate(lines, 2) if len(line) != len(header)]
    if lacking or uneven:
        what = f"it lacks {', '.join(lacking)}" if lacking else f"line {uneven[0]} has another number of columns"
        raise UsageError(f"{path}: expected a table with the columns {', '.join(COLUMNS)}; {what}")
    figures = tuple(name for name in header if name not in COLUMNS)
    rows = [dict(zip(header, line)) for line in lines]
    languages = [_language(row, figures) for row in rows]
    return figures, sorted(languages, key=lambda language: (language.name.casefold(), language.code))


def _language(row: dict[str, str], figures: Sequence[str]) -> ModelLanguage:
    code = row["language"]
    values = tuple(row[name] for name in figures)
    return ModelLanguage(name_of_language(code), code, row["script"], reads_digits(code), row["hours"], values)
