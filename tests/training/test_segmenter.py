"""The generative segmenter finds the edges of sounds whose edges are known; Gaussians against
formulas in numpy."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_corpus import Lines, Made, frames, make_corpus, make_letters, utterances_of
from made_sounds import babble
from small_training import SMALL, options

from ctc_align.alignment.aligner import Aligner
from ctc_align.kernels.log_space import log_softmax
from ctc_align.models import load_model
from ctc_align.models.convnet import features
from ctc_align.models.convnet.gaussian_mixtures import VALUES, Mixtures
from ctc_align.models.convnet.inference import NetworkShape
from ctc_align.models.convnet.network import AcousticNetwork
from ctc_align.text import split
from ctc_align.text.phone_sets import ARPABET_PHONES
from ctc_align.tokens.phones import PhoneTokenizer
from ctc_align.tokens.tokenizer import tokenize
from ctc_align.training import Watch
from ctc_align.training.adaptation import Adaptation, adapt
from ctc_align.training.corpus_data import Corpus, FeatureStore, Spoken, build_store
from ctc_align.training.frame_labels import (
    PARTS,
    SMALLEST_VARIANCE,
    Labels,
    Segmenter,
    StateScorer,
    cepstra,
    estimate,
    learn_mixtures,
    mixture_values,
    resegmented,
)
from ctc_align.training.pipeline import train
from ctc_align.training.recipe import Refining, SegmenterPlan

SILENCE = len(ARPABET_PHONES) * PARTS
OTHER = ARPABET_PHONES.index("OW")
ROUNDS = [(1, 6, 30), (2, 2, 30)]


def spoken_of(one: Made) -> Spoken:
    words = tokenize(split(one.text), PhoneTokenizer(("<blank>", *ARPABET_PHONES)))
    said = tuple((np.array(word.pronunciations[0].ids) - 1,) for word in words)
    return Spoken(said, (0,) * len(said))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Made], FeatureStore]:
    folder = tmp_path_factory.mktemp("corpus")
    made = make_corpus(folder, utterances=30, dev=0, slow=2)
    return made, build_store(utterances_of(folder), folder / "features")


@pytest.fixture(scope="module")
def trained(corpus: tuple[list[Made], FeatureStore]) -> Segmenter:
    made, store = corpus
    lines = Lines()
    segmenter = Segmenter(
        store, {i: spoken_of(one) for i, one in enumerate(made)}, len(ARPABET_PHONES), lines
    )
    segmenter.train(range(30), ROUNDS)
    assert [line.split()[1] for line in lines.lines] == ["1", "2"]
    return segmenter


def segments(labels: np.ndarray) -> list[tuple[int, int]]:
    """First and last (exclusive) frame of each phone, in order."""
    phone = np.where(labels == SILENCE, -1, labels // PARTS)
    edges = np.concatenate(([0], np.flatnonzero(np.diff(phone)) + 1, [len(phone)]))
    return [(a, b) for a, b in zip(edges[:-1].tolist(), edges[1:].tolist()) if phone[a] >= 0]


@pytest.mark.long
def test_planted_edges_are_found(
    trained: Segmenter, corpus: tuple[list[Made], FeatureStore]
) -> None:
    inner, outer = [], []
    for i, labels in trained.label(range(30)):
        one, found = corpus[0][i], segments(labels)
        assert len(labels) == corpus[1].lengths[i]
        assert len(found) == len(one.phones)
        for k, (start, end) in enumerate(zip(frames(one.starts), frames(one.ends))):
            # The slopes see two frames more each, twice: a change is felt a few frames before and
            # after it.
            (inner if k and one.starts[k] == one.ends[k - 1] else outer).append(
                abs(found[k][0] - start)
            )
            (inner if one.ends[k] in one.starts else outer).append(abs(found[k][1] - end))
    assert len(inner) > 200
    assert len(outer) > 150
    assert np.mean(np.array(inner) <= 3) > 0.95
    assert np.mean(np.array(outer) <= 4) > 0.95


@pytest.mark.long
def test_labels_walk_through_the_parts_and_crowds_are_left_out(trained, corpus) -> None:
    for i, labels in trained.label([3, 5]):
        runs = labels[np.concatenate(([True], np.diff(labels) != 0))]
        sounding = runs[runs != SILENCE]
        expected = (spoken_of(corpus[0][i]).phones[:, None] * PARTS + np.arange(PARTS)).reshape(-1)
        # Two equal phones in a row would merge in `runs`; the words are chosen so that there are
        # none.
        assert sounding.tolist() == expected.tolist()
    crowd = {0: Spoken(((np.zeros(2000, int),),), (0,)), 1: spoken_of(corpus[0][1])}
    segmenter = Segmenter(corpus[1], crowd, len(ARPABET_PHONES), Watch())
    segmenter.mixtures = trained.mixtures
    assert [i for i, _ in segmenter.label([0, 1])] == [1]


@pytest.mark.long
def test_the_pronunciation_that_sounds_is_taken(
    trained: Segmenter, corpus: tuple[list[Made], FeatureStore]
) -> None:
    made, store = corpus
    wrong = {}
    for i, one in enumerate(made[:8]):
        words = spoken_of(one).words
        # Words of three phones get a pronunciation with a wrong vowel before the right one.
        doubled = tuple(
            (np.array([w[0], OTHER, w[2]]), w) if len(w) == 3 else (w,) for (w,) in words
        )
        wrong[i] = Spoken(doubled, (0,) * len(words))
    segmenter = Segmenter(store, wrong, len(ARPABET_PHONES), Watch())
    segmenter.mixtures = trained.mixtures
    several = sum(len(word) > 1 for one in wrong.values() for word in one.words)
    assert several == 8
    assert segmenter.choose_pronunciations(range(8)) >= 7
    assert segmenter.choose_pronunciations(range(8)) <= 1


def data(frames: int = 400, states: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, states, frames)
    x = random.normal(
        labels[:, None] * np.linspace(-1, 1, VALUES), 0.5 + labels[:, None], (frames, VALUES)
    )
    return x.astype(np.float32), labels


def some_mixtures(states: int = 3, mixtures: int = 2, seed: int = 1) -> Mixtures:
    rng = np.random.default_rng(seed)
    made = (
        log_softmax(rng.normal(size=(states, mixtures))),
        rng.normal(size=(states, mixtures, VALUES)),
        rng.uniform(0.5, 1.5, (states, mixtures, VALUES)),
    )
    return Mixtures(*(part.astype(np.float32) for part in made))


def log_gauss(x: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return (-0.5 * ((x - mean) ** 2 / variance + np.log(2 * math.pi * variance))).sum(-1)


def joint_of(x: np.ndarray, mixtures: Mixtures, k: int) -> np.ndarray:
    """Log of weight times density (2, T) of both Gaussians of a state."""
    return np.stack(
        [
            float(mixtures.weights[k, m])
            + log_gauss(x, mixtures.means[k, m], mixtures.variances[k, m])
            for m in (0, 1)
        ]
    )


def test_scores_are_log_densities() -> None:
    x, _ = data(50)
    mixtures = some_mixtures()
    each = np.stack(
        [np.logaddexp.reduce(joint_of(x.astype(np.float64), mixtures, k)) for k in range(3)], 1
    )
    np.testing.assert_allclose(mixtures.scores(x), each, rtol=1e-4, atol=1e-3)


def test_one_gaussian_is_mean_and_variance_and_doubling_keeps_its_density() -> None:
    x, labels = data()
    found = estimate([(x[:100], labels[:100]), (x[100:], labels[100:])], 3)
    for k in range(3):
        own = x[labels == k].astype(np.float64)
        np.testing.assert_allclose(found.means[k, 0], own.mean(0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.variances[k, 0], own.var(0), rtol=1e-4)
        assert found.weights[k].tolist() == [0.0]
    x, labels = data()
    one = estimate([(x, labels)], 3)
    two = one.doubled()
    assert np.exp(two.weights).sum(1).tolist() == pytest.approx([1.0, 1.0, 1.0])
    np.testing.assert_allclose(two.means.mean(1), one.means[:, 0], rtol=1e-5, atol=1e-6)
    assert (two.means[:, 0] < two.means[:, 1]).all()


def test_a_step_of_em_within_each_state_where_there_are_frames() -> None:
    x, labels = data()
    old = some_mixtures()
    found = estimate([(x, labels)], 3, old)
    for k in range(3):
        own = x[labels == k].astype(np.float64)
        joint = joint_of(own, old, k)
        share = np.exp(joint - np.logaddexp.reduce(joint))
        for m in (0, 1):
            if share[m].sum() < 10:
                continue
            mean = (share[m][:, None] * own).sum(0) / share[m].sum()
            variance = (share[m][:, None] * own**2).sum(0) / share[m].sum() - mean**2
            np.testing.assert_allclose(found.means[k, m], mean, rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(
                found.variances[k, m], np.maximum(variance, SMALLEST_VARIANCE), rtol=1e-3
            )
        weight = (share.sum(1) + 1) / (share.sum() + 2)
        np.testing.assert_allclose(np.exp(found.weights[k]), weight, rtol=1e-4)
    x, labels = data(30, states=2)
    old = some_mixtures(3)
    found = estimate([(x, labels)], 3, old)
    assert np.array_equal(found.means[2], old.means[2])
    assert np.array_equal(found.variances[2], old.variances[2])
    alone = estimate([(x, labels)], 3)
    assert np.isfinite(alone.scores(x)).all()


def test_cepstra_are_normalised_free_of_gain_and_slopes_those_of_a_line() -> None:
    frames = features.log_mel(babble(2.0), 0, 200)
    values = cepstra(frames)
    assert values.shape == (200, VALUES)
    np.testing.assert_allclose(values.mean(0), 0.0, atol=1e-4)
    np.testing.assert_allclose(values.std(0), 1.0, atol=1e-3)
    np.testing.assert_allclose(cepstra(frames + np.float32(3.0)), values, atol=2e-3)
    # The second thirteen values of a signal that rises steadily are constant inside: here all
    # equal, so zero.
    frames = (
        np.zeros((50, features.MELS), np.float32)
        + np.linspace(0.0, 5.0, 50, dtype=np.float32)[:, None]
    )
    values = cepstra(frames)
    assert values[4:-4, 13].std() < 0.01
    assert abs(values[25, 0]) < 0.1


# The second segmentation: by a network and mixtures together, from which both go on.

RECIPE = replace(
    SMALL,
    segmenter=SegmenterPlan(((1, 5, 50),), 1),
    training=replace(SMALL.training, epochs=6),
    refining=Refining(epochs=4, learning_rate=1e-2, warmup_steps=2, mixtures=2, utterances=30),
)
SPEAKERS = 6


class Sounds:
    """A corpus in memory: every utterance is silence, colour 0, colour 1, silence, of lengths that
    differ."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        self.states: list[np.ndarray] = []
        rows, starts = [], [0]
        for _ in range(SPEAKERS):
            lengths = rng.integers(12, 30, 4)
            states = np.repeat([2, 0, 1, 2], lengths).astype(np.int16)
            frames = rng.normal(size=(len(states), features.MELS)) * 0.3 - 12.0
            frames[states == 0, :32] += 10.0
            frames[states == 1, 32:] += 10.0
            self.states.append(states)
            rows.append(frames)
            starts.append(starts[-1] + len(states))
        folder.mkdir()
        np.concatenate(rows).astype(np.float16).tofile(folder / "frames.f16")
        np.save(folder / "starts.npy", np.array(starts))
        (folder / "index.json").write_text('{"faults": {}}')
        self.store = FeatureStore(folder)

    def corpus(self) -> Corpus:
        spoken = {i: Spoken(((np.array([0]),), (np.array([1]),)), (0, 0)) for i in range(SPEAKERS)}
        return Corpus(self.store, spoken, np.arange(SPEAKERS - 1), np.array([SPEAKERS - 1]), (), 0)

    def labels(self, states: list[np.ndarray]) -> Labels:
        targets = [np.array([1, 2], np.int16)] * SPEAKERS
        return Labels(targets, states, [np.array([0, 1], np.int16)] * SPEAKERS)


@pytest.fixture
def sounds(tmp_path: Path) -> Sounds:
    return Sounds(tmp_path / "features")


def a_network_that_knows_nothing() -> AcousticNetwork:
    network = AcousticNetwork(NetworkShape(features.MELS, 3, 3, 8, 8, 8, (1,))).eval()
    torch.nn.init.zeros_(network.states.weight)
    torch.nn.init.zeros_(network.states.bias)  # type: ignore[arg-type]
    return network


def test_mixtures_are_learnt_and_mend_labels_that_are_wrong_at_first(sounds: Sounds) -> None:
    found = learn_mixtures(sounds.store, sounds.labels(sounds.states), [0, 1, 2, 3], 3, 1)
    heard = found.log_posteriors(mixture_values(sounds.store[5])).argmax(1)
    assert (heard == sounds.states[5]).mean() > 0.9
    # Edges eight frames off in either direction: the mixtures know better, and the network says
    # nothing.
    rng = np.random.default_rng(1)
    off = []
    for states in sounds.states:
        cuts = np.flatnonzero(np.diff(states)) + 1 + rng.choice([-8, 8], 3)
        off.append(np.repeat([2, 0, 1, 2], np.diff([0, *cuts, len(states)])).astype(np.int16))
    found = learn_mixtures(sounds.store, sounds.labels(off), [0, 1, 2, 3, 4], 3, 1)
    plan = Refining(mixture_weight=1.0, scale=0.5)
    scorer = StateScorer(a_network_that_knows_nothing(), np.zeros(3, np.float32), found, plan)
    again = resegmented(scorer, sounds.corpus(), sounds.labels(off), Watch())
    assert max(farthest(a, b) for a, b in zip(again.states, sounds.states)) <= 3
    assert all(len(a) == len(b) for a, b in zip(again.states, sounds.states))


def farthest(states: np.ndarray, wanted: np.ndarray) -> int:
    """The largest distance of an edge from where it should be, in frames."""
    ours, theirs = (np.flatnonzero(np.diff(row)) for row in (states, wanted))
    assert len(ours) == len(theirs)
    return int(np.abs(ours - theirs).max())


def test_what_has_no_labels_gets_none(sounds: Sounds) -> None:
    states = [np.empty(0, np.int16), *sounds.states[1:]]
    found = learn_mixtures(sounds.store, sounds.labels(states), list(range(SPEAKERS)), 3, 1)
    scorer = StateScorer(a_network_that_knows_nothing(), np.zeros(3, np.float32), found, Refining())
    again = resegmented(scorer, sounds.corpus(), sounds.labels(states), Watch())
    assert [len(row) for row in again.states] == [0, *map(len, sounds.states[1:])]


@pytest.mark.long
def test_a_refined_model_has_mixtures_is_resumable_and_can_be_adapted(
    tmp_path, monkeypatch
) -> None:
    said = make_letters(tmp_path / "letters", 30)
    call = options(tmp_path / "letters", tmp_path / "straight" / "m", keep=True)
    lines = Lines()
    straight = train(RECIPE, call, lines)
    assert "segments: by the network and mixtures together" in lines.lines
    model = load_model(str(straight.folder), device="cpu")
    assert model.description.mixture_weight == RECIPE.refining.mixture_weight
    assert isinstance(model.scoring.mixtures, Mixtures)
    assert model.scoring.mixtures.weights.shape == (model.description.shape.states, 2)
    assert "with 2 Gaussians each" in (straight.folder / "README.md").read_text("utf-8")
    errors = []
    aligner = Aligner(str(straight.folder), device="cpu")
    for one in said[:8]:
        tokens = [
            token for word in aligner.align(one.path, one.text).words for token in word.tokens
        ]
        errors += [abs(token.start_s - start / 16000) for token, start in zip(tokens, one.starts)]
    assert np.median(errors) < 0.02
    # Stopped before the second stage of the network, it goes on from there.
    out = tmp_path / "stopped" / "m"
    from ctc_align.training import acoustic_training, pipeline

    whole, seen = acoustic_training.train, []

    def stopping(*arguments, **more):
        seen.append(arguments)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return whole(*arguments, **more)

    monkeypatch.setattr(pipeline.acoustic_training, "train", stopping)
    with pytest.raises(KeyboardInterrupt):
        train(RECIPE, replace(call, out_dir=out, keep=False))
    monkeypatch.setattr(pipeline.acoustic_training, "train", whole)
    train(RECIPE, replace(call, out_dir=out, keep=False))
    assert (out / "model.safetensors").read_bytes() == (
        straight.folder / "model.safetensors"
    ).read_bytes()
    adapted = adapt(
        Adaptation(training=replace(Adaptation().training, epochs=1)),
        str(straight.folder),
        replace(call, out_dir=tmp_path / "adapted", keep=False),
    )
    own = load_model(str(adapted.folder), device="cpu")
    np.testing.assert_allclose(own.scoring.mixtures.means, model.scoring.mixtures.means)
