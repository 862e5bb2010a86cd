"""Facts about models by their names, known without loading them.

These are the available models, the settings in a trained model's folder, and the languages of
`universal`.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ctc_align.config import UNKNOWN_LANGUAGE, read_toml
from ctc_align.errors import ConfigError, UsageError
from ctc_align.extras import EXTRAS, install_line
from ctc_align.models import AUTO, EMBEDDED, ENGLISH, FOLDER_FILES, UNIVERSAL, embedded_folder
from ctc_align.models.acoustic_model import family_of
from ctc_align.text.phone_sets import is_ipa

LEXICON = "lexicon.txt"
"""The file in a model's folder with the pronunciations that a model of phones was trained with."""
INSIDE = "inside the package"
LANGUAGES = "languages.tsv"
"""The file of `universal` with its languages, their training data and their figures."""
LANGUAGE_COLUMNS = ("language", "script", "hours")
"""A code, a script, and hours of speech in the training.

All other columns are figures, named by the header.
"""
_ENTRIES = Path(__file__).with_suffix(".tsv")
"""The available models.

A bundle of torchaudio has the licence that torchaudio's documentation states, and the size of its
weights in float32; the size of an embedded model is that of its file.
"""


@dataclass(frozen=True)
class CatalogueEntry:
    """One available model.

    `name` is what --model takes, with "…" or PATH for a name or path of the user's choice.
    `megabytes` is the size of the download (10**6 bytes), None if unknown; `licence` is "" if
    unknown.
    """

    name: str
    about: str
    extra: str = ""
    megabytes: int | None = None
    licence: str = ""

    @property
    def state(self) -> str:
        """The source of the model, or the extra that it needs."""
        if not self.extra:
            return "yours" if self.megabytes is None else INSIDE
        if EXTRAS[self.extra].missing():
            return install_line(self.extra)
        family = family_of(self.name)
        if family is not None and family.is_file:
            return "yours"
        return "downloaded when first used"


def catalogue_entries() -> list[CatalogueEntry]:
    """Return all available models, the embedded ones first."""
    with _ENTRIES.open(encoding="utf-8", newline="") as file:
        return [_entry(**row) for row in csv.DictReader(file, delimiter="\t")]


def _entry(name: str, megabytes: str, **texts: str) -> CatalogueEntry:
    size = int(megabytes) if megabytes else None
    if name in EMBEDDED:
        weights = embedded_folder(name) / FOLDER_FILES[1]
        size = round(weights.stat().st_size / 1e6)
    return CatalogueEntry(name, megabytes=size, **texts)


@dataclass(frozen=True)
class FolderSettings:
    """The language and the lexicon of transcripts, as a trained model's folder names them.

    The language is "" if it is unknown; the path of the lexicon is None if there is none. `ipa`:
    its tokens are `IPA_PHONES`, for words of any language; the language is unknown ("und") then.
    """

    language: str = ""
    lexicon: str | None = None
    ipa: bool = False


def folder_settings(model: str | None) -> FolderSettings:
    """Return the settings in the folder that `ctc-align train` wrote; empty for any other model.

    `load_model` reports faults of the folder. A lexicon beside a model of letters is ignored.

    >>> folder_settings("english"), folder_settings(None) == folder_settings("hf:org/name")
    (FolderSettings(language='', lexicon=None, ipa=False), True)
    """
    if model in (None, AUTO, ENGLISH) or family_of(model) is not None:
        return FolderSettings()
    if model in EMBEDDED:
        folder = embedded_folder(model)
    else:
        folder = Path(model)
    try:
        description = read_toml(folder / FOLDER_FILES[0])
    except (ConfigError, ValueError):  # ValueError: not a path at all
        return FolderSettings()
    language = description.get("language", "")
    vocab = description.get("vocab")
    lexicon = folder / LEXICON
    has_lexicon = description.get("token_kind") == "phones" and lexicon.is_file()
    ipa = isinstance(vocab, list) and is_ipa(token for token in vocab if isinstance(token, str))
    known = language if isinstance(language, str) else ""
    return FolderSettings(
        known or UNKNOWN_LANGUAGE * ipa, str(lexicon) if has_lexicon else None, ipa
    )


def speaks_any(model: str | None) -> bool:
    """Return whether a model has the phones of all languages and was not trained for a single one.

    >>> speaks_any("universal"), speaks_any("english"), speaks_any(None)
    (True, False, False)
    """
    settings = folder_settings(model)
    return settings.ipa and settings.language == UNKNOWN_LANGUAGE


def language_of(model: str | None) -> str:
    """Return the code of a model's only language.

    It is "" if the model has several languages, or if its language is unknown.

    >>> language_of("english"), language_of("torchaudio:VOXPOPULI_ASR_BASE_10K_DE"), language_of("hf:org/name")
    ('en', 'de', '')
    """
    from ctc_align.text.languages import NAMES

    if model is None:
        return ""
    if family_of(model) is not None:
        abouts = {entry.name: entry.about for entry in catalogue_entries()}
    else:
        abouts = {}
    about = abouts.get(model, "English" if model == ENGLISH else "").partition(",")[0]
    by_name = {name: code for code, name in NAMES.items()}
    settings = folder_settings(model)
    return by_name.get(about, "" if settings.ipa else settings.language.partition("-")[0])


def model_languages() -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the names of the figures, and a row of them for each language of `universal`.

    Rows are strings, sorted by the name of the language. A row is the language's name, code and
    script, whether numbers are read, the hours in the training, and the figures.

    Raises:
        UsageError: the model has no such table, or the table lacks a column.
    """
    path = embedded_folder(UNIVERSAL) / LANGUAGES
    try:
        header, *lines = [
            line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line
        ]
    except (OSError, ValueError):
        raise UsageError(
            f"{path}: expected a table of the model's languages, got none that can be read"
        ) from None
    lacking = [name for name in LANGUAGE_COLUMNS if name not in header]
    uneven = [number for number, line in enumerate(lines, 2) if len(line) != len(header)]
    if lacking or uneven:
        if lacking:
            what = f"it lacks {', '.join(lacking)}"
        else:
            what = f"line {uneven[0]} has the wrong number of columns"
        raise UsageError(
            f"{path}: expected a table with the columns {', '.join(LANGUAGE_COLUMNS)}; {what}"
        )
    figures = tuple(name for name in header if name not in LANGUAGE_COLUMNS)
    languages = [_language_row(dict(zip(header, line)), figures) for line in lines]
    return figures, sorted(languages, key=lambda row: (row[0].casefold(), row[1]))


def _language_row(row: dict[str, str], figures: Sequence[str]) -> tuple[str, ...]:
    from ctc_align.text.languages import name_of_language
    from ctc_align.text.word_forms import reads_digits

    code = row["language"]
    digits = "read" if reads_digits(code) else "not read"
    return (
        name_of_language(code),
        code,
        row["script"],
        digits,
        row["hours"],
        *(row[name] for name in figures),
    )
