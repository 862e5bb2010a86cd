"""The page of a report.

It is one HTML file that needs no network; its script only sorts tables and plays sound. The sound
of what it names is inside it, in short parts: a report can be sent by mail, plays what browsers do
not (SPH, video), and its policy allows no address, not even of the recordings. The size is limited;
see `MOST_SOUND_BYTES`.

`report.html.j2` is the template. This module computes its values, including the geometry of the
charts.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import numpy as np

from ctc_align._version import __version__
from ctc_align.corpus.report.run_changes import MOVED_S, RunChanges, UtteranceChange
from ctc_align.corpus.report.run_figures import (
    MOST_SPEAKERS,
    MOST_WORST,
    PAUSE_S,
    Histogram,
    NamedUtterance,
    RunFigures,
)
from ctc_align.corpus.state.shared_texts import gap_place, gap_words
from ctc_align.errors import CtcAlignError, UsageError
from ctc_align.files import read_alignment
from ctc_align.files.corrections import original_of
from ctc_align.files.pages import EMBED, NO_SOUND, SAMPLE_RATE, aligned_stretch
from ctc_align.reading import JsonObject
from ctc_align.sources.named_recordings import find_recording
from ctc_align.sources.utterance_ids import output_of
from ctc_align.text.characters import printable
from ctc_align.types import Alignment
from ctc_align.units import clock
from ctc_align.view.page import encoded_opus

_COMMENT = "<!-- ctc-align report -->"
MARK = f"<!doctype html>\n{_COMMENT}\n"
"""The beginning of every report, by which a file is recognised as one."""
_MOST_SPEAKERS_SHOWN = 50
_WIDTH, _HEIGHT = 420, 170
_BOX = {
    "width": _WIDTH,
    "height": _HEIGHT,
    "left": 44,
    "right": _WIDTH - 12,
    "top": 12,
    "bottom": _HEIGHT - 34,
}
"""The size of a chart, and the bounds of its plot area."""
_MOST_BARS = 40
_NEARLY_ALL = 0.99
_LONG_TAIL = 3
"""Values so many times as far from the minimum as nearly all others share the last bar.

Nearly all others are those up to the 99th percentile.
"""


MOST_SOUND_BYTES = 3_000_000
"""The maximum size of the sound in a report, encoded: 12 minutes, 4 MB of the page."""
_CLIP_S, _AROUND_S = 6.0, 0.3
"""The longest clip; the time around a passage that its clip has, too."""
_QUIET = np.zeros(SAMPLE_RATE // 10, np.float32)
"""Silence before a clip, while loudspeakers wake up."""
_Clip = tuple[str, str]


class _Clips:
    """The clips of a report, encoded as Opus, up to `MOST_SOUND_BYTES`.

    Args:
        audio: EMBED, NO_SOUND, or the recording or the folder of recordings.
    """

    def __init__(self, audio: str) -> None:
        self._audio = audio
        self._left = MOST_SOUND_BYTES

    def clips(
        self, alignment: Alignment | None, path: Path, spans: Mapping[str, tuple[float, float]]
    ) -> list[_Clip]:
        """Return a clip (name, base64) of each span, or (reason, "") without sound.

        Spans are in seconds of the utterance.
        """
        if self._audio == NO_SOUND or alignment is None:
            return []
        if self._left < 0:
            return [(f"no sound: {MOST_SOUND_BYTES / 1e6:.0f} MB are in this report", "")]
        clips = []
        try:
            recording = find_recording(alignment, path, "" if self._audio == EMBED else self._audio)
            for name, (start_s, end_s) in spans.items():
                length_s = min(end_s, start_s + _CLIP_S, alignment.duration_s) - start_s
                clip = replace(
                    alignment, offset_s=alignment.offset_s + start_s, duration_s=length_s
                )
                sound = aligned_stretch(clip, recording, SAMPLE_RATE)
                encoded = encoded_opus(
                    replace(sound, samples=np.concatenate((_QUIET, sound.samples)))
                )
                self._left -= len(encoded)
                clips.append((name, base64.b64encode(encoded).decode()))
        except CtcAlignError as error:
            why = "is silent here, or cannot be read"
            if isinstance(error, UsageError):
                why = "was not found"
            return [(f"no sound: the recording {why}", "")]
        return clips

    def of_passage(self, one: NamedUtterance, out_dir: Path) -> list[_Clip]:
        """Return the clip of what disagrees in an utterance."""
        span = one.passage
        path = out_dir / (one.json or f"{output_of(one.id)}.json")
        start_s = max(span[0] - _AROUND_S, 0.0)
        return self.clips(
            one.alignment, path, {f"from {clock(start_s)}": (start_s, span[1] + _AROUND_S)}
        )

    def of_word(self, change: UtteranceChange) -> list[_Clip]:
        """Return clips of the word that changed most.

        They are cut out by its times before and now; [] if a file has faults.
        """
        try:
            runs = [read_alignment(path) for path in change.files]
        except CtcAlignError:
            return []
        words = (run.words[change.index] for run in runs)
        times = ((name, word.start_s, word.end_s) for name, word in zip(("before", "now"), words))
        spans = {
            name: (start_s, end_s)
            for name, start_s, end_s in times
            if start_s is not None and end_s is not None
        }
        return self.clips(runs[1], change.files[1], spans)


def report_page(
    figures: RunFigures,
    out_dir: Path,
    folder: Path,
    changes: RunChanges | None = None,
    audio: str = NO_SOUND,
) -> str:
    """Return the report of a run in `out_dir` as HTML.

    It is to be written into `folder`: links are relative to it. `changes` are those since another
    run. `audio` is "none" for a page without sound, "embed" for clips of what it names, or the
    folder that the recordings are in now.

    Nothing of the corpus (names, reasons, speakers) can become markup, script, or a link to
    elsewhere.
    """
    import jinja2
    from markupsafe import Markup

    def plain(value: object) -> object:
        """Return a value with escapes for characters that a page must not show.

        These are invalid, or would change the direction of text.
        """
        if isinstance(value, Markup) or not isinstance(value, str):
            return value
        return printable(value).encode("utf-8", "backslashreplace").decode("utf-8")

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=plain,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["sha256"] = lambda text: base64.b64encode(
        hashlib.sha256(text.encode()).digest()
    ).decode()
    environment.filters["clock"] = lambda seconds: clock(round(seconds))
    environment.filters["grouped"] = "{:,}".format
    summary = figures.summary
    clips = _Clips(audio)
    heard = (
        [] if changes is None else [clips.of_word(one) for one in changes.largest]
    )  # before the budget is used up
    speakers = sorted(figures.speakers.items(), key=lambda named: (-named[1].seconds, named[0]))
    page = environment.get_template("report.html.j2").render(
        mark=Markup(_COMMENT),
        title=f"Corpus run: {out_dir.resolve().name}",
        version=__version__,
        box=_BOX,
        figures=figures,
        summary=summary,
        notes=_notes(figures, changes),
        fit=_shares(summary.fit),
        reasons=sorted(
            figures.reasons.values(), key=lambda reason: (-reason.count, reason.example)
        ),
        gaps=[
            (gap_words(gap), gap_place(gap), gap["words"], gap["text"]) for gap in summary.text_gaps
        ],
        overlaps=[
            (gap_words(one), ", ".join(one["utterances"]), one["words"], one["text"])
            for one in summary.text_overlaps
        ],
        worst=[
            (one, _link(one, out_dir, folder), clips.of_passage(one, out_dir))
            for one in figures.worst
        ],
        most_worst=MOST_WORST,
        changes=changes,
        largest=list(zip(changes.largest, heard)) if changes is not None else [],
        moved_ms=1000 * MOVED_S,
        out_dir=shlex.quote(str(out_dir)),
        charts=_charts(figures),
        speakers=speakers,
        most_speakers=MOST_SPEAKERS,
        most_shown=_MOST_SPEAKERS_SHOWN,
    )
    return page.lstrip("\n")


def _notes(figures: RunFigures, changes: RunChanges | None) -> list[str]:
    """Return notes on missing parts of a run, and on files that could not be read."""
    if figures.summary.complete:
        notes = []
    else:
        notes = ["This run is not complete: the figures cover what is finished so far."]
    notes += figures.notes
    if figures.unread:
        notes.append(
            f"{figures.unread:,} outputs could not be read, and are missing from the distributions:"
        )
        notes += figures.faults
    if changes is not None and changes.unread:
        notes.append(
            f"{changes.unread:,} outputs of both runs could not be read, and are not compared:"
        )
        notes += changes.faults
    return notes


def _link(one: NamedUtterance, out_dir: Path, folder: Path) -> str:
    """Return the address of an utterance's page, or of its JSON, "" if there is neither."""
    json = Path(one.json or "")
    if one.json:
        names = [json.with_suffix(".html"), original_of(json).with_suffix(".html"), json]
    else:
        names = []
    name = next((name for name in names if os.path.isfile(out_dir / name)), None)
    if name is None:
        return ""
    path = Path(os.path.relpath(out_dir.resolve() / name, folder.resolve())).as_posix()
    return f"./{quote(os.fsencode(path))}"


def _shares(counts: Mapping[str, int]) -> JsonObject:
    """Return a bar that is divided by the shares of counts.

    A part is (name, count, start, share), the last two in percent.
    """
    total = sum(counts.values())
    start = 0.0
    parts = []
    for name, count in counts.items():
        share = 100 * count / total
        parts.append((name, count, start, share))
        start += share
    return {
        "parts": parts,
        "label": "fit: " + ", ".join(f"{name} {count}" for name, count in counts.items()),
    }


def _charts(figures: RunFigures) -> list[JsonObject]:
    losses, local = figures.summary.loss_per_token, figures.summary.local_loss
    return [
        histogram_chart(
            figures.loss_per_token, "Loss per token", "nats", losses.get("p50"), losses.get("mean")
        ),
        histogram_chart(
            figures.local_loss,
            "Local loss (worst 0.3 s)",
            "nats",
            local.get("p50"),
            local.get("mean"),
        ),
        histogram_chart(figures.confidence, "Confidence of words", "confidence"),
        histogram_chart(figures.words_per_s, "Speech rate of utterances", "words per second"),
        histogram_chart(figures.pauses_s, f"Pauses of {PAUSE_S:g} s and more", "seconds"),
        histogram_chart(figures.durations_s, "Length of utterances", "seconds"),
    ]


def histogram_chart(
    histogram: Histogram,
    title: str,
    unit: str,
    median: float | None = None,
    mean: float | None = None,
) -> JsonObject:
    """Return a histogram for the template.

    It has bars from the first to the last bin with values, and the median's position. Bins are
    joined until there are at most 40 bars; the last one also has the few values that are far beyond
    the others. Each bar names its bounds and its count. `median` and `mean` are exact if known;
    otherwise they are estimated from the histogram, the median to within a bin.
    """
    if not histogram.number:
        return {"title": title, "bars": []}
    if median is None:
        median = histogram.quantile(0.5)
    mean = histogram.mean if mean is None else mean
    width = histogram.width
    first, last_filled = _filled(histogram.counts)
    most_drawn = first + _LONG_TAIL * (
        math.ceil(histogram.quantile(_NEARLY_ALL) / width) - first + 1
    )
    last = min(last_filled, most_drawn)
    together = math.ceil((last - first + 1) / _MOST_BARS)
    starts = list(range(first, last + 1, together))
    sums = [sum(histogram.counts[start : start + together]) for start in starts]
    sums[-1] += sum(histogram.counts[starts[-1] + together :])
    low = first * width
    high = (starts[-1] + together) * width
    most = max(sums)

    def x(value: float) -> float:
        return _BOX["left"] + (value - low) / (high - low) * (_BOX["right"] - _BOX["left"])

    bars = []
    decimals = _decimals(width)
    for start, count in zip(starts, sums):
        begin = start * width
        end = (start + together) * width
        is_open = start == starts[-1] and histogram.greatest >= end
        bounds = f"{begin:,.{decimals}f}" + (" and more" if is_open else f" to {end:,.{decimals}f}")
        height = count / most * (_BOX["bottom"] - _BOX["top"])
        bars.append(
            (
                f"{x(begin) + 0.5:.1f}",
                f"{_BOX['bottom'] - height:.1f}",
                f"{max(x(end) - x(begin) - 1, 0.5):.1f}",
                f"{height:.1f}",
                f"{bounds} {unit}: {count:,}",
            )
        )
    caption = f"median {_number(median)} · mean {_number(mean)}"
    return {
        "title": title,
        "unit": unit,
        "caption": caption,
        "label": f"{title}: {caption.replace(' ·', ',')} {unit}, {histogram.number:,} in all",
        "bars": bars,
        "median_x": f"{x(min(max(median, low), high)):.1f}",
        "most": f"{most:,}",
        "ticks": [(f"{x(tick):.1f}", label) for tick, label in _labelled_ticks(low, high)],
    }


def _filled(counts: Sequence[int]) -> tuple[int, int]:
    """Return the first and the last bin that hold something."""
    filled = [index for index, count in enumerate(counts) if count]
    return filled[0], filled[-1]


def _ticks(low: float, high: float) -> list[float]:
    """Return at most eight round values between two bounds.

    >>> _ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    rough = (high - low) / 7
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(base * power for base in (1, 2, 5, 10) if base * power >= rough)
    return [
        round(i * step, 9)
        for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    ]


def _labelled_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return the round values as text, with enough decimals to distinguish neighbours.

    >>> _labelled_ticks(134.1, 134.22)[::2]
    [(134.1, '134.10'), (134.14, '134.14'), (134.18, '134.18'), (134.22, '134.22')]
    """
    ticks = _ticks(low, high)
    step = min((after - before for before, after in pairwise(ticks)), default=1.0)
    return [(tick, f"{tick:,.{_decimals(step)}f}") for tick in ticks]


def _decimals(step: float) -> int:
    """Return how many decimals distinguish values that are a step apart.

    >>> _decimals(0.05), _decimals(0.1), _decimals(20.0)
    (2, 1, 0)
    """
    return max(0, -math.floor(math.log10(step) + 1e-9))


def _number(value: float) -> str:
    """Return a number as the page shows it.

    >>> _number(0.3000001), _number(1234.5), _number(12.34)
    ('0.3', '1,234', '12.3')
    """
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
