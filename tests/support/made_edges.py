"""Utterances of hisses and hums whose edges are known, and what a model that hears them roughly
says of them."""

from __future__ import annotations

import numpy as np
import torch

from ctc_align.alignment.ctc_path import Spans
from ctc_align.models.edge_network import EdgeNetwork, EdgeNetworkShape
from ctc_align.training.labelled_speech import LabelledUtterance, SpokenUtterance
from ctc_align.types import Audio, Emissions, Interval, Tokens, Word

RATE = 16000
FRAME_S = 0.01
VOCAB = ("-", "S", "AH")
WORDS = 6


def made_utterance(
    name: str, speaker: str, seed: int, *, late_s: float = 0.0, phones: bool = True
) -> tuple[SpokenUtterance, np.ndarray]:
    """Return six words "S AH" in a row, and where their sounds truly begin and the last one ends
    (13,), in frames.

    Labels of starts of hums, which are inside words, are `late_s` after the truth.
    """
    rng = np.random.default_rng(seed)
    edges_s = np.cumsum([0.2, *rng.uniform(0.08, 0.16, 2 * WORDS)])
    samples = 1e-4 * rng.normal(size=round((edges_s[-1] + 0.2) * RATE))
    time_s = np.arange(len(samples)) / RATE
    hum = 0.3 * np.sign(np.sin(2 * np.pi * rng.uniform(90, 200) * time_s))
    for k in range(2 * WORDS):
        inside = (time_s >= edges_s[k]) & (time_s < edges_s[k + 1])
        samples[inside] += (
            hum[inside] if k % 2 else 0.1 * np.diff(rng.normal(size=inside.sum() + 1))
        )
    words = [Interval(edges_s[k], edges_s[k + 2], "sa") for k in range(0, 2 * WORDS, 2)]
    labelled_s = edges_s + np.where(np.arange(2 * WORDS + 1) % 2, late_s, 0.0)
    sounds = [
        Interval(labelled_s[k], labelled_s[k + 1], VOCAB[1 + k % 2]) for k in range(2 * WORDS)
    ]
    audio = Audio(samples.astype(np.float32), RATE, name)
    labelled = LabelledUtterance(
        name, speaker, audio, " ".join(["sa"] * WORDS), words, sounds if phones else ()
    )
    frames = int(len(samples) / RATE / FRAME_S)
    emissions = Emissions(torch.zeros(frames, 3).log_softmax(1), VOCAB, FRAME_S, sound=audio)
    ids = (1, 2) * WORDS
    tokens = Tokens(ids, tuple(VOCAB[k] for k in ids), tuple(np.repeat(range(WORDS), 2).tolist()))
    spoken = [Word("sa", 3 * k, 3 * k + 2, ("sa",)) for k in range(WORDS)]
    begin = edges_s / FRAME_S
    return SpokenUtterance(labelled, emissions, spoken, tokens, Spans(begin[:-1], begin[1:])), begin


def roughly(begin: np.ndarray, seed: int, deviation_frames: float = 1.5) -> Spans:
    """Return the spans of sounds whose edges (L + 1,) are moved at random."""
    moved = np.sort(begin + np.random.default_rng(seed).normal(size=len(begin)) * deviation_frames)
    return Spans(moved[:-1], moved[1:])


def untrained(labels: tuple[str, ...] = VOCAB[1:], seed: int = 0) -> EdgeNetwork:
    """Return a network with random weights."""
    shape, rng = EdgeNetworkShape(labels), np.random.default_rng(seed)
    weights = {
        name: 0.2 * rng.normal(size=size).astype(np.float32)
        for name, size in shape.weight_shapes.items()
    }
    return EdgeNetwork(shape, weights)
