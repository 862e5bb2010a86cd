"""A network of edges learnt from labelled utterances, with its errors for speakers that it did not learn from.

For each group of speakers that is left out everything comes from the others: the constants with which edges are drawn,
and the network. It is learnt from a quarter and from half of the others, too: how errors fall says what more labels
would bring.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch

from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.refined_edges import SIGMA, refine_edges
from ctc_align.evaluate import Evaluation, evaluate_intervals
from ctc_align.kernels import batching
from ctc_align.models.calibration import MOST_SPREAD
from ctc_align.models.edge_network import EdgeNetwork, EdgeNetworkShape
from ctc_align.training.calibrating.edge_errors import PairedEdges, SpokenUtterance
from ctc_align.training.calibrating.labelled_edges import edge_examples
from ctc_align.training.refining.edge_training import EdgeExamples, EdgeTraining, train_edge_network
from ctc_align.types import Interval

FEWEST_UTTERANCES = 8
"""A network is learnt from so many utterances or more."""
SHARES = (0.25, 0.5)
"""The usual parts for the curve …"""
FEWEST_ON_CURVE = 4
"""… where they are so many utterances or more."""
MORE_UTTERANCES = 30
"""The curve is continued by so many."""
FEWEST_STEPS, MOST_STEPS = 300, 6000
"""Steps of a training, which has `EdgeTraining.epochs` epochs where that makes neither fewer nor more."""
GOING_ON = EdgeTraining(epochs=10, learning_rate=1e-3)
"""How the network of a model goes on learning."""
MOST_AT_ONCE = 8
Row = tuple[str, Sequence[Interval], Sequence[Interval]]
"""A name, intervals and labels, as `evaluate_intervals` takes them."""


@dataclass(frozen=True, eq=False)
class LabelledSet:
    """Labelled utterances from which a network is learnt.

    Attributes:
        utterances: U of them, with their sound.
        folds: (U,) which are left out together.
        draw: returns the edges of all utterances, drawn with constants from those that are kept, (U,) bool.
        labels: the tokens that the network is to know.
        begin: a network of the same labels that goes on learning; None: a new one.
        shares: parts of the others' utterances from which networks are learnt for the curve, beside all.
    """

    utterances: Sequence[SpokenUtterance]
    folds: np.ndarray
    draw: Callable[[np.ndarray], list[Spans]]
    labels: tuple[str, ...]
    begin: EdgeNetwork | None = None
    shares: tuple[float, ...] = SHARES


@dataclass(frozen=True)
class LearntEdges:
    """A network of edges, and what it is worth for speakers left out.

    Attributes:
        network: learnt from all utterances.
        words, phones: their edges, drawn by networks learnt from other folds, with their errors and deviations.
        evaluation: of the words, as placed by these.
        within_sd: the share of the edges within their deviation, each by the spread of other folds; 0.68 is right.
        curve: (utterances learnt from, mean absolute error in ms), fewest first.
    """

    network: EdgeNetwork
    words: PairedEdges
    phones: PairedEdges
    evaluation: Evaluation
    within_sd: float
    curve: tuple[tuple[float, float], ...]


def learn_edges(given: LabelledSet, progress: Callable[[float], None] | None = None) -> LearntEdges:
    """Return a network of edges learnt from labelled utterances of two folds or more.

    As many networks are trained at once as torch would use threads; the result does not depend on it.

    Args:
        given: the utterances.
        progress: called with the share of the trainings that are done, in [0, 1].
    """
    folds = range(int(given.folds.max()) + 1)
    jobs = [_Job(given.folds != fold, given.folds == fold) for fold in folds]
    everything = np.ones(len(given.folds), np.bool_)
    curve_jobs = {share: [_part(job, share) for job in jobs] for share in given.shares}
    curve_jobs = {share: some for share, some in curve_jobs.items() if _mean_size(some) >= FEWEST_ON_CURVE}
    lists = [*curve_jobs.values(), jobs]
    whole = _Job(everything, ~everything)
    trained = _trained(given, [job for some in lists for job in some] + [whole], progress)
    curve = []
    for some in lists:
        words, phones, rows = PairedEdges(), PairedEdges(), list[Row]()
        for _ in some:
            rows += _left_out_edges(given, next(trained), words, phones)
        curve.append((_mean_size(some), float(np.abs(words.errors_ms).mean())))
    network = next(trained).network
    ratios = np.abs(words.errors_ms) / np.maximum(words.spreads_ms, 1e-3)
    network.spread = spread_of(ratios)
    within_sd = _within_sd(ratios, given.folds[words.utterances])
    return LearntEdges(network, words, phones, evaluate_intervals(rows), within_sd, tuple(curve))


def spread_of(ratios: np.ndarray) -> float:
    """Return what deviations are multiplied by so that `SIGMA` of the edges lie within theirs.

    Args:
        ratios: (E,) of errors to deviations, both above 0.

    >>> spread_of(np.array([0.5, 1.0, 1.5, 2.0, 2.5]))
    1.865
    """
    return round(min(max(float(np.quantile(ratios, SIGMA)), 1e-3), MOST_SPREAD), 3)


def less_with_more(curve: Sequence[tuple[float, float]], utterances: int) -> float | None:
    """Return by how many ms the error falls with `MORE_UTTERANCES` more, if it goes on as a + b / sqrt(n).

    Args:
        curve: (utterances learnt from, error in ms), fewest first.
        utterances: from how many the network is learnt that is kept.

    Returns:
        None where the curve has fewer than two points, or does not fall.

    >>> round(less_with_more([(16, 15.0), (64, 12.5)], 70) or 0, 2)
    0.39
    """
    if len(curve) < 2:
        return None
    counts, errors_ms = np.array(curve).T
    falls = np.polyfit(counts**-0.5, errors_ms, 1)[0]
    if falls <= 0 or errors_ms[-1] >= errors_ms[0]:
        return None
    return float(falls * (utterances**-0.5 - (utterances + MORE_UTTERANCES) ** -0.5))


@dataclass(frozen=True, eq=False)
class _Job:
    """A training: from which utterances (U,) bool, and for which its errors are measured."""

    kept: np.ndarray
    left_out: np.ndarray


@dataclass(frozen=True, eq=False)
class _Trained:
    job: _Job
    drawn: list[Spans]
    network: EdgeNetwork


def _part(job: _Job, share: float) -> _Job:
    """Return the same training from a share of its utterances, the same ones at every call, of all speakers."""
    kept = np.flatnonzero(job.kept)
    chosen = np.random.default_rng(0).permutation(kept)[: max(1, round(share * len(kept)))]
    part = np.zeros_like(job.kept)
    part[chosen] = True
    return replace(job, kept=part)


def _mean_size(jobs: Sequence[_Job]) -> float:
    return float(np.mean([job.kept.sum() for job in jobs]))


def training_for(examples: int, begin: EdgeNetwork | None = None) -> EdgeTraining:
    """Return how a network is trained on so many examples.

    >>> training_for(2880).epochs, training_for(320).epochs
    (15, 60)
    """
    usual = EdgeTraining() if begin is None else GOING_ON
    batches = max(1, examples // usual.batch)
    steps = min(max(usual.epochs * batches, FEWEST_STEPS), MOST_STEPS)
    return replace(usual, epochs=max(1, round(steps / batches)))


def _trained(given: LabelledSet, jobs: Sequence[_Job], progress: Callable[[float], None] | None) -> Iterator[_Trained]:
    """Yield the networks of the jobs, in order; no more examples than of those under way are in memory."""
    index = EdgeNetwork(EdgeNetworkShape(given.labels))
    workers = min(torch.get_num_threads(), MOST_AT_ONCE)
    pending: deque[tuple[_Job, list[Spans], Future[EdgeNetwork]]] = deque()
    done = 0
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            for job in jobs:
                drawn = given.draw(job.kept)
                kept: list[int] = np.flatnonzero(job.kept).tolist()
                examples = edge_examples([given.utterances[k] for k in kept], [drawn[k] for k in kept], index)
                pending.append((job, drawn, pool.submit(_train, examples, given.labels, given.begin)))
                while len(pending) > (workers if job is not jobs[-1] else 0):
                    first, edges, network = pending.popleft()
                    trained = _Trained(first, edges, network.result())
                    done += 1
                    if progress is not None:
                        progress(done / len(jobs))
                    yield trained
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _train(examples: EdgeExamples, labels: Sequence[str], begin: EdgeNetwork | None) -> EdgeNetwork:
    return train_edge_network(examples, labels, training_for(len(examples), begin), begin=begin)


def _left_out_edges(given: LabelledSet, trained: _Trained, words: PairedEdges, phones: PairedEdges) -> list[Row]:
    """Add the edges that are left out to `words` and `phones`, as the network draws them; return rows to evaluate."""
    rows: list[Row] = []
    own: list[int] = np.flatnonzero(trained.job.left_out).tolist()
    chosen = [given.utterances[k] for k in own]
    drawn = [trained.drawn[k] for k in own]
    final = batching.run(
        [refine_edges(u.emissions, u.tokens, before, trained.network) for u, before in zip(chosen, drawn)]
    )
    for k, utterance, before, after in zip(own, chosen, drawn, final):
        words.add_words(k, utterance, before, after)
        phones.add_phones(k, utterance, before, after)
        rows.append((utterance.labelled.name, utterance.labelled_intervals(after), list(utterance.labelled.words)))
    return rows


def _within_sd(ratios: np.ndarray, folds: np.ndarray) -> float:
    """Return the share of edges (E,) within their deviation by the spread of other folds (E,)."""
    within = [ratios[folds == fold] <= spread_of(ratios[folds != fold]) for fold in np.unique(folds)]
    return float(np.concatenate(within).mean())
