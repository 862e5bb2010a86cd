"""Who speaks in subtitles: a label names its cue, and only where every turn has one those that follow."""

from __future__ import annotations

import pytest

from ctc_align.files.subtitles import parse_subtitles
from ctc_align.text import split, with_cues


def speakers(*cues: str) -> list[str]:
    """The speaker of the first spoken word of each cue, "-" for nobody."""
    source = "\n\n".join(f"{n}\n00:00:{n:02d},000 --> 00:00:{n:02d},900\n{cue}" for n, cue in enumerate(cues, 1))
    transcript = parse_subtitles(source, "a.srt")
    words = with_cues(split(transcript.text), transcript.subtitles)
    said = [word for word in words.words if word.spoken]
    firsts = [
        next(word for word in said if cue.char_start <= word.char_start < cue.char_end) for cue in words.subtitles.cues
    ]
    return [word.speaker or "-" for word in firsts]


@pytest.mark.parametrize(
    ("cues", "named"),
    [
        (("I heard that.", "ANNA: Hello.", "Who is there?", "It is cold."), "- ANNA - -"),
        (("Well.", "ANNA: I came", "home at last,", "you know.", "Did you?"), "- ANNA ANNA ANNA -"),
        (("Well.", "ANNA: I wait...", "...and wait.", "So."), "- ANNA ANNA -"),
        (("Well.", "ANNA: I came", "- Hello!", "So."), "- ANNA - -"),
        (("ANNA: Why?", "I ask.", "BEN: Because.", "It is so.", "ANNA: Oh."), "ANNA ANNA BEN BEN ANNA"),
        (("ANNA: Why?", "I ask.", "ANNA: And who?", "Me."), "ANNA - ANNA -"),
        (("So.", ">> ANNA: Why?", "I ask.", ">> Me.", "Yes."), "- ANNA ANNA - -"),
        (("ANNA: Why?", *["So."] * 41, "BEN: Oh."), "ANNA" + " -" * 41 + " BEN"),
        (("Well.", "ANNA: Is he here।", "He is", "not."), "- ANNA - -"),
        (("Well.", "ANNA: so", *["it goes on and on"] * 10), "- ANNA" + " ANNA" * 8 + " - -"),
    ],
)
def test_how_long_a_label_holds(cues: tuple[str, ...], named: str) -> None:
    assert speakers(*cues) == named.split()
