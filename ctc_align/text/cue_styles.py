"""The limits of style guides of subtitles, as settings: `config` fills them in."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

_NETFLIX_FRAMES = 2
STYLES: dict[str, dict[str, Any]] = {
    "netflix": {
        "max_line": 42,
        "max_cps": 20.0,
        "min_gap_s": _NETFLIX_FRAMES / 24,
        "min_duration_s": 5 / 6,
        "max_duration_s": 7.0,
        "close_gaps_s": 0.5,
    },
    "bbc": {"max_line": 37, "min_gap_s": 0.0, "close_gaps_s": 1.0},
    "ebu": {"max_line": 36},
}
"""The values that style guides of subtitles name, with their sources in docs/transcripts.md."""


def with_style(given: dict[str, Any], frame_rate: Any = 0.0) -> dict[str, Any]:
    """Return given settings with the limits of their style, over which they win.

    Netflix's gap is two frames at any rate.

    >>> with_style({"style": "netflix", "max_cps": 17.0}, 25.0)["min_gap_s"], with_style({"style": "bbc"})["max_line"]
    (0.08, 37)
    """
    style = given.get("style")
    limits = dict(STYLES.get(style, {})) if isinstance(style, str) else {}
    if style == "netflix" and isinstance(frame_rate, float) and frame_rate > 0:
        limits["min_gap_s"] = _NETFLIX_FRAMES / frame_rate
    return {**limits, **given}


def styled_levels(levels: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return levels of settings, of which later ones win, with the limits of the style they end in.

    Limits in the first level that are those of its own style go: they were not given.

    >>> netflix = with_style({"style": "netflix", "max_duration_s": 5.0})
    >>> found = functools.reduce(merged, styled_levels([netflix, {"style": "ebu"}]))
    >>> found["max_line"], found["max_duration_s"], "max_cps" in found
    (36, 5.0, False)
    """
    together = functools.reduce(merged, levels)
    style = together.get("style")
    base = levels[0]
    limits = with_style({"style": base.get("style")}, base.get("frame_rate"))
    del limits["style"]
    given = {
        name: value for name, value in base.items() if name not in limits or value != limits[name]
    }
    return [
        with_style(level, together.get("frame_rate")) if level.get("style") == style else level
        for level in (given, *levels[1:])
    ]


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return `base` updated with `over`, table by table."""
    tables = dict(base)
    for key, value in over.items():
        inner = tables.get(key)
        if isinstance(inner, dict) and isinstance(value, dict):
            tables[key] = merged(inner, value)
        else:
            tables[key] = value
    return tables
