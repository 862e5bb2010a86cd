"""What a network of edges that learnt from English does for models of other languages, without any hand labels.

    python tests/benchmarks/language_edges.py MODEL OTHER CORPUS.jsonl [--edges FILE.safetensors]

MODEL and OTHER are folders of models that `ctc-align train` made from speech that has no utterance in common; CORPUS is
a manifest of utterances that neither has learnt from. Each is aligned by both models with the medians alone
("before") and with the network ("after").

Beside pauses: how far word edges are from where the level falls or rises. A pause of `PAUSE_S` or more is between words
of the alignment before; its level is the median of its middle half, that of speech the 90th percentile of the 200 ms of
the word beside it; they must be `CONTRAST_DB` apart. The level (10 ms windows, every 2.5 ms) passes the threshold, a
third of the way up from the pause's, nearest to the pause's middle: that is where the word ends or begins. Breath is
louder than a pause, and a soft fricative or a voiced end is below the threshold, so no aligner is at 0; that an edge is
nearer to it after than before does say that it follows the sound.

Agreement: how far the two models' word edges are from each other. Models that disagree cannot both be right; but the
network can lead both to the same wrong place, and what they have in common from the start (the training's own
segmentation) does not show. Neither figure measures edges between words without a pause against the truth.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from measuring import RATE, manifest_rows, parser_of

from ctc_align.alignment.aligner import Aligner
from ctc_align.audio.loading import load_audio
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError
from ctc_align.files import Alignment
from ctc_align.models import embedded_folder
from ctc_align.models.edge_network import FILE, edge_network_bytes, load_edge_network

PAUSE_S, CONTRAST_DB, THRESHOLD, BESIDE_S = 0.2, 25.0, 1 / 3, 0.2
STEP, WINDOW = 40, 160
FAR_S = 0.2
"""Words of two models that are farther apart are not the same place at all: they are counted, and left out."""


@dataclass
class Figures:
    """Distances in ms: of edges from the level's, and between two models' edges."""

    beside_pauses: list[float] = field(default_factory=list)
    between_models: list[float] = field(default_factory=list)
    far: int = 0

    def line(self, name: str) -> str:
        """Return a row of the table."""
        return f"{name:8s}{_row(self.beside_pauses)}   {_row(self.between_models)}  {self.far:5d}"


def _row(values: Sequence[float]) -> str:
    values_ms = np.asarray(values)
    if not len(values_ms):
        return "    0  no edges"
    away = np.abs(values_ms)
    within = " ".join(f"{np.mean(away <= limit):6.3f}" for limit in (10, 20))
    return f"{len(away):6d} {away.mean():6.1f} {np.median(away):6.1f} {within} {np.median(values_ms):+6.1f}"


def levels_of(samples: np.ndarray) -> np.ndarray:
    """Return the level (T,) in dB of windows of `WINDOW` samples, every `STEP`, centred on `STEP * t`."""
    padded = np.pad(samples.astype(np.float64), WINDOW // 2)
    sums = np.append(0.0, np.cumsum(padded**2))
    first = np.arange(0, len(samples), STEP)
    return 10 * np.log10((sums[first + WINDOW] - sums[first]) / WINDOW + 1e-10)


def level_edges(levels: np.ndarray, pause: tuple[float, float]) -> list[float | None]:
    """Return where the word before a pause ends and the one after it begins, by the level, in seconds."""
    per_s = RATE / STEP
    begin, end = (round(second * per_s) for second in pause)
    quarter, beside = (end - begin) // 4, round(BESIDE_S * per_s)
    quiet = float(np.median(levels[begin + quarter : end - quarter]))
    middle, edges = (begin + end) // 2, []
    for row in (levels[middle : max(0, begin - beside) : -1], levels[middle : end + beside]):
        loud = float(np.percentile(row[-beside:], 90))
        above = np.flatnonzero(row > quiet + THRESHOLD * (loud - quiet))
        clear = loud - quiet >= CONTRAST_DB and len(above)
        sign = 1 if len(edges) else -1
        edges.append((middle + sign * float(above[0])) / per_s if clear else None)
    return edges


def measure(before: Alignment, drawn: Alignment, levels: np.ndarray, figures: Figures) -> None:
    """Add an alignment's edges beside the pauses that were there before."""
    for i in range(len(before.words) - 1):
        end_s, start_s = before.words[i].end_s, before.words[i + 1].start_s
        if end_s is None or start_s is None or start_s - end_s < PAUSE_S:
            continue
        fallen_s, risen_s = level_edges(levels, (end_s, start_s))
        own = (drawn.words[i].end_s, drawn.words[i + 1].start_s)
        for place_s, edge_s in zip((fallen_s, risen_s), own):
            if place_s is not None and edge_s is not None:
                figures.beside_pauses.append(1000 * (edge_s - place_s))


def compare(one: Alignment, other: Alignment, figures: Figures) -> None:
    """Add the distances between two models' word edges."""
    for mine, theirs in zip(one.words, other.words):
        for a, b in ((mine.start_s, theirs.start_s), (mine.end_s, theirs.end_s)):
            if a is None or b is None:
                continue
            if abs(a - b) > FAR_S:
                figures.far += 1
            else:
                figures.between_models.append(1000 * (a - b))


def with_edges(model: Path, edges: Path, folder: Path) -> str:
    """Return a copy of a model's folder that has the English network, without what it knows of single phones."""
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns(".training"))
    english = load_edge_network(edges.parent)
    if english is None:
        raise SystemExit(f"{edges}: there is no network of edges")
    (folder / FILE).write_bytes(edge_network_bytes(english.without_sounds()))
    return str(folder)


def main() -> None:
    parser = parser_of(__doc__)
    for name in ("model", "other", "corpus"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--edges", type=Path, default=embedded_folder("english") / FILE)
    call = parser.parse_args()
    rows = manifest_rows(call.corpus)
    with tempfile.TemporaryDirectory() as folder:
        models = [
            with_edges(model, call.edges, Path(folder) / str(i)) for i, model in enumerate((call.model, call.other))
        ]
        aligners = [
            [Aligner(model, device="cpu", settings=Settings(edges=edges, match="exact")) for model in models]
            for edges in ("occupancy", "auto")
        ]
        figures, failed = [Figures(), Figures()], 0
        for row in rows:
            audio = load_audio(call.corpus.parent / row["audio"], RATE)
            try:
                drawn = [[aligner.align(audio, row["text"]) for aligner in both] for both in aligners]
            except CtcAlignError as error:
                failed += 1
                print(error, file=sys.stderr)
                continue
            levels = levels_of(np.asarray(audio.samples))
            for own, found in zip(figures, drawn):
                for one, before in zip(found, drawn[0]):
                    measure(before, one, levels, own)
                compare(*found, own)
    columns = " edges   mean median <=10ms <=20ms   bias"
    print(f"        {'beside pauses, from the level':43s}between the two models, and far apart")
    print(f"{'':8s}{columns}   {columns}    far")
    print(figures[0].line("before"), figures[1].line("after"), sep="\n")
    print(f"{len(rows) - failed} utterances, {failed} that could not be aligned")


if __name__ == "__main__":
    main()
