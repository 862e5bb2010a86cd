from __future__ import annotations

import dataclasses
import gc
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from layout_runs import contents, made_alignment, made_utterances, run, settings_of

from ctc_align.corpus.outputs.layout import layout_for
from ctc_align.corpus.outputs.manifests import manifest_path, write_manifests
from ctc_align.corpus.utterance import Utterance
from ctc_align.errors import OutputError
from ctc_align.files import Alignment, OutputFiles

RATE = 8000


def nemo_lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "manifest.nemo.jsonl").read_text("utf-8").splitlines()]


def lhotse_lines(folder: Path) -> list[dict]:
    return [
        json.loads(line) for line in gzip.decompress((folder / "manifest.lhotse.jsonl.gz").read_bytes()).splitlines()
    ]


def aligned_run(folder: Path, audio: Path, layout: str = "files") -> list[Utterance]:
    utterances = made_utterances(audio)
    utterances[2] = dataclasses.replace(utterances[2], channel=2, language="cy")
    run(settings_of(folder, layout), utterances, failing=["r1/u5"])
    return [utterance for utterance in utterances if utterance.id != "r1/u5"]


@pytest.mark.parametrize("layout", ["files", "shards"])
def test_nemo(audio, tmp_path, layout):
    utterances = aligned_run(tmp_path, audio, layout)
    lines = nemo_lines(tmp_path)
    assert [line["utterance"] for line in lines] == [utterance.id for utterance in utterances], "in the source's order"
    for line, utterance in zip(lines, utterances):
        assert line["audio_filepath"] == str(audio)
        assert (line["offset"], line["duration"], line["text"]) == (utterance.offset_s, 0.5, utterance.text)
        assert (line["speaker"], line.get("lang", "")) == (utterance.speaker, utterance.language)
        words = made_alignment(utterance).words
        assert [word["word"] for word in line["words"]] == [word.text for word in words]
        for item, word in zip(line["words"], words):
            assert item["start"] == pytest.approx(word.start_s)
            assert item["start"] + item["duration"] == pytest.approx(word.end_s)
            assert item["confidence"] == 0.75
        if layout == "files":
            ctm = (tmp_path / line["words_level_ctm_filepath"]).read_text()
            assert len(ctm.splitlines()) == 1 + len(words)
            assert (tmp_path / line["tokens_level_ctm_filepath"]).is_file()
        else:
            assert "words_level_ctm_filepath" not in line


@pytest.mark.parametrize("layout", ["files", "shards"])
def test_lhotse(audio, tmp_path, layout):
    utterances = aligned_run(tmp_path, audio, layout)
    cuts = lhotse_lines(tmp_path)
    assert [cut["id"] for cut in cuts] == [utterance.id for utterance in utterances]
    assert [cut["supervisions"][0].get("language", "") for cut in cuts] == [one.language for one in utterances]
    for cut, utterance in zip(cuts, utterances):
        assert (cut["start"], cut["duration"]) == (utterance.offset_s, 0.5)
        assert cut["channel"] == (1 if utterance.channel == 2 else [0, 1])
        (supervision,) = cut["supervisions"]
        assert (supervision["start"], supervision["duration"]) == (0.0, 0.5), "from the start of the cut"
        start_s = utterance.offset_s + 0.01  # the items, though, from the start of the recording
        assert supervision["alignment"]["word"][0] == ["One,", start_s, 0.08, 0.75]
        phones = supervision["alignment"]["phone"][:2]
        assert phones == [["a", start_s, 0.04, 0.5], ["b", round(start_s + 0.04, 5), 0.04, 0.5]]
        assert cut["recording"]["num_samples"] == 2.25 * RATE


def test_the_lhotse_package_reads_it(audio, tmp_path):
    lhotse = pytest.importorskip("lhotse", reason="the extra [lhotse] is not installed")
    utterances = aligned_run(tmp_path, audio)
    cuts = list(lhotse.CutSet.from_file(tmp_path / "manifest.lhotse.jsonl.gz"))
    assert [cut.id for cut in cuts] == [utterance.id for utterance in utterances]
    samples, _ = soundfile.read(audio, dtype="float32", always_2d=True)
    for cut, utterance in zip(cuts, utterances):
        assert type(cut).__name__ == ("MonoCut" if utterance.channel else "MultiCut")
        first = int(utterance.offset_s * RATE)
        wanted = samples[first : first + RATE // 2].T
        np.testing.assert_array_equal(cut.load_audio(), wanted[1:] if utterance.channel else wanted)
        (supervision,) = cut.supervisions
        words = made_alignment(utterance).words
        assert [(item.symbol, item.score) for item in supervision.alignment["word"]] == [(w.text, 0.75) for w in words]
        parts = list(cut.trim_to_alignments("word"))
        assert [(part.supervisions[0].text, part.start) for part in parts] == [
            (word.text, pytest.approx(utterance.offset_s + word.start_s)) for word in words
        ]
        first = round((utterance.offset_s + words[-1].start_s) * RATE)
        said = samples[first : first + parts[-1].num_samples].T
        np.testing.assert_array_equal(parts[-1].load_audio(), said[1:] if utterance.channel else said)
        lhotse.qa.validate(cut)


def test_lines_of_a_shard_that_are_not_asked_for_are_passed_over(audio, tmp_path):
    utterances = aligned_run(tmp_path, audio, "shards")
    layout = layout_for(settings_of(tmp_path, "shards"))
    asked = [(i, utterance) for i, utterance in enumerate(made_utterances(audio)) if i in (0, 2, 3, 9)]
    write_manifests(layout, iter(asked))
    assert [line["utterance"] for line in nemo_lines(tmp_path)] == ["r0/u0", "r0/u2", "r0/u3", "r2/u9"]
    assert [line["text"] for line in nemo_lines(tmp_path)] == [utterance.text for _, utterance in asked]
    assert len(utterances) == 10


def test_times_of_the_recording_change_nothing(audio, tmp_path):
    run(settings_of(tmp_path / "a", "files"), made_utterances(audio, 3))
    run(settings_of(tmp_path / "b", "files", times="recording"), made_utterances(audio, 3))
    for name in ("manifest.nemo.jsonl", "manifest.lhotse.jsonl.gz"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_loss_that_is_no_number_is_null(audio, tmp_path):
    (utterance,) = made_utterances(audio, 1)
    alignment = dataclasses.replace(made_alignment(utterance), loss=float("inf"))
    OutputFiles(tmp_path / "r0", "u0", ("json",)).write(alignment)
    layout = layout_for(settings_of(tmp_path, "files"))
    write_manifests(layout, iter([(0, utterance)]))
    assert nemo_lines(tmp_path)[0]["loss"] is None
    assert lhotse_lines(tmp_path)[0]["supervisions"][0]["custom"]["loss"] is None


@pytest.mark.parametrize("layout", ["files", "shards"])
def test_an_output_that_is_gone_is_said_and_no_manifest_is_left_half_written(audio, tmp_path, layout):
    aligned_run(tmp_path, audio, layout)
    for path in tmp_path.glob("manifest*"):
        path.unlink()
    gone = tmp_path / ("r1/u6.json" if layout == "files" else "alignments-00001.jsonl.gz")
    gone.unlink()
    before = contents(tmp_path)
    settings = settings_of(tmp_path, layout)
    done = ((i, u) for i, u in enumerate(made_utterances(audio)) if u.id != "r1/u5")
    with pytest.raises(OutputError, match=gone.name):
        write_manifests(layout_for(settings), done)
    assert contents(tmp_path) == before


def test_each_job_has_its_own(audio, tmp_path):
    run(settings_of(tmp_path, "files", job="0-of-2"), made_utterances(audio, 2))
    assert manifest_path(tmp_path, "nemo", "0-of-2").is_file()
    assert manifest_path(tmp_path, "lhotse", "0-of-2").name == "manifest.lhotse.0-of-2.jsonl.gz"


def test_alignments_are_read_one_at_a_time(audio, tmp_path):
    utterances = made_utterances(audio, 1)
    many = [dataclasses.replace(utterances[0], id=f"u{i:04}") for i in range(300)]
    run(settings_of(tmp_path, "shards", shard_size=100, manifests=()), many, window=300)
    held = []

    def counted():
        for index, utterance in enumerate(many):
            if index % 50 == 49:
                held.append(sum(type(each) is Alignment for each in gc.get_objects()))
            yield index, utterance

    before = sum(type(each) is Alignment for each in gc.get_objects())
    write_manifests(layout_for(settings_of(tmp_path, "shards", shard_size=100)), counted())
    assert len(held) == 6
    assert max(held) - before <= 2, held
