"""Vocabulary files and the blank.

A file has one token per line, Kaldi's `token id`, or a JSON list or object.
"""

from __future__ import annotations

import json
import operator
import os
import re
from typing import Any

from ctc_align.errors import EmissionsError, UsageError
from ctc_align.reading import parse_json, read_input, shown

_KALDI_LINE = re.compile(r"([^ \t]+)[ \t]+(-?[0-9]{1,9})")
_SPACE_LINE = re.compile(r"( )[ \t]([0-9]{1,9})[ \t]*")
_DISAMBIGUATION = re.compile(r"#\d+")
_LIKELY_BLANKS = (
    "<blk>",
    "<blank>",
    "<b>",
    "[blank]",
    "<pad>",
    "[PAD]",
    "<eps>",
    "<ctc>",
    "-",
    "_",
)
_CALLED_BLANK = frozenset(
    ("blank", "blk", *(token.casefold() for token in _LIKELY_BLANKS if len(token) > 1))
)
"""Tokens that almost certainly mean a blank, in upper or lower case; - and _ may be letters."""

_NAMED = 6


def load_vocab(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Read the tokens in the order of their ids.

    A line that is one space is the token " "; empty lines at the end are ignored. If every line is
    a token and a whole number, the numbers are ids and must be 0 … C-1, in any order; the token may
    be a space.

    Raises:
        UsageError: no such file.
        EmissionsError: the file is not UTF-8 or has no tokens, a token is empty or repeated, or the
            ids are not 0 … C-1.
    """
    name = os.fspath(path)
    try:
        text = read_input(name, pipes=True).decode("utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"{name}: no such vocabulary file") from None
    except UnicodeDecodeError as error:
        raise EmissionsError(
            f"{name}: expected a UTF-8 vocabulary, got byte 0x{error.object[error.start]:02x}"
        ) from None
    except OSError as error:
        raise UsageError(f"{name}: the vocabulary cannot be read: {error.strerror}") from None
    entries = _json(text, name)
    if entries is None:
        tokens = _from_lines(text, name)
    else:
        tokens = _from_json(entries, name)
    if not tokens:
        raise EmissionsError(f"{name}: the vocabulary has no tokens")
    return tokens


def resolve_blank(blank: int | str, vocab: tuple[str, ...], role: str = "blank") -> int:
    """Return the index of the blank.

    It is given as a token of `vocab` or as an index; a token takes precedence. `role` is its name
    in messages, because other tokens can be given in the same way.

    >>> resolve_blank("<blk>", ("a", "<blk>")), resolve_blank("0", ("a", "<blk>")), resolve_blank(1, ("a", "0"))
    (1, 0, 1)

    Raises:
        UsageError: it is neither a token of the vocabulary nor an index into it.
    """
    if isinstance(blank, str):
        if blank in vocab:
            return vocab.index(blank)
        if not re.fullmatch(r"[+-]?[0-9]{1,9}", blank):
            likely = [token for token in _LIKELY_BLANKS if token in vocab and role == "blank"]
            if likely:
                hint = f"; {', '.join(likely)} would be one"
            else:
                hint = ""
            raise UsageError(
                f"{role}: expected a token of the vocabulary or an index, got {shown(blank)}{hint}"
            )
    try:
        if isinstance(blank, str):
            index = int(blank)
        else:
            index = operator.index(blank)
    except TypeError:
        raise UsageError(
            f"{role}: expected a token or an index, got {type(blank).__name__}"
        ) from None
    if not 0 <= index < len(vocab):
        raise UsageError(
            f"{role}: expected an index from 0 to {len(vocab) - 1}, got {shown(index)}"
        )
    return index


def default_blank(vocab: tuple[str, ...]) -> int:
    """Return the blank of a vocabulary for which none is given: token 0.

    The numbers of an array may say otherwise: `ctc_align.models.array_checks.blank_of_array`.

    Raises:
        UsageError: another token has the name of a blank, and token 0 does not.

    >>> default_blank(("<blk>", "a", "<pad>")), default_blank(("a", "-"))
    (0, 0)
    """
    index = next(iter(called_blanks(vocab)), 0)
    if not index:
        return 0
    raise UsageError(
        f"blank: token 0 of the vocabulary, {shown(vocab[0])}, would be the blank, but token"
        f" {index} is called {shown(vocab[index])}: say which it is, --blank {index} (or --blank 0,"
        " if that is right)"
    )


def called_blanks(vocab: tuple[str, ...]) -> list[int]:
    """Return the indices of the tokens that have the name of a blank."""
    return [index for index, token in enumerate(vocab) if token.casefold() in _CALLED_BLANK]


def without_disambiguation(vocab: tuple[str, ...], classes: int) -> tuple[str, ...]:
    """Return `vocab` cut to `classes` tokens if the rest are `#0`, `#1` …, which no model emits.

    >>> without_disambiguation(("<blk>", "a", "#0", "#1"), 2)
    ('<blk>', 'a')
    """
    extra = vocab[classes:]
    if extra and all(_DISAMBIGUATION.fullmatch(token) for token in extra):
        return vocab[:classes]
    return vocab


def _json(text: str, name: str) -> list[Any] | None:
    """Return the entries of a JSON list or object, None for a plain vocabulary.

    A plain vocabulary may begin with `[` or `{`, too.
    """
    if not name.lower().endswith(".json") and text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        value = parse_json(text, object_pairs_hook=list if text.lstrip()[:1] == "{" else None)
    except json.JSONDecodeError as error:
        if not name.lower().endswith(".json"):
            return None
        raise EmissionsError(
            f"{name}:{error.lineno}: expected a JSON list or object of tokens: {error.msg}"
        ) from None
    except ValueError as error:
        raise EmissionsError(
            f"{name}: expected a JSON list or object of tokens, got {error}"
        ) from None
    if isinstance(value, list):
        return value
    raise EmissionsError(
        f"{name}: expected a JSON list of tokens or an object of token to id, got"
        f" {type(value).__name__}"
    )


def _from_json(entries: list[Any], name: str) -> tuple[str, ...]:
    """Return the tokens of a list of tokens, or of the (token, id) pairs of an object."""
    pairs = [entry for entry in entries if isinstance(entry, tuple)]
    if not pairs:
        wrong = [entry for entry in entries if not isinstance(entry, str)]
        if wrong:
            raise EmissionsError(f"{name}: expected tokens in quotes, got {shown(wrong[0])}")
        return _unique([(token, f"entry {index + 1}") for index, token in enumerate(entries)], name)
    for token, value in pairs:
        if isinstance(value, bool) or not isinstance(value, int):
            raise EmissionsError(
                f"{name}: expected an object of token to id, got {shown(value)} for token"
                f" {shown(token)}"
            )
    return _by_id(
        [(token, value, f"entry {index + 1}") for index, (token, value) in enumerate(pairs)], name
    )


def _from_lines(text: str, name: str) -> tuple[str, ...]:
    # only line feeds end lines: a token may contain any other line break of Unicode
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    # in NeMo's exports the token " " stands before its id
    lines = [
        line if line == " " or _SPACE_LINE.fullmatch(line) else line.strip(" \t") for line in lines
    ]
    matches = [_KALDI_LINE.fullmatch(line) or _SPACE_LINE.fullmatch(line) for line in lines]
    if lines and all(matches):
        return _by_id(
            [(m[1], int(m[2]), f"line {i + 1}") for i, m in enumerate(matches) if m], name
        )
    for number, (line, match) in enumerate(zip(lines, matches), start=1):
        if not line:
            raise EmissionsError(
                f"{name}:{number}: expected a token, got an empty line: name the blank, <blk> say"
            )
        if line != " " and (match or " " in line or "\t" in line):
            raise EmissionsError(
                f"{name}:{number}: expected one token per line, or a token and its id on every"
                f" line, got {shown(line)}"
            )
    return _unique([(line, f"line {number}") for number, line in enumerate(lines, start=1)], name)


def _by_id(entries: list[tuple[str, int, str]], name: str) -> tuple[str, ...]:
    """Return the tokens ordered by their ids, which must be 0 … C-1, each once."""
    _unique([(token, where) for token, _, where in entries], name)
    seen: dict[int, str] = {}
    beyond: list[str] = []
    for token, index, where in entries:
        named = f"{shown(token)} ({where})"
        if index in seen:
            raise EmissionsError(
                f"{name}: id {shown(index)} is given twice: to {seen[index]} and {named}"
            )
        if not 0 <= index < len(entries):
            beyond.append(f"{shown(index)} of {named}")
        seen[index] = named
    if beyond:
        gaps = [str(index) for index in range(len(entries)) if index not in seen]
        raise EmissionsError(
            f"{name}: expected ids 0 to {len(entries) - 1}, each once, for {len(entries)} tokens;"
            f" got {_few(beyond)}, and no token for {_few(gaps)}: remove tokens for which the"
            " network has no class, and name all its classes"
        )
    return tuple(token for token, _, _ in sorted(entries, key=lambda entry: entry[1]))


def surplus(vocab: tuple[str, ...], classes: int) -> str:
    """Return which tokens of a vocabulary have no class, for a message.

    It is "" if the vocabulary is not too long.

    >>> surplus(("-", "a", "<s>", "</s>"), 2)
    "2 '<s>', 3 '</s>'"
    """
    return _few([f"{index} {shown(vocab[index])}" for index in range(classes, len(vocab))])


def _few(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" … ({len(names)} in all)" if len(names) > _NAMED else "")


def _unique(entries: list[tuple[str, str]], name: str) -> tuple[str, ...]:
    seen: dict[str, str] = {}
    for token, where in entries:
        if token in seen:
            raise EmissionsError(
                f"{name}: token {shown(token)} is there twice: {seen[token]} and {where}"
            )
        seen[token] = where
    return tuple(seen)
