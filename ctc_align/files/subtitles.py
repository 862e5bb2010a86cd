"""Subtitles and lyrics: SRT, WebVTT and LRC, read and written.

ASS (Advanced SubStation Alpha) is written, for karaoke.

Like players, the reader accepts many faults: missing or repeated numbers, missing or doubled blank
lines, times without hours, points instead of commas, cues without text. Blank lines within a cue
belong to the cue.

If the transcript is a subtitle file, its cues are written with new times, unless new cues are
requested (`new_cues`). Lyrics keep the lines of the transcript if they are short enough for a
screen; ASS and LRC have times in hundredths of
a second.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TextIO

from ctc_align.errors import OutputError, TranscriptError
from ctc_align.files.cues import CueWord, WordCue, new_cues, spaced, word_cues
from ctc_align.files.source_cues import (
    MS_PER_S,
    clock,
    on_frames,
    shown_times,
    source_subtitles,
    spoken_words_by_cue,
)
from ctc_align.files.writer import Style, Writer
from ctc_align.text.captions import transcript_of_cues
from ctc_align.text.characters import lazy_regex, without_controls
from ctc_align.text.markup import distinct_spans, language_spans
from ctc_align.types import (
    LRC,
    SRT,
    VTT,
    AlignedWord,
    Alignment,
    SourceCue,
    Subtitles,
    Transcript,
)

_TIME = r"(?:(\d{1,4}):)?(\d{1,3}):(\d{1,2})(?:\s?[,.]\s?(\d{1,9}))?"
_TIMES = lazy_regex(rf"\s*{_TIME}\s*(?:-{{1,3}}>|→)\s*{_TIME}(?P<settings>[ \t].*)?\s*")
_CUE_LINE = lazy_regex(
    r"^[ \t]*(?:\d+:)?\d+:\d+(?:(?<=:\d\d:\d\d)|\s?[,.]\s?\d+)[ \t]*-{1,3}>[ \t]*\d", re.MULTILINE
)
_FULL_TIME = r"(\d{1,4}):(\d\d):(\d\d)\s?[,.]\s?(\d{1,9})"
_HALF_ARROW = r"\s*(?:[-–—=~]{1,3}\s?(?:>|&gt;)?|>)?\s*"
_DAMAGED_TIMES = lazy_regex(rf"\s*{_FULL_TIME}{_HALF_ARROW}{_FULL_TIME}(?P<settings>[ \t].*)?\s*")
"""Complete times on both sides of an imperfect arrow: these are a cue's times only where no text
can be."""
_ARROW = "-->"
_NUMBER = lazy_regex(r"\s*\d{1,7}\s*")
_HEADER = lazy_regex(r"\s*WEBVTT(?![^\s])")
_BLOCK = lazy_regex(r"(?:NOTE|STYLE|REGION)(?![^\s])")
_ENTITY = lazy_regex("&(?:amp|lt|gt|nbsp|lrm|rlm);")
_UNDERLINED = ("<u>", "</u>")
_TIMESTAMP = lazy_regex(r"<(?:\d+:)?\d+:\d+\.\d+>")
_VTT_TAG = lazy_regex(
    r"<(/?)(?!\s)(?:([ibu])|[a-z]+|(?:\d+:)?\d+:\d+\.\d+)?(?:[.\s][^<>]*)?>", re.IGNORECASE
)
_SRT_MARK = lazy_regex(
    r"\{\\[^}]*\}|</?font\b[^<>]*>|(?P<tag></?[ibu]>)|(?P<sign>[&<>])", re.IGNORECASE
)
_LIKE_TAG = lazy_regex(r"<(?!(?:eps|unk|sil|spn|oov|noise|blank)>)((?:[/!?]?[A-Za-z]|!--)[^<>]*)>")
"""Markup as players, and pages that show subtitles, may know it; not the usual symbols of
transcripts (`<unk>`)."""
_LIKE_OVERRIDE = lazy_regex(r"\{(\\[^{}]*)\}")
_vtt_escaped = functools.partial(html.escape, quote=False)
_CS_PER_S = 100
_ass_clock = functools.partial(clock, units_per_s=_CS_PER_S, hour_digits=1)
_MOST_ASS_CS = 10 * 3600 * _CS_PER_S
_MOST_LRC_CS = 100 * 60 * _CS_PER_S
_DARK_CS = 2 * _CS_PER_S
"""After this much time without a word, an empty LRC line ends the line before it."""
_WORD_JOINER = "\u2060"
_ASS_COMMAND = lazy_regex(r"\\(?=[Nnh])")
_ASS_SIGNS = str.maketrans("{}", "()")
_LRC_BRACKETS = str.maketrans("[]", "()")
_LRC_STAMP = lazy_regex(r"<(\s*[\d:.,\s]+)>")
_UNLIT = r"{\1c&HFFFFFF&\k0}"
_LIT = r"{\1c}"
"""The colour of words that are still to come, for zero time; and that of words that have been
said."""
_ASS_HEAD = """[Script Info]
; made by ctc-align
Title: {title}
ScriptType: v4.00+
WrapStyle: 0
ScaledBorderAndShadow: yes
PlayResX: 1280
PlayResY: 720

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, Italic, Underline, \
StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding
Style: Default,Arial,48,&H0000D7FF,&H00FFFFFF,&H00000000,&H80000000,0,0,0,0,100,100,0,0,1,2.5,1,2,40,40,40,1

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
"""


def has_cues(text: str) -> bool:
    """Return whether a text is a subtitle file.

    >>> has_cues("1\\n00:00:01,000 --> 00:00:02,000\\nHello"), has_cues("WEBVTT\\n"), has_cues("Hello --> there")
    (True, True, False)
    """
    text = text.removeprefix("\ufeff")
    is_vtt = _HEADER.match(text) and (
        _ARROW in text or text.lstrip().partition("\n")[0].strip() == "WEBVTT"
    )
    return bool(is_vtt) or _CUE_LINE.search(text) is not None


def has_damaged_times(text: str) -> bool:
    """Return whether a line is two complete times with something between them.

    It may have been an arrow.

    >>> has_damaged_times("1\\n00:00:01,000 -- 00:00:02,000\\nHello"), has_damaged_times("from 1:00 - 2:00")
    (True, False)
    """
    return any(map(_DAMAGED_TIMES.fullmatch, text.split("\n")))


def without_times_lines(text: str) -> str:
    """Return the text of a cue, in which no line may read as times.

    The arrow of such a line gets a space.

    >>> without_times_lines("Now:\\n00:00:01.000 --> 00:00:02.000\\na -> b")
    'Now:\\n00:00:01.000 -- > 00:00:02.000\\na -> b'
    """
    lines = text.split("\n")
    return "\n".join(
        (
            re.sub("(?<!-)(-+)>|→", lambda arrow: f"{arrow[1] or '-'} >", line)
            if _TIMES.fullmatch(line) or (_ARROW in line and _is_meant_as_times(line))
            else line
        )
        for line in lines
    )


_CueLines = tuple[int, int, SourceCue]
"""The index of the line with a cue's number or name (if it has none, its times), that of its times,
and the cue without text."""


def parse_subtitles(text: str, source: str, likely: str = SRT) -> Transcript:
    """Return the text of all cues, one after the other, and the cues.

    Args:
        text: of the file.
        source: the file's name, for messages.
        likely: "srt" or "vtt", if the file does not say.

    Raises:
        TranscriptError: a line of times cannot be read (the message names it), or there is no cue.

    >>> parse_subtitles("WEBVTT\\n\\n00:01.000 --> 00:02.000 line:0\\n<v Mary>Hello\\nthere\\n", "a.vtt").text
    '<v Mary>Hello\\nthere'
    """
    lines = re.split(r"\r*\n|\r+|\u2028|\x85", text.removeprefix("\ufeff"))
    format = likely
    if _HEADER.match(lines[0] if lines else ""):
        format = VTT
    rows = _times_lines(lines, source, format)
    if not rows:
        raise TranscriptError(
            f"{source}: expected subtitles with cues, got a header without any; is the file whole?"
        )
    cues: list[tuple[SourceCue, str]] = []
    header, pending = _header(lines[: rows[0][0]], format)
    ends = [*(id_index for id_index, _, _ in rows[1:]), len(lines)]
    for (_, index, timed), end in zip(rows, ends):
        payload, blocks = _payload(lines[index + 1 : end], format)
        cue = replace(timed, before=pending)
        plain = payload
        if format == VTT:
            plain = _ENTITY.sub(lambda match: html.unescape(match[0]), payload)
        if plain != payload:
            cue = replace(cue, payload=payload)
        cues.append((cue, plain))
        pending = blocks
    return _with_languages(transcript_of_cues(cues, Subtitles(format, header, after=pending)))


def _with_languages(transcript: Transcript) -> Transcript:
    """Return a transcript of subtitles with the passages that are marked as being in a language."""
    if "<" not in transcript.text or transcript.subtitles is None:
        return transcript
    spans = (
        span
        for cue in transcript.subtitles.cues
        for span in language_spans(transcript.text, cue.char_start, cue.char_end)
    )
    return replace(transcript, languages=distinct_spans(transcript.text, spans))


def _times_lines(lines: Sequence[str], source: str, format: str) -> list[_CueLines]:
    """Return the lines of times, in order, with their cues' numbers or names."""
    rows: list[_CueLines] = []
    free = 0
    in_block = False
    all_damaged = not any(map(_TIMES.fullmatch, lines))
    for index, line in enumerate(lines):
        if not line.strip():
            in_block = False
        elif format == VTT and (
            _BLOCK.match(line) and (index == 0 or not lines[index - 1].strip())
        ):
            in_block = True
        match = None if in_block else _TIMES.fullmatch(line)
        id_index = _id_index(lines, index, free, format, rows)
        if (
            match is None
            and not in_block
            and (all_damaged or _opens_cue(lines, index, id_index, format))
        ):
            match = _DAMAGED_TIMES.fullmatch(line)
        if match is None:
            if _ARROW in line and not in_block and _is_meant_as_times(line):
                raise TranscriptError(
                    f"{source}, line {index + 1}: expected the times of a cue such as 00:00:01,000"
                    f" --> 00:00:02,500, got {line.strip()[:60]!r}; correct that line"
                )
            continue
        start_s, end_s = _seconds(match.groups()[:4]), _seconds(match.groups()[4:8])
        name = ""
        if id_index < index:
            name = lines[id_index].strip()
        settings = (match["settings"] or "").strip()
        rows.append(
            (id_index, index, SourceCue(0, 0, start_s, max(end_s, start_s), name, settings))
        )
        free = index + 1
    return rows


def _is_meant_as_times(line: str) -> bool:
    """Return whether a line with an arrow looks like malformed times, not like words."""
    before, _, after = line.partition(_ARROW)
    return (
        not any(character.isalpha() for character in before)
        or re.match(r"\s*\d+:\d", after) is not None
    )


def _opens_cue(lines: Sequence[str], index: int, id_index: int, format: str) -> bool:
    """Return whether a cue begins here.

    Its number or name follows a blank line; in VTT it may have none.
    """
    return (id_index < index or format == VTT) and (
        id_index == 0 or not lines[id_index - 1].strip()
    )


def _id_index(
    lines: Sequence[str], index: int, free: int, format: str, rows: Sequence[_CueLines]
) -> int:
    """Return the line with the number or name of the cue with times at `index`.

    Lines before `free` are taken.
    """
    above = index - 1
    if above < free:
        return index
    if lines[above].strip():
        alone = above == free == 0 or (above > 0 and not lines[above - 1].strip())
        named = (
            format == VTT
            and alone
            and not _HEADER.match(lines[above])
            and _ARROW not in lines[above]
        )
        if named or _NUMBER.fullmatch(lines[above]):
            return above
        return index
    # A number with a blank line below and above it, as every second line is; the right number, so
    # that it is no text.
    alone = above == 1 or (above > 1 and not lines[above - 2].strip())
    if alone and above - 1 >= free and _NUMBER.fullmatch(lines[above - 1]):
        before = "0"
        if rows:
            before = lines[rows[-1][0]].strip()
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
    """Return the header of the file, and the blocks between it and the first cue.

    In VTT these are NOTE, STYLE and others.
    """
    if format != VTT:
        return "", ""
    headed = bool(lines) and _HEADER.match(lines[0]) is not None
    end = next(
        (index for index, line in enumerate(lines) if not line.strip() or not headed), len(lines)
    )
    return "\n".join(lines[:end]).strip() or "WEBVTT", "\n".join(lines[end:]).strip("\n")


def _payload(lines: Sequence[str], format: str) -> tuple[str, str]:
    """Return the text of a cue, and in VTT the blocks that follow it.

    The text has no blank lines around it.
    """
    end = len(lines)
    if format == VTT:
        starts = (
            index
            for index, line in enumerate(lines)
            if _BLOCK.match(line) and index and not lines[index - 1].strip()
        )
        end = next(starts, end)
    first = next((index for index in range(end) if lines[index].strip()), end)
    last = next((index for index in range(end, first, -1) if lines[index - 1].strip()), first)
    return "\n".join(lines[first:last]), "\n".join(lines[end:]).strip("\n")


class SrtWriter(Writer):
    """Numbered subtitles of at most two lines, in the words of the transcript.

    SRT has no escape, and players take `<b>` and `{\\an8}` for markup: in new subtitles they are
    written `‹b›` and `(\\an8)`, and an arrow that would read as times gets a space (`-- >`). Cues
    of a subtitle file keep their markup.
    A control character is U+FFFD.

    With `highlight_words`, each subtitle is repeated for each of its words, which is underlined
    (`<u>`) while it is spoken, as Whisper does, and once without underlining in each gap between
    words; markup of a subtitle file is then dropped.
    """

    def write(self, alignment: Alignment, file: TextIO) -> None:
        style = self.style(alignment)
        if style.highlight_words:
            shown = []
            for cue in word_cues(alignment, style):
                lit = list(_lit_cues(cue, style.frame_rate))
                spans = [(start, end) for start, end, _ in lit]
                # cues begin and end on frames already
                times = on_frames(spans, cue.end / MS_PER_S + 1.0, style.frame_rate)
                shown += [(*span, text) for span, (_, _, text) in zip(times, lit)]
            _write_srt(file, shown)
        elif style.keeps_cues(alignment):
            file.write(
                without_controls(source_srt(alignment, style.shift_s(alignment), style.frame_rate))
            )
        else:
            cues = [
                (cue.start_ms, cue.end_ms, srt_text("\n".join(cue.lines)))
                for cue in new_cues(alignment, style)
            ]
            _write_srt(file, cues)


def _write_srt(file: TextIO, cues: Sequence[tuple[int, int, str]]) -> None:
    for number, (start_ms, end_ms, text) in enumerate(cues, 1):
        file.write(
            f"{number}\n{clock(start_ms, ',')} -->"
            f" {clock(end_ms, ',')}\n{without_controls(text)}\n\n"
        )


def _lit_cues(cue: WordCue, frame_rate: float) -> Iterator[tuple[int, int, str]]:
    """Yield a copy of a cue for each stretch in which one word, or none, is highlighted.

    Each is (start_ms, end_ms, text).

    A word stays highlighted until the next one if the gap between them is shorter than a frame.
    """
    least_ms = 1.0
    if frame_rate:
        least_ms = MS_PER_S / frame_rate
    texts = _lit_texts(cue)
    at = cue.start
    words = cue.spoken
    for index, word in enumerate(words):
        if index + 1 < len(words):
            end = words[index + 1].start
        else:
            end = cue.end
        if end - word.end >= least_ms:
            end = word.end
        if end - max(word.start, at) < least_ms:
            continue
        if word.start - at >= least_ms:
            yield at, word.start, texts[-1]
            at = word.start
        yield at, end, texts[index]
        at = end
    if cue.end > at:
        yield at, cue.end, texts[-1]


def _lit_texts(cue: WordCue) -> list[str]:
    """Return the text of a cue with each of its spoken words highlighted, and finally with none."""
    text = ""
    spans = []
    for number, line in enumerate(cue.lines):
        text += "\n" * bool(number)
        for space, word in spaced(line):
            text += space
            spans += [(len(text), len(text) + len(word.text))] * word.is_spoken
            text += word.text
    shown = srt_text(text)
    if len(shown) != len(text):  # an arrow was opened: offsets no longer match the words
        return [shown] * (len(spans) + 1)
    return [
        f"{shown[:start]}{_UNDERLINED[0]}{shown[start:end]}{_UNDERLINED[1]}{shown[end:]}"
        for start, end in spans
    ] + [shown]


class VttWriter(Writer):
    """The same subtitles as in SubRip, as WebVTT.

    "&", "<" and ">" are escaped (so "-->" is text), and speakers are voices.

    A control character is written as U+FFFD, as in WebVTT for NUL. With `highlight_words`, each
    word's start time precedes it (`<00:00:01.200>`), and browsers and players show past words in a
    different style (`::cue(:past)`).
    """

    def write(self, alignment: Alignment, file: TextIO) -> None:
        style = self.style(alignment)
        if style.keeps_cues(alignment) and not style.highlight_words:
            file.write(
                without_controls(source_vtt(alignment, style.shift_s(alignment), style.frame_rate))
            )
            return
        file.write("WEBVTT\n")
        for start_ms, end_ms, text in _vtt_cues(alignment, style):
            file.write(f"\n{clock(start_ms)} --> {clock(end_ms)}\n{without_controls(text)}\n")


def _vtt_cues(alignment: Alignment, style: Style) -> Iterator[tuple[int, int, str]]:
    if not style.highlight_words:
        for new in new_cues(alignment, style):
            yield (
                new.start_ms,
                new.end_ms,
                _voice(new.speaker) + "\n".join(map(_vtt_escaped, new.lines)),
            )
        return
    for cue in word_cues(alignment, style):
        at = cue.start
        lines = []
        for line in cue.lines:
            pieces = []
            for space, word in spaced(line):
                pieces += [
                    space,
                    _stamp(word, at, cue.end),
                    _vtt_escaped(word.text),
                ]
                if word.is_spoken:
                    at = max(at, word.start)
            lines.append("".join(pieces))
        yield cue.start, cue.end, _voice(cue.speaker) + "\n".join(lines)


def _voice(speaker: str) -> str:
    """Return the speaker as in WebVTT: a voice span up to the end of the cue."""
    if speaker:
        return f"<v {_vtt_escaped(' '.join(speaker.split()))}>"
    return ""


def _stamp(word: CueWord, after: int, before: int) -> str:
    """Return the time of a spoken word for WebVTT, between the last one and the cue's end.

    "" if there is none.
    """
    if word.is_spoken and after < word.start < before:
        return f"<{clock(word.start)}>"
    return ""


def source_srt(alignment: Alignment, shift_s: float = 0.0, frame_rate: float = 0.0) -> str:
    """Return the cues of the transcript as an SRT file.

    `shift_s` is added to every time, `frame_rate` as `on_frames`.

    The numbers are those of the file if they ascend, otherwise 1, 2, 3 …; settings after the times
    stay. From VTT cues, whatever SRT lacks (voices, classes) is left out. Text of other files is
    written so that no player takes it for markup.
    """
    subtitles = source_subtitles(alignment)
    is_same = subtitles.format == SRT
    blocks = []
    for number, cue, (start_ms, end_ms) in zip(
        cue_numbers(subtitles), subtitles.cues, shown_times(alignment, shift_s, frame_rate)
    ):
        text = alignment.text[cue.char_start : cue.char_end]
        times = f"{clock(start_ms, ',')} --> {clock(end_ms, ',')}" + (
            f" {cue.settings}" * bool(is_same and cue.settings)
        )
        if not is_same:
            is_vtt = subtitles.format == VTT
            text = _plain_lines(_srt_of_vtt(cue.payload or text) if is_vtt else srt_text(text))
        blocks.append(f"{number}\n{times}\n{text}\n\n")
    return "".join(blocks)


def source_vtt(alignment: Alignment, shift_s: float = 0.0, frame_rate: float = 0.0) -> str:
    """Return the cues of the transcript as a WebVTT file.

    With its header, notes, styles, names and settings.

    Times within a cue (`<00:00:01.500>`) become the starts of the words that follow them. The
    speaker of a segment from another kind of file becomes its voice (`<v Ann>`).
    """
    subtitles = source_subtitles(alignment)
    is_same = subtitles.format == VTT
    blocks = [subtitles.header if is_same else "WEBVTT"]
    spoken = spoken_words_by_cue(alignment)
    for cue, words, (start_ms, end_ms) in zip(
        subtitles.cues, spoken, shown_times(alignment, shift_s, frame_rate)
    ):
        text = alignment.text[cue.char_start : cue.char_end]
        times = f"{clock(start_ms)} --> {clock(end_ms)}"
        if is_same:
            blocks += [cue.before] * bool(cue.before)
            times = (
                f"{cue.name}\n" * bool(cue.name) + times + f" {cue.settings}" * bool(cue.settings)
            )
            text = _retimed(text, cue, words, (start_ms, end_ms), shift_s)
        elif subtitles.format == SRT:
            text = _SRT_MARK.sub(_vtt_mark, text)
        else:
            text = _voice(cue.speaker) + _vtt_escaped(text)
        blocks.append(f"{times}\n{_plain_lines(text)}".rstrip("\n"))
    return "\n\n".join(blocks + [subtitles.after] * bool(is_same and subtitles.after)) + "\n"


def cue_numbers(subtitles: Subtitles) -> list[int]:
    """Return the numbers of an SRT file's cues if they ascend.

    Otherwise, and for other files, 1, 2, 3 …
    """
    names = [cue.name for cue in subtitles.cues]
    if subtitles.format == SRT and all(name.isdecimal() and len(name) < 10 for name in names):
        numbers = list(map(int, names))
        if all(before < after for before, after in pairwise(numbers)):
            return numbers
    return list(range(1, len(names) + 1))


def _plain_lines(text: str) -> str:
    """Return a text without blank lines and without lines that read as times.

    A blank line would end the cue.
    """
    return without_times_lines("\n".join(filter(str.strip, text.split("\n"))))


def srt_text(text: str) -> str:
    r"""Return the text of a cue as players and readers of SRT take it for text.

    No player takes it for markup, and no reader for times.

    >>> srt_text("a <b>x</b> {\\an8} 1 < 2 > 0")
    'a ‹b›x‹/b› (\\an8) 1 < 2 > 0'
    """
    return without_times_lines(_LIKE_OVERRIDE.sub(r"(\1)", _without_tags(text)))


def _without_tags(text: str) -> str:
    while (plain := _LIKE_TAG.sub(r"‹\1›", text)) != text:
        text = plain
    return text


def _srt_of_vtt(payload: str) -> str:
    """Return the payload of a VTT cue for SRT.

    Bold, italic and underlining are kept; all other text is plain.
    """
    pieces = []
    end = 0
    for match in _VTT_TAG.finditer(payload):
        pieces += [_without_tags(html.unescape(payload[end : match.start()])), _srt_tag(match)]
        end = match.end()
    return "".join([*pieces, _without_tags(html.unescape(payload[end:]))])


def _srt_tag(match: re.Match[str]) -> str:
    """Return the SRT form of a VTT tag for bold, italic or underlined text; "" for other tags."""
    if match[2]:
        return f"<{match[1]}{match[2].lower()}>"
    return ""


def _vtt_mark(match: re.Match[str]) -> str:
    """Return SRT markup as VTT, with VTT's special characters escaped."""
    return match["tag"] or _vtt_escaped(match["sign"] or "")


def _retimed(
    text: str,
    cue: SourceCue,
    words: Sequence[AlignedWord],
    shown_ms: tuple[int, int],
    shift_s: float,
) -> str:
    """Return the payload of a cue, with its inner times set to the starts of its words."""
    start_ms, end_ms = shown_ms
    payload = text
    if cue.payload is not None:
        payload = cue.payload
    times = []
    for match in _TIMESTAMP.finditer(text):
        offset = cue.char_start + match.end()
        starts = (
            word.start_s for word in words if word.char_end > offset and word.start_s is not None
        )
        start_s = next(starts, None)
        said_ms = end_ms
        if start_s is not None:
            said_ms = round((start_s + shift_s) * MS_PER_S)
        times.append(min(max(said_ms, start_ms), end_ms))
    found = iter(times)
    return _TIMESTAMP.sub(lambda match: f"<{clock(next(found, end_ms))}>", payload)


class AssWriter(Writer):
    r"""Karaoke: each word with `\k` and the hundredths of a second for which it is lit.

    The speaker is the line's name.

    Unspoken text (labels, directions) has no time, and is never lit. A line's times add up from its
    start, pauses included (`{\k25}` without text), so every word begins within 5 ms of its
    start (see `word_cues`), even after ten hours. Braces are written as parentheses, and a backslash that would be a
    command is followed by an invisible word joiner.
    """

    most_s = _MOST_ASS_CS / _CS_PER_S

    def write(self, alignment: Alignment, file: TextIO) -> None:
        cues = word_cues(alignment, self.style(alignment), _CS_PER_S, source_lines=True)
        _refuse_beyond(cues, _MOST_ASS_CS, "ASS holds times up to 9:59:59.99")
        file.write(_ASS_HEAD.format(title=_one_line(alignment.utterance)))
        for cue in cues:
            name = _one_line(cue.speaker).replace(",", ";")
            file.write(
                "Dialogue:"
                f" 0,{_ass_clock(cue.start)},{_ass_clock(cue.end)},Default,{name},0,0,0,,{_karaoke(cue)}\n"
            )


def _karaoke(cue: WordCue) -> str:
    r"""Return the words of a line, each after its `{\k}`.

    >>> words = (CueWord("So", False, 12, 40), CueWord("be", True, 40, 61), CueWord("it.", True, 70, 99))
    >>> _karaoke(WordCue(10, 120, (words,)))
    '{\\k2}{\\k28}So {\\k21}be {\\k9}{\\k29}it.'
    """
    pieces = []
    at = cue.start
    for number, line in enumerate(cue.lines):
        pieces.append(r"\N" * bool(number))
        for space, word in spaced(line):
            pieces.append(space)
            if not word.is_spoken:
                pieces.append(rf"{_UNLIT}{_ass_text(word.text)}{_LIT}")
                continue
            if word.start > at:
                pieces.append(rf"{{\k{word.start - at}}}")
            pieces.append(rf"{{\k{word.end - word.start}}}{_ass_text(word.text)}")
            at = word.end
    return "".join(pieces)


def _ass_text(text: str) -> str:
    return _one_line(_ASS_COMMAND.sub(rf"\\{_WORD_JOINER}", text).translate(_ASS_SIGNS))


_LRC_TIME = r"\[[ \t]*(?:(\d{1,3}):)?(\d{1,3}):(\d{1,2})(?:[.,:](\d{1,3}))?[ \t]*\]"
_LRC_LINE = lazy_regex(rf"[ \t]*((?:{_LRC_TIME}[ \t]*)+)(.*)")
_LRC_TAG = lazy_regex(r"[ \t]*\[(?:[A-Za-z]{2,12}|#)[ \t]*:.*\][ \t]*")
_LRC_OFFSET = lazy_regex(r"(\[[ \t]*offset[ \t]*:)[^\]]*", re.IGNORECASE)
_LRC_KNOWN = lazy_regex(r"[ \t]*\[(?:ti|ar|al|au|by|re|ve|lr|length|offset)[ \t]*:", re.IGNORECASE)
_LAST_LINE_S = 5.0


def has_lyrics(text: str) -> bool:
    """Return whether a text is lyrics with times (LRC).

    It has lines with times, and a tag of LRC or several times at a line.

    >>> has_lyrics("[ti:A Title]\\n[00:12.00]La"), has_lyrics("[00:12.00]So\\n[00:15.00]it was")
    (True, False)
    """
    lines = text.removeprefix("\ufeff").splitlines()
    times = [match for match in map(_LRC_LINE.fullmatch, lines) if match]
    return bool(times) and (
        any(map(_LRC_KNOWN.match, lines)) or any(match[1].count("[") > 1 for match in times)
    )


def parse_lyrics(text: str, source: str) -> Transcript:
    """Return the lines of lyrics in order of time, and the tags as the header.

    A line is there as often as it has times.

    Lines without a time belong to the line before them.

    Raises:
        TranscriptError: no line has a time.

    >>> lyrics = parse_lyrics("[ti:A Title]\\n[00:01.00][00:09:50]La\\n[00:05.00]So", "a.lrc")
    >>> lyrics.text, [cue.start_s for cue in lyrics.subtitles.cues], lyrics.subtitles.header
    ('La\\nSo\\nLa', [1.0, 5.0, 9.5], '[ti:A Title]')
    """
    tags: list[str] = []
    lines: list[tuple[float, list[str]]] = []
    latest: list[str] = []
    for line in text.removeprefix("\ufeff").splitlines():
        timed = _LRC_LINE.fullmatch(line)
        if timed:
            latest = [timed.groups()[-1].strip()]
            lines += [(_lrc_seconds(each), latest) for each in re.findall(_LRC_TIME, timed[1])]
        elif _LRC_TAG.fullmatch(line):
            tags.append(line.strip())
        elif line.strip() and latest:
            latest.append(line.strip())
        elif line.strip():
            lines.append((0.0, [line.strip()]))
    if not lines:
        raise TranscriptError(
            f"{source}: expected lyrics with times such as [00:12.30], got none; is the file whole?"
        )
    lines.sort(key=lambda line: line[0])
    ends = [*(start_s for start_s, _ in lines[1:]), lines[-1][0] + _LAST_LINE_S]
    cues = [
        (SourceCue(0, 0, start_s, end_s), "\n".join(words))
        for (start_s, words), end_s in zip(lines, ends)
        if any(words)
    ]
    return transcript_of_cues(cues, Subtitles(LRC, "\n".join(tags)))


def _lrc_seconds(parts: tuple[str, ...]) -> float:
    """Return a time of LRC, mm:ss, mm:ss.xx, mm:ss:xx or h:mm:ss.xx, in seconds.

    >>> _lrc_seconds(("", "1", "02", "50")), _lrc_seconds(("1", "02", "50", ""))
    (62.5, 62.5)
    """
    first, *others, fraction = parts
    if first and not fraction:  # hundredths after a colon
        first, others, fraction = "", [first, others[0]], others[1]
    return _seconds((first, *others, fraction))


class LrcWriter(Writer):
    """Lyrics, `[mm:ss.xx]` before each line.

    With `highlight_words` enhanced LRC: `<mm:ss.xx>` before each word, too.

    The end of an enhanced line is the time after its last word. An empty line marks a pause of two
    seconds or more. Square brackets in the text are written as parentheses: LRC has no escape for
    them. Tags of lyrics are kept; `[offset:…]`, which would shift the new times, becomes 0.
    """

    most_s = _MOST_LRC_CS / _CS_PER_S

    def write(self, alignment: Alignment, file: TextIO) -> None:
        style = self.style(alignment)
        cues = word_cues(alignment, style, _CS_PER_S, source_lines=True)
        _refuse_beyond(cues, _MOST_LRC_CS, "LRC holds times up to 99:59.99")
        header = ""
        if alignment.subtitles is not None and alignment.subtitles.format == LRC:
            header = _LRC_OFFSET.sub(r"\g<1>0", alignment.subtitles.header)
        file.write(without_controls(header) + "\n" * bool(header))
        if "[re:" not in header:
            file.write("[re:ctc-align]\n")
        for index, cue in enumerate(cues):
            words = cue.words
            if style.highlight_words:
                text = _enhanced(cue)
            else:
                text = _plain(words)
            file.write(f"[{_lrc_time(cue.spoken_start)}]{text}\n")
            if index + 1 == len(cues) or cues[index + 1].spoken_start - cue.spoken_end >= _DARK_CS:
                file.write(f"[{_lrc_time(cue.spoken_end)}]\n")


def _plain(words: Sequence[CueWord]) -> str:
    return "".join(space + _lrc_text(word.text) for space, word in spaced(words))


def _enhanced(cue: WordCue) -> str:
    """Return a line of enhanced LRC, with the time of each spoken word.

    >>> words = (CueWord("A:", False, 12, 12, False), CueWord("So", True, 12, 40), CueWord("be", True, 40, 61))
    >>> _enhanced(WordCue(10, 120, (words,)))
    'A: <00:00.12>So <00:00.40>be<00:00.61>'
    """
    pieces = [
        space + (f"<{_lrc_time(word.start)}>" if word.is_spoken else "") + _lrc_text(word.text)
        for space, word in spaced(cue.words)
    ]
    return "".join([*pieces, f"<{_lrc_time(cue.spoken_end)}>"])


def _lrc_text(text: str) -> str:
    return _one_line(_LRC_STAMP.sub(r"(\1)", text.translate(_LRC_BRACKETS)))


def _lrc_time(centiseconds: int) -> str:
    """Return a time in centiseconds as LRC writes it.

    >>> _lrc_time(366_101)
    '61:01.01'
    """
    minutes, rest = divmod(centiseconds, 60 * _CS_PER_S)
    return f"{minutes:02d}:{rest / _CS_PER_S:05.2f}"


def _one_line(text: str) -> str:
    return without_controls(" ".join(text.split()))


def _refuse_beyond(cues: Sequence[WordCue], most_cs: int, what: str) -> None:
    """Raise OutputError if a cue ends after the last time that a format can hold."""
    if cues and cues[-1].end >= most_cs:
        raise OutputError(
            f"{what}, and the last words end at {_ass_clock(cues[-1].end)}; leave this format out"
            " of --format, or align the recording in parts"
        )
