"""SRT and WebVTT subtitles, and with `highlight_words` such that show the word that is being spoken.

Where the transcript is a subtitle file its own cues come back (`source_cues`), unless new ones are wanted (`new_cues`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from ctc_align.formats.cue_times import MS_PER_S, clock, on_frames
from ctc_align.formats.new_cues import new_cues
from ctc_align.formats.source_cues import source_srt, source_vtt, srt_text
from ctc_align.formats.word_cues import CueWord, WordCue, word_cues
from ctc_align.formats.writer import Style, Writer
from ctc_align.text.control_characters import without_controls
from ctc_align.types import AlignmentData

_LIT = ("<u>", "</u>")


class SrtWriter(Writer):
    """Numbered subtitles of at most two lines, in the words of the transcript.

    SRT has no escape, and players take `<b>` and `{\\an8}` for markup: in new subtitles they are written `‹b›` and
    `(\\an8)`, and an arrow that would read as times is opened (`-- >`). Cues of a subtitle file keep their own markup.
    A control character is U+FFFD.

    With `highlight_words` each subtitle is one for each of its words, which is underlined (`<u>`) while it is spoken,
    as Whisper has it, and one without between words that are apart; of a subtitle file's markup nothing stays then.
    """

    extension = ".srt"

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        style = self.style(alignment)
        if style.highlight_words:
            lit = [each for cue in word_cues(alignment, style) for each in _lit_cues(cue, style.frame_rate)]
            spans = [(start, end) for start, end, _ in lit]
            times = on_frames(spans, alignment.duration_s + style.shift_s(alignment), style.frame_rate)
            _write_srt(file, [(*span, text) for span, (_, _, text) in zip(times, lit)])
        elif style.keeps_cues(alignment):
            file.write(without_controls(source_srt(alignment, style.shift_s(alignment), style.frame_rate)))
        else:
            cues = [(cue.start_ms, cue.end_ms, srt_text("\n".join(cue.lines))) for cue in new_cues(alignment, style)]
            _write_srt(file, cues)


def _write_srt(file: TextIO, cues: Sequence[tuple[int, int, str]]) -> None:
    for number, (start_ms, end_ms, text) in enumerate(cues, 1):
        file.write(f"{number}\n{clock(start_ms, ',')} --> {clock(end_ms, ',')}\n{without_controls(text)}\n\n")


def _lit_cues(cue: WordCue, frame_rate: float) -> Iterator[tuple[int, int, str]]:
    """Yield a cue as one for each time in which the same word is lit, or none: (start_ms, end_ms, text).

    A word stays lit until the next one where the gap between them is shorter than a frame.
    """
    least_ms = MS_PER_S / frame_rate if frame_rate else 1
    texts, at = _lit_texts(cue), cue.start
    words = cue.spoken
    for place, word in enumerate(words):
        end = words[place + 1].start if place + 1 < len(words) else cue.end
        end = end if end - word.end < least_ms else word.end
        if end - max(word.start, at) < least_ms:
            continue
        if word.start - at >= least_ms:
            yield at, word.start, texts[-1]
            at = word.start
        yield at, end, texts[place]
        at = end
    if cue.end > at:
        yield at, cue.end, texts[-1]


def _lit_texts(cue: WordCue) -> list[str]:
    """Return the text of a cue with each of its spoken words lit, and at last with none."""
    text, spans = "", []
    for number, line in enumerate(cue.lines):
        text += "\n" * bool(number)
        for place, word in enumerate(line):
            text += " " * (word.is_spaced and place > 0)
            spans += [(len(text), len(text) + len(word.text))] * word.is_spoken
            text += word.text
    shown = srt_text(text)
    if len(shown) != len(text):  # an arrow was opened: places are not those of the words any more
        return [shown] * (len(spans) + 1)
    return [f"{shown[:start]}{_LIT[0]}{shown[start:end]}{_LIT[1]}{shown[end:]}" for start, end in spans] + [shown]


class VttWriter(Writer):
    """The same subtitles as in SubRip, "&", "<" and ">" escaped (so that "-->" is text too), and who speaks as a voice.

    A control character is U+FFFD, as WebVTT has it for NUL. With `highlight_words` the time at which a word begins
    stands before it (`<00:00:01.200>`), and browsers and players show what was said in another style (`::cue(:past)`).
    """

    extension = ".vtt"

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        style = self.style(alignment)
        if style.keeps_cues(alignment) and not style.highlight_words:
            file.write(without_controls(source_vtt(alignment, style.shift_s(alignment), style.frame_rate)))
            return
        file.write("WEBVTT\n")
        for start_ms, end_ms, text in _vtt_cues(alignment, style):
            file.write(f"\n{clock(start_ms, '.')} --> {clock(end_ms, '.')}\n{without_controls(text)}\n")


def _vtt_cues(alignment: AlignmentData, style: Style) -> Iterator[tuple[int, int, str]]:
    if not style.highlight_words:
        for new in new_cues(alignment, style):
            yield new.start_ms, new.end_ms, _voice(new.speaker) + "\n".join(map(_escaped, new.lines))
        return
    for cue in word_cues(alignment, style):
        at, lines = cue.start, []
        for line in cue.lines:
            pieces = []
            for place, word in enumerate(line):
                pieces += [" " * (word.is_spaced and place > 0), _stamp(word, at, cue.end), _escaped(word.text)]
                at = max(at, word.start) if word.is_spoken else at
            lines.append("".join(pieces))
        yield cue.start, cue.end, _voice(cue.speaker) + "\n".join(lines)


def _voice(speaker: str) -> str:
    """Return who speaks as WebVTT has it: a voice span up to the end of the cue."""
    return f"<v {_escaped(' '.join(speaker.split()))}>" if speaker else ""


def _stamp(word: CueWord, after: int, before: int) -> str:
    """Return the time of a spoken word as WebVTT wants it, after the last one, before the cue's end; "" for none."""
    return f"<{clock(word.start, '.')}>" if word.is_spoken and after < word.start < before else ""


def _escaped(line: str) -> str:
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
