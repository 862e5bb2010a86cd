"""Targets and a state for every frame of a corpus, kept in a file: by the generative segmenter, or by a model."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ctc_align.errors import InputError
from ctc_align.models.convnet import features
from ctc_align.training.corpus_data import Corpus
from ctc_align.training.progress import Watch
from ctc_align.training.recipe import SegmenterPlan
from ctc_align.training.segmenter import Round, Segmenter, Spoken


@dataclass(frozen=True)
class Labels:
    """Of every utterance of a store: token ids for CTC, a state for each frame, and the word of each token; empty where
    there are none."""

    targets: list[np.ndarray]
    states: list[np.ndarray]
    words: list[np.ndarray]

    def log_priors(self, members: Iterable[int], states: int) -> np.ndarray:
        """(K,) log shares of the states' frames, float32."""
        count = np.bincount(np.concatenate([self.states[i] for i in members]), minlength=states) + 1.0
        return np.log(count / count.sum()).astype(np.float32)


def kept(path: Path, corpus: Corpus, make: Callable[[], Labels]) -> Labels:
    """What `make` makes, made once.

    Raises:
        InputError: the file holds labels of another corpus.
    """
    if not path.exists():
        made = make()
        part = path.with_suffix(".part.npz")
        rows = _packed("labels", made.states) | _packed("targets", made.targets) | _packed("words", made.words)
        np.savez(part, **rows)
        os.replace(part, path)
    with np.load(path) as data:
        labels = Labels(_unpacked(data, "targets"), _unpacked(data, "labels"), _unpacked(data, "words"))
    frames = [len(row) for row in labels.states]
    if len(frames) != len(corpus.store) or any(n not in (0, m) for n, m in zip(frames, corpus.store.lengths)):
        raise InputError(f"{path}: these labels belong to another corpus; remove them, or take another folder")
    return labels


def from_nothing(corpus: Corpus, plan: SegmenterPlan, tokens: int, parts: int, seed: int, watch: Watch) -> Labels:
    """By the generative segmenter, from a flat start on the utterances that teach."""
    segmenter = Segmenter(corpus.store, corpus.spoken, tokens, watch, parts)
    order = teaching_order(corpus, plan, seed)
    rounds = [Round(*numbers) for numbers in plan.rounds]
    segmenter.train(order, rounds[: plan.choose_after])
    everything = np.concatenate((corpus.train, corpus.dev)).tolist()
    if any(len(word) > 1 for spoken in corpus.spoken.values() for word in spoken.words):
        watch.say(f"{segmenter.choose_pronunciations(everything)} words take another pronunciation")
    segmenter.train(order, rounds[plan.choose_after :])
    return collected(len(corpus.store), segmenter.spoken, segmenter.label(everything))


def teaching_order(corpus: Corpus, plan: SegmenterPlan, seed: int) -> list[int]:
    """The utterances that teach Gaussians, the short ones if there are any, in a random order."""
    short = corpus.train[corpus.store.lengths[corpus.train] <= plan.longest_s / features.FRAME_SHIFT_S]
    order: list[int] = np.random.default_rng(seed).permutation(short if len(short) else corpus.train).tolist()
    return order


def collected(count: int, spoken: dict[int, Spoken], states: Iterable[tuple[int, np.ndarray]]) -> Labels:
    """Labels of a store of `count` utterances."""
    labels = Labels(*([np.empty(0, np.int16)] * count for _ in range(3)))
    for i, row in states:
        labels.states[i] = row.astype(np.int16)
    for i, one in spoken.items():
        labels.targets[i] = (one.phones + 1).astype(np.int16)
        labels.words[i] = one.owners.astype(np.int16)
    return labels


def _packed(name: str, rows: Sequence[np.ndarray]) -> dict[str, Any]:
    return {name: np.concatenate(rows), f"{name}_starts": np.cumsum([0, *map(len, rows)])}


def _unpacked(data: Any, name: str) -> list[np.ndarray]:
    values, starts = data[name], data[f"{name}_starts"]
    return [values[a:b] for a, b in itertools.pairwise(starts)]
