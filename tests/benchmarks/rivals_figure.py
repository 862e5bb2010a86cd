"""The README's figure: error of word edges, ours beside others', all measured on the same recordings by one scorer.

    python tests/benchmarks/rivals_figure.py [FILE.svg]

The recordings are 80 utterances (250 s) of read American English by eight speakers, hand-labelled, on which nothing of
ctc-align was trained, chosen or calibrated. They were measured in 2026-11 by people who do not develop it; the licence
of the labels does not let them be passed on, so this program draws the figures and cannot compute them.

Published figures of further aligners are not drawn: they are of other speakers and another scorer.
`docs/compare/aligners.md` lists them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from measuring import ROOT


@dataclass(frozen=True)
class Measured:
    """An aligner's mean absolute error over both edges of all words, and its 95 % interval over the speakers."""

    name: str
    mae_ms: float
    interval_ms: tuple[float, float] | None = None


OURS = "ctc-align 0.1.0, model english"
MEASURED = (
    Measured(OURS, 16.7, (15.3, 18.0)),
    Measured("viter 0.5.1, trained on these recordings¹", 19.9),
    Measured("pocketsphinx 5.1.1, two passes²", 24.6),
    Measured("SoundSwallower 0.6.7", 25.7),
    Measured("echogarden 0.12, dtw", 33.6),
    Measured("Praat 6.3, To TextGrid (align)", 54.4),
    Measured("aeneas 1.7.3", 95.9),
)
NOTES = (
    "80 hand-labelled utterances of 8 speakers, held out from ctc-align; one scorer for all. Line: 95 % interval over\n"
    "speakers, where one was computed. ¹ MFA's recipe, without the labels. ² aligned 74 of the 80 utterances."
)


def main() -> int:
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "ctc-align"
    from matplotlib.figure import Figure

    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "ctc_align" / "models" / "english" / "edges.svg"
    rows = sorted(MEASURED, key=lambda row: -row.mae_ms)
    figure = Figure(figsize=(8.0, 3.5), layout="constrained", facecolor="white")
    axis = figure.subplots()
    colours = ["#1f6fb2" if row.name == OURS else "#b9c2ca" for row in rows]
    axis.barh([row.name for row in rows], [row.mae_ms for row in rows], color=colours, height=0.68)
    for place, row in enumerate(rows):
        low, high = row.interval_ms or (row.mae_ms, row.mae_ms)
        if row.interval_ms:
            axis.plot((low, high), (place, place), color="black", linewidth=1.6)
            axis.plot((low, low, high, high), (place - 0.12, place + 0.12) * 2, "k|", markersize=7)
        interval = f"  ({low:.1f}–{high:.1f})" if row.interval_ms else ""
        axis.annotate(f"{row.mae_ms:.1f}{interval}", (high, place), (5, 0), textcoords="offset points", va="center")
    axis.set_xlabel("mean distance of word edges from the hand labels, in ms (less is better)")
    axis.set_xlim(0, 104)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    figure.supxlabel(NOTES, fontsize=8.5, color="#444444", x=0.01, ha="left")
    figure.savefig(target, metadata={"Date": None})
    print(f"wrote {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
