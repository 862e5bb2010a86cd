"""The table of an alignment's words along the recording, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctc_align.files import Alignment
from ctc_align.files.writer import finite
from ctc_align.text.control_characters import printable
from ctc_align.types import ALIGNED, AlignedWord
from ctc_align.units import seconds_to_ms

if TYPE_CHECKING:
    from rich.table import Table


MOST_ROWS = 60
_LABEL_CELLS = 24
_LINE_CELLS = (12, 60)
"""Shortest and longest time line."""
_GAP_CELLS = 3
_FIGURES = (("start s", 7), ("end s", 7), ("ms", 6), ("confidence", 10))
"""The columns of figures and their widths; a narrow terminal loses the last ones first, then the time line."""
_COLOURS = ((0.9, "green"), (0.5, "yellow"), (-1.0, "red"))
"""The colours of confidences, and the least one of each."""
_FULL, _LATE, _EARLY = "█", "▐", "▌"


def words_table(alignment: Alignment, width: int = 80, most_rows: int = MOST_ROWS) -> Table:
    """Return a table `width` characters wide with a row for each word: times, confidence, place in the recording."""
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    words = alignment.words[:most_rows]
    label_cells = min(max([cell_len(printable(word.text)) for word in words] + [4]), _LABEL_CELLS)
    figures, line_cells = _layout(width - label_cells - 2)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("word", no_wrap=True, max_width=_LABEL_CELLS)
    for name, _ in _FIGURES[:figures]:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(f"0 … {alignment.duration_s:.2f} s" if line_cells else "", no_wrap=True)
    doubt = float(alignment.config.get("min_confidence", 0.0))
    for word in words:
        cells = _word_cells(word, alignment.duration_s, figures, line_cells)
        if word.confidence is not None and word.confidence < doubt:
            cells[0] = f"? {cells[0]}"
        plain = len(_FIGURES)  # all columns before that of the confidence
        coloured = [
            Text(cell, _colour(word) if place in (plain, figures + 1) else "") for place, cell in enumerate(cells)
        ]
        table.add_row(*coloured, style=None if word.status == ALIGNED else "dim")
    more = len(alignment.words) - most_rows
    if more > 0:
        table.add_row(f"… and {more} more", *[""] * (figures + 1), style="dim")
    return table


def _colour(word: AlignedWord) -> str:
    """Return the colour of a word's confidence, "" for a word that has none; consoles show none under NO_COLOR."""
    if word.confidence is None:
        return ""
    return next(colour for least, colour in _COLOURS if word.confidence >= least)


def _layout(cells: int) -> tuple[int, int]:
    """Return how many columns of figures, and how long a time line, fit into `cells` characters.

    >>> _layout(67), _layout(48), _layout(28)
    ((4, 22), (3, 16), (2, 0))
    """
    for figures in (4, 3, 2):
        line_cells = cells - sum(_GAP_CELLS + width for _, width in _FIGURES[:figures]) - _GAP_CELLS
        if line_cells >= _LINE_CELLS[0]:
            return figures, min(line_cells, _LINE_CELLS[1])
    return 2, 0


def _word_cells(word: AlignedWord, duration_s: float, figures: int, line_cells: int) -> list[str]:
    text = printable(word.text)
    if word.start_s is None or word.end_s is None:
        return [text, *[""] * figures, word.status]
    length_ms = seconds_to_ms(word.end_s - word.start_s)
    line = time_line(word.start_s, word.end_s, duration_s, line_cells)
    numbers = [f"{word.start_s:.2f}", f"{word.end_s:.2f}", f"{length_ms:.0f}"]
    numbers.append("" if word.confidence is None else f"{word.confidence:.2f}")
    return [text, *numbers[:figures], line]


def time_line(start_s: float, end_s: float, duration_s: float, cells: int) -> str:
    """Return a line of `cells` characters that shows [start_s, end_s), to half a character.

    >>> time_line(0.25, 0.75, 1.0, cells=4), time_line(0.125, 0.5, 1.0, cells=4)
    (' ██ ', '▐█  ')
    """
    halves = 2 * cells
    first = min(int(start_s / duration_s * halves + 0.5), halves - 1)
    last = min(max(int(end_s / duration_s * halves + 0.5), first + 1), halves)
    marks = {(True, True): _FULL, (False, True): _LATE, (True, False): _EARLY, (False, False): " "}
    filled = [first <= half < last for half in range(halves)]
    return "".join(marks[filled[i], filled[i + 1]] for i in range(0, halves, 2))


def loss_line(alignment: Alignment) -> str:
    """Return the loss in one line."""
    if finite(alignment.loss) is None:
        return "CTC loss infinite: no path fits this transcript"
    per_token = "" if alignment.loss_per_token is None else f", {alignment.loss_per_token:.3f} a token"
    fit = "" if alignment.fit is None else f", fit {alignment.fit}"
    return f"CTC loss {alignment.loss:.3f}{per_token}{fit} ({alignment.model}, {alignment.backend})"
