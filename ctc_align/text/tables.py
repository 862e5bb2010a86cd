"""Tables in text files: lists of words, abbreviations and units, letters with their phones.

A file is UTF-8 and has sections, whose entries are separated by white space:

    # …                     a comment, on its own line or after two spaces behind a heading
    {weak}=VC,VCC           defines `{weak}` in the entries of this file
    [titles]                a section
    [de nds < Lax] hiatus   a section for German and Low German: it begins with the entries of the section "Lax", and
                            has the option "hiatus"
    [lb over de]            a section based on another one; see `ctc_align.text.sounds.spelling_rules`
    U+064E=a                an entry with a character by its code point
    mph=mile_per_hour       an entry whose value has spaces

Sections are named by the codes of languages, or by nouns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
EVERY = "*"
"""The section on which all others of a file are based, if the file has it."""
_COMMENT = re.compile(r"^# .*$", re.MULTILINE)
_DEFINED = re.compile(r"^\{(\w+)\}=(.*)$", re.MULTILINE)
_MACRO = re.compile(r"\{(\w+)\}")
_HEADING = re.compile(
    r"^\[([^\]<]+?)(?: < ([^\]]+?))?(?: over (\S+))?\](.*?)(?:  # .*)?$", re.MULTILINE
)
_CODE_POINT = re.compile(r"U\+([0-9A-F]{4})")


class Section(NamedTuple):
    """A section of a table.

    Its entries, its options ("" for one without a value), and the section that it extends.
    """

    entries: str
    options: Mapping[str, str]
    below: str


@cache
def sections(file: str) -> dict[str, Section]:
    """Return the sections of a table by their names; each file is read once.

    Args:
        file: the path in this folder, without ".txt".

    >>> sections("sounds/latin")["hr"].options, sections("sounds/latin")["lb"].below
    ({'hiatus': ''}, 'de')
    """
    text = (FOLDER / f"{file}.txt").read_text(encoding="utf-8")
    text = _CODE_POINT.sub(lambda match: chr(int(match[1], 16)), _COMMENT.sub("", text))
    macros = dict(_DEFINED.findall(text))
    text = _MACRO.sub(lambda match: macros[match[1]], _DEFINED.sub("", text))
    found: dict[str, Section] = {}
    for names, bases, below, options, entries in zip(*[iter(_HEADING.split(text)[1:])] * 5):
        parts = (option.partition("=") for option in options.split())
        inherited = [found[base].entries for base in (bases or "").split()]
        section = Section(
            " ".join([*inherited, *entries.split()]),
            {key: value for key, _, value in parts},
            below or (EVERY if names != EVERY and EVERY in found else ""),
        )
        found.update(dict.fromkeys(names.split(), section))
    return found


@lru_cache(maxsize=512)
def text_table(file: str, *names: str) -> dict[str, str]:
    """Return the values of the entries key=value of sections.

    Later sections take precedence; a section may be missing.

    >>> text_table("sounds/letter-names", "fr")["w"], text_table("english", "units")["mph"], text_table("english", "xx")
    ('doublevé', 'mile per hour', {})
    """
    found = sections(file)
    entries = (
        entry.rpartition("=")
        for name in names
        if name in found
        for entry in found[name].entries.split()
    )
    return {key: value.replace("_", " ") for key, _, value in entries}


def character_table(file: str, name: str) -> dict[str, str]:
    """Return the values of a section by character: an entry ab=c is one for "a", and one for "b".

    >>> character_table("words", "variants")["℃"]
    '°C'
    """
    entries = text_table(file, name).items()
    return {character: value for characters, value in entries for character in characters}


def word_list(name: str, file: str = "words") -> frozenset[str]:
    """Return the entries of a section as a set.

    >>> "dr" in word_list("titles")
    True
    """
    return frozenset(sections(file)[name].entries.split())
