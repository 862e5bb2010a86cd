"""Training of the network: it learns, it is seeded, and a stopped run goes on as if it had not
been."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from made_alignments import textgrid
from made_corpus import Lines, frames, make_corpus, make_letters, utterances_of
from sample_alignments import aligned, make_alignment
from small_training import CALM, StoppedError, stop_at_saves

from ctc_align.audio.loading import load_audio
from ctc_align.errors import InputError, TranscriptError
from ctc_align.models.convnet import features
from ctc_align.models.convnet.features import MELS
from ctc_align.models.convnet.inference import NetworkShape
from ctc_align.models.convnet.network import AcousticNetwork
from ctc_align.sources import open_source
from ctc_align.training import Watch, acoustic_training
from ctc_align.training import corpus_data as stores
from ctc_align.training.acoustic_training import HeldOutLosses, Training, evaluate, train
from ctc_align.training.corpus_data import (
    Corpus,
    FeatureStore,
    build_store,
    gather,
    make_inventory,
    read_pairs,
)
from ctc_align.training.labelled_speech import read_labelled
from ctc_align.training.pipeline import pairs_of
from ctc_align.training.run_folder import TrainOptions
from ctc_align.training.training_batches import Augmentation, Material, augment, collate, mask, plan

PHONES = 39
SHAPE = NetworkShape(MELS, PHONES + 1, PHONES * 3 + 1, stem=8, body=8, head=8, dilations=(1,))
QUICK = Training(epochs=2, batch_s=4.0, warmup_steps=2, dropout=0.3, bfloat16=False, seed=3)
BEST = replace(QUICK, keep_best=True, freeze_norms=True, layers="head")


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    folder = tmp_path_factory.mktemp("corpus")
    made = make_corpus(folder, utterances=12, dev=0)
    store = build_store(utterances_of(folder), folder / "features")
    labels = []
    for length, one in zip(store.lengths, made):
        row = np.full(int(length), PHONES * 3, np.int16)
        for phone, start, end in zip(one.phones, frames(one.starts), frames(one.ends)):
            row[start:end] = phone * 3 + np.arange(end - start) * 3 // max(1, end - start)
        labels.append(row)
    return Material(
        store, [np.array(one.phones) + 1 for one in made], labels, np.arange(8), np.arange(8, 12)
    )


def weights(network: AcousticNetwork) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


def run(
    shape: NetworkShape,
    training: Training,
    material: Material,
    folder: Path,
    lines: Lines | None = None,
    start=None,
) -> AcousticNetwork:
    return train(shape, training, material, folder, start, watch=lines or Lines()).network


def assert_same(one: AcousticNetwork, two: AcousticNetwork) -> None:
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name]), name


def test_the_same_seed_gives_the_same_network_and_a_finished_run_is_not_done_again(
    material, tmp_path
) -> None:
    one = run(SHAPE, QUICK, material, tmp_path / "a")
    assert_same(one, run(SHAPE, QUICK, material, tmp_path / "b"))
    other = run(SHAPE, replace(QUICK, seed=4), material, tmp_path / "c")
    assert not torch.equal(one.tokens.weight, other.tokens.weight)
    other = AcousticNetwork(SHAPE)
    torch.save({"network": other.state_dict(), "before": None, "faults": []}, tmp_path / "final.pt")
    lines = Lines()
    found = run(SHAPE, QUICK, material, tmp_path, lines)
    assert_same(other, found)
    assert not found.training
    assert lines.lines == []


@pytest.mark.parametrize(("training", "stop_after"), [(QUICK, 1), (QUICK, 4), (BEST, 3)])
def test_a_stopped_run_goes_on_as_if_it_had_not_been(
    material, tmp_path, monkeypatch, training, stop_after
) -> None:
    """Dropout and augmentation are on: both must go on where they stood."""
    straight = train(SHAPE, training, material, tmp_path / "straight")
    often, folder = replace(training, checkpoint_s=-1.0), tmp_path / "stopped"
    saved = stop_at_saves(monkeypatch, stop_after)
    with pytest.raises(StoppedError):
        train(SHAPE, often, material, folder)
    torch.rand(7)
    resumed = train(SHAPE, often, material, folder)
    assert_same(straight.network, resumed.network)
    assert (straight.before, straight.dev) == (resumed.before, resumed.dev)
    assert saved.index("final.pt") == len(saved) - 1
    assert not list((tmp_path / "stopped").glob("*.part"))


@pytest.mark.parametrize("name", ["final.pt", "checkpoint.pt"])
def test_the_state_of_another_network_is_an_error(
    material: Material, tmp_path: Path, name: str
) -> None:
    other = AcousticNetwork(replace(SHAPE, body=10)).state_dict()
    torch.save({"network": other, "optimizer": {}, "step": 1, "before": None}, tmp_path / name)
    with pytest.raises(InputError, match=rf"{name}: expected the state of this recipe's network"):
        run(SHAPE, QUICK, material, tmp_path)
    (tmp_path / name).write_bytes(b"cut")
    with pytest.raises(InputError, match="damaged"):
        run(SHAPE, QUICK, material, tmp_path)


def test_it_learns_what_is_said_and_where(material: Material, tmp_path: Path) -> None:
    lines = Lines()
    calm = replace(QUICK, epochs=25, dropout=0.0, learning_rate=1e-2, augmentation=CALM)
    before = evaluate(AcousticNetwork(SHAPE), material, np.arange(8))
    network = run(SHAPE, calm, material, tmp_path, lines)
    after = evaluate(network, material, np.arange(8))
    assert after.ctc < 0.5 * before.ctc
    assert after.frame < 0.6 * before.frame
    assert after.utterances == 8
    assert any("held out: ctc" in line and "frame" in line for line in lines.lines)
    assert lines.stages[-1] == "training"


def test_figures_are_means_over_tokens_and_frames(material: Material) -> None:
    """The same whatever comes together: of each utterance alone, weighted by what it has."""
    network = AcousticNetwork(SHAPE).eval()
    alone = [evaluate(network, material, np.array([i])) for i in range(4)]
    tokens = [len(material.targets[i]) for i in range(4)]
    frames = [len(material.labels[i]) for i in range(4)]
    together = evaluate(network, material, np.arange(4))
    assert together.ctc == pytest.approx(
        np.average([one.ctc for one in alone], weights=tokens), rel=1e-4
    )
    assert together.frame == pytest.approx(
        np.average([one.frame for one in alone], weights=frames), rel=1e-4
    )


def test_the_best_weights_are_kept_and_those_given_are_among_them(
    material: Material, tmp_path: Path
) -> None:
    start = weights(AcousticNetwork(SHAPE))
    ruin = replace(QUICK, keep_best=True, learning_rate=3.0, epochs=2, warmup_steps=0)
    trained = train(SHAPE, ruin, material, tmp_path / "ruined", start)
    assert trained.before == trained.dev
    assert torch.equal(trained.network.tokens.weight, start["tokens.weight"])
    # … and without it the weights are what became of them.
    worse = train(SHAPE, replace(ruin, keep_best=False), material, tmp_path / "kept", start)
    assert worse.dev.ctc > trained.dev.ctc
    good = replace(QUICK, keep_best=True, learning_rate=1e-2, epochs=4)
    better = train(SHAPE, good, material, tmp_path / "good", start)
    assert better.before == trained.before
    assert better.dev.ctc < trained.dev.ctc


def test_weights_to_start_from_and_the_head_alone(material: Material, tmp_path: Path) -> None:
    start = weights(AcousticNetwork(SHAPE))
    head = replace(QUICK, layers="head", freeze_norms=True, learning_rate=1e-2)
    network = run(SHAPE, head, material, tmp_path, start=start)
    changed = {
        name.split(".")[0]
        for name, value in weights(network).items()
        if not torch.equal(value, start[name])
    }
    assert changed == set(acoustic_training.HEADS)
    start = weights(AcousticNetwork(replace(SHAPE, states=5)))
    still = replace(QUICK, learning_rate=0.0, weight_decay=0.0)
    network = run(SHAPE, still, material, tmp_path / "still", start=start)
    assert torch.equal(network.tokens.weight, start["tokens.weight"])
    assert network.states.weight.shape[0] == SHAPE.states


def test_nothing_to_train_on_and_no_labels_do_no_harm(material: Material, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected utterances to train on"):
        run(SHAPE, QUICK, replace(material, train=np.empty(0, int)), tmp_path)
    assert evaluate(AcousticNetwork(SHAPE), material, np.empty(0, int)) == HeldOutLosses(
        0.0, 0.0, 0
    )
    assert str(HeldOutLosses(0.0, 0.0, 0)) == "no utterances"
    # No labels at all in a batch, and a target that does not fit: losses and weights stay numbers.
    empty = [np.empty(0, np.int16)] * len(material.store)
    targets = [np.ones(5000, np.int64), *material.targets[1:]]
    alone = replace(QUICK, batch_s=0.1, epochs=1)
    lines = Lines()
    network = run(SHAPE, alone, replace(material, labels=empty, targets=targets), tmp_path, lines)
    assert all(torch.isfinite(value).all() for value in network.state_dict().values())
    assert "nan" not in lines.lines[-1]


def test_the_rate_warms_up_and_time_ends_a_run_with_almost_none(
    material: Material, tmp_path: Path
) -> None:
    training = Training(learning_rate=1.0, warmup_steps=10)
    rates = [acoustic_training.rate(training, step, 100) for step in range(100)]
    assert rates[0] == pytest.approx(0.1, rel=0.01)
    assert max(rates) == rates[9]
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert rates[-1] == pytest.approx(0.01, abs=0.002)
    assert math.isfinite(acoustic_training.rate(replace(training, warmup_steps=0), 0, 100))
    lines = Lines()
    long = replace(QUICK, epochs=100_000 // 8, minutes=0.02)
    network = run(SHAPE, long, material, tmp_path, lines)
    assert all(torch.isfinite(value).all() for value in network.state_dict().values())
    assert acoustic_training.rate(long, 3, 10**6, time_share=1.0) == pytest.approx(
        0.01 * long.learning_rate
    )


# Batches and augmentation: seeded, bounded, padded with silence.

CONTEXT = 6


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    folder = tmp_path_factory.mktemp("corpus")
    make_corpus(folder, utterances=4, dev=0)
    return build_store(utterances_of(folder), folder / "features")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some_frames(length: int = 50) -> torch.Tensor:
    return torch.randn(length, MELS, generator=generator(9)) * 2.0 - 8.0


def test_batches_hold_every_utterance_once_and_hang_on_seed_and_epoch() -> None:
    lengths = np.random.default_rng(0).integers(50, 900, 200)
    batches = plan(lengths, 3000, seed=1, epoch=0)
    assert sorted(i for batch in batches for i in batch) == list(range(200))
    assert all(len(batch) * lengths[batch].max() <= 3000 for batch in batches)
    padded = sum(len(batch) * lengths[batch].max() for batch in batches)
    assert padded < 1.25 * lengths.sum()
    lengths = np.random.default_rng(0).integers(50, 900, 100)
    assert plan(lengths, 3000, 1, 0) == plan(lengths, 3000, 1, 0)
    assert plan(lengths, 3000, 1, 0) != plan(lengths, 3000, 1, 1)
    assert plan(lengths, 3000, 1, 0) != plan(lengths, 3000, 2, 0)
    assert plan(np.array([5000]), 3000, 0, 0) == [[0]]
    assert plan(np.array([], int), 3000, 0, 0) == []


def test_a_batch_is_padded_with_each_recordings_own_silence(store: FeatureStore) -> None:
    targets = [np.arange(1, 2 + i) for i in range(4)]
    labels = [np.full(int(n), i) for i, n in enumerate(store.lengths)]
    batch = collate(Material(store, targets, labels, np.arange(4)), [2, 0, 3], CONTEXT)
    longest = int(store.lengths[[2, 0, 3]].max())
    longest += longest % 2
    assert batch.inputs.shape == (3, longest + 2 * CONTEXT, MELS)
    assert batch.labels.shape == (3, longest)
    assert batch.targets.tolist() == [[1, 2, 3, 0], [1, 0, 0, 0], [1, 2, 3, 4]]
    assert batch.target_lengths.tolist() == [3, 1, 4]
    for row, i in enumerate((2, 0, 3)):
        length = int(store.lengths[i])
        statistics = features.statistics_of(store[i])
        inside = batch.inputs[row, CONTEXT : CONTEXT + length]
        np.testing.assert_allclose(inside, features.normalise(store[i], statistics))
        outside = torch.cat((batch.inputs[row, :CONTEXT], batch.inputs[row, CONTEXT + length :]))
        np.testing.assert_allclose(
            outside, np.tile(features.silence(statistics), (len(outside), 1))
        )
        assert batch.lengths[row] == length
        assert batch.labels[row].tolist() == [i] * length + [-1] * (longest - length)


def test_the_augmentation_of_an_utterance_hangs_on_seed_and_epoch_alone(
    store: FeatureStore,
) -> None:
    material = Material(store, [np.array([1])] * 4, None, np.arange(4))
    make = partial(collate, material, context=CONTEXT, augmentation=Augmentation())
    length = int(store.lengths[1])
    alone = make([1], seed=(1, 0)).inputs[0, : length + CONTEXT]
    together = make([3, 1], seed=(1, 0)).inputs[1, : length + CONTEXT]
    torch.testing.assert_close(alone, together, atol=0, rtol=0)
    assert not torch.equal(alone, make([1], seed=(1, 1)).inputs[0, : length + CONTEXT])
    assert not torch.equal(alone, make([1], seed=(2, 0)).inputs[0, : length + CONTEXT])


def test_each_augmentation_alone() -> None:
    torch.testing.assert_close(augment(some_frames(), CALM, generator()), some_frames())
    torch.testing.assert_close(mask(some_frames(), CALM, generator()), some_frames())
    changed = augment(
        some_frames(), replace(CALM, noise=1.0, noise_snr_db=(10.0, 10.0)), generator()
    )
    assert (changed >= some_frames() - 1e-5).all()
    assert (changed - some_frames()).mean() > 0.1
    changed = augment(some_frames(), replace(CALM, band_limit=1.0), generator(2))
    gone = (changed == -40.0).all(0)
    cut = int(gone.int().argmax())
    assert 0.6 * MELS - 1 <= cut < MELS
    assert gone[cut:].all()
    torch.testing.assert_close(changed[:, :cut], some_frames()[:, :cut])
    peak = torch.full((5, MELS), -10.0)
    peak[:, 40] = 0.0
    places = {
        int(augment(peak, replace(CALM, warp=0.2), generator(seed))[0].argmax())
        for seed in range(8)
    }
    assert len(places) > 3
    assert min(places) >= 33
    assert max(places) <= 50
    hidden = (mask(some_frames(), replace(CALM, mask_channels=10), generator(4)) == 0.0).all(0)
    width = int(hidden.sum())
    assert 1 <= width <= 10
    first = int(hidden.int().argmax())
    assert hidden[first : first + width].all()


def test_a_room_adds_what_is_left_of_earlier_frames() -> None:
    """A click: nothing before it, its own frame as it was, a tail after it that falls as far as a
    room's does."""
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
    assert (
        0.0
        <= -np.log(float(heard[41:, 0].exp().sum() - 59 * np.exp(-20.0)))
        <= 1.2 * np.log(10) + 0.01
    )
    torch.testing.assert_close(augment(quiet, replace(CALM, room=0.0), generator(4)), quiet)


# The pairs of a corpus, as they are learnt from.

# The frames of a corpus on disk.


def test_frames_come_back_in_half_precision(tmp_path: Path) -> None:
    make_corpus(tmp_path, utterances=3, dev=0)
    utterances = utterances_of(tmp_path)
    seen: list[int] = []
    store = build_store(utterances, tmp_path / "features", seen.append)
    assert seen == [1, 2, 3]
    assert len(store) == 3
    assert store.faults == {}
    for i, utterance in enumerate(utterances):
        samples = load_audio(utterance.audio).samples
        frames = features.log_mel(samples, 0, features.frame_count(len(samples)))
        assert store.lengths[i] == len(frames)
        np.testing.assert_allclose(store[i], frames, atol=0.01, rtol=1e-3)
    assert store.starts.tolist() == [0, *np.cumsum(store.lengths).tolist()]


def test_a_part_of_a_recording(tmp_path: Path) -> None:
    (made,) = make_corpus(tmp_path, utterances=1, dev=0)
    part = replace(utterances_of(tmp_path)[0], offset_s=0.2, duration_s=0.3)
    store = build_store([part], tmp_path / "features")
    samples = load_audio(made.path, offset_s=0.2, duration_s=0.3).samples
    assert store.lengths.tolist() == [30]
    np.testing.assert_allclose(store[0], features.log_mel(samples, 0, 30), atol=0.01, rtol=1e-3)


def test_what_cannot_be_read_has_no_frames_and_a_reason(tmp_path: Path) -> None:
    make_corpus(tmp_path, utterances=4, dev=0)
    (tmp_path / "u000.wav").write_bytes(b"no sound")
    (tmp_path / "u002.wav").unlink()
    soundfile.write(tmp_path / "u003.wav", np.zeros(48000), 16000)
    every = [replace(one, duration_s=None) for one in utterances_of(tmp_path)]
    store = build_store(every, tmp_path / "features")
    assert list(store.faults) == [0, 2, 3]
    assert "u000.wav" in store.faults[0]
    assert "silence" in store.faults[3]
    assert (store.lengths > 0).tolist() == [False, True, False, False]
    assert store[0].shape == (0, features.MELS)
    assert store[1].shape[0] == store.lengths[1]


def test_what_is_there_is_used_and_what_was_broken_off_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_corpus(tmp_path, utterances=3, dev=0)
    utterances = utterances_of(tmp_path)
    real, done = stores._frames_of, []

    def stopping(utterance):
        done.append(utterance)
        if len(done) == 2:
            raise KeyboardInterrupt
        return real(utterance)

    monkeypatch.setattr(stores, "_frames_of", stopping)
    with pytest.raises(KeyboardInterrupt):
        build_store(utterances, tmp_path / "features")
    first = build_store(utterances, tmp_path / "features")
    count = len(done)
    second = build_store(utterances, tmp_path / "features")
    assert len(done) == count
    assert all(np.array_equal(first[i], second[i]) for i in range(3))


def test_the_samples_that_a_transcript_begins_with_are_not_learnt(tmp_path: Path) -> None:
    """Where they fit the recording (TIMIT's texts); a recording that is not there is told later."""
    soundfile.write(tmp_path / "a.wav", np.zeros(16000), 16000)
    texts = {"a.wav": "0 16000 She had it.", "none.wav": "0 16000 She had it."}
    rows = [{"audio": name, "text": text} for name, text in texts.items()]
    for name, text in {"b": "0 70000 she had it.", "c": f"0 {'9' * 5000} she had it."}.items():
        rows.append({"audio": "a.wav", "text": text, "utterance": name})
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    pairs = read_pairs([(open_source(str(manifest)), False)], "en")
    said = [" ".join(word.spoken for word in words.words if word.spoken) for words in pairs.words]
    assert [text.split()[0] for text in said] == ["she", "zero", "zero", "zero"]


def gathered(folder: Path, seed: int = 1, held_out: Path | None = None) -> Corpus:
    """The corpus of letters in a folder, with what is held out of it, or another one that is held
    out."""
    sources = [
        (open_source(str(each / "manifest.jsonl")), each == held_out)
        for each in (folder, held_out)
        if each
    ]
    pairs = read_pairs(sources, "")
    inventory = make_inventory("letters", pairs.words, None, 3)
    features = folder / f"features-{seed}-{held_out is not None}"
    return gather(pairs, inventory, features, Watch(), dev_share=0.1, seed=seed)


def test_speakers_are_held_out_whole(tmp_path: Path) -> None:
    make_letters(tmp_path, 24, speakers=("a", "b", "c", "d", "e", "f"))
    dev = gathered(tmp_path).dev
    assert {i % 6 for i in dev.tolist()} == {int(dev[0]) % 6}
    assert len(dev) == 4
    assert len(gathered(tmp_path, seed=5).dev) == 4
    make_letters(tmp_path / "held", 3, seed=9)
    assert gathered(tmp_path, held_out=tmp_path / "held").dev.tolist() == [24, 25, 26]


def test_audio_that_holds_more_than_its_transcript_is_left_out(tmp_path: Path) -> None:
    make_letters(tmp_path, 12)
    samples = np.tile(soundfile.read(tmp_path / "u000.wav")[0], 20)
    soundfile.write(tmp_path / "u000.wav", samples, 16000)
    assert [one.kind for one in gathered(tmp_path).left_out] == [
        "a transcript too short for its audio"
    ]


# Hand labels in folders.


def test_of_the_downloads_of_a_page_the_last_is_a_label(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    soundfile.write(tmp_path / "talk.wav", np.zeros(16000), 16000)
    word = replace(aligned("Hello", 0.1, 0.4), by="hand")
    for number, name in enumerate(("talk.json", "talk.corrected.json", "talk.corrected (1).json")):
        moved = replace(word, end_s=0.4 + number / 10)
        make_alignment((moved,), audio="").save(tmp_path / name)
        os.utime(tmp_path / name, (number, number))
    make_alignment((word,), audio="", duration_s=9.0).save(tmp_path / "talk.hand.json")
    os.utime(tmp_path / "talk.hand.json", (0, 0))
    (labelled,) = read_labelled(tmp_path)
    assert (
        "talk.hand.json is ignored: it belongs to a different text or recording from"
        " talk.corrected (1)" in caplog.text
    )
    assert (labelled.name, labelled.audio, labelled.words[0].end_s) == (
        "talk",
        tmp_path / "talk.wav",
        0.6,
    )


def test_texts_and_labels_in_an_encoding_that_is_named(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(16000), 16000)
    (tmp_path / "a.txt").write_bytes("Iş günü".encode("cp1254"))
    options = TrainOptions(str(tmp_path), tmp_path / "model", encoding="cp1254")
    (utterance,) = pairs_of(options, "tr", Watch()).utterances
    assert utterance.text == "Iş günü"
    textgrid(tmp_path / "a.TextGrid", ("words", [("Iş", 0.1, 0.5)]))
    text = (tmp_path / "a.TextGrid").read_text(encoding="utf-8")
    (tmp_path / "a.TextGrid").write_bytes(text.encode("cp1254"))
    (labelled,) = read_labelled(tmp_path, encoding="cp1254")
    assert (labelled.text, [word.label for word in labelled.words]) == ("Iş günü", ["Iş"])
    with pytest.raises(TranscriptError, match="give --encoding"):
        list(read_labelled(tmp_path, encoding=""))
