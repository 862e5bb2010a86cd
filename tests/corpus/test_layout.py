from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path

import pytest
from layout_runs import contents, made_alignment, made_utterances, run, settings_of

from ctc_align.corpus.outputs.assembly import Assembly
from ctc_align.corpus.outputs.layout import OutputSettings, layout_for
from ctc_align.errors import OutputError, UsageError
from ctc_align.files import read_alignment, rendered, to_dict
from ctc_align.files.textgrid import read_textgrid


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def test_shards_hold_what_the_files_would(audio, tmp_path):
    utterances = made_utterances(audio)
    run(settings_of(tmp_path / "files", "files"), utterances)
    run(settings_of(tmp_path / "shards", "shards"), utterances)
    names = sorted(path.name for path in (tmp_path / "shards").glob("alignments-*"))
    assert names == [
        f"alignments-0000{i}.{extension}" for i in range(3) for extension in ("ctm", "jsonl.gz", "tokens.ctm")
    ]
    shards = [lines_of(tmp_path / "shards" / f"alignments-0000{i}.jsonl.gz") for i in range(3)]
    assert [len(shard) for shard in shards] == [4, 4, 3]
    flat = [line for shard in shards for line in shard]
    assert [line["utterance"] for line in flat] == [utterance.id for utterance in utterances]
    for line, utterance in zip(flat, utterances):
        assert line == json.loads((tmp_path / "files" / f"{utterance.output}.json").read_text("utf-8"))
    for extension in ("ctm", "tokens.ctm"):
        whole = b"".join((tmp_path / "shards" / f"alignments-0000{i}.{extension}").read_bytes() for i in range(3))
        assert whole == b"".join((tmp_path / "files" / f"{u.output}.{extension}").read_bytes() for u in utterances)


def test_a_shard_has_no_name_and_no_time_in_its_header(audio, tmp_path):
    for name in ("a", "b"):
        run(settings_of(tmp_path / name, "shards"), made_utterances(audio))
    one, other = (contents(tmp_path / name) for name in ("a", "b"))
    assert one == other
    head = one["alignments-00000.jsonl.gz"][:10]
    assert head[:4] == b"\x1f\x8b\x08\x00", "no flag: no file name, no comment"
    assert head[4:8] == bytes(4)


@pytest.mark.parametrize(("formats", "extensions"), [(("json",), 1), (("json", "ctm"), 3), (("ctm",), 3)])
def test_formats_of_shards(audio, tmp_path, formats, extensions):
    run(settings_of(tmp_path, "shards", formats=formats, manifests=()), made_utterances(audio, 3))
    assert len(list(tmp_path.glob("alignments-*"))) == extensions


def test_one_textgrid_for_a_recording(audio, tmp_path):
    utterances = made_utterances(audio)
    run(settings_of(tmp_path, "files"), utterances)
    assert sorted(path.name for path in tmp_path.rglob("*.TextGrid")) == ["r0.TextGrid", "r1.TextGrid", "r2.TextGrid"]
    grid = read_textgrid(tmp_path / "r0.TextGrid")
    assert (grid.start_s, grid.end_s) == (0.0, 2.25), "the whole recording"
    assert [tier.name for tier in grid.tiers] == ["A - words", "A - phones", "B - words", "B - phones"]
    words = [(i.start_s, i.label) for tier in grid.tiers[::2] for i in tier.intervals if i.label]
    said = [
        (pytest.approx(word.start_s + utterance.offset_s), word.text.strip("“”,.!"))
        for speaker in "AB"
        for utterance in utterances[:4]
        if utterance.speaker == speaker
        for word in made_alignment(utterance).words
    ]
    assert words == said, "times of the recording, by speaker"
    assert read_alignment(tmp_path / "r0/u1.json").words[0].start_s == 0.01, "JSON for the utterance stays"


def test_one_speaker_has_plain_tiers_as_mfa_writes_them(audio, tmp_path):
    utterances = [dataclasses.replace(utterance, speaker="A") for utterance in made_utterances(audio, 4)]
    run(settings_of(tmp_path, "files"), utterances)
    assert [tier.name for tier in read_textgrid(tmp_path / "r0.TextGrid").tiers] == ["words", "phones"]


def test_a_speaker_whose_utterances_failed_has_empty_tiers(audio, tmp_path):
    run(settings_of(tmp_path, "files"), made_utterances(audio, 2), failing=["r0/u1"])
    tiers = {tier.name: tier.intervals for tier in read_textgrid(tmp_path / "r0.TextGrid").tiers}
    assert [interval.label for interval in tiers["B - words"]] == [""]
    assert "r0/u1" not in (tmp_path / "manifest.nemo.jsonl").read_text()


def test_words_of_a_speaker_that_overlap_are_cut_not_lost_to_praat(audio, tmp_path):
    utterances = [
        dataclasses.replace(u, speaker="A", offset_s=0.05 * i) for i, u in enumerate(made_utterances(audio, 4))
    ]
    run(settings_of(tmp_path, "files"), utterances)
    for tier in read_textgrid(tmp_path / "r0.TextGrid").tiers:
        edges = [edge for interval in tier.intervals for edge in (interval.start_s, interval.end_s)]
        assert edges == sorted(edges)


@pytest.mark.parametrize("layout", ["files", "shards"])
def test_labels_and_times_are_heeded(audio, tmp_path, layout):
    utterances = made_utterances(audio, 2)
    run(settings_of(tmp_path, layout, labels="written", times="recording"), utterances)
    ctm = next(path for path in tmp_path.rglob("*.ctm") if "tokens" not in path.name and "0" in path.name).read_text()
    assert "One," in ctm
    last = rendered(made_alignment(utterances[1]), "ctm", {"times": "recording", "labels": "written"}).decode()
    assert last.splitlines()[-1] in "".join(p.read_text() for p in tmp_path.rglob("*.ctm"))
    if layout == "files":
        assert "“three”" not in ctm
        words = read_textgrid(tmp_path / "r0.TextGrid").tiers[0]
        assert words.intervals[1].label == "One,"


# resuming


@pytest.mark.parametrize("layout", ["files", "shards"])
def test_what_failed_or_changed_is_put_into_a_finished_group(audio, tmp_path, layout):
    utterances = made_utterances(audio)
    run(settings_of(tmp_path / "whole", layout), utterances)
    settings = settings_of(tmp_path / "parts", layout)
    run(settings, utterances, failing=["r1/u5", "r0/u0"])
    assert contents(tmp_path / "parts") != contents(tmp_path / "whole")
    assert run(settings, utterances, again=["r1/u5", "r0/u0"]) == ["r0/u0", "r1/u5"]
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    run(settings, utterances, again=["r2/u9"], seed=3)
    changed = {
        name for name, data in contents(tmp_path / "parts").items() if contents(tmp_path / "whole")[name] != data
    }
    group = {"files": {"r2.TextGrid", "r2/u9.json", "r2/u9.ctm", "r2/u9.tokens.ctm"}}.get(
        layout, {f"alignments-00002.{extension}" for extension in ("jsonl.gz", "ctm", "tokens.ctm")}
    )
    assert changed == group | {"manifest.nemo.jsonl", "manifest.lhotse.jsonl.gz"}


def test_a_group_in_which_all_fail_has_no_files(audio, tmp_path):
    utterances = made_utterances(audio, 4)
    settings = settings_of(tmp_path, "shards")
    run(settings, utterances)
    failing = [utterance.id for utterance in utterances]
    run(settings, utterances, again=failing, failing=failing)
    assert list(tmp_path.glob("alignments-*")) == []


@pytest.mark.parametrize("harm", ["gone", "cut", "foreign", "no ctm"])
def test_a_shard_that_is_not_whole_is_made_again(audio, tmp_path, harm):
    settings = settings_of(tmp_path, "shards")
    run(settings, made_utterances(audio))
    before = contents(tmp_path)
    path = tmp_path / "alignments-00001.jsonl.gz"
    if harm == "gone":
        path.unlink()
    elif harm == "no ctm":
        path.with_name("alignments-00001.ctm").unlink()
    else:
        path.write_bytes(path.read_bytes()[:-30] if harm == "cut" else b"mine")
    assert run(settings, made_utterances(audio)) == [f"r1/u{i}" for i in range(4, 8)]
    assert contents(tmp_path) == before


def test_a_line_more_in_the_source_moves_the_shards(audio, tmp_path):
    utterances = made_utterances(audio)
    more = [dataclasses.replace(utterances[0], id="new", output="new"), *utterances]
    run(settings_of(tmp_path / "whole", "shards"), more)
    settings = settings_of(tmp_path / "parts", "shards")
    run(settings, utterances)
    run(settings, more)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


# refusals


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"layout": "heap"}, "--layout: expected one of files, shards, got heap"),
        ({"layout": "shards", "formats": ("json", "srt")}, "shards holds json and ctm, got --format srt"),
        ({"formats": ("doc",)}, "--format: expected one of json"),
        ({"manifests": ("kaldi",)}, "--manifest: expected one of nemo, lhotse, got kaldi"),
        ({"manifests": ("nemo",), "formats": ("ctm",)}, "add json to --format"),
        ({"cut": "word"}, "--by: expected one of utterance, pause"),
        ({"shard_size": 0}, "--shard-size"),
        ({"pause_s": 0.0}, "--pause-s"),
        ({"pause_s": float("nan")}, "--pause-s"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, says):
    with pytest.raises(UsageError) as caught:
        layout_for(OutputSettings("out", **changes))
    assert says in str(caught.value)


def test_no_input_is_replaced(audio, tmp_path):
    sound = tmp_path / "r0.wav"
    sound.write_bytes(audio.read_bytes())
    (tmp_path / "r0.TextGrid").write_text("the user's transcript")
    layout = layout_for(settings_of(tmp_path, "files"))
    utterance = made_utterances(sound, 1)[0]
    with pytest.raises(OutputError, match="is an input of this call"):
        layout.place(0, utterance, made_alignment(utterance))
    source = tmp_path / "r0" / "u0.json"
    source.write_text("[]")
    protected = dataclasses.replace(layout.settings, protect=(str(source),))
    other = dataclasses.replace(utterance, recording="")
    with pytest.raises(OutputError, match="is an input of this call"):
        layout_for(protected).place(0, other, made_alignment(other))
    assert source.read_text() == "[]"


def test_a_shard_that_cannot_be_written_leaves_its_rows(audio, tmp_path):
    settings = settings_of(tmp_path / "out", "shards")
    blocked = tmp_path / "out" / "alignments-00000.ctm"
    blocked.mkdir(parents=True)
    with pytest.raises(OutputError, match=r"alignments-00000\.ctm"):
        run(settings, made_utterances(audio))
    assert list((tmp_path / "out").glob("*.gz")) == []
    blocked.rmdir()
    run(settings, made_utterances(audio))
    run(settings_of(tmp_path / "whole", "shards"), made_utterances(audio))
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_names_with_quotes_and_halves_of_surrogates(audio, tmp_path):
    utterances = [
        dataclasses.replace(utterance, id=f'say "{name}"\\', output=f"o{i}", recording="")
        for i, (utterance, name) in enumerate(zip(made_utterances(audio, 3), ["a b", "é", "\udce9"]))
    ]
    settings = settings_of(tmp_path, "shards", manifests=())
    layout = layout_for(settings)
    with Assembly(layout) as assembly:
        for i, utterance in enumerate(utterances):
            assembly.announce(i, utterance)
            assembly.store_pending([(utterance.id, layout.place(i, utterance, made_alignment(utterance)).pending)])
            assembly.settle(i, True)
        assembly.finish()
    lines = lines_of(tmp_path / "alignments-00000.jsonl.gz")
    assert [line["utterance"] for line in lines] == [utterance.id for utterance in utterances]
    assert lines[0] == to_dict(made_alignment(utterances[0]))
    with Assembly(layout) as assembly:
        assert all(assembly.present(i, utterance) for i, utterance in enumerate(utterances))
