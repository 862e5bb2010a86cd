"""The cues of a subtitle file that was the transcript, with the times of their words: the same cues, text and order.

A cue lasts from the start of its first aligned word to the end of its last. One without such a word (`[MUSIC]`, or no
text) keeps its old times, moved as its neighbours were, where they fit between them; else it gets the room there is,
and where there is none one frame of a film (40 ms) of the last word of the cue before it.
"""

from __future__ import annotations

import html
import math
import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from ctc_align.text.subtitle_files import without_times_lines
from ctc_align.types import ALIGNED, AlignedWord, AlignmentData, SourceCue, Subtitles

_LEAST_S = 0.2
"""A cue without an aligned word is shown at least so long where there is room."""
_TAKEN_S = 0.04
"""It is shown so long, a frame of a film, at the cost of the word before it where there is none."""
_TIMESTAMP = re.compile(r"<(?:\d+:)?\d+:\d+\.\d+>")
_VTT_TAG = re.compile(r"<(/?)(?!\s)(?:([ibu])|[a-z]+|(?:\d+:)?\d+:\d+\.\d+)?(?:[.\s][^<>]*)?>", re.IGNORECASE)
_SRT_MARK = re.compile(r"\{\\[^}]*\}|</?font\b[^<>]*>|(?P<tag></?[ibu]>)|(?P<sign>[&<>])", re.IGNORECASE)
_LIKE_TAG = re.compile(r"<(?!(?:eps|unk|sil|spn|oov|noise|blank)>)((?:[/!?]?[A-Za-z]|!--)[^<>]*)>")
"""Markup as players, and pages that show subtitles, may know it; not the usual symbols of transcripts (`<unk>`)."""
_LIKE_OVERRIDE = re.compile(r"\{(\\[^{}]*)\}")
_SIGNS = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def source_srt(alignment: AlignmentData, shift_s: float = 0.0) -> str:
    """Return the cues of the transcript as an SRT file; `shift_s` is added to every time.

    Their numbers are the file's where they ascend, else 1, 2, 3 …; the settings behind times stay. What only VTT has
    (voices, classes) is left out of cues that come from there.
    """
    subtitles = _subtitles(alignment)
    own = subtitles.format == "srt"
    names = [cue.name for cue in subtitles.cues]
    numbered = own and all(name.isdecimal() and len(name) < 10 for name in names)
    numbered = numbered and all(int(a) < int(b) for a, b in pairwise(names))
    blocks = []
    for number, (cue, (start_ms, end_ms)) in enumerate(zip(subtitles.cues, _shifted(alignment, shift_s)), 1):
        text = alignment.text[cue.char_start : cue.char_end]
        times = f"{clock(start_ms, ',')} --> {clock(end_ms, ',')}" + (f" {cue.settings}" * bool(own and cue.settings))
        name = cue.name if numbered else number
        blocks.append(f"{name}\n{times}\n{text if own else _plain_lines(_srt_of_vtt(cue.payload or text))}\n\n")
    return "".join(blocks)


def source_vtt(alignment: AlignmentData, shift_s: float = 0.0) -> str:
    """Return the cues of the transcript as a WebVTT file with its header, notes, styles, names and settings.

    Times within a cue (`<00:00:01.500>`) become the starts of the words that follow them.
    """
    subtitles = _subtitles(alignment)
    own = subtitles.format == "vtt"
    blocks = [subtitles.header if own else "WEBVTT"]
    spoken = _spoken_words(alignment)
    for cue, words, (start_ms, end_ms) in zip(subtitles.cues, spoken, _shifted(alignment, shift_s)):
        text = alignment.text[cue.char_start : cue.char_end]
        times = f"{clock(start_ms, '.')} --> {clock(end_ms, '.')}"
        if own:
            blocks += [cue.before] * bool(cue.before)
            times = f"{cue.name}\n" * bool(cue.name) + times + f" {cue.settings}" * bool(cue.settings)
            text = _retimed(text, cue, words, end_ms, shift_s)
        else:
            text = _SRT_MARK.sub(_vtt_mark, text)
        blocks.append(f"{times}\n{_plain_lines(text)}".rstrip("\n"))
    return "\n\n".join(blocks + [subtitles.after] * bool(own and subtitles.after)) + "\n"


def cues_without_times(alignment: AlignmentData) -> list[int]:
    """Return the places, from 1, of the transcript's cues that have text and no aligned word."""
    if alignment.subtitles is None:
        return []
    return [
        number
        for number, (cue, words) in enumerate(zip(alignment.subtitles.cues, _spoken_words(alignment)), 1)
        if not words and cue.char_end > cue.char_start
    ]


def clock(milliseconds: int, point: str) -> str:
    """Return hours, minutes, seconds and milliseconds.

    >>> clock(3_661_001, ",")
    '01:01:01,001'
    """
    seconds, milliseconds = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{point}{milliseconds:03d}"


def _subtitles(alignment: AlignmentData) -> Subtitles:
    assert alignment.subtitles is not None, "the transcript is a subtitle file"
    return alignment.subtitles


def _shifted(alignment: AlignmentData, shift_s: float) -> list[tuple[int, int]]:
    """Return the times of all cues in milliseconds: ascending, each at least one long, inside the recording."""
    cues = _subtitles(alignment).cues
    spoken = _spoken_words(alignment)
    spans: list[tuple[float, float] | None] = [
        (words[0].start_s or 0.0, words[-1].end_s or 0.0) if words else None for words in spoken
    ]
    last_words_s = [(words[-1].end_s or 0.0) - (words[-1].start_s or 0.0) if words else 0.0 for words in spoken]
    start = 0
    while start < len(cues):
        end = next((at for at in range(start, len(cues)) if spans[at] is not None), len(cues))
        if end > start:
            _make_room(spans, (start, end), last_words_s, alignment.duration_s)
            _fill(spans, cues, (start, end), alignment.duration_s)
        start = end + 1
    free, times = 0, []
    for start_s, end_s in (span or (0.0, 0.0) for span in spans):
        start_ms = max(round(start_s * 1000), free)
        free = max(round(end_s * 1000), start_ms + 1)
        times.append((start_ms, free))
    shift_ms, last_ms = round(shift_s * 1000), math.floor(alignment.duration_s * 1000 + 1e-6)
    if len(cues) <= last_ms:
        for place in range(len(times) - 1, -1, -1):
            end_ms = min(times[place][1], last_ms)
            last_ms = min(times[place][0], end_ms - 1)
            times[place] = (last_ms, end_ms)
    return [(start_ms + shift_ms, end_ms + shift_ms) for start_ms, end_ms in times]


def _spoken_words(alignment: AlignmentData) -> list[list[AlignedWord]]:
    """Return the aligned words of each cue."""
    aligned = [
        word
        for word in alignment.words
        if word.status == ALIGNED and word.start_s is not None and word.end_s is not None
    ]
    starts = [word.char_start for word in aligned]
    return [
        aligned[bisect_left(starts, cue.char_start) : bisect_left(starts, cue.char_end)]
        for cue in _subtitles(alignment).cues
    ]


def _make_room(
    spans: list[tuple[float, float] | None], run: tuple[int, int], last_words_s: Sequence[float], duration_s: float
) -> None:
    """End the cue before the cues [start, end) earlier where they have no room: within its last word, by half of it."""
    start, end = run
    before, after = spans[start - 1] if start else None, spans[end] if end < len(spans) else None
    if before is not None:
        room_s = (after[0] if after else duration_s) - before[1]
        missing_s = max((end - start) * _TAKEN_S - room_s, 0.0)
        spans[start - 1] = (before[0], before[1] - min(missing_s, _TAKEN_S, last_words_s[start - 1] / 2))


def _fill(
    spans: list[tuple[float, float] | None], cues: Sequence[SourceCue], run: tuple[int, int], duration_s: float
) -> None:
    """Give the cues [start, end), which have no aligned word, times between those of their neighbours."""
    start, end = run
    before = spans[start - 1] if start else None
    after = spans[end] if end < len(cues) else None
    low_s, high_s = before[1] if before else 0.0, after[0] if after else duration_s
    anchors = [
        (cues[place].start_s, span[0] - cues[place].start_s)
        for place, span in ((start - 1, before), (end, after))
        if span is not None
    ]
    fitting, free_s = [], low_s
    for cue in cues[start:end]:
        shift_s = _interpolated(anchors, cue.start_s)
        start_s, end_s = max(cue.start_s + shift_s, free_s), min(cue.end_s + shift_s, high_s)
        fitting.append((start_s, end_s))
        free_s = end_s
    lengths_s = [max(cue.end_s - cue.start_s, _LEAST_S) for cue in cues[start:end]]
    if any(end_s - start_s < length_s / 2 for (start_s, end_s), length_s in zip(fitting, lengths_s)):
        scale = min(1.0, max(high_s - low_s, 0.0) / sum(lengths_s))
        fitting, at_s = [], low_s
        for length_s in lengths_s:
            fitting.append((at_s, at_s + scale * length_s))
            at_s += scale * length_s
    spans[start:end] = fitting


def _interpolated(anchors: Sequence[tuple[float, float]], at_s: float) -> float:
    """Return by how much a time was moved, between the moves of the neighbours; 0 where there are none."""
    if len(anchors) < 2 or anchors[1][0] <= anchors[0][0]:
        return anchors[0][1] if anchors else 0.0
    (first_s, first), (last_s, last) = anchors
    share = min(max((at_s - first_s) / (last_s - first_s), 0.0), 1.0)
    return first + share * (last - first)


def _plain_lines(text: str) -> str:
    """Return a text without lines that are blank, which would end the cue, or read as the times of another."""
    return without_times_lines("\n".join(filter(str.strip, text.split("\n"))))


def srt_text(text: str) -> str:
    r"""Return the text of a cue such that no player takes it for markup, and no reader for times.

    >>> srt_text("a <b>x</b> {\\an8} 1 < 2 > 0")
    'a ‹b›x‹/b› (\\an8) 1 < 2 > 0'
    """
    return without_times_lines(_LIKE_OVERRIDE.sub(r"(\1)", _without_tags(text)))


def _without_tags(text: str) -> str:
    while (plain := _LIKE_TAG.sub(r"‹\1›", text)) != text:
        text = plain
    return text


def _srt_of_vtt(payload: str) -> str:
    """Return the payload of a VTT cue in SRT: its bold, italic and underlined text, all other text as text."""
    pieces, end = [], 0
    for match in _VTT_TAG.finditer(payload):
        pieces += [_without_tags(html.unescape(payload[end : match.start()])), _srt_tag(match)]
        end = match.end()
    return "".join([*pieces, _without_tags(html.unescape(payload[end:]))])


def _srt_tag(match: re.Match[str]) -> str:
    """Return what SRT has of a tag of VTT: bold, italic and underlined text."""
    return f"<{match[1]}{match[2].lower()}>" if match[2] else ""


def _vtt_mark(match: re.Match[str]) -> str:
    """Return a mark of SRT as VTT has it, and the signs that mean something there escaped."""
    return match["tag"] or _SIGNS.get(match["sign"] or "", "")


def _retimed(text: str, cue: SourceCue, words: Sequence[AlignedWord], end_ms: int, shift_s: float) -> str:
    """Return the payload of a cue with the starts of its words in the place of the times in it."""
    payload = text if cue.payload is None else cue.payload
    times = []
    for match in _TIMESTAMP.finditer(text):
        place = cue.char_start + match.end()
        starts = (word.start_s for word in words if word.char_end > place and word.start_s is not None)
        start_s = next(starts, None)
        times.append(end_ms if start_s is None else round((start_s + shift_s) * 1000))
    found = iter(times)
    return _TIMESTAMP.sub(lambda match: f"<{clock(next(found, end_ms), '.')}>", payload)
