"""Subtitles as transcripts: SRT and WebVTT files, read as the text of their cues, with what is written back around it.

Players forgive much, and so does this reader: numbers that are missing or repeated, blank lines that are missing or
doubled, times without hours, points for commas, cues without text. Blank lines within a cue belong to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ctc_align.errors import TranscriptError
from ctc_align.types import SRT, VTT, SourceCue, Subtitles, Transcript

_TIME = r"(?:(\d{1,4}):)?(\d{1,3}):(\d{1,2})(?:\s?[,.]\s?(\d{1,9}))?"
_TIMES = re.compile(rf"\s*{_TIME}\s*(?:-{{1,3}}>|→)\s*{_TIME}(?P<settings>[ \t].*)?\s*")
_CUE_LINE = re.compile(r"^[ \t]*(?:\d+:)?\d+:\d+(?:(?<=:\d\d:\d\d)|\s?[,.]\s?\d+)[ \t]*-{1,3}>[ \t]*\d", re.MULTILINE)
_FULL_TIME = r"(\d{1,4}):(\d\d):(\d\d)\s?[,.]\s?(\d{1,9})"
_HALF_ARROW = r"\s*(?:[-–—=~]{1,3}\s?(?:>|&gt;)?|>)?\s*"
_DAMAGED_TIMES = re.compile(rf"\s*{_FULL_TIME}{_HALF_ARROW}{_FULL_TIME}(?P<settings>[ \t].*)?\s*")
"""Whole times on both sides, and an arrow that is not quite one: a cue's times only where no text can be."""
_ARROW = "-->"
_NUMBER = re.compile(r"\s*\d{1,7}\s*")
_HEADER = re.compile(r"\s*WEBVTT(?![^\s])")
_BLOCK = re.compile(r"(?:NOTE|STYLE|REGION)(?![^\s])")
_ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&nbsp;": "\u00a0", "&lrm;": "\u200e", "&rlm;": "\u200f"}
_ENTITY = re.compile("|".join(_ENTITIES))


def has_cues(text: str) -> bool:
    """Return whether a text is a subtitle file.

    >>> has_cues("1\\n00:00:01,000 --> 00:00:02,000\\nHello"), has_cues("WEBVTT\\n"), has_cues("Hello --> there")
    (True, True, False)
    """
    text = text.removeprefix("\ufeff")
    is_vtt = _HEADER.match(text) and (_ARROW in text or text.lstrip().partition("\n")[0].strip() == "WEBVTT")
    return bool(is_vtt) or _CUE_LINE.search(text) is not None


def has_damaged_times(text: str) -> bool:
    """Return whether a line is two whole times with something between them that may have been an arrow.

    >>> has_damaged_times("1\\n00:00:01,000 -- 00:00:02,000\\nHello"), has_damaged_times("from 1:00 - 2:00")
    (True, False)
    """
    return any(map(_DAMAGED_TIMES.fullmatch, text.split("\n")))


def without_times_lines(text: str) -> str:
    """Return the text of a cue such that no line of it reads as times: the arrow of one that would is opened.

    >>> without_times_lines("Now:\\n00:00:01.000 --> 00:00:02.000\\na -> b")
    'Now:\\n00:00:01.000 -- > 00:00:02.000\\na -> b'
    """
    lines = text.split("\n")
    return "\n".join(
        re.sub("(-+)>|→", lambda arrow: f"{arrow[1] or '-'} >", line)
        if _TIMES.fullmatch(line) or (_ARROW in line and _is_meant_as_times(line))
        else line
        for line in lines
    )


@dataclass(frozen=True)
class _TimesLine:
    """The line of a cue's times: where it is, and what stands in it."""

    index: int
    start_s: float
    end_s: float
    settings: str
    id_index: int
    """The line of the cue's number or name; `index` where there is none."""


def parse_subtitles(text: str, source: str, likely: str = SRT) -> Transcript:
    """Return the cues' text, a cue after the other, and the cues.

    Args:
        text: of the file.
        source: the file's name, for messages.
        likely: "srt" or "vtt" where the file does not say.

    Raises:
        TranscriptError: a line of times that cannot be read, or no cue at all; the message names the line.

    >>> parse_subtitles("WEBVTT\\n\\n00:01.000 --> 00:02.000 line:0\\n<v Mary>Hello\\nthere\\n", "a.vtt").text
    '<v Mary>Hello\\nthere'
    """
    lines = re.split(r"\r*\n|\r+|\u2028|\x85", text.removeprefix("\ufeff"))
    format = VTT if _HEADER.match(lines[0] if lines else "") else likely
    rows = _times_lines(lines, source, format)
    if not rows:
        raise TranscriptError(f"{source}: expected subtitles with cues, got a header without any; is the file whole?")
    cues: list[SourceCue] = []
    pieces: list[str] = []
    place = 0
    header, pending = _header(lines[: rows[0].id_index], format)
    for number, row in enumerate(rows):
        end = rows[number + 1].id_index if number + 1 < len(rows) else len(lines)
        payload, blocks = _payload(lines[row.index + 1 : end], format)
        plain = _ENTITY.sub(lambda match: _ENTITIES[match[0]], payload) if format == VTT else payload
        name = lines[row.id_index].strip() if row.id_index < row.index else ""
        cue = SourceCue(place, place + len(plain), row.start_s, row.end_s, name, row.settings, pending)
        cues.append(cue if plain == payload else replace(cue, payload=payload))
        pieces.append(plain)
        place += len(plain) + 1
        pending = blocks
    return Transcript("\n".join(pieces), Subtitles(format, header, tuple(cues), pending))


def _times_lines(lines: Sequence[str], source: str, format: str) -> list[_TimesLine]:
    """Return the lines of times, in order, with their cues' numbers or names."""
    rows: list[_TimesLine] = []
    free, in_block = 0, False
    all_damaged = not any(map(_TIMES.fullmatch, lines))
    for index, line in enumerate(lines):
        if not line.strip():
            in_block = False
        elif format == VTT and (_BLOCK.match(line) and (index == 0 or not lines[index - 1].strip())):
            in_block = True
        match = None if in_block else _TIMES.fullmatch(line)
        id_index = _id_index(lines, index, free, format, rows)
        if match is None and not in_block and (all_damaged or _opens_cue(lines, index, id_index, format)):
            match = _DAMAGED_TIMES.fullmatch(line)
        if match is None:
            if _ARROW in line and not in_block and _is_meant_as_times(line):
                raise TranscriptError(
                    f"{source}, line {index + 1}: expected the times of a cue such as 00:00:01,000 --> 00:00:02,500, "
                    f"got {line.strip()[:60]!r}; correct that line"
                )
            continue
        start_s, end_s = _seconds(match.groups()[:4]), _seconds(match.groups()[4:8])
        rows.append(_TimesLine(index, start_s, max(end_s, start_s), (match["settings"] or "").strip(), id_index))
        free = index + 1
    return rows


def _is_meant_as_times(line: str) -> bool:
    """Return whether a line with an arrow looks like times gone wrong, not like words."""
    before, _, after = line.partition(_ARROW)
    return not any(character.isalpha() for character in before) or re.match(r"\s*\d+:\d", after) is not None


def _opens_cue(lines: Sequence[str], index: int, id_index: int, format: str) -> bool:
    """Return whether a cue begins here: its number or name follows a blank line; in VTT it may have none."""
    return (id_index < index or format == VTT) and (id_index == 0 or not lines[id_index - 1].strip())


def _id_index(lines: Sequence[str], index: int, free: int, format: str, rows: Sequence[_TimesLine]) -> int:
    """Return the line of the number or name of the cue whose times are at `index`; lines before `free` are taken."""
    above = index - 1
    if above < free:
        return index
    if lines[above].strip():
        alone = above == free == 0 or (above > 0 and not lines[above - 1].strip())
        named = format == VTT and alone and not _HEADER.match(lines[above]) and _ARROW not in lines[above]
        return above if named or _NUMBER.fullmatch(lines[above]) else index
    # A number with a blank line below and above it, as every second line is; the right number, so that it is no text.
    alone = above == 1 or (above > 1 and not lines[above - 2].strip())
    if alone and above - 1 >= free and _NUMBER.fullmatch(lines[above - 1]):
        before = lines[rows[-1].id_index].strip() if rows else "0"
        count = len(rows) + 1
        expected = {count, int(before) + 1 if _NUMBER.fullmatch(before) else count}
        if int(lines[above - 1]) in expected:
            return above - 1
    return index


def _seconds(parts: Sequence[str | None]) -> float:
    """Return hours, minutes, seconds and their fraction as seconds.

    >>> _seconds(("1", "00", "02", "5")), _seconds((None, "00", "02", "050"))
    (3602.5, 2.05)
    """
    hours, minutes, seconds, fraction = parts
    whole = 3600 * int(hours or 0) + 60 * int(minutes or 0) + int(seconds or 0)
    return whole + (int(fraction) / 10 ** len(fraction) if fraction else 0.0)


def _header(lines: Sequence[str], format: str) -> tuple[str, str]:
    """Return the header of the file, and the blocks (NOTE, STYLE …) between it and the first cue."""
    if format != VTT:
        return "", ""
    headed = bool(lines) and _HEADER.match(lines[0]) is not None
    end = next((index for index, line in enumerate(lines) if not line.strip() or not headed), len(lines))
    return "\n".join(lines[:end]).strip() or "WEBVTT", "\n".join(lines[end:]).strip("\n")


def _payload(lines: Sequence[str], format: str) -> tuple[str, str]:
    """Return the text of a cue, without blank lines around it, and in VTT the blocks that follow it."""
    end = len(lines)
    if format == VTT:
        starts = (
            index for index, line in enumerate(lines) if _BLOCK.match(line) and index and not lines[index - 1].strip()
        )
        end = next(starts, end)
    first = next((index for index in range(end) if lines[index].strip()), end)
    last = next((index for index in range(end, first, -1) if lines[index - 1].strip()), first)
    return "\n".join(lines[first:last]), "\n".join(lines[end:]).strip("\n")
