"""Charts of a report, as SVG in its page: drawn with the page's own colours, read out by their labels."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from ctc_align.corpus.report.run_figures import Histogram

_WIDTH, _HEIGHT = 420, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 12, 34


def histogram_chart(
    histogram: Histogram, title: str, unit: str, median: float | None = None, mean: float | None = None
) -> str:
    """Return a histogram as SVG: bars from the first to the last bin that holds something, with the median marked.

    Bins are put together until there are at most forty bars. Each bar tells its bounds and its count. `median` and
    `mean` are exact ones where they are known; else they are the histogram's, the median to a bin's width.
    """
    if not histogram.number:
        return f'<p class="none">{html.escape(title)}: none</p>'
    first, last = _filled(histogram.counts)
    together = math.ceil((last - first + 1) / 40)
    starts = list(range(first, last + 1, together))
    sums = [sum(histogram.counts[start : min(start + together, len(histogram.counts))]) for start in starts]
    low, high = first * histogram.width, (starts[-1] + together) * histogram.width
    most = max(sums)

    def x(value: float) -> float:
        return _LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    bars = []
    for start, count in zip(starts, sums):
        begin, end = start * histogram.width, (start + together) * histogram.width
        is_open = end >= histogram.bins * histogram.width and histogram.greatest >= end
        bounds = f"{_number(begin)} and more" if is_open else f"{_number(begin)} to {_number(end)}"
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
            f'<text x="{x(tick):.1f}" y="{_HEIGHT - _BOTTOM + 14}" text-anchor="middle">{_number(tick)}</text>'
            for tick in _ticks(low, high)
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


def _number(value: float) -> str:
    """
    >>> _number(0.3000001), _number(1234.5), _number(12.34)
    ('0.3', '1,234', '12.3')
    """
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
