"""Targets and a state for every frame of a corpus, kept in a file: by the generative segmenter, or by a model."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ctc_align.errors import InputError
from ctc_align.models.convnet import features
from ctc_align.training import Watch
from ctc_align.training.corpus_data import Corpus
from ctc_align.training.recipe import SegmenterPlan
from ctc_align.training.segmenter import Round, Segmenter, Spoken


@dataclass(frozen=True)
class Labels:
    """Token ids for CTC, a state for each frame, and the word of each token, for every utterance of a store.

    All three are empty for an utterance without labels.
    """

    targets: list[np.ndarray]
    states: list[np.ndarray]
    words: list[np.ndarray]

    def log_priors(self, indices: Iterable[int], states: int) -> np.ndarray:
        """Return the log shares (K,) float32 of the states' frames in these utterances."""
        count = np.bincount(np.concatenate([self.states[i] for i in indices]), minlength=states) + 1.0
        return np.log(count / count.sum()).astype(np.float32)


def kept(path: Path, corpus: Corpus, make: Callable[[], Labels]) -> Labels:
    """Return the labels in a file; if there is none, those of `make`, which are written there.

    Raises:
        InputError: the file has labels of another corpus.
    """
    if not path.exists():
        made = make()
        part = path.with_suffix(".part.npz")
        rows = _packed("labels", made.states) | _packed("targets", made.targets) | _packed("words", made.words)
        np.savez(part, **rows)  # type: ignore[arg-type]
        os.replace(part, path)
    with np.load(path) as data:
        labels = Labels(_unpacked(data, "targets"), _unpacked(data, "labels"), _unpacked(data, "words"))
    frames = [len(row) for row in labels.states]
    if len(frames) != len(corpus.store) or any(n not in (0, m) for n, m in zip(frames, corpus.store.lengths)):
        raise InputError(f"{path}: these labels belong to another corpus; remove them, or take another folder")
    return labels


def from_nothing(corpus: Corpus, plan: SegmenterPlan, tokens: int, parts: int, seed: int, watch: Watch) -> Labels:
    """Return the labels of the generative segmenter, trained from a flat start."""
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
    """Return the utterances that train Gaussians, the short ones if there are any, in a random order."""
    short = corpus.train[corpus.store.lengths[corpus.train] <= plan.longest_s / features.FRAME_SHIFT_S]
    order: list[int] = np.random.default_rng(seed).permutation(short if len(short) else corpus.train).tolist()
    return order


def collected(count: int, spoken: dict[int, Spoken], states: Iterable[tuple[int, np.ndarray]]) -> Labels:
    """Return the labels of a store of `count` utterances."""
    labels = Labels(*([np.empty(0, np.int16)] * count for _ in range(3)))
    for i, row in states:
        labels.states[i] = row.astype(np.int16)
    for i, said in spoken.items():
        labels.targets[i] = (said.phones + 1).astype(np.int16)
        labels.words[i] = said.owners.astype(np.int16)
    return labels


def _packed(name: str, rows: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.concatenate(rows), f"{name}_starts": np.cumsum([0, *map(len, rows)])}


def _unpacked(data: Mapping[str, np.ndarray], name: str) -> list[np.ndarray]:
    values, starts = data[name], data[f"{name}_starts"]
    return [values[a:b] for a, b in itertools.pairwise(starts)]
