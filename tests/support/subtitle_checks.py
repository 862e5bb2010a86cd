"""What subtitles must be, read from the files by parsers of its own; and fault by fault what they
are not."""

from __future__ import annotations

import itertools
import re
import unicodedata
from dataclasses import dataclass

from ctc_align.types import AlignedWord, Alignment, aligned_words

_TIME = r"(\d\d+):(\d\d):(\d\d)[,.](\d\d\d)"
_TIMES = re.compile(rf"{_TIME} --> {_TIME}")


@dataclass(frozen=True)
class Shown:
    start_ms: int
    end_ms: int
    lines: tuple[str, ...]


def read_srt(text: str) -> list[Shown]:
    shown = []
    for number, block in enumerate(text.split("\n\n")[:-1], 1):
        first, times, *lines = block.split("\n")
        assert first == str(number)
        shown.append(_shown(times, lines, ","))
    return shown


def read_vtt(text: str) -> list[Shown]:
    head, *blocks = text.removesuffix("\n").split("\n\n")
    assert head == "WEBVTT"
    shown = []
    for block in blocks:
        times, *lines = block.split("\n")
        assert not any("-->" in line or "<" in line for line in lines), (
            "text that a player takes for markup"
        )
        assert not any(re.search(r"&(?!amp;|lt;|gt;)", line) for line in lines)
        plain = [
            line.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") for line in lines
        ]
        shown.append(_shown(times, plain, "."))
    return shown


def _shown(times: str, lines: list[str], point: str) -> Shown:
    match = _TIMES.fullmatch(times)
    assert match, times
    assert times.count(point) == 2
    numbers = [int(number) for number in match.groups()]
    assert all(number < 60 for number in numbers[1:3] + numbers[5:7])
    start, end = (((h * 60 + m) * 60 + s) * 1000 + ms for h, m, s, ms in (numbers[:4], numbers[4:]))
    return Shown(start, end, tuple(lines))


def width(text: str) -> int:
    marks = ("Mn", "Me", "Cf")
    return sum(
        (2 if unicodedata.east_asian_width(char) in ("W", "F") else 1)
        for char in text
        if unicodedata.category(char) not in marks
    )


def faults(shown: list[Shown], alignment: Alignment, shift_s: float = 0.0) -> list[str]:
    """What is wrong with the subtitles of an alignment, one line for each fault."""
    found = []
    for left, right in itertools.pairwise(shown):
        if right.start_ms < left.end_ms:
            found.append(f"overlap at {right.start_ms}")
    for cue in shown:
        if cue.end_ms <= cue.start_ms:
            found.append(f"empty at {cue.start_ms}")
        if cue.end_ms - cue.start_ms > 7000:
            found.append(f"too long at {cue.start_ms}")
        if not 1 <= len(cue.lines) <= 2:
            found.append(f"{len(cue.lines)} lines at {cue.start_ms}")
        if any(not line.strip() or line != line.strip() for line in cue.lines):
            found.append(f"white space at {cue.start_ms}")
        if any(width(line) > 42 for line in cue.lines):
            found.append(f"wide line at {cue.start_ms}")
    return found + _text_faults(shown, alignment) + _time_faults(shown, alignment, shift_s)


def _text_faults(shown: list[Shown], alignment: Alignment) -> list[str]:
    lines = [line for cue in shown for line in cue.lines]
    found = []
    shown_words = _words_to_show(alignment)
    whole = (
        alignment.text
        if shown_words is alignment.words
        else "".join(word.text for word in shown_words)
    )
    if "".join("".join(lines).split()) != "".join(whole.split()):
        found.append("text lost or changed")
    written = [word.text for word in shown_words if width(word.text) <= 42]
    rest = iter(" ".join(lines).split())
    if all(word.isascii() for word in written) and not all(
        any(word == met for met in rest) for word in written
    ):
        found.append("a word is split")
    return found


def _words_to_show(alignment: Alignment) -> tuple[AlignedWord, ...] | list[AlignedWord]:
    """Return the words that are in the recording, and what is not spoken beside one of them."""
    words = alignment.words
    if not any(word.status == "skipped" for word in words):
        return words
    spoken = [at for at, word in enumerate(words) if word.status != "unspoken"]
    sides = {
        at: [s for s in spoken if s < at][-1:] + [s for s in spoken if s > at][:1]
        for at in range(len(words))
    }
    near = {at: [at] if at in spoken else sides[at] for at in range(len(words))}
    return [
        word for at, word in enumerate(words) if any(words[s].status != "skipped" for s in near[at])
    ]


def _time_faults(shown: list[Shown], alignment: Alignment, shift_s: float) -> list[str]:
    """Words out of their subtitle's time; subtitles too short or fast although silence follows."""
    found = []
    letters = [(cue, char) for cue in shown for char in "".join("".join(cue.lines).split())]
    place = 0
    cue_of = {}
    for word in _words_to_show(alignment):
        cue_of[word.char_start] = letters[place][0] if place < len(letters) else shown[-1]
        place += len("".join(word.text.split()))
    for word in aligned_words(alignment):
        cue, start_ms = cue_of[word.char_start], (word.start_s + shift_s) * 1000
        # a cue ends a gap before the next one, which may be before its last word
        if not cue.start_ms - 1 <= start_ms < cue.end_ms + 80 + 1:
            found.append(f"{word.text} is not said while it is shown")
    end_ms = int((alignment.duration_s + shift_s) * 1000)
    for cue, following in itertools.zip_longest(shown, shown[1:]):
        room_ms = (following.start_ms if following else end_ms) - cue.end_ms
        shown_ms = cue.end_ms - cue.start_ms
        needed_ms = max(800, sum(map(width, cue.lines)) * 50)
        if shown_ms < min(needed_ms, 7000) - 1 and room_ms > 90:
            found.append(f"gone too early at {cue.end_ms}")
    if shown and (shown[-1].end_ms > end_ms + 1 or shown[0].start_ms < round(shift_s * 1000)):
        found.append("beyond the recording")
    return found
