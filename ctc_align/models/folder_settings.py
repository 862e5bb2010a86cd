"""What the folder of a model of ours remembers beside its weights, read without loading it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ctc_align.config import read_toml
from ctc_align.errors import ConfigError
from ctc_align.models import EMBEDDED, FAMILIES, FOLDER_FILES

LEXICON = "lexicon.txt"
"""The pronunciations that a model of phones was trained with, in its folder."""


@dataclass(frozen=True)
class Remembered:
    """The language of a model's transcripts, "" where none is known; the path of its lexicon, None without one."""

    language: str = ""
    lexicon: str | None = None


def remembered(model: str | None) -> Remembered:
    """What the model called `model` remembers: nothing, unless it is a folder that `ctc-align train` wrote.

    What is wrong with the folder is told by `load_model`; a lexicon beside a model of letters is none of its own.

    >>> remembered("english"), remembered(None) == remembered("hf:org/name")
    (Remembered(language='', lexicon=None), True)
    """
    if model is None or model in EMBEDDED or model.startswith(tuple(FAMILIES)):
        return Remembered()
    try:
        described = read_toml(Path(model, FOLDER_FILES[0]))
    except (ConfigError, ValueError):  # ValueError: not a path at all
        return Remembered()
    language, lexicon = described.get("language", ""), Path(model, LEXICON)
    own = described.get("token_kind") == "phones" and lexicon.is_file()
    return Remembered(language if isinstance(language, str) else "", str(lexicon) if own else None)
