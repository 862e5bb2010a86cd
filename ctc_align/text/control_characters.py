"""Characters that are obeyed and not shown: as a terminal, a file format or a spreadsheet must get them.

Names of files, transcripts and labels come from strangers. A terminal obeys ESC and other control characters, and lines
look like others by characters that turn the direction of text; many file formats cannot hold control characters, and a
spreadsheet computes a cell that begins with "=".
"""

from __future__ import annotations

import re

_OBEYED = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL and C1: ESC, BEL, BS, CR, CSI, OSC …
    "\u2028\u2029"  # line and paragraph separators
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks, embeddings, overrides and isolates of direction
    "\u206a-\u206f\ufff9-\ufffb\U000e0000-\U000e007f"  # deprecated format characters, annotations, tags
    "\ud800-\udfff]"  # halves of surrogate pairs: bytes of file names that are not UTF-8, and broken JSON
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_FORMULA = re.compile("'*[=+\\-@\t\r＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:[.,:/]\d+)*(?:e[+-]?\d+)?%?|inf)|-")
"""Numbers as people and we write them, and the name of standard input: nothing that is computed."""
REPLACEMENT = "\ufffd"


def printable(text: str, keep: str = "") -> str:
    r"""Return a text that a terminal shows and does not obey: what it would obey stands there as a Python escape.

    Args:
        keep: characters that stay as they are: "\n" for a text of several lines, "\t" for columns.

    >>> printable("talk\x1b[2J\u202e.wav"), printable("caf\udce9.wav")
    ('talk\\x1b[2J\\u202e.wav', 'caf\\xe9.wav')
    """
    return _OBEYED.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), text)


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # Python's stand-in for a byte of a file name
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def json_escaped(text: str) -> str:
    r"""Return a JSON text with the same content in which no control character or mark of direction stands raw.

    >>> json_escaped('"\x9b2J\u202e"')
    '"\\u009b2J\\u202e"'
    """
    return _OBEYED.sub(lambda match: match[0] if match[0] in "\n\t" else _json_escape(match[0]), text)


def _json_escape(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + ((code - 0x10000) >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def without_controls(text: str) -> str:
    r"""Return a text with U+FFFD for each control character but tab and line feed, and spaces for U+2028 and U+2029.

    >>> without_controls("a\x1b[1m\x00b")
    'a�[1m�b'
    """
    return _CONTROLS.sub(REPLACEMENT, text).replace("\u2028", " ").replace("\u2029", " ")


def spreadsheet_cell(text: str) -> str:
    """Return a cell that a spreadsheet takes as text: an apostrophe before what it would compute; numbers stay.

    An apostrophe is put before one that stands before such a sign, too, so that taking one away gives the text back.

    >>> spreadsheet_cell("=1+1"), spreadsheet_cell("@cmd"), spreadsheet_cell("-5"), spreadsheet_cell("'=1+1")
    ("'=1+1", "'@cmd", '-5', "''=1+1")
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
