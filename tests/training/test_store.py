"""Manifests, and the frames of a corpus on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from made_corpus import make_corpus

from ctc_align.audio import load_audio
from ctc_align.errors import AudioError, InputError, UsageError
from ctc_align.models import features
from ctc_align.training.store import build, read_manifest


def test_splits_are_picked_in_the_manifests_order(tmp_path: Path) -> None:
    made = make_corpus(tmp_path, utterances=5, dev=2)
    both = read_manifest(tmp_path / "manifest.jsonl", ("train", "dev"))
    assert [one.audio for one in both] == [str(one.path) for one in made]
    assert [one.split for one in both] == ["train"] * 3 + ["dev"] * 2
    assert len(read_manifest(tmp_path / "manifest.jsonl", ("dev",))) == 2
    assert both[0].text == made[0].text


def test_what_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('\ufeff{"audio": "a.wav", "text": "hé", "duration_s": 2}\n\n', "utf-8")
    (only,) = read_manifest(path, ("train",))
    assert (only.audio, only.text, only.split, only.duration_s) == (str(tmp_path / "a.wav"), "hé", "train", 2.0)


@pytest.mark.parametrize(
    ("line", "met"),
    [
        ("{", "Expecting"),
        ("[1]", "met a list"),
        ('{"audio": "a.wav", "text": "b"}', "met one without duration_s"),
        ("{}", "met one without audio, text, duration_s"),
        ('{"audio": "a.wav", "text": 7, "duration_s": 1}', "met text 7"),
        ('{"audio": null, "text": "b", "duration_s": 1}', "met audio None"),
        ('{"audio": "a.wav", "text": "b", "duration_s": "long"}', "could not convert"),
        ('{"audio": "a.wav", "text": "b", "duration_s": null}', "not 'NoneType'"),
        ('{"audio": "a.wav", "text": "b", "duration_s": NaN}', "met duration_s nan"),
        ('{"audio": "a.wav", "text": "b", "duration_s": -1}', "met duration_s -1"),
        ("\udcff", "utf-8"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, met: str) -> None:
    path = tmp_path / "m.jsonl"
    good = '{"audio": "a.wav", "text": "b", "duration_s": 1}'
    path.write_bytes(f"{good}\n\n{line}\n{good}".encode("utf-8", "surrogateescape"))
    with pytest.raises(
        InputError, match=r"m\.jsonl:3: expected a JSON object with audio, text, duration_s; met"
    ) as caught:
        read_manifest(path, ("train",))
    assert met in str(caught.value)


def test_no_manifest(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.jsonl", tmp_path):
        with pytest.raises(UsageError, match="the manifest cannot be read"):
            read_manifest(path, ("train",))


def test_frames_come_back_in_half_precision(tmp_path: Path) -> None:
    make_corpus(tmp_path, utterances=3, dev=1)
    utterances = read_manifest(tmp_path / "manifest.jsonl", ("train", "dev"))
    seen: list[int] = []
    store = build(utterances, tmp_path / "features", seen.append)
    assert seen == [1, 2, 3]
    assert len(store) == 3
    for i, utterance in enumerate(utterances):
        samples = load_audio(utterance.audio).samples
        frames = features.log_mel(samples, 0, features.frame_count(len(samples)))
        assert store.lengths[i] == len(frames)
        torch.testing.assert_close(store[i], frames, atol=0.01, rtol=1e-3)


def test_what_is_there_for_the_same_list_is_used(tmp_path: Path) -> None:
    make_corpus(tmp_path, utterances=3, dev=1)
    utterances = read_manifest(tmp_path / "manifest.jsonl", ("train", "dev"))
    build(utterances, tmp_path / "features")
    for utterance in utterances:
        Path(utterance.audio).unlink()
    assert len(build(utterances, tmp_path / "features")) == 3
    with pytest.raises(AudioError, match=r"u000\.wav"):
        build(utterances[:2], tmp_path / "features")
    # A build that failed leaves no index that would make its half look whole.
    with pytest.raises(AudioError, match=r"u000\.wav"):
        build(utterances, tmp_path / "features")


def test_starts_are_cumulative(tmp_path: Path) -> None:
    make_corpus(tmp_path, utterances=3, dev=0)
    store = build(read_manifest(tmp_path / "manifest.jsonl", ("train",)), tmp_path / "features")
    assert store.starts.tolist() == [0, *np.cumsum(store.lengths).tolist()]
