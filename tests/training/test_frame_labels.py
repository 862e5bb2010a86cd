"""The second segmentation: by a network and mixtures together, from which both go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_corpus import Lines
from made_letters import make_letters
from small_training import SMALL, options

from ctc_align.alignment.aligner import Aligner
from ctc_align.models import load_model
from ctc_align.models.convnet import features
from ctc_align.models.convnet.convnet_model import ConvNet
from ctc_align.models.convnet.gaussian_mixtures import Mixtures
from ctc_align.models.convnet.network import AcousticNetwork, NetworkShape
from ctc_align.training import Watch
from ctc_align.training.adaptation import Adaptation, adapt
from ctc_align.training.corpus_data import Corpus, FeatureStore, Spoken
from ctc_align.training.frame_labels import Labels, StateScorer, inputs_of, learn_mixtures, resegmented
from ctc_align.training.pipeline import train
from ctc_align.training.recipe import Refining, SegmenterPlan

RECIPE = replace(
    SMALL,
    segmenter=SegmenterPlan(((1, 5, 50),), 1),
    training=replace(SMALL.training, epochs=6),
    refining=Refining(epochs=4, learning_rate=1e-2, warmup_steps=2, mixtures=2, utterances=30),
)
COLOURS, SPEAKERS = 3, 6


class Sounds:
    """A corpus in memory: every utterance is silence, colour 0, colour 1, silence, of lengths that differ."""

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
    assert network.states is not None
    torch.nn.init.zeros_(network.states.weight)
    torch.nn.init.zeros_(network.states.bias)  # type: ignore[arg-type]
    return network


def test_mixtures_learn_what_the_network_sees(sounds: Sounds) -> None:
    found = learn_mixtures(sounds.store, sounds.labels(sounds.states), [0, 1, 2, 3], 3, 1)
    heard = found.log_posteriors(inputs_of(sounds.store[5])).argmax(1).numpy()
    assert (heard == sounds.states[5]).mean() > 0.9


def farthest(states: np.ndarray, wanted: np.ndarray) -> int:
    """The largest distance of an edge from where it should be, in frames."""
    ours, theirs = (np.flatnonzero(np.diff(row)) for row in (states, wanted))
    assert len(ours) == len(theirs)
    return int(np.abs(ours - theirs).max())


def test_labels_that_are_wrong_at_first_are_mended_by_the_mixtures(sounds: Sounds) -> None:
    """Edges eight frames off in either direction: the mixtures know better, and the network says nothing."""
    rng = np.random.default_rng(1)
    off = []
    for states in sounds.states:
        cuts = np.flatnonzero(np.diff(states)) + 1 + rng.choice([-8, 8], 3)
        off.append(np.repeat([2, 0, 1, 2], np.diff([0, *cuts, len(states)])).astype(np.int16))
    found = learn_mixtures(sounds.store, sounds.labels(off), [0, 1, 2, 3, 4], 3, 1)
    plan = Refining(mixture_weight=1.0, scale=0.5)
    scorer = StateScorer(a_network_that_knows_nothing(), torch.zeros(3), found, plan)
    again = resegmented(scorer, sounds.corpus(), sounds.labels(off), Watch())
    assert max(farthest(a, b) for a, b in zip(again.states, sounds.states)) <= 3
    assert all(len(a) == len(b) for a, b in zip(again.states, sounds.states))


def test_what_has_no_labels_gets_none(sounds: Sounds) -> None:
    states = [np.empty(0, np.int16), *sounds.states[1:]]
    found = learn_mixtures(sounds.store, sounds.labels(states), list(range(SPEAKERS)), 3, 1)
    scorer = StateScorer(a_network_that_knows_nothing(), torch.zeros(3), found, Refining())
    again = resegmented(scorer, sounds.corpus(), sounds.labels(states), Watch())
    assert [len(row) for row in again.states] == [0, *map(len, sounds.states[1:])]


@pytest.mark.long
def test_a_refined_model_has_mixtures_is_resumable_and_can_be_adapted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = make_letters(tmp_path / "letters", 30)
    call = options(tmp_path / "letters", tmp_path / "straight" / "m", keep=True)
    lines = Lines()
    straight = train(RECIPE, call, lines)
    assert "segments: by the network and mixtures together" in lines.lines
    model = load_model(str(straight.folder), device="cpu")
    assert isinstance(model, ConvNet)
    assert model.description.mixture_weight == RECIPE.refining.mixture_weight
    assert isinstance(model.scoring.mixtures, Mixtures)
    assert model.scoring.mixtures.weights.shape == (model.description.shape.states, 2)
    assert "with 2 Gaussians each" in (straight.folder / "README.md").read_text("utf-8")
    errors = []
    aligner = Aligner(str(straight.folder), device="cpu")
    for one in said[:8]:
        tokens = [token for word in aligner.align(one.path, one.text).words for token in word.tokens]
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
    assert (out / "model.safetensors").read_bytes() == (straight.folder / "model.safetensors").read_bytes()
    adapted = adapt(
        Adaptation(training=replace(Adaptation().training, epochs=1)),
        str(straight.folder),
        replace(call, out_dir=tmp_path / "adapted", keep=False),
    )
    own = load_model(str(adapted.folder), device="cpu")
    assert isinstance(own, ConvNet)
    assert own.scoring.mixtures is not None
    torch.testing.assert_close(own.scoring.mixtures.means, model.scoring.mixtures.means)
