"""Cues beyond the limits of a style guide or of options: too fast, wide, short, long or close."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from ctc_align.config import Settings
from ctc_align.files.cues import MS_PER_S, new_cues, shown_times, source_subtitles
from ctc_align.files.sentences import columns
from ctc_align.files.writer import Style
from ctc_align.text.cue_styles import STYLES
from ctc_align.text.note_kinds import name_first
from ctc_align.text.word_forms import without_markup
from ctc_align.types import Alignment

CUED = frozenset(("srt", "vtt", "ass", "lrc"))
"""Formats with cues."""


class FastCue(NamedTuple):
    """A cue that must be read too fast: its number, from 1, its times, its columns a second."""

    cue: int
    start_s: float
    end_s: float
    columns_per_s: float


def fast_cues(alignment: Alignment, style: Style, formats: Iterable[str] = ()) -> list[FastCue]:
    """Return the cues of subtitles that are faster than `max_cps`, because the speech is.

    If `max_cps` is its default, none is unless new cues are written in one of `formats`.
    """
    is_kept = style.keeps_cues(alignment)
    if style.max_cps == Settings.max_cps and (is_kept or CUED.isdisjoint(formats)):
        return []
    found = []
    for number, (lines, (start_ms, end_ms)) in enumerate(_shown_cues(alignment, style), 1):
        speed = round(MS_PER_S * columns(" ".join(lines)) / (end_ms - start_ms), 1)
        if speed > style.max_cps:
            found.append(FastCue(number, start_ms / MS_PER_S, end_ms / MS_PER_S, speed))
    return found


def broken_limits(alignment: Alignment, style: Style) -> dict[str, list[int]]:
    """Return the numbers, from 1, of the cues beyond limits of the style or of options.

    They are grouped by what they are: "shorter than 0.8 s".

    A limit counts if the style has it, or if it is not the default. `fast_cues` is about `max_cps`.
    """
    counted = {
        name
        for name in ("max_line", "min_gap_s", "min_duration_s", "max_duration_s")
        if name in STYLES.get(style.style, {}) or getattr(style, name) != getattr(Settings, name)
    }
    shown = _shown_cues(alignment, style)
    lengths_ms = [end - start for _, (start, end) in shown]
    starts = sorted(start for _, (start, _) in shown)
    gaps_ms = [
        starts[bisect_right(starts, start)] - end if start < starts[-1] else math.inf
        for _, (start, end) in shown
    ]
    widths = [max(map(columns, lines), default=0) for lines, _ in shown]
    least_gap_ms = MS_PER_S * style.min_gap_s - 1
    shortest_ms = MS_PER_S * style.min_duration_s - 1
    longest_ms = MS_PER_S * style.max_duration_s + 1
    tests = (
        ("max_line", f"wider than {style.max_line} columns", [n > style.max_line for n in widths]),
        ("min_duration_s", f"shorter than {style.min_duration_s:.3g} s", [n < shortest_ms for n in lengths_ms]),
        ("max_duration_s", f"longer than {style.max_duration_s:.3g} s", [n > longest_ms for n in lengths_ms]),
        ("min_gap_s", f"less than {style.min_gap_s:.3g} s before the next", [n < least_gap_ms for n in gaps_ms]),
    )  # fmt: skip
    return {
        what: [number for number, is_broken in enumerate(broken, 1) if is_broken]
        for name, what, broken in tests
        if name in counted and any(broken)
    }


def limit_notes(alignment: Alignment, style: Style, formats: Iterable[str]) -> list[str]:
    """Return a note on the cues that break limits, if one of `formats` has cues."""
    if CUED.isdisjoint(formats):
        return []
    broken = [
        f"{len(cues)} {'cue is' if len(cues) == 1 else 'cues are'} {what}"
        f" ({name_first(list(map(str, cues)), len(cues))})"
        for what, cues in broken_limits(alignment, style).items()
    ]
    if style.keeps_cues(alignment):
        why = "kept as in the transcript; --cues again makes new ones"
    else:
        why = "because of the speech"
    return [f"{'; '.join(broken)}: {why}"] * bool(broken)


def _shown_cues(alignment: Alignment, style: Style) -> list[tuple[list[str], tuple[int, int]]]:
    """Return the lines, without markup, and the times in ms of the cues that are written."""
    if not style.keeps_cues(alignment):
        return [(cue.lines, (cue.start_ms, cue.end_ms)) for cue in new_cues(alignment, style)]
    texts = (
        alignment.text[cue.char_start : cue.char_end] for cue in source_subtitles(alignment).cues
    )
    shown = (map(str.split, without_markup(text).split("\n")) for text in texts)
    lines = [[" ".join(words) for words in each if words] for each in shown]
    return list(zip(lines, shown_times(alignment, style.shift_s(alignment), style.frame_rate)))
