"""The pairs of a corpus, as they are learnt from."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from made_corpus import make_corpus, make_letters, utterances_of
from sample_alignments import aligned, make_alignment

from ctc_align.audio.loading import load_audio, load_segment
from ctc_align.corpus.sources import open_source
from ctc_align.models.convnet import features
from ctc_align.training import Watch
from ctc_align.training import corpus_data as stores
from ctc_align.training.corpus_data import Corpus, Limits, build_store, gather, make_inventory, read_pairs
from ctc_align.training.labelled_speech import read_labelled

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
    """The corpus of letters in a folder, with what is held out of it, or another one that is held out."""
    sources = [(open_source(str(each / "manifest.jsonl")), each == held_out) for each in (folder, held_out) if each]
    pairs = read_pairs(sources, "")
    inventory = make_inventory("letters", pairs.words, None, 3)
    limits = Limits(dev_share=0.1, seed=seed)
    return gather(pairs, inventory, limits, folder / f"features-{seed}-{held_out is not None}", Watch())


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
    assert [one.kind for one in gathered(tmp_path).left_out] == ["a transcript too short for its audio"]


# Hand labels in folders.


def test_of_the_downloads_of_a_page_the_last_is_a_label(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    soundfile.write(tmp_path / "talk.wav", np.zeros(16000), 16000)
    word = replace(aligned("Hello", 0.1, 0.4), by="hand")
    for number, name in enumerate(("talk.json", "talk.corrected.json", "talk.corrected (1).json")):
        moved = replace(word, end_s=0.4 + number / 10)
        make_alignment((moved,), audio="").save(tmp_path / name)
        os.utime(tmp_path / name, (number, number))
    make_alignment((word,), audio="", duration_s=9.0).save(tmp_path / "talk.hand.json")
    os.utime(tmp_path / "talk.hand.json", (0, 0))
    (labelled,) = read_labelled(tmp_path)
    assert "talk.hand.json is ignored: it belongs to another text or recording than talk.corrected (1)" in caplog.text
    assert (labelled.name, labelled.audio, labelled.words[0].end_s) == ("talk", tmp_path / "talk.wav", 0.6)
