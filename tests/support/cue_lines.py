"""The cues of a transcript as lines that tests compare."""

from __future__ import annotations

from ctc_align.types import Transcript


def cue_lines(transcript: Transcript) -> list[str]:
    """Return the cues as lines: "0.5-1.5 Ann: Hello"."""
    text, subtitles = transcript.text, transcript.subtitles
    assert subtitles is not None
    assert text == "\n".join(text[cue.char_start : cue.char_end] for cue in subtitles.cues)
    return [
        f"{cue.start_s:g}-{cue.end_s:g} {cue.speaker}: {text[cue.char_start : cue.char_end]}"
        for cue in subtitles.cues
    ]
