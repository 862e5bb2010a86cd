"""Training of the edge network of the model `english`, from edges that were drawn by eye.

    python research/drawn_edges.py --speech MANIFEST --out DIR

`drawn-edges.tsv` beside this file has the edges of words and how sure they are; `docs/labelling.md`
says how they were drawn. MANIFEST is a corpus with the recordings. DIR gets `edges.safetensors`,
for the model's folder. Recordings are used as they are and made worse; edges inside words, which
nobody drew, are to stay where the model has them.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ctc_align.alignment.aligner import Aligner, read_inputs
from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.edges import place_edges
from ctc_align.audio.loading import load_audio
from ctc_align.config import Settings
from ctc_align.errors import InputError, UsageError
from ctc_align.kernels import batching
from ctc_align.models.edge_network import FILE, EdgeNetwork, EdgeNetworkShape, edge_network_bytes
from ctc_align.sources import open_source
from ctc_align.sources.utterance import Utterance
from ctc_align.text.characters import printable
from ctc_align.training.calibration_fitting import spoken_utterance
from ctc_align.training.edge_learning import (
    EdgeExamples,
    EdgeTraining,
    train_edge_network,
    utterance_examples,
)
from ctc_align.training.labelled_speech import LabelledUtterance, SpokenUtterance
from ctc_align.types import Interval
from spoiled_sound import RATE, spoil

TABLE = Path(__file__).with_name("drawn-edges.tsv")
COLUMNS = ("recording", "speaker", "word", "start_ms", "end_ms", "start_doubt_ms", "end_doubt_ms")
USUAL_DOUBT_MS = 10.0
"""An edge of so much doubt counts half."""
COPIES = ("clean", "clean", "spoiled", "spoiled", "spoiled")
"""How each recording is heard each time that it is learnt from."""
SPREAD = 1.156
"""With it 68 of 100 edges of hand-labelled speech lie within their standard deviation."""
TRAINING = EdgeTraining(epochs=6, hidden_kinds=0.15)


@dataclass(frozen=True)
class DrawnUtterance:
    """The words of a recording with their edges, and the doubts (W, 2) of these, ms."""

    recording: str
    speaker: str
    words: Sequence[Interval]
    doubts_ms: np.ndarray


def read_drawn(path: Path = TABLE) -> list[DrawnUtterance]:
    """Return the utterances of a table of drawn edges, in their order.

    Raises:
        InputError: a line that is not as `COLUMNS` say, with its number.
    """
    found: dict[str, tuple[str, list[Interval], list[tuple[float, float]]]] = {}
    lines = [
        (n, line)
        for n, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if not line.startswith("#")
    ]
    if not lines or tuple(lines[0][1].split("\t")[: len(COLUMNS)]) != COLUMNS:
        raise InputError(f"{path}: expected a table with the columns {', '.join(COLUMNS)}")
    rows = csv.reader((line for _, line in lines[1:]), delimiter="\t", quoting=csv.QUOTE_NONE)
    for (number, _), row in zip(lines[1:], rows):
        try:
            recording, speaker, word = row[:3]
            start_s, end_s = (float(cell) / 1000.0 for cell in row[3:5])
            doubts_ms = float(row[5]), float(row[6])
        except (ValueError, IndexError) as error:
            raise InputError(
                f"{path}:{number}: expected the columns {', '.join(COLUMNS)}, got {row}"
            ) from error
        _, words, doubts = found.setdefault(recording, (speaker, [], []))
        words.append(Interval(start_s, end_s, word))
        doubts.append(doubts_ms)
    return [
        DrawnUtterance(recording, speaker, words, np.array(doubts))
        for recording, (speaker, words, doubts) in found.items()
    ]


def examples(
    aligner: Aligner,
    drawn: Sequence[DrawnUtterance],
    recordings: Mapping[str, Utterance],
    kind: str,
    shape: EdgeNetworkShape,
    seed: int,
) -> list[EdgeExamples]:
    """Return the examples of each utterance in recordings of a kind, "clean" or "spoiled"."""
    rng = np.random.default_rng(seed)
    return [
        utterance_examples(utterance, edges, shape, 1 / (1 + (one.doubts_ms / USUAL_DOUBT_MS) ** 2))
        for one in drawn
        for utterance, edges in [_aligned(aligner, one, recordings[one.recording], kind, rng)]
    ]


def _aligned(
    aligner: Aligner,
    drawn: DrawnUtterance,
    recording: Utterance,
    kind: str,
    rng: np.random.Generator,
) -> tuple[SpokenUtterance, Spans]:
    """Return an utterance with its edges as the model draws them, before a network looks at
    them."""
    samples = np.asarray(load_audio(recording.audio, RATE).samples)
    if kind == "spoiled":
        samples = spoil(samples, rng)
    sound = samples.astype(np.float32), RATE
    labelled = LabelledUtterance(drawn.recording, drawn.speaker, sound, recording.text, drawn.words)
    utterance = spoken_utterance(aligner, labelled, keep_sound=True)
    inputs = read_inputs(aligner, utterance.emissions, recording.text)
    drawn_by = inputs.calibration, inputs.settings, inputs.backend
    [edges] = batching.run(
        [place_edges(utterance.emissions, utterance.tokens, utterance.spikes, *drawn_by)]
    )
    return utterance, edges


def recordings_of(manifest: str, drawn: Sequence[DrawnUtterance]) -> dict[str, Utterance]:
    """Return the utterances of a corpus whose recordings have drawn edges, by the last two parts of
    their paths.

    Raises:
        UsageError: one of them is not in the corpus.
    """
    wanted = {one.recording for one in drawn}
    found = {}
    for each in open_source(manifest):
        if isinstance(each, Utterance):
            path = Path(each.audio).with_suffix("")
            name = "/".join(path.parts[-2:])
            if name in wanted:
                found[name] = each
    lacking = sorted(wanted - found.keys())
    if lacking:
        raise UsageError(
            f"{manifest}: {len(lacking)} recordings with drawn edges are not in it: {lacking[0]} …"
        )
    return found


def _say(line: str) -> None:
    print(printable(line), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the training from the command line."""
    parser = argparse.ArgumentParser(description="Train the edge network of the model english.")
    parser.add_argument("--speech", required=True, metavar="MANIFEST")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    parser.add_argument(
        "--table", type=Path, default=TABLE, help="of drawn edges; default: drawn-edges.tsv here"
    )
    parser.add_argument("--model", default="english")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--members", type=int, default=2, help="networks that are averaged")
    parser.add_argument(
        "--spread",
        type=float,
        default=SPREAD,
        help="factor of standard deviations, from hand labels",
    )
    given = parser.parse_args(arguments)
    drawn = read_drawn(given.table)
    recordings = recordings_of(given.speech, drawn)
    aligner = Aligner(given.model, device="cpu", settings=Settings(match="exact", edges="refined"))
    assert aligner.model is not None
    model = aligner.model
    labels = tuple(label for index, label in enumerate(model.vocab) if index != model.blank)
    shape = EdgeNetworkShape(labels)
    parts = [
        each
        for number, kind in enumerate(COPIES)
        for each in examples(aligner, drawn, recordings, kind, shape, seed=number)
    ]
    learnt = EdgeExamples.joined(parts)
    print(printable(f"{len(drawn)} utterances, {len(learnt)} edges with copies"), flush=True)
    seeds = range(given.seed, given.seed + given.members)
    network = EdgeNetwork.together(
        [train_edge_network(learnt, labels, TRAINING, seed, say=_say) for seed in seeds]
    )
    network.spread = given.spread
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / FILE).write_bytes(edge_network_bytes(network))
    print(printable(f"wrote {given.out / FILE}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
