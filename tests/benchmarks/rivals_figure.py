"""The README's figure: error of word edges, ours beside what is published of others.

    python tests/benchmarks/rivals_figure.py [FILE.svg]

Ours is measured here, on ../shared/data/gold-dev: 80 utterances of TIMIT's sample that NLTK distributes, constants of
speakers left out in turn. The others' are FA-Bench's (olewave/fa-bench, 2026-08, on TIMIT's core test set; its
publisher sells Olign). So the speakers are not the same: differences of a millisecond say nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ctc_align.alignment.aligner import Aligner
from ctc_align.training.calibrating.calibration_fitting import calibrate
from ctc_align.training.calibrating.labelled_speech import read_labelled

ROOT = Path(__file__).resolve().parents[2]
GOLD = ROOT.parent / "shared" / "data" / "gold-dev"
PUBLISHED_MS = {
    "Olign (closed)": 14.7,
    "Montreal Forced Aligner 3.4": 18.8,
    "Charsiu": 24.6,
    "Qwen3-ForcedAligner": 29.8,
    "WhisperX": 47.0,
    "torchaudio, wav2vec 2.0": 47.3,
    "Bournemouth Forced Aligner 1.1": 50.6,
}


def main() -> int:
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "ctc-align"
    from matplotlib.figure import Figure

    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "ctc_align" / "models" / "english" / "edges.svg"
    report = calibrate(Aligner(), read_labelled(GOLD / "reference", GOLD / "corpus"))
    ours = "ctc-align, model english"
    rows = sorted({**PUBLISHED_MS, ours: round(report.after.mae_ms, 1)}.items(), key=lambda row: -row[1])
    figure = Figure(figsize=(7.2, 2.9), layout="constrained")
    axis = figure.subplots()
    names, errors = [name for name, _ in rows], [error for _, error in rows]
    bars = axis.barh(names, errors, color=["#1f6fb2" if name == ours else "#b9c2ca" for name in names], height=0.7)
    axis.bar_label(bars, fmt="%.1f", padding=3, fontsize=9)
    axis.set_xlabel("word edges of read American English: mean absolute error in ms")
    axis.set_xlim(0, 57)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    figure.savefig(target, metadata={"Date": None})
    print(f"{ours}: {report.after.mae_ms:.2f} ms, {report.after.within_20_ms:.1f} % within 20 ms; wrote {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
