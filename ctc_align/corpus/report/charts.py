"""Charts of a report, as SVG in its page: drawn with the page's own colours, read out by their labels."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ctc_align.corpus.report.run_figures import Histogram

_WIDTH, _HEIGHT = 420, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 12, 34
_NEARLY_ALL, _LONG_TAIL = 0.99, 3
"""Values so many times farther from the least one than 99 percent of all are share the last bar."""


def histogram_chart(
    histogram: Histogram, title: str, unit: str, median: float | None = None, mean: float | None = None
) -> str:
    """Return a histogram as SVG: bars from the first to the last bin that holds something, with the median marked.

    Bins are put together until there are at most forty bars; the last one has the few values that are far beyond the
    others, too. Each bar tells its bounds and its count. `median` and `mean` are exact ones where they are known; else
    they are the histogram's, the median to a bin's width.
    """
    if not histogram.number:
        return f'<p class="none">{html.escape(title)}: none</p>'
    first, last_filled = _filled(histogram.counts)
    most_drawn = first + _LONG_TAIL * (math.ceil(histogram.quantile(_NEARLY_ALL) / histogram.width) - first + 1)
    last = min(last_filled, most_drawn)
    together = math.ceil((last - first + 1) / 40)
    starts = list(range(first, last + 1, together))
    sums = [sum(histogram.counts[start : min(start + together, len(histogram.counts))]) for start in starts]
    sums[-1] += sum(histogram.counts[starts[-1] + together :])
    low, high = first * histogram.width, (starts[-1] + together) * histogram.width
    most = max(sums)

    def x(value: float) -> float:
        return _LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    bars, decimals = [], _decimals(histogram.width)
    for start, count in zip(starts, sums):
        begin, end = start * histogram.width, (start + together) * histogram.width
        is_open = start == starts[-1] and histogram.greatest >= end
        bounds = f"{begin:,.{decimals}f}" + (" and more" if is_open else f" to {end:,.{decimals}f}")
        height = count / most * (_HEIGHT - _TOP - _BOTTOM)
        bars.append(
            f'<rect x="{x(begin) + 0.5:.1f}" y="{_HEIGHT - _BOTTOM - height:.1f}" '
            f'width="{max(x(end) - x(begin) - 1, 0.5):.1f}" height="{height:.1f}"><title>{bounds} {unit}: '
            f"{count:,}</title></rect>"
        )
    middle = _number(histogram.quantile(0.5) if median is None else median)
    average = _number(histogram.mean if mean is None else mean)
    median = min(max(histogram.quantile(0.5) if median is None else median, low), high)
    marks = [
        f'<line class="median" x1="{x(median):.1f}" x2="{x(median):.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>',
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{_HEIGHT - _BOTTOM}" y2="{_HEIGHT - _BOTTOM}"/>',
        f'<text x="{_LEFT - 6}" y="{_TOP + 8}" text-anchor="end">{most:,}</text>',
        f'<text x="{_LEFT - 6}" y="{_HEIGHT - _BOTTOM}" text-anchor="end">0</text>',
        *(
            f'<text x="{x(tick):.1f}" y="{_HEIGHT - _BOTTOM + 14}" text-anchor="middle">{label}</text>'
            for tick, label in _labelled_ticks(low, high)
        ),
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 4}" text-anchor="middle">{html.escape(unit)}</text>',
    ]
    label = f"{title}: median {middle}, mean {average} {unit}, {histogram.number:,} in all"
    return _figure(title, label, f"median {middle} · mean {average}", "".join([*bars, *marks]))


def share_bar(counts: Mapping[str, int], title: str) -> str:
    """Return one bar, parted by the shares of counts, with its legend; each part has its name as class."""
    total = sum(counts.values())
    if not total:
        return f'<p class="none">{html.escape(title)}: none</p>'
    at, parts = 0.0, []
    for name, count in counts.items():
        width = 100 * count / total
        parts.append(
            f'<rect class="{html.escape(name)}" x="{at:.3f}%" y="0" width="{width:.3f}%" height="18">'
            f"<title>{html.escape(name)}: {count:,}</title></rect>"
        )
        at += width
    legend = " · ".join(
        f'<span class="key {html.escape(name)}"></span>{html.escape(name)} {count:,} ({100 * count / total:.1f} %)'
        for name, count in counts.items()
    )
    label = f"{title}: " + ", ".join(f"{name} {count}" for name, count in counts.items())
    return (
        f'<figure class="wide"><figcaption>{html.escape(title)}</figcaption>'
        f'<svg role="img" aria-label="{html.escape(label)}" width="100%" height="18">{"".join(parts)}</svg>'
        f"<p>{legend}</p></figure>"
    )


def _figure(title: str, label: str, caption: str, content: str) -> str:
    return (
        f"<figure><figcaption>{html.escape(title)} <small>{html.escape(caption)}</small></figcaption>"
        f'<svg role="img" aria-label="{html.escape(label)}" viewBox="0 0 {_WIDTH} {_HEIGHT}">{content}</svg></figure>'
    )


def _filled(counts: Sequence[int]) -> tuple[int, int]:
    """Return the first and the last bin that hold something."""
    filled = [place for place, count in enumerate(counts) if count]
    return filled[0], filled[-1]


def _ticks(low: float, high: float) -> list[float]:
    """Return round values between two, at most eight.

    >>> _ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    rough = (high - low) / 7
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(base * power for base in (1, 2, 5, 10) if base * power >= rough)
    return [round(i * step, 9) for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _labelled_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return the round values, each as text with the decimals that tell it from its neighbours.

    >>> _labelled_ticks(134.1, 134.32)
    [(134.1, '134.10'), (134.15, '134.15'), (134.2, '134.20'), (134.25, '134.25'), (134.3, '134.30')]
    """
    ticks = _ticks(low, high)
    step = min((after - before for before, after in pairwise(ticks)), default=1.0)
    return [(tick, f"{tick:,.{_decimals(step)}f}") for tick in ticks]


def _decimals(step: float) -> int:
    """Return the decimals with which values that are a step apart differ.

    >>> _decimals(0.05), _decimals(0.1), _decimals(20.0)
    (2, 1, 0)
    """
    return max(0, -math.floor(math.log10(step) + 1e-9))


def _number(value: float) -> str:
    """
    >>> _number(0.3000001), _number(1234.5), _number(12.34)
    ('0.3', '1,234', '12.3')
    """
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
