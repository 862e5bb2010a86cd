"""Pictures of an alignment, for papers and notebooks.

They show the sound above tiers of words, phones and speakers.

They need matplotlib (the extra `plot`), which is imported when a picture is drawn.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any
from unicodedata import combining, east_asian_width

import numpy as np

from ctc_align.errors import UsageError
from ctc_align.text.characters import without_controls
from ctc_align.text.note_kinds import name_first
from ctc_align.types import Audio, Panel
from ctc_align.view import check_plotting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OWN = "DejaVu Sans"
_WEIGHTS = (400, "normal", "regular", "book")
_SYMBOLS = ("STIX", "cm", "Noto Color Emoji", "Last Resort")
"""Fonts to avoid: mathematical ones, in which letters have other codes; colour fonts, which
matplotlib cannot draw; and fonts that draw a box for every character."""
logger = logging.getLogger(__name__)
INK = "#20242a"
"""The colour of everything that is drawn on white."""
WINDOW_S = 0.008
"""The length of a window: short enough that the pulses of a voice are seen as stripes."""
HIGHEST_HZ = 8000.0
_BINS = 256
_PRE_EMPHASIS = 0.95
_COLUMNS_AT_ONCE = 256
PANELS: tuple[Panel, ...] = ("waveform", "spectrogram")
MOST_FINE_S = 36.0
"""Stretches of up to this many seconds are drawn with phones and a spectrogram, longer ones
without."""
_FINE_ROW_S = 6.0
_COARSE_ROWS = 6
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 11.0, 0.75, 0.15, 0.45, 0.45
_HEIGHTS = {"waveform": 0.75, "spectrogram": 1.15}
_TIER, _BETWEEN_ROWS = 0.3, 0.42
_DPI = 150
_FAINT = "#9aa3ad"
_CONFIDENCES = (
    (0.9, "#d9e6f2", "0.9 and more"),
    (0.5, "#ffe3a8", "from 0.5 on"),
    (-1.0, "#f6b5a5", "below 0.5"),
)
"""The least confidence of each colour of a word, the colour, and its name."""
_SPEAKERS = ("#e3efdc", "#efe2f2", "#f3ead6", "#dcefee")
_UNEXPLAINED = "#b06fd0"
_MOST_LINES = 200
"""The maximum number of edges that are drawn in a tier of a row: more would be nothing but
lines."""
_LARGEST_PT, _SMALLEST_PT, _READABLE_PT = 9.0, 4.5, 6.0


@dataclass(frozen=True)
class Cell:
    """An interval of a tier.

    It has a label, times in seconds from the start of the utterance, and a colour.
    """

    start_s: float
    end_s: float
    label: str
    colour: str = "none"
    start_sd_s: float = 0.0
    end_sd_s: float = 0.0


def alignment_figure(
    alignment: Mapping[str, Any],
    sound: Audio | None,
    *,
    start_s: float | None = None,
    end_s: float | None = None,
    panels: Sequence[Panel] = PANELS,
) -> Figure:
    """Draw an alignment: the sound, and below it the words with their phones and speakers.

    A stretch of up to 36 s is drawn in rows of at most 6 s; a longer one in six rows, without
    phones and spectrogram, and with the words that have room. A word has the colour of its
    confidence; the band about an edge is one standard deviation of it to either side; speech that
    no word explains is hatched.

    Args:
        alignment: the JSON object, "ctc-align/1".
        sound: of the utterance; None draws the tiers alone.
        start_s, end_s: the stretch that is drawn, seconds from the start of the utterance; all of
            it where None.
        panels: of the sound, from top to bottom.

    Returns:
        A matplotlib figure without a window.

    Raises:
        UsageError: matplotlib is not installed, there is no such stretch, or no such panel.
    """
    check_plotting()
    from matplotlib.figure import Figure

    unknown = [panel for panel in panels if panel not in PANELS]
    if unknown:
        raise UsageError(f"panels: expected some of {', '.join(PANELS)}, got {unknown[0]!r}")
    first_s, last_s = _stretch(alignment, start_s, end_s)
    is_fine = last_s - first_s <= MOST_FINE_S
    tiers = tiers_of(alignment, phones=is_fine)
    shown = [panel for panel in panels if sound is not None and (is_fine or panel == "waveform")]
    count = _COARSE_ROWS
    if is_fine:
        count = math.ceil((last_s - first_s) / _FINE_ROW_S - 1e-9)
    row_s = (last_s - first_s) / count
    height = sum(_HEIGHTS[panel] for panel in shown) + _TIER * len(tiers)
    total = _TOP + _BOTTOM + count * height + (count - 1) * _BETWEEN_ROWS
    figure = Figure(figsize=(_WIDTH, total), dpi=_DPI, facecolor="white")
    labels = "".join(cell.label for cells in tiers.values() for cell in cells) + as_label(
        alignment.get("utterance")
    )
    page = _Sheet(figure, total, font_families(labels), is_fine)
    page.title(alignment)
    marked = tiers["words"] if is_fine else ()
    peak = 0.0 if sound is None else _peak(sound, first_s, last_s)
    top = _TOP
    for number in range(count):
        row = (first_s + number * row_s, first_s + (number + 1) * row_s)
        if sound is not None:
            for panel in shown:
                axes = page.axes(top, _HEIGHTS[panel], *row)
                _draw_panel(axes, panel, sound, row, peak)
                _draw_marks(axes, alignment, marked)
                top += _HEIGHTS[panel]
        page.tiers(top, tiers, row, (first_s, last_s))
        top += _TIER * len(tiers) + _BETWEEN_ROWS
    return figure


def _draw_panel(
    axes: Axes, panel: Panel, sound: Audio, row: tuple[float, float], peak: float
) -> None:
    """Draw the sound of a row, between its times in seconds."""
    draw = draw_waveform if panel == "waveform" else draw_spectrogram
    columns = round((_WIDTH - _LEFT - _RIGHT) * _DPI)
    draw(axes, _part(sound, *row), sound.sample_rate, row[0], peak, columns)


def rendered_figure(figure: Figure, format: str) -> bytes:
    """Return a figure as a PNG (150 dots an inch) or SVG file.

    The bytes are the same for the same figure.

    Raises:
        UsageError: no such format.
    """
    import matplotlib

    if format not in ("png", "svg"):
        raise UsageError(f"a picture's format: expected png or svg, got {format!r}")
    file = io.BytesIO()
    with (
        matplotlib.rc_context({"svg.hashsalt": "ctc-align", "svg.fonttype": "path"}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings(
            "ignore", "Glyph .* missing from font"
        )  # `font_families` has warned of it
        figure.savefig(
            file, format=format, metadata={"Date": None} if format == "svg" else {"Software": None}
        )
    return file.getvalue()


def tiers_of(alignment: Mapping[str, Any], *, phones: bool = True) -> dict[str, list[Cell]]:
    """Return the tiers from top to bottom.

    They are "words", the tokens by their kind, and "speakers" if there are some.
    """
    shift_s = _shift_s(alignment)
    words = [
        word
        for word in alignment["words"]
        if word["start_s"] is not None and word["end_s"] is not None
    ]
    tiers = {
        "words": [
            _cell(word, word["text"], shift_s, _colour(word.get("confidence"))) for word in words
        ]
    }
    if phones:
        kind = as_label(alignment.get("token_kind") or "tokens")
        tiers[kind] = [
            _cell(token, token["token"], shift_s) for word in words for token in word["tokens"]
        ]
    if any(word.get("speaker") for word in words):
        in_time = sorted(words, key=lambda word: word["start_s"])
        turns = [
            (name, list(said))
            for name, said in groupby(in_time, key=lambda word: word.get("speaker") or "")
        ]
        names = list(dict.fromkeys(name for name, _ in turns if name))
        tiers["speakers"] = [
            Cell(
                said[0]["start_s"] - shift_s,
                said[-1]["end_s"] - shift_s,
                as_label(name),
                _SPEAKERS[names.index(name) % 4],
            )
            for name, said in turns
            if name
        ]
    return tiers


def _shift_s(alignment: Mapping[str, Any]) -> float:
    """Return how much larger the object's times are than times from the start of the utterance."""
    if (alignment.get("config") or {}).get("times") == "recording":
        return float(alignment["offset_s"])
    return 0.0


def _cell(edged: Mapping[str, Any], label: str, shift_s: float, colour: str = "none") -> Cell:
    start_sd_s, end_sd_s = (
        float(edged.get(key) or 0.0) / 1000.0 for key in ("start_sd_ms", "end_sd_ms")
    )
    return Cell(
        edged["start_s"] - shift_s,
        edged["end_s"] - shift_s,
        as_label(label),
        colour,
        start_sd_s,
        end_sd_s,
    )


def _colour(confidence: float | None) -> str:
    if confidence is None:
        return "none"
    return next(colour for least, colour, _ in _CONFIDENCES if confidence >= least)


def _stretch(
    alignment: Mapping[str, Any], start_s: float | None, end_s: float | None
) -> tuple[float, float]:
    """Return the first and the last second that are drawn.

    Raise UsageError if there is no such stretch.
    """
    duration_s = float(alignment["duration_s"])
    if start_s is None:
        first_s = 0.0
    else:
        first_s = float(start_s)
    if end_s is None:
        last_s = duration_s
    else:
        last_s = float(end_s)
    if not 0.0 <= first_s < last_s or first_s >= duration_s:
        raise UsageError(
            f"start_s, end_s: expected a stretch of the utterance's {duration_s:.2f} s, got"
            f" {first_s:g} to {last_s:g}"
        )
    return first_s, min(last_s, duration_s)


def _part(sound: Audio, start_s: float, end_s: float) -> np.ndarray:
    """Return the samples from `start_s` to `end_s`, seconds from the start of the utterance."""
    first, last = (max(0, round(time_s * sound.sample_rate)) for time_s in (start_s, end_s))
    return np.asarray(sound.samples[first:last], np.float32)


def _peak(sound: Audio, first_s: float, last_s: float) -> float:
    """Return the greatest magnitude of a stretch, a minute of it at a time."""
    starts = np.arange(first_s, last_s, 60.0)
    parts = (np.abs(_part(sound, start_s, min(start_s + 60.0, last_s))) for start_s in starts)
    return max((float(part.max()) for part in parts if len(part)), default=0.0) or 1.0


@dataclass(frozen=True)
class _Sheet:
    """A figure of `height` inches, and the fonts and the scale of what is drawn in it."""

    figure: Figure
    height: float
    families: list[str]
    is_fine: bool

    def title(self, alignment: Mapping[str, Any]) -> None:
        """Write the name, the fit, what is not in the recording, and the key of colours."""
        lost = sum(word.get("status") == "skipped" for word in alignment["words"])
        if alignment.get("fit"):
            facts = [f"fit {alignment['fit']}"]
        else:
            facts = []
        facts += [f"{lost} of {len(alignment['words'])} words not in the recording"] if lost else []
        self._text(_LEFT, as_label(alignment.get("utterance") or ""), 11, weight="bold")
        self._text(_WIDTH / 2, ", ".join(facts), 8, ha="center")
        x = _WIDTH - _RIGHT
        for _, colour, meaning in reversed(_CONFIDENCES):
            key = self._text(
                x,
                meaning,
                7,
                ha="right",
                bbox={"boxstyle": "square,pad=0.25", "fc": colour, "ec": "none"},
            )
            assert key is not None
            x -= 0.2 + 0.055 * len(meaning)
        self._text(x, "confidence", 7, ha="right", color=_FAINT)

    def _text(self, x: float, text: str, size: float, **style: Any) -> Any:
        style = {"color": INK, **style}
        place = x / _WIDTH, 1 - 0.22 / self.height
        return self.figure.text(
            *place, text, size=size, va="center", family=self.families, parse_math=False, **style
        )

    def axes(self, top: float, height: float, first_s: float, last_s: float) -> Axes:
        """Return axes `top` inches below the top edge, over a row of the stretch."""
        place = (_LEFT / _WIDTH, 1 - (top + height) / self.height)
        axes = self.figure.add_axes((*place, 1 - (_LEFT + _RIGHT) / _WIDTH, height / self.height))
        axes.set_xlim(first_s, last_s)
        axes.tick_params(labelsize=7, length=2.5, color=_FAINT, labelcolor=INK, pad=2)
        axes.set_xticks([])
        for spine in axes.spines.values():
            spine.set(color=_FAINT, linewidth=0.6)
        return axes

    def tiers(
        self,
        top: float,
        tiers: Mapping[str, Sequence[Cell]],
        row: tuple[float, float],
        stretch: tuple[float, float],
    ) -> None:
        """Draw the tiers of a row of the stretch, the first on top, with the seconds below them."""
        first_s, last_s = row
        axes = self.axes(top, _TIER * len(tiers), first_s, last_s)
        axes.set_ylim(len(tiers), 0)
        axes.set_yticks([i + 0.5 for i in range(len(tiers))], list(tiers))
        axes.tick_params(axis="y", length=0)
        ticks = _ticks(first_s, last_s)
        in_minutes = stretch[1] > 60
        axes.set_xticks(
            ticks, [_minutes(tick) if in_minutes else f"{round(tick, 3):g}" for tick in ticks]
        )
        for level in range(1, len(tiers)):
            axes.axhline(level, color=_FAINT, linewidth=0.6)
        if last_s == stretch[1]:
            axes.set_xlabel(
                "minutes and seconds" if in_minutes else "seconds", size=7, color=INK, labelpad=2
            )
        for level, (tier, cells) in enumerate(tiers.items()):
            here = [cell for cell in cells if cell.end_s > first_s and cell.start_s < last_s]
            _draw_cells(axes, level, here)
            for cell in here:
                if tier == "speakers" or _is_most_here(cell, row, stretch):
                    self._label(axes, level, cell, row)

    def _label(self, axes: Axes, level: int, cell: Cell, row: tuple[float, float]) -> None:
        """Write a cell's label into its visible part, as large as fits.

        Nothing is written if it would be too small.
        """
        start_s = max(cell.start_s, row[0])
        end_s = min(cell.end_s, row[1])
        inches = 0.96 * (end_s - start_s) * (_WIDTH - _LEFT - _RIGHT) / (row[1] - row[0])
        size = min(_LARGEST_PT, inches * 72 / max(0.3, width_in_ems(cell.label)))
        if size < _READABLE_PT and not self.is_fine:
            return
        style: dict[str, Any] = {
            "family": self.families,
            "parse_math": False,
            "clip_on": True,
            "color": INK,
        }
        place = ((start_s + end_s) / 2, level + 0.52)
        axes.text(
            *place, cell.label, size=max(size, _SMALLEST_PT), ha="center", va="center", **style
        )


def _is_most_here(cell: Cell, row: tuple[float, float], stretch: tuple[float, float]) -> bool:
    """Return whether no neighbouring row of the stretch has more of a cell than this one."""
    here_s = min(cell.end_s, row[1]) - max(cell.start_s, row[0])
    before_s = row[0] - max(cell.start_s, stretch[0])
    after_s = min(cell.end_s, stretch[1]) - row[1]
    return here_s >= before_s and here_s > after_s


def _draw_cells(axes: Axes, level: int, cells: Sequence[Cell]) -> None:
    """Draw the intervals of a tier, their edges, and the spread of these."""
    from matplotlib.collections import LineCollection, PolyCollection

    def box(start_s: float, end_s: float) -> list[tuple[float, float]]:
        return [(start_s, level), (end_s, level), (end_s, level + 1), (start_s, level + 1)]

    first_s, last_s = axes.get_xlim()
    least_s = (
        last_s - first_s
    ) / 1000  # what is doubtful is seen in an hour, too: on top, and never thinner
    doubts = {colour: doubt for doubt, (_, colour, _) in enumerate(_CONFIDENCES)}
    filled = [
        (
            box(cell.start_s, max(cell.end_s, cell.start_s + least_s * doubts.get(cell.colour, 0))),
            cell.colour,
        )
        for cell in sorted(cells, key=lambda cell: doubts.get(cell.colour, 0))
        if cell.colour != "none"
    ]
    axes.add_collection(
        PolyCollection([b for b, _ in filled], facecolors=[c for _, c in filled], linewidths=0)
    )
    edges: dict[float, float] = {}  # where words touch they share one
    for cell in cells:
        for time_s, sd_s in ((cell.start_s, cell.start_sd_s), (cell.end_s, cell.end_sd_s)):
            edges[time_s] = max(edges.get(time_s, 0.0), sd_s)
    bands = [box(time_s - sd_s, time_s + sd_s) for time_s, sd_s in edges.items() if sd_s]
    axes.add_collection(PolyCollection(bands, facecolors=INK, alpha=0.16, linewidths=0))
    lines = [[(time_s, level), (time_s, level + 1)] for time_s in edges]
    if len(lines) <= _MOST_LINES:
        axes.add_collection(LineCollection(lines, colors=INK, linewidths=0.6))


def _draw_marks(axes: Axes, alignment: Mapping[str, Any], words: Sequence[Cell]) -> None:
    """Draw the word edges through the sound, and hatch unexplained speech."""
    first_s, last_s = axes.get_xlim()
    for edge_s in {
        time_s
        for cell in words
        for time_s in (cell.start_s, cell.end_s)
        if first_s < time_s < last_s
    }:
        axes.axvline(edge_s, color="#2f6fb5", linewidth=0.5, alpha=0.7)
    shift_s = _shift_s(alignment)
    for start_s, end_s in _unexplained(alignment):
        if end_s - shift_s > first_s and start_s - shift_s < last_s:
            axes.axvspan(
                start_s - shift_s,
                end_s - shift_s,
                fc="none",
                ec=_UNEXPLAINED,
                hatch="////",
                lw=0,
                alpha=0.6,
            )
    axes.set_xlim(first_s, last_s)


def _unexplained(alignment: Mapping[str, Any]) -> Iterator[tuple[float, float]]:
    for region in alignment.get("regions") or ():
        if (
            region["kind"] == "unexplained"
            and region["start_s"] is not None
            and region["end_s"] is not None
        ):
            yield region["start_s"], region["end_s"]


def _ticks(first_s: float, last_s: float) -> list[float]:
    """Return round times, at most about a dozen."""
    steps = [base * 10.0**power for power in range(-3, 1) for base in (1, 2, 5)] + [
        10,
        15,
        30,
        60,
        120,
        300,
        600,
        1800,
    ]
    step = next((step for step in steps if (last_s - first_s) / step <= 12), 7200)
    return [
        i * step
        for i in range(math.ceil(first_s / step - 1e-9), math.floor(last_s / step + 1e-9) + 1)
    ]


def _minutes(time_s: float) -> str:
    """Return a time in minutes and seconds.

    Hours are added if there are some, and thousandths where they are not zero.

    >>> _minutes(1.5), _minutes(75.0), _minutes(3720.0)
    ('0:01.5', '1:15', '1:02:00')
    """
    minutes, ms = divmod(round(time_s * 1000), 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{ms // 1000:02}" + (f".{ms % 1000:03}".rstrip("0") if ms % 1000 else "")
    if hours:
        return f"{hours}:{minutes:02}:{seconds}"
    return f"{minutes}:{seconds}"


def as_label(text: object) -> str:
    """Return a text in one line, without control characters and halves of surrogate pairs."""
    return without_controls(" ".join(str(text).split())).encode("utf-8", "replace").decode()


def width_in_ems(text: str) -> float:
    """Return the approximate width of a text, in units of its size.

    East Asian characters are twice as wide.
    """
    narrow = {**dict.fromkeys("ijl.,;:'!|I’‘", 0.33), **dict.fromkeys("mwMW—", 0.9)}

    def width_of(char: str) -> float:
        if combining(char):
            return 0.0
        if east_asian_width(char) in ("W", "F"):
            return 1.0
        return narrow.get(char) or (0.7 if char.isupper() else 0.6)

    return sum(map(width_of, text))


def font_families(text: str) -> list[str]:
    """Return the families in which a text can be written, matplotlib's own first.

    A warning names what none has.

    It chooses as few of this machine's fonts as cover the characters, those with the most of them
    first. The package brings no fonts, and searches for none elsewhere.
    """
    missing = {char for char in text if not char.isspace()} - _characters_of(OWN)
    families = [OWN]
    while missing:
        family, found = max(
            ((name, missing & _characters_of(name)) for name in _families()),
            key=lambda named: (len(named[1]), named[0]),
            default=("", set()),
        )
        if not found:
            codes = [f"U+{ord(char):04X}" for char in sorted(missing)]
            logger.warning(
                "no font of this machine has %s: a picture shows boxes in their places",
                name_first(codes, len(codes), separator=" "),
            )
            break
        families.append(family)
        missing -= found
    return families


@functools.cache
def _families() -> dict[str, str]:
    """Return the files of this machine's families of fonts by their names.

    Only upright fonts of normal weight count.
    """
    from matplotlib.font_manager import fontManager

    regular = (
        font for font in fontManager.ttflist if font.style == "normal" and font.weight in _WEIGHTS
    )
    return {font.name: font.fname for font in regular if not font.name.startswith(_SYMBOLS)}


@functools.cache
def _characters_of(family: str) -> frozenset[str]:
    """Return the characters that a family's regular font has; none if it cannot be read."""
    from matplotlib.font_manager import get_font

    with contextlib.suppress(
        Exception
    ):  # a damaged font of this machine is no reason to draw nothing
        return frozenset(map(chr, get_font(_families()[family]).get_charmap()))
    return frozenset()


def draw_waveform(
    axes: Axes, samples: np.ndarray, sample_rate: int, first_s: float, peak: float, columns: int
) -> None:
    """Draw the least and the greatest sample of each column of the picture.

    If there are fewer samples than columns, draw these.

    Args:
        axes: to draw on.
        samples: (N,) float32, the first of them at `first_s`.
        sample_rate: in Hz.
        first_s: in seconds of the axes.
        peak: the greatest magnitude that samples may have.
        columns: of pixels from the first sample to the last.
    """
    axes.set(ylim=(-1.08 * peak, 1.08 * peak), yticks=[])
    if len(samples) <= 2 * columns:
        axes.plot(
            first_s + np.arange(len(samples)) / sample_rate, samples, color=INK, linewidth=0.5
        )
        return
    times_s = first_s + np.arange(columns) * len(samples) / sample_rate / columns
    axes.fill_between(times_s, *waveform_peaks(samples, columns), color=INK, linewidth=0.2)


def draw_spectrogram(
    axes: Axes, samples: np.ndarray, sample_rate: int, first_s: float, peak: float, columns: int
) -> None:
    """Draw the spectrogram up to 8 kHz, 60 dB deep, dark where it is loud.

    Arguments as for `draw_waveform`.
    """
    levels_db, highest_hz = spectrogram(samples, sample_rate, columns, peak)
    extent = (first_s, first_s + len(samples) / sample_rate, 0.0, highest_hz / 1000.0)
    axes.imshow(
        levels_db, extent=extent, origin="lower", aspect="auto", cmap="Greys", vmin=-60, vmax=0
    )
    axes.set_yticks([tick for tick in (0, 2, 4, 6, 8) if tick < highest_hz / 1000.0])
    axes.set_ylabel("kHz", size=7, color=INK, labelpad=2)


def spectrogram(
    samples: np.ndarray, sample_rate: int, columns: int, peak: float = 1.0
) -> tuple[np.ndarray, float]:
    """Return the levels of a sound over time, and the frequency at which they end.

    Args:
        samples: (N,) float32.
        sample_rate: in Hz.
        columns: the number of spectra, evenly spaced over the samples; their windows are centred on
            these times.
        peak: the greatest magnitude that samples may have.

    Returns:
        Levels (bins, columns) in dB, float32, lowest frequency first: 0 where the loudest is, after
        a pre-emphasis of
        6 dB an octave; and the frequency in Hz of the upper edge of the last bin, 8 kHz or half the
        sample rate.

    >>> levels_db, highest_hz = spectrogram(np.sin(np.arange(16000) * 0.5).astype(np.float32), 16000, 10)
    >>> levels_db.shape, highest_hz, int(np.median(levels_db.argmax(0)))    # 1273 Hz of 8000 Hz
    ((257, 10), 8000.0, 41)
    """
    width = max(8, round(WINDOW_S * sample_rate))
    size = max(2 * _BINS, 2 ** (width - 1).bit_length())
    hann = np.hanning(width + 2)[1:-1].astype(np.float32)
    flat = np.append(samples[:1], samples[1:] - _PRE_EMPHASIS * samples[:-1]) / peak
    padded = np.pad(flat.astype(np.float32), (width // 2, width))
    centres = ((np.arange(columns) + 0.5) * len(samples) / columns).astype(int)
    kept = min(size // 2 + 1, round(HIGHEST_HZ / sample_rate * size) + 1)
    powers = np.empty((kept, columns), np.float32)
    for first in range(0, columns, _COLUMNS_AT_ONCE):
        some = centres[first : first + _COLUMNS_AT_ONCE]
        windows = padded[some[:, None] + np.arange(width)] * hann
        powers[:, first : first + len(some)] = (np.abs(np.fft.rfft(windows, size)[:, :kept]) ** 2).T
    loudest = float(powers.max(initial=0.0)) or 1.0
    levels_db = 10 * np.log10(powers / loudest + 1e-9)
    return levels_db, (kept - 1) * sample_rate / size


def waveform_peaks(samples: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest sample (columns,) of each of `columns` equal parts.

    There are at least as many samples as parts.

    >>> waveform_peaks(np.array([0.0, 1.0, -1.0, 0.5]), 2)
    (array([ 0., -1.]), array([1. , 0.5]))
    """
    firsts = np.linspace(0, len(samples), columns, endpoint=False).astype(int)
    return np.minimum.reduceat(samples, firsts), np.maximum.reduceat(samples, firsts)
