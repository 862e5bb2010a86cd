"""SubRip subtitles."""

from __future__ import annotations

from typing import TextIO

from ctc_align.formats.subtitle_cues import cues_of
from ctc_align.formats.writer import Writer
from ctc_align.types import AlignmentData


class SrtWriter(Writer):
    """Numbered subtitles of at most two lines, in the user's own words; see `ctc_align.formats.subtitle_cues`."""

    extension = ".srt"

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        for number, cue in enumerate(cues_of(alignment, self.style(alignment)), 1):
            text = "\n".join(cue.lines)
            file.write(f"{number}\n{clock(cue.start_ms, ',')} --> {clock(cue.end_ms, ',')}\n{text}\n\n")


def clock(milliseconds: int, point: str) -> str:
    """Hours, minutes, seconds and milliseconds.

    >>> clock(3_661_001, ",")
    '01:01:01,001'
    """
    seconds, milliseconds = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{point}{milliseconds:03d}"
