"""The pictures of the explanations, of the demo's first words: occupancy.png, spikes.png and
topologies.svg.

python research/explanation_pictures.py
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import soundfile

import ctc_align
from ctc_align import functional
from ctc_align.evaluate import occupancy_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
DEMO = ROOT / "ctc_align" / "demo"
WORDS = 2
"""How many words of the demo are drawn."""


def main() -> None:
    aligner = ctc_align.Aligner(model="english", device="cpu")
    alignment = aligner.align(
        str(DEMO / "demo.flac"), (DEMO / "demo.txt").read_text(encoding="utf-8")
    )
    emissions = aligner.emissions(str(DEMO / "demo.flac"))
    words = alignment.words[:WORDS]
    ids = [emissions.vocab.index(token.token) for word in words for token in word.tokens]
    frames = round((words[-1].end_s or 0.0) / emissions.frame_shift_s)
    log_probs = emissions.log_probs[:frames]
    figure = occupancy_figure(
        log_probs, ids, emissions.blank, labels=labels(emissions), frame_shift_s=0.01
    )
    figure.set_size_inches(9, 5.5)
    figure.savefig(PICTURES / "occupancy.png", dpi=110)
    spikes_figure(log_probs, ids, emissions.blank, words, labels(emissions)).savefig(
        PICTURES / "spikes.png", dpi=110
    )
    (PICTURES / "topologies.svg").write_text(topologies(), encoding="utf-8")


def labels(emissions: ctc_align.Emissions) -> list[str]:
    """Return the classes' names, the blank as a dash."""
    return ["–" if i == emissions.blank else token for i, token in enumerate(emissions.vocab)]


def spikes_figure(
    log_probs: Any, ids: list[int], blank: int, words: Any, names: list[str]
) -> Figure:
    """Return the sound, the posteriors of the tokens where CTC finds them, and the edges of the
    alignment."""
    from matplotlib.figure import Figure

    samples, rate = soundfile.read(DEMO / "demo.flac", frames=round(words[-1].end_s * 16000))
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    sound, spikes = figure.subplots(2, 1, sharex=True, height_ratios=[2, 3])
    sound.plot(np.arange(len(samples)) / rate, samples, color="0.35", linewidth=0.4)
    sound.set_yticks([])
    soft = functional.occupancy(log_probs, ids, [len(log_probs)], [len(ids)], blank).numpy()
    times = (np.arange(len(log_probs)) + 0.5) * 0.01
    spikes.fill_between(times, soft[:, blank], color="0.88", label="blank")
    for token in dict.fromkeys(ids):
        spikes.plot(times, soft[:, token], linewidth=1.4)
    spikes.set_ylabel("posterior")
    spikes.set_xlabel("seconds")
    spikes.set_ylim(0, 1.22)
    spikes.legend(loc="upper left", frameon=False)
    for word in words:
        for token in word.tokens:
            draw_edges(sound, spikes, token)
    sound.set_title("sound, and the edges of phones", loc="left", fontsize=10)
    spikes.set_title(
        "CTC's occupancy: each phone is a spike somewhere in its time", loc="left", fontsize=10
    )
    return figure


def draw_edges(sound: Axes, spikes: Axes, token: Any) -> None:
    """Draw where a token begins and ends, and its name."""
    for axis in (sound, spikes):
        axis.axvline(token.start_s, color="#00796b", linewidth=0.9)
        axis.axvline(token.end_s, color="#00796b", linewidth=0.9)
    spikes.text((token.start_s + token.end_s) / 2, 1.08, token.token, ha="center", fontsize=8)


def topologies() -> str:
    """Return graphs of states for the transcript "a b", one below the other."""
    rows = (
        ("CTC", ["–", "a", "–", "b", "–"], [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)], [(1, 3)]),
        ("simple CTC", ["–", "a", "–", "b", "–"], [(0, 0), (2, 2), (4, 4)], [(1, 3)]),
        (
            "segmentation",
            ["a₁", "a₂", "a₃", "sil", "b₁", "b₂", "b₃"],
            [(i, i) for i in range(7)],
            [(2, 4)],
        ),
        (
            "a wildcard between",
            ["–", "a", "–", "✱", "–", "b", "–"],
            [(i, i) for i in range(7)],
            [(1, 3), (3, 5)],
        ),
    )
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 480" font-family="sans-serif"'
        ' font-size="17">'
    ]
    parts.append(
        '<defs><marker id="m" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
    )
    parts.append('orient="auto"><path d="M0 0 8 4 0 8z" fill="#555"/></marker></defs>')
    line = 'fill="none" stroke="#555" stroke-width="1.5" marker-end="url(#m)"'
    for row, (name, states, loops, skips) in enumerate(rows):
        y = 80 + 115 * row
        parts.append(f'<text x="10" y="{y + 6}" fill="#00796b">{name}</text>')
        places = [215 + 84 * i for i in range(len(states))]
        for x, state in zip(places, states):
            colour = "#eceff1" if state in ("–", "sil") else "#b2dfdb"
            parts.append(f'<circle cx="{x}" cy="{y}" r="20" fill="{colour}" stroke="#555"/>')
            parts.append(f'<text x="{x}" y="{y + 6}" text-anchor="middle">{state}</text>')
        parts += [f'<path d="M{x + 20} {y}h42" {line}/>' for x in places[:-1]]
        parts += [
            f'<path d="M{places[i] - 9} {y - 18}c-8-30 26-30 18-1" {line}/>' for i, _ in loops
        ]
        parts += [f'<path d="M{places[i] + 12} {y + 17}q72 38 144 1" {line}/>' for i, _ in skips]
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    main()
