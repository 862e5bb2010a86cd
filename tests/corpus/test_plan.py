"""The plan: which items are a shard's, where windows end, what goes into a batch, and what a result depends on."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from corpus_runs import write_clip
from made_sources import write

from ctc_align.corpus.engine.batches import WINDOW, batches_by_length, jobs_of, windows
from ctc_align.corpus.engine.dispatch import length_of
from ctc_align.corpus.state.journal import Shard
from ctc_align.corpus.state.resume import Fingerprints, model_identity, run_fingerprint
from ctc_align.corpus.utterance import Refused, Utterance


def utterances(count: int) -> list[Utterance]:
    return [Utterance(f"u{i}", f"u{i}", "a.wav", "text", f"line {i}") for i in range(count)]


def by(size: int):
    return lambda index, utterance: str(index // size)


@pytest.mark.parametrize("count", [1, 2, 5, 11])
@pytest.mark.parametrize(
    "group_of", [lambda i, u: None, by(3), lambda i, u: "all", lambda i, u: str(i // 4) if i % 8 < 4 else None]
)
def test_shards_part_the_source(count, group_of):
    source = [*utterances(20), Refused("r", "line 21", "bad"), *utterances(5)]
    parts = [list(jobs_of(source, group_of, Shard(i, count))) for i in range(count)]
    indices = sorted(item.index for part in parts for item in part)
    assert indices == list(range(26)), "each in one shard"
    for part in parts:
        assert [item.index for item in part] == sorted(item.index for item in part)
    for group in {item.group for part in parts for item in part} - {None}:
        assert sum(any(item.group == group for item in part) for part in parts) == 1, "a file is one shard's work"


@pytest.mark.parametrize("group", [1, 7, 300, 1000, 5000, 100_000])
def test_windows_are_bounded_and_end_where_groups_do(group):
    parts = list(windows(jobs_of(utterances(12_000), by(group), Shard())))
    assert [item.index for part in parts for item in part] == list(range(12_000))
    assert max(map(len, parts)) <= 4 * WINDOW
    assert min(map(len, parts[:-1])) >= min(WINDOW, group, 5000 - 4 * WINDOW)
    if group <= 4 * WINDOW:
        assert all(first[-1].group != second[0].group for first, second in itertools.pairwise(parts))


@pytest.mark.parametrize("batch_seconds", [0.1, 5.0, 60.0, 1e9])
def test_batches_hold_everything_once_within_their_seconds(batch_seconds):
    lengths = np.random.default_rng(0).exponential(4.0, 500).tolist()
    batches = batches_by_length(lengths, batch_seconds)
    assert sorted(i for batch in batches for i in batch) == list(range(500))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        assert len(batch) == 1 or longest * len(batch) <= batch_seconds
        assert lengths[batch[0]] == longest
    assert batches_by_length([], batch_seconds) == []
    if batch_seconds == 60.0:
        padded = sum(max(lengths[i] for i in batch) * len(batch) for batch in batches)
        assert padded < 1.1 * sum(lengths), "alike goes with alike"


def test_lengths(tmp_path):
    path = str(write_clip(tmp_path / "a.wav", 2.0))
    whole = Utterance("a", "a", path, "text", "line 1")
    assert length_of(whole) == 2.0
    assert length_of(replace(whole, offset_s=0.5)) == 1.5
    assert length_of(replace(whole, duration_s=0.25)) == 0.25
    assert length_of(replace(whole, audio="nowhere.wav")) == 0.0


class TestFingerprints:
    def test_it_changes_with_everything_that_the_result_depends_on(self, tmp_path):
        audio = tmp_path / "a.wav"
        audio.write_bytes(b"1234")
        one = Utterance("a", "a", str(audio), "text", "line 1")
        base = Fingerprints("run").of(one)
        assert Fingerprints("run").of(replace(one, origin="line 7", id="b")) == base
        changes = {"text": "texts", "offset_s": 0.1, "duration_s": 1.0, "channel": 1, "output": "b", "speaker": "s"}
        prints = {Fingerprints("run").of(replace(one, **{name: value})) for name, value in changes.items()}
        prints |= {Fingerprints("other").of(one), Fingerprints("run").of(one, "group")}
        audio.write_bytes(b"12345")
        prints.add(Fingerprints("run").of(one))
        audio.unlink()
        prints.add(Fingerprints("run").of(one))
        assert len(prints | {base}) == len(changes) + 5

    def test_runs(self, tmp_path):
        model, lexicon = tmp_path / "model", tmp_path / "lexicon.dict"
        write(tmp_path, {"model/model.toml": "a", "model/model.safetensors": "b", "lexicon.dict": "a a"})
        call = {"lexicon": str(lexicon), "settings": {"times": "utterance"}, "formats": ["json", "ctm"]}

        def found(**changes):
            return run_fingerprint(str(model), *(call | changes).values())

        first = found()
        assert found(formats=["ctm", "json"]) == first
        changes = [{"settings": {"times": "recording"}}, {"lexicon": None}, {"formats": ["json"]}]
        others = [found(**change) for change in changes]
        lexicon.write_text("a b")
        others.append(found())
        for name, content in (("model.safetensors", "c"), ("edges.safetensors", "e")):
            (model / name).write_text(content)
            others.append(found())
        assert len({first, *others}) == 1 + len(others)

    def test_a_calibration_is_its_file_or_what_is_in_its_folder(self, tmp_path):
        file, folder = [], []
        constants, learnt = tmp_path / "calibration.toml", tmp_path / "edges.safetensors"
        for path, content in ((constants, "a"), (learnt, "b"), (learnt, "c"), (constants, "d")):
            path.write_text(content)
            for found, given in ((file, constants), (folder, tmp_path)):
                found.append(run_fingerprint("english", None, {"calibration": str(given)}, ["json"]))
        assert len(set(folder)) == 4
        assert file[0] == file[1] == file[2] != file[3]

    def test_models(self):
        assert model_identity("english") != "english", "by the content of its weights"
        assert model_identity("torchaudio:BUNDLE") == "torchaudio:BUNDLE"
