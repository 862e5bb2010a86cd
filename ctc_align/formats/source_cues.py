"""The cues of a subtitle file that was the transcript, with the times of their words: the same cues, text and order.

A cue lasts from the start of its first aligned word to the end of its last. One without such a word (`[MUSIC]`, or no
text) keeps its old times, moved as its neighbours were, where they fit between them; else it gets the room there is,
and where there is none one frame of a film (40 ms) of the last word of the cue before it. Where passages were read in
another order the times go back from one cue to the next, and no two cues are shown at a time.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from ctc_align.formats.cue_times import MS_PER_S, Span, apart, clock, on_frames
from ctc_align.formats.time_order import is_timed, words_by_time
from ctc_align.text.subtitle_files import without_times_lines
from ctc_align.types import SRT, VTT, AlignedWord, AlignmentData, SourceCue, Subtitles

_LEAST_S = 0.2
"""A cue without an aligned word is shown at least so long where there is room."""
_TAKEN_S = 0.04
"""It is shown so long, a frame of a film, at the cost of the word before it where there is none."""
_SLACK_S = 1e-6
"""Words that touch may overlap by the rounding of their times."""
_TIMESTAMP = re.compile(r"<(?:\d+:)?\d+:\d+\.\d+>")
_VTT_TAG = re.compile(r"<(/?)(?!\s)(?:([ibu])|[a-z]+|(?:\d+:)?\d+:\d+\.\d+)?(?:[.\s][^<>]*)?>", re.IGNORECASE)
_SRT_MARK = re.compile(r"\{\\[^}]*\}|</?font\b[^<>]*>|(?P<tag></?[ibu]>)|(?P<sign>[&<>])", re.IGNORECASE)
_LIKE_TAG = re.compile(r"<(?!(?:eps|unk|sil|spn|oov|noise|blank)>)((?:[/!?]?[A-Za-z]|!--)[^<>]*)>")
"""Markup as players, and pages that show subtitles, may know it; not the usual symbols of transcripts (`<unk>`)."""
_LIKE_OVERRIDE = re.compile(r"\{(\\[^{}]*)\}")
_SIGNS = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def source_srt(alignment: AlignmentData, shift_s: float = 0.0, frame_rate: float = 0.0) -> str:
    """Return the cues of the transcript as an SRT file; `shift_s` is added to every time, `frame_rate` as `on_frames`.

    Their numbers are the file's where they ascend, else 1, 2, 3 …; the settings behind times stay. What only VTT has
    (voices, classes) is left out of cues that come from there. Text of other files is written such that no player takes
    it for markup.
    """
    subtitles = _subtitles(alignment)
    own = subtitles.format == SRT
    blocks = []
    for number, cue, (start_ms, end_ms) in zip(
        cue_numbers(subtitles), subtitles.cues, shown_times(alignment, shift_s, frame_rate)
    ):
        text = alignment.text[cue.char_start : cue.char_end]
        times = f"{clock(start_ms, ',')} --> {clock(end_ms, ',')}" + (f" {cue.settings}" * bool(own and cue.settings))
        if not own:
            is_vtt = subtitles.format == VTT
            text = _plain_lines(_srt_of_vtt(cue.payload or text) if is_vtt else srt_text(text))
        blocks.append(f"{number}\n{times}\n{text}\n\n")
    return "".join(blocks)


def source_vtt(alignment: AlignmentData, shift_s: float = 0.0, frame_rate: float = 0.0) -> str:
    """Return the cues of the transcript as a WebVTT file with its header, notes, styles, names and settings.

    Times within a cue (`<00:00:01.500>`) become the starts of the words that follow them. Who speaks in a segment of
    another file is its voice (`<v Ann>`).
    """
    subtitles = _subtitles(alignment)
    own = subtitles.format == VTT
    blocks = [subtitles.header if own else "WEBVTT"]
    spoken = _spoken_words(alignment)
    for cue, words, (start_ms, end_ms) in zip(subtitles.cues, spoken, shown_times(alignment, shift_s, frame_rate)):
        text = alignment.text[cue.char_start : cue.char_end]
        times = f"{clock(start_ms, '.')} --> {clock(end_ms, '.')}"
        if own:
            blocks += [cue.before] * bool(cue.before)
            times = f"{cue.name}\n" * bool(cue.name) + times + f" {cue.settings}" * bool(cue.settings)
            text = _retimed(text, cue, words, (start_ms, end_ms), shift_s)
        elif subtitles.format == SRT:
            text = _SRT_MARK.sub(_vtt_mark, text)
        else:
            text = f"<v {_escaped(cue.speaker)}>{_escaped(text)}" if cue.speaker else _escaped(text)
        blocks.append(f"{times}\n{_plain_lines(text)}".rstrip("\n"))
    return "\n\n".join(blocks + [subtitles.after] * bool(own and subtitles.after)) + "\n"


def cue_numbers(subtitles: Subtitles) -> list[int]:
    """Return the numbers of an SRT file's cues where they ascend; else, and of other files, 1, 2, 3 …"""
    names = [cue.name for cue in subtitles.cues]
    if subtitles.format == SRT and all(name.isdecimal() and len(name) < 10 for name in names):
        numbers = list(map(int, names))
        if all(before < after for before, after in pairwise(numbers)):
            return numbers
    return list(range(1, len(names) + 1))


def cues_without_times(alignment: AlignmentData) -> list[int]:
    """Return the places, from 1, of the transcript's cues that have text and no aligned word."""
    if alignment.subtitles is None:
        return []
    return [
        number
        for number, (cue, words) in enumerate(zip(alignment.subtitles.cues, _spoken_words(alignment)), 1)
        if not words and cue.char_end > cue.char_start
    ]


def _subtitles(alignment: AlignmentData) -> Subtitles:
    assert alignment.subtitles is not None, "the transcript is a subtitle file"
    return alignment.subtitles


def shown_times(alignment: AlignmentData, shift_s: float, frame_rate: float) -> list[tuple[int, int]]:
    """Return the times of all cues in milliseconds, each at least one long, none over another, inside the recording.

    They ascend, but for passages that were read in another order than the file's.
    """
    cues = _subtitles(alignment).cues
    spoken = _spoken_words(alignment)
    spans: list[Span | None] = [
        (words[0].start_s or 0.0, words[-1].end_s or 0.0) if words else None for words in spoken
    ]
    last_words_s = [(words[-1].end_s or 0.0) - (words[-1].start_s or 0.0) if words else 0.0 for words in spoken]
    gaps = _Gaps([span for span in spans if span is not None], alignment.duration_s)
    start = 0
    while start < len(cues):
        end = next((at for at in range(start, len(cues)) if spans[at] is not None), len(cues))
        if end > start:
            before, after = spans[start - 1] if start else None, spans[end] if end < len(cues) else None
            gap = gaps.between(before, after)
            if before is not None:
                # the cue before ends earlier where these have no room: within its last word, by half of it
                missing_s = max((end - start) * _TAKEN_S - (gap[1] - gap[0]), 0.0)
                gap = (gap[0] - min(missing_s, _TAKEN_S, last_words_s[start - 1] / 2), gap[1])
                spans[start - 1] = before = (before[0], gap[0])
            neighbours = [
                (cues[place].start_s, span[0] - cues[place].start_s)
                for place, span, is_near in ((start - 1, before, True), (end, after, after and after[0] == gap[1]))
                if span is not None and is_near
            ]
            spans[start:end] = _filled(cues[start:end], gap, neighbours)
        start = end + 1
    times = apart([span or (0.0, 0.0) for span in spans], alignment.duration_s)
    shift_ms = round(shift_s * MS_PER_S)
    shifted = [(start_ms + shift_ms, end_ms + shift_ms) for start_ms, end_ms in times]
    return on_frames(shifted, alignment.duration_s + shift_s, frame_rate)


class _Gaps:
    """The stretches of time between the cues that have words."""

    def __init__(self, spans: Sequence[Span], duration_s: float) -> None:
        self._starts = sorted(span[0] for span in spans)
        self._ends = sorted(span[1] for span in spans)
        self._duration_s = duration_s

    def between(self, before: Span | None, after: Span | None) -> Span:
        """Return the stretch after one cue, else before another, else the whole recording."""
        if before is not None:
            place = bisect_left(self._starts, before[1] - _SLACK_S)
            next_s = self._starts[place] if place < len(self._starts) else self._duration_s
            return before[1], max(next_s, before[1])
        if after is not None:
            place = bisect_right(self._ends, after[0] + _SLACK_S)
            return min(self._ends[place - 1], after[0]) if place else 0.0, after[0]
        return 0.0, self._duration_s


def _spoken_words(alignment: AlignmentData) -> list[list[AlignedWord]]:
    """Return the aligned words of each cue; where it was cut in two in the recording, those of the longer part."""
    aligned = [word for word in alignment.words if is_timed(word)]
    starts = [word.char_start for word in aligned]
    by_time = {id(word): place for place, word in enumerate(words_by_time(alignment))}
    places = [by_time[id(word)] for word in aligned]
    edges = [
        (bisect_left(starts, cue.char_start), bisect_left(starts, cue.char_end)) for cue in _subtitles(alignment).cues
    ]
    return [aligned[slice(*_longest_run(places, first, last))] for first, last in edges]


def _longest_run(places: Sequence[int], first: int, last: int) -> tuple[int, int]:
    """Return the longest stretch of [first, last) in which the places go up by one, the first of several."""
    longest, start = (first, first), first
    for at in range(first + 1, last + 1):
        if at == last or places[at] != places[at - 1] + 1:
            if at - start > longest[1] - longest[0]:
                longest = (start, at)
            start = at
    return longest


def _filled(cues: Sequence[SourceCue], gap: Span, neighbours: Sequence[Span]) -> list[Span]:
    """Return times in a gap for cues that have no aligned word; `neighbours`: (old start, by how much it was moved)."""
    low_s, high_s = gap
    fitting, free_s = [], low_s
    for cue in cues:
        shift_s = _interpolated(neighbours, cue.start_s)
        start_s, end_s = max(cue.start_s + shift_s, free_s), min(cue.end_s + shift_s, high_s)
        fitting.append((start_s, end_s))
        free_s = end_s
    lengths_s = [max(cue.end_s - cue.start_s, _LEAST_S) for cue in cues]
    if any(end_s - start_s < length_s / 2 for (start_s, end_s), length_s in zip(fitting, lengths_s)):
        scale = min(1.0, max(high_s - low_s, 0.0) / sum(lengths_s))
        fitting, at_s = [], low_s
        for length_s in lengths_s:
            fitting.append((at_s, at_s + scale * length_s))
            at_s += scale * length_s
    return fitting


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


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)


def _vtt_mark(match: re.Match[str]) -> str:
    """Return a mark of SRT as VTT has it, and the signs that mean something there escaped."""
    return match["tag"] or _SIGNS.get(match["sign"] or "", "")


def _retimed(text: str, cue: SourceCue, words: Sequence[AlignedWord], shown_ms: tuple[int, int], shift_s: float) -> str:
    """Return the payload of a cue with the starts of its words in the place of the times in it."""
    start_ms, end_ms = shown_ms
    payload = text if cue.payload is None else cue.payload
    times = []
    for match in _TIMESTAMP.finditer(text):
        place = cue.char_start + match.end()
        starts = (word.start_s for word in words if word.char_end > place and word.start_s is not None)
        start_s = next(starts, None)
        said_ms = end_ms if start_s is None else round((start_s + shift_s) * MS_PER_S)
        times.append(min(max(said_ms, start_ms), end_ms))
    found = iter(times)
    return _TIMESTAMP.sub(lambda match: f"<{clock(next(found, end_ms), '.')}>", payload)
