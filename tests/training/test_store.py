"""The frames of a corpus on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from made_corpus import make_corpus, utterances_of

from ctc_align.audio.loading import load_audio, load_segment
from ctc_align.models.convnet import features
from ctc_align.training import corpus_data as stores
from ctc_align.training.corpus_data import build_store


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
        torch.testing.assert_close(store[i], frames, atol=0.01, rtol=1e-3)
    assert store.starts.tolist() == [0, *np.cumsum(store.lengths).tolist()]


def test_a_part_of_a_recording(tmp_path: Path) -> None:
    (made,) = make_corpus(tmp_path, utterances=1, dev=0)
    part = replace(utterances_of(tmp_path)[0], offset_s=0.2, duration_s=0.3)
    store = build_store([part], tmp_path / "features")
    samples = load_segment(made.path, offset_s=0.2, duration_s=0.3).samples
    assert store.lengths.tolist() == [30]
    torch.testing.assert_close(store[0], features.log_mel(samples, 0, 30), atol=0.01, rtol=1e-3)


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


def test_nothing_that_can_be_read(tmp_path: Path) -> None:
    make_corpus(tmp_path, utterances=1, dev=0)
    (tmp_path / "u000.wav").unlink()
    store = build_store(utterances_of(tmp_path), tmp_path / "features")
    assert store[0].shape == (0, features.MELS)


def test_what_is_there_is_used_and_what_was_broken_off_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert all(torch.equal(first[i], second[i]) for i in range(3))
