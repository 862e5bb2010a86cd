"""WebVTT subtitles."""

from __future__ import annotations

from typing import TextIO

from ctc_align.formats.srt import clock
from ctc_align.formats.subtitle_cues import cues_of
from ctc_align.formats.writer import Writer
from ctc_align.types import AlignmentData


class VttWriter(Writer):
    """The same subtitles as in SubRip, "&", "<" and ">" escaped (so that "-->" is text too)."""

    extension = ".vtt"

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        file.write("WEBVTT\n")
        for cue in cues_of(alignment, self.style(alignment)):
            text = "\n".join(map(_escaped, cue.lines))
            file.write(f"\n{clock(cue.start_ms, '.')} --> {clock(cue.end_ms, '.')}\n{text}\n")


def _escaped(line: str) -> str:
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
