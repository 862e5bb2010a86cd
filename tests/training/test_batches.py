"""Batches and augmentation: seeded, bounded, padded with silence."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from made_corpus import make_corpus, utterances_of
from small_training import CALM

from ctc_align.models.convnet import features
from ctc_align.models.convnet.features import MELS
from ctc_align.training.corpus_data import FeatureStore, build_store
from ctc_align.training.training_batches import Augmentation, Material, augment, collate, mask, plan, prefetched

CONTEXT = 6


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    folder = tmp_path_factory.mktemp("corpus")
    make_corpus(folder, utterances=4, dev=0)
    return build_store(utterances_of(folder), folder / "features")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def frames(length: int = 50) -> torch.Tensor:
    return torch.randn(length, MELS, generator=generator(9)) * 2.0 - 8.0


def test_every_utterance_is_in_one_batch_and_none_is_too_large() -> None:
    lengths = np.random.default_rng(0).integers(50, 900, 200)
    batches = plan(lengths, 3000, seed=1, epoch=0)
    assert sorted(i for batch in batches for i in batch) == list(range(200))
    assert all(len(batch) * lengths[batch].max() <= 3000 for batch in batches)
    padded = sum(len(batch) * lengths[batch].max() for batch in batches)
    assert padded < 1.25 * lengths.sum()


def test_the_same_seed_and_epoch_give_the_same_batches() -> None:
    lengths = np.random.default_rng(0).integers(50, 900, 100)
    assert plan(lengths, 3000, 1, 0) == plan(lengths, 3000, 1, 0)
    assert plan(lengths, 3000, 1, 0) != plan(lengths, 3000, 1, 1)
    assert plan(lengths, 3000, 1, 0) != plan(lengths, 3000, 2, 0)


def test_one_that_is_too_long_is_a_batch_alone_and_none_are_no_batch() -> None:
    assert plan(np.array([5000]), 3000, 0, 0) == [[0]]
    assert plan(np.array([], int), 3000, 0, 0) == []


def test_a_batch_is_padded_with_each_recordings_own_silence(store: FeatureStore) -> None:
    targets = [np.arange(1, 2 + i) for i in range(4)]
    labels = [np.full(int(n), i) for i, n in enumerate(store.lengths)]
    batch = collate(Material(store, targets, labels, np.arange(4)), [2, 0, 3], CONTEXT)
    longest = int(store.lengths[[2, 0, 3]].max())
    longest += longest % 2
    assert batch.inputs.shape == (3, longest + 2 * CONTEXT, MELS)
    assert batch.labels is not None
    assert batch.labels.shape == (3, longest)
    assert batch.targets.tolist() == [[1, 2, 3, 0], [1, 0, 0, 0], [1, 2, 3, 4]]
    assert batch.target_lengths.tolist() == [3, 1, 4]
    for row, i in enumerate((2, 0, 3)):
        length = int(store.lengths[i])
        statistics = features.statistics_of(store[i])
        inside = batch.inputs[row, CONTEXT : CONTEXT + length]
        torch.testing.assert_close(inside, features.normalise(store[i], statistics))
        outside = torch.cat((batch.inputs[row, :CONTEXT], batch.inputs[row, CONTEXT + length :]))
        torch.testing.assert_close(outside, features.silence(statistics).expand_as(outside))
        assert batch.lengths[row] == length
        assert batch.labels[row].tolist() == [i] * length + [-1] * (longest - length)


def test_the_augmentation_of_an_utterance_hangs_on_seed_and_epoch_alone(store: FeatureStore) -> None:
    material = Material(store, [np.array([1])] * 4, None, np.arange(4))
    make = partial(collate, material, context=CONTEXT, augmentation=Augmentation())
    length = int(store.lengths[1])
    alone = make([1], seed=(1, 0)).inputs[0, : length + CONTEXT]
    together = make([3, 1], seed=(1, 0)).inputs[1, : length + CONTEXT]
    torch.testing.assert_close(alone, together, atol=0, rtol=0)
    assert not torch.equal(alone, make([1], seed=(1, 1)).inputs[0, : length + CONTEXT])
    assert not torch.equal(alone, make([1], seed=(2, 0)).inputs[0, : length + CONTEXT])


def test_no_augmentation_changes_nothing() -> None:
    torch.testing.assert_close(augment(frames(), CALM, generator()), frames())
    torch.testing.assert_close(mask(frames(), CALM, generator()), frames())


@pytest.mark.parametrize("seed", range(5))
def test_augmented_frames_are_finite_and_the_given_ones_untouched(seed: int) -> None:
    strong = Augmentation(noise=1.0, warp=0.3, band_limit=1.0)
    given = frames()
    changed = augment(given, strong, generator(seed))
    assert changed.shape == given.shape
    assert torch.isfinite(changed).all()
    torch.testing.assert_close(given, frames())
    torch.testing.assert_close(changed, augment(given, strong, generator(seed)), atol=0, rtol=0)
    assert (changed - given).abs().max() > 0.1


def test_noise_only_adds_power() -> None:
    changed = augment(frames(), replace(CALM, noise=1.0, noise_snr_db=(10.0, 10.0)), generator())
    assert (changed >= frames() - 1e-5).all()
    assert (changed - frames()).mean() > 0.1


def test_a_band_limit_takes_the_upper_channels() -> None:
    changed = augment(frames(), replace(CALM, band_limit=1.0), generator(2))
    gone = (changed == -40.0).all(0)
    cut = int(gone.int().argmax())
    assert 0.6 * MELS - 1 <= cut < MELS
    assert gone[cut:].all()
    torch.testing.assert_close(changed[:, :cut], frames()[:, :cut])


def test_a_warp_moves_a_peak_along_the_mel_axis() -> None:
    peak = torch.full((5, MELS), -10.0)
    peak[:, 40] = 0.0
    places = {int(augment(peak, replace(CALM, warp=0.2), generator(seed))[0].argmax()) for seed in range(8)}
    assert len(places) > 3
    assert min(places) >= 33
    assert max(places) <= 50


def test_a_mask_hides_one_band() -> None:
    hidden = (mask(frames(), replace(CALM, mask_channels=10), generator(4)) == 0.0).all(0)
    width = int(hidden.sum())
    assert 1 <= width <= 10
    first = int(hidden.int().argmax())
    assert hidden[first : first + width].all()


def test_prefetching_keeps_the_order_and_passes_errors_on() -> None:
    assert list(prefetched(iter([partial(int, i) for i in range(5)]))) == [0, 1, 2, 3, 4]  # type: ignore[comparison-overlap]
    assert list(prefetched(iter(()))) == []
    made = prefetched(iter([partial(int, 1), partial(int, "x")]))
    assert next(made) == 1  # type: ignore[comparison-overlap]
    with pytest.raises(ValueError, match="invalid literal"):
        next(made)


def test_a_room_adds_what_is_left_of_earlier_frames() -> None:
    """A click: nothing before it, its own frame as it was, a tail after it that falls as far as a room's does."""
    quiet = torch.full((100, MELS), -20.0)
    quiet[40] = 0.0
    heard = augment(quiet, replace(CALM, room=1.0), generator(4))
    torch.testing.assert_close(heard[40], quiet[40], atol=1e-4, rtol=0)
    torch.testing.assert_close(heard[:40], quiet[:40], atol=1.0, rtol=0)
    tail = heard[41:50, 0]
    assert (tail[:-1] > tail[1:]).all()
    assert (tail > -10.0).all()
    falls = (tail[:-1] - tail[1:]).numpy()
    np.testing.assert_allclose(falls, falls[0], rtol=1e-3)
    # 60 dB are 6 ln 10 nats.
    assert 0.2 <= 0.01 * 6 * np.log(10) / falls[0] <= 0.8
    # Its power is that of the click, or up to 12 dB less.
    assert 0.0 <= -np.log(float(heard[41:, 0].exp().sum() - 59 * np.exp(-20.0))) <= 1.2 * np.log(10) + 0.01
    torch.testing.assert_close(augment(quiet, replace(CALM, room=0.0), generator(4)), quiet)
