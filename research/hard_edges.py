"""Training of the edge networks of the model `english` on speech that is hard to hear.

    python research/hard_edges.py examples --model FOLDER --speech MANIFEST --out FILE.npz --utterances
    600 [--seed N] python research/hard_edges.py train --model FOLDER --out DIR FILE.npz...

The target of an edge is where the whole package draws it in the clean recording; the network sees
the recording spoiled (`spoiled_sound.py`), with the scores that the acoustic network of FOLDER
gives to it. An edge counts less the less certain it is, and edges inside words count less than
those of words. Where a dip of the level between two
vowels of neighbouring words shows a glottal stop, the stop belongs to neither word, as people label
it (`docs/labelling.md`). The networks go on from those of FOLDER.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from ctc_align.alignment.align_utterance import choose_tokens, finish_edges
from ctc_align.alignment.aligner import Aligner, find_edge_network, read_inputs
from ctc_align.alignment.ctc_path import Spans, best_ctc_path
from ctc_align.alignment.edges import place_edges
from ctc_align.alignment.inputs import UtteranceInputs
from ctc_align.alignment.pause_edges import SHIFT_S, band_levels
from ctc_align.alignment.refined_edges import Edges, EdgeScene, edges_of, utterance_sounds
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError
from ctc_align.kernels import batching
from ctc_align.kernels.batching import StageSteps
from ctc_align.models.edge_network import FILE, EdgeNetwork, EdgeWindows, edge_network_bytes
from ctc_align.training.edge_learning import (
    EdgeExamples,
    EdgeTraining,
    examples_of,
    train_edge_network,
)
from ctc_align.types import Audio, Tokens
from hard_sound_training import Speech, read_samples, training_rows
from spoiled_sound import RATE, spoil

COPIES = 4
"""Spoiled copies of each recording, beside the clean one."""
SHORTEST_S, LONGEST_S = 2.0, 10.0
INSIDE_WEIGHT = 0.3
USUAL_SD_S = 0.015
"""An edge with this standard deviation counts half."""
STOP_DIP_DB, STOP_S = 6.0, 0.015
"""A glottal stop is at least so much weaker than both vowels, for at least so long."""
STOP_NEAR_S, STOP_JOINED_S, BESIDE_S = 0.1, 0.03, 0.15
"""It is this near to an edge without a longer gap than the second; the most of each vowel that is
measured."""
TRAINING = EdgeTraining(epochs=3, learning_rate=1e-3, hidden_kinds=0.1, dropout=0.05)


def target_edges(aligner: Aligner, inputs: UtteranceInputs) -> tuple[Tokens, Spans]:
    """Return the tokens of a clean recording, and where the whole package draws their edges."""
    [chosen] = batching.run([choose_tokens(inputs)])
    placed = place_edges(
        inputs.emissions,
        chosen.tokens,
        chosen.spikes,
        inputs.calibration,
        inputs.settings,
        inputs.backend,
    )
    [drawn] = batching.run([placed])
    network = find_edge_network(aligner)
    assert network is not None
    finished = finish_edges(inputs.emissions, chosen.tokens, drawn, inputs.calibration, network)
    return chosen.tokens, batching.run([finished])[0]


def coarse_edges(inputs: UtteranceInputs, tokens: Tokens) -> StageSteps[Spans]:
    """Return where the segmentation draws the edges of given tokens, before a network sees them."""
    emissions = inputs.emissions
    spikes, _ = yield from best_ctc_path(emissions.array, tokens.ids, emissions.blank)
    return (
        yield from place_edges(
            emissions, tokens, spikes, inputs.calibration, inputs.settings, inputs.backend
        )
    )


def exclude_glottal_stops(
    edges: Spans, words: np.ndarray, kinds: Sequence[str], audio: Audio, shift_s: float
) -> Spans:
    """Return the edges of sounds (L,) with glottal stops between two vowels taken out of both
    words."""
    start, end = edges.start.copy(), edges.end.copy()
    for k in (np.flatnonzero(words[1:] != words[:-1]) + 1).tolist():
        joined = (start[k] - end[k - 1]) * shift_s <= STOP_JOINED_S
        if kinds[k] == kinds[k - 1] == "vowel" and joined:
            times_s = np.array([edges.start[k - 1], end[k - 1], start[k], edges.end[k]]) * shift_s
            stop = find_glottal_stop(audio, *times_s.tolist())
            if stop is not None:
                end[k - 1] = min(end[k - 1], stop[0] / shift_s)
                start[k] = max(start[k], stop[1] / shift_s)
    return Spans(start, end, edges.start_sd, edges.end_sd)


def find_glottal_stop(
    audio: Audio, begin_s: float, end_s: float, next_s: float, last_s: float
) -> tuple[float, float] | None:
    """Return where the level dips between a vowel [begin_s, end_s) and the next one [next_s,
    last_s); None: nowhere."""
    first = max(0, round(max(begin_s, end_s - BESIDE_S) / SHIFT_S))
    last = min(
        -(-len(audio.samples) // round(SHIFT_S * audio.sample_rate)),
        round(min(last_s, next_s + BESIDE_S) / SHIFT_S),
    )
    if last - first < 8:
        return None
    levels = band_levels(audio, first, last)[:, 0]
    edge = round((end_s + next_s) / 2 / SHIFT_S) - first
    near = round(STOP_NEAR_S / SHIFT_S)
    low, high = max(1, edge - near), min(len(levels) - 1, edge + near)
    top = min(
        np.quantile(levels[: max(edge, 3)], 0.8),
        np.quantile(levels[min(edge, len(levels) - 3) :], 0.8),
    )
    quiet = low + np.flatnonzero(levels[low:high] < top - STOP_DIP_DB)
    if not len(quiet):
        return None
    # Pulses of up to 15 ms in the stop belong to it.
    runs = np.split(quiet, np.flatnonzero(np.diff(quiet) > 3) + 1)
    run = min(runs, key=lambda each: max(each[0] - edge, edge - each[-1], 0))
    if (run[-1] - run[0] + 1) * SHIFT_S < STOP_S:
        return None
    return (first + int(run[0])) * SHIFT_S, (first + int(run[-1]) + 1) * SHIFT_S


def weighted_targets(
    edges: Edges, fine: Spans, words: np.ndarray, shift_s: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the targets (E,) of edges, in seconds, and their weights (E,)."""
    first = np.append(True, words[1:] != words[:-1])
    last = np.append(words[1:] != words[:-1], True)
    target_s, weight = np.full(len(edges), np.nan), np.zeros(len(edges))
    assert fine.start_sd is not None
    assert fine.end_sd is not None
    target_s[edges.ends] = fine.end * shift_s
    weight[edges.ends] = np.where(last, 1.0, INSIDE_WEIGHT) / (
        1 + (fine.end_sd * shift_s / USUAL_SD_S) ** 2
    )
    target_s[edges.begins] = fine.start * shift_s
    weight[edges.begins] = np.where(first, 1.0, INSIDE_WEIGHT) / (
        1 + (fine.start_sd * shift_s / USUAL_SD_S) ** 2
    )
    return target_s, weight


def recording_examples(
    teacher: Aligner,
    student: Aligner,
    samples: np.ndarray,
    text: str,
    speech: Speech,
    rng: np.random.Generator,
) -> list[EdgeExamples]:
    """Return the examples of a recording, clean and in each of its spoiled copies."""
    network = find_edge_network(student)
    assert network is not None
    clean = read_inputs(teacher, (samples, RATE), text, keep_sound=True)
    tokens, finished = target_edges(teacher, clean)
    spoken, ids, words = utterance_sounds(tokens)
    shift_s, kinds = clean.emissions.frame_shift_s, clean.calibration.kinds(tokens.labels)
    assert clean.emissions.sound is not None
    fine = exclude_glottal_stops(
        finished.of(spoken), words, [kinds[k] for k in spoken], clean.emissions.sound, shift_s
    )
    examples = []
    for copy in range(1 + COPIES):
        heard = samples if copy == 0 else spoil(samples, rng, speech.piece)
        inputs = read_inputs(student, (heard, RATE), text, keep_sound=True)
        try:
            [coarse] = batching.run([coarse_edges(inputs, tokens)])
        except CtcAlignError:
            continue
        sounds = coarse.of(spoken)
        edges = edges_of(sounds.start, sounds.end, words)
        target_s, weight = weighted_targets(edges, fine, words, shift_s)
        examples.append(
            examples_of(
                EdgeScene(inputs.emissions, ids, edges, network.shape),
                target_s,
                weight,
            )
        )
    return examples


def make_examples(given: argparse.Namespace) -> None:
    """Write the examples of some utterances of a manifest."""
    exact = Settings(match="exact")
    teacher, student = (
        Aligner("english", device="cpu", settings=exact),
        Aligner(given.model, device="cpu", settings=exact),
    )
    speech = Speech.read([given.speech], given.cache)
    rng = np.random.default_rng(given.seed)
    rows = training_rows(given.speech)
    rows = [row for row in rows if SHORTEST_S < row["duration_s"] < LONGEST_S]
    found: list[EdgeExamples] = []
    used = 0
    for index in rng.permutation(len(rows)):
        if used == given.utterances:
            break
        samples = (read_samples(given.speech.parent, rows[index]) / np.float32(32768)).astype(
            np.float32
        )
        try:
            found += recording_examples(teacher, student, samples, rows[index]["text"], speech, rng)
        except CtcAlignError as error:
            print(f"{rows[index]['audio']}: {error}", flush=True)
            continue
        used += 1
        if used % 20 == 0:
            print(f"{used} utterances, {sum(map(len, found))} edges", flush=True)
    write_examples(given.out, EdgeExamples.joined(found))


def write_examples(path: Path, examples: EdgeExamples) -> None:
    """Write examples to a file."""
    windows = examples.windows
    np.savez(
        path,
        values=windows.values,
        left=windows.left,
        right=windows.right,
        role=windows.role,
        offset=examples.offset,
        weight=examples.weight,
    )


def read_examples(path: Path) -> EdgeExamples:
    """Return the examples of a file."""
    with np.load(path) as data:
        windows = EdgeWindows(data["values"], data["left"], data["right"], data["role"])
        return EdgeExamples(windows, data["offset"], data["weight"])


def train(given: argparse.Namespace) -> None:
    """Train each member of the model's edge network further, and write the result."""
    torch.set_num_threads(1)
    network = find_edge_network(Aligner(given.model, device="cpu"))
    assert network is not None
    learnt = EdgeExamples.joined([read_examples(path) for path in given.examples])
    print(f"{len(learnt)} edges", flush=True)
    members = [
        train_edge_network(
            learnt,
            network.shape.labels,
            TRAINING,
            seed=5 + k,
            begin=member,
            say=lambda line: print(line, flush=True),
        )
        for k, member in enumerate(network.apart())
    ]
    together = EdgeNetwork.together(members)
    together.spread = network.spread
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / FILE).write_bytes(edge_network_bytes(together))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a step of the training from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(required=True)
    making = steps.add_parser("examples")
    making.set_defaults(step=make_examples)
    making.add_argument("--speech", required=True, type=Path, metavar="MANIFEST")
    making.add_argument(
        "--cache", required=True, type=Path, help="folder of speech.npy: see hard_sound_training.py"
    )
    making.add_argument("--utterances", type=int, default=600)
    making.add_argument("--seed", type=int, default=1)
    training = steps.add_parser("train")
    training.set_defaults(step=train)
    training.add_argument("examples", nargs="+", type=Path)
    for step in (making, training):
        step.add_argument("--model", required=True, metavar="FOLDER")
        step.add_argument("--out", required=True, type=Path)
    given = parser.parse_args(arguments)
    given.step(given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
