"""What runs leave in files and in shards: outputs, manifests, and changed bytes that are seen;
without audio models."""

from __future__ import annotations

import dataclasses
import gc
import gzip
import itertools
import json
import os
import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from corpus_runs import journal_line
from rows import over_rows
from sample_alignments import aligned, make_alignment

from ctc_align.corpus.outputs import shared_files
from ctc_align.corpus.outputs.assembly import Assembly, write_manifests
from ctc_align.corpus.outputs.layout import Layout
from ctc_align.corpus.outputs.shared_files import GroupedUtterance
from ctc_align.corpus.state.journal import DONE, FAILED, Line
from ctc_align.errors import OutputError, UsageError
from ctc_align.files import (
    OutputFiles,
    read_alignment,
    rendered,
    to_dict,
)
from ctc_align.files.textgrid import read_textgrid
from ctc_align.sources.utterance import Utterance
from ctc_align.types import Alignment

WORDS = ("One,", "two", "“three”", "four.", "פה!")


def made_utterances(audio: Path, count: int = 11, per_recording: int = 4) -> list[Utterance]:
    """Utterances of half a second each, of recordings with two speakers in turn."""
    return [
        Utterance(
            id=f"r{i // per_recording}/u{i}",
            output=f"r{i // per_recording}/u{i}",
            audio=str(audio),
            text=" ".join(WORDS[: 1 + i % len(WORDS)]),
            origin=f"line {i + 1}",
            offset_s=0.5 * (i % per_recording),
            duration_s=0.5,
            recording=f"r{i // per_recording}",
            speaker="AB"[i % 2],
        )
        for i in range(count)
    ]


def made_alignment(utterance: Utterance, seed: int = 0) -> Alignment:
    """The utterance's words, 80 ms each, 10 ms apart; `seed` moves them by some milliseconds."""
    words, place = [], 0
    for i, text in enumerate(utterance.text.split()):
        start_s = 0.01 + 0.09 * i + 0.001 * seed
        words.append(aligned(text, start_s, start_s + 0.08, place, "ab"))
        place += len(text) + 1
    changes = {"utterance": utterance.id, "audio": utterance.audio, "offset_s": utterance.offset_s}
    return make_alignment(tuple(words), 0.5, text=utterance.text, token_kind="phones", **changes)


def run(
    layout: Layout,
    utterances: Sequence[Utterance],
    *,
    failing: Collection[str] = (),
    again: Collection[str] = (),
    seed: int = 0,
    window: int = 3,
) -> list[str]:
    """Run or resume; returns the ids that were computed. The journal is a file of lines "id
    outcome".

    Args:
        failing: ids that fail now; again: ids that are computed although the journal calls them
            done.
    """
    Path(layout.out_dir).mkdir(parents=True, exist_ok=True)
    journal = Path(layout.out_dir, "journal.txt")
    known = (
        dict(line.split() for line in journal.read_text().splitlines()) if journal.exists() else {}
    )
    computed: list[str] = []
    with Assembly(layout) as assembly:
        for first in range(0, len(utterances), window):
            items = list(enumerate(utterances))[first : first + window]
            todo = []
            for index, utterance in items:
                outcome = known.get(utterance.id)
                if utterance.id in again or (
                    outcome == "done" and not assembly.present(index, utterance)
                ):
                    outcome = None
                assembly.announce(index, utterance, None if outcome is None else outcome == "done")
                if outcome is None:
                    todo.append((index, utterance))
            # batches do not have the source's order
            _batch(layout, assembly, todo[::-1], journal, failing, seed)
            computed += [utterance.id for _, utterance in todo]
        assembly.finish()
    outcomes = dict(line.split() for line in journal.read_text().splitlines())
    done = (
        (i, utterance) for i, utterance in enumerate(utterances) if outcomes[utterance.id] == "done"
    )
    write_manifests(layout, done)
    return computed


def _batch(
    layout: Layout,
    assembly: Assembly,
    todo: Sequence[tuple[int, Utterance]],
    journal: Path,
    failing: Collection[str],
    seed: int,
) -> None:
    good = [(index, utterance) for index, utterance in todo if utterance.id not in failing]
    rows = [(u.id, layout.place(i, u, made_alignment(u, seed)).pending) for i, u in good]
    assembly.store_pending(rows)
    with open(journal, "a", encoding="utf-8") as file:
        for _, utterance in todo:
            file.write(f"{utterance.id} {'failed' if utterance.id in failing else 'done'}\n")
    for index, utterance in todo:
        assembly.settle(index, utterance.id not in failing)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of an output folder but the journal, which has the order of the batches."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "journal.txt" and ".ctc-align-parts" not in path.parts
    }


def layout_of(out_dir: Path, kind: str, **changes: object) -> Layout:
    """The layout of outputs, and the folder for unfinished ones, which a run makes."""
    parts = str(out_dir / ".ctc-align-parts")
    Path(parts).mkdir(parents=True, exist_ok=True)
    layout = Layout(str(out_dir), kind, shard_size=4, manifests=("nemo", "lhotse"), parts=parts)
    return replace(layout, **changes)  # type: ignore[arg-type]


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def test_shards_hold_what_the_files_would(audio, tmp_path):
    utterances = made_utterances(audio)
    run(layout_of(tmp_path / "files", "files"), utterances)
    run(layout_of(tmp_path / "shards", "shards"), utterances)
    names = sorted(path.name for path in (tmp_path / "shards").glob("alignments-*"))
    assert names == [
        f"alignments-0000{i}.{extension}"
        for i in range(3)
        for extension in ("ctm", "jsonl.gz", "tokens.ctm")
    ]
    shards = [lines_of(tmp_path / "shards" / f"alignments-0000{i}.jsonl.gz") for i in range(3)]
    assert [len(shard) for shard in shards] == [4, 4, 3]
    flat = [line for shard in shards for line in shard]
    assert [line["utterance"] for line in flat] == [utterance.id for utterance in utterances]
    for line, utterance in zip(flat, utterances):
        assert line == json.loads(
            (tmp_path / "files" / f"{utterance.output}.json").read_text("utf-8")
        )
    for extension in ("ctm", "tokens.ctm"):
        whole = b"".join(
            (tmp_path / "shards" / f"alignments-0000{i}.{extension}").read_bytes() for i in range(3)
        )
        assert whole == b"".join(
            (tmp_path / "files" / f"{u.output}.{extension}").read_bytes() for u in utterances
        )


def test_a_shard_has_no_name_and_no_time_in_its_header(audio, tmp_path):
    for name in ("a", "b"):
        run(layout_of(tmp_path / name, "shards"), made_utterances(audio))
    one, other = (contents(tmp_path / name) for name in ("a", "b"))
    assert one == other
    head = one["alignments-00000.jsonl.gz"][:10]
    assert head[:4] == b"\x1f\x8b\x08\x00", "no flag: no file name, no comment"
    assert head[4:8] == bytes(4)


def test_one_textgrid_for_a_recording(audio, tmp_path):
    utterances = made_utterances(audio)
    run(layout_of(tmp_path, "files"), utterances)
    assert sorted(path.name for path in tmp_path.rglob("*.TextGrid")) == [
        "r0.TextGrid",
        "r1.TextGrid",
        "r2.TextGrid",
    ]
    grid = read_textgrid(tmp_path / "r0.TextGrid")
    assert (grid.start_s, grid.end_s) == (0.0, 2.25), "the whole recording"
    assert [tier.name for tier in grid.tiers] == [
        "A - words",
        "A - phones",
        "B - words",
        "B - phones",
    ]
    words = [(i.start_s, i.label) for tier in grid.tiers[::2] for i in tier.intervals if i.label]
    said = [
        (pytest.approx(word.start_s + utterance.offset_s), word.text.strip("“”,.!"))
        for speaker in "AB"
        for utterance in utterances[:4]
        if utterance.speaker == speaker
        for word in made_alignment(utterance).words
    ]
    assert words == said, "times of the recording, by speaker"
    assert read_alignment(tmp_path / "r0/u1.json").words[0].start_s == 0.01, (
        "JSON for the utterance stays"
    )


def test_one_speaker_has_plain_tiers_as_mfa_writes_them(audio, tmp_path):
    utterances = [
        dataclasses.replace(utterance, speaker="A") for utterance in made_utterances(audio, 4)
    ]
    run(layout_of(tmp_path, "files"), utterances)
    assert [tier.name for tier in read_textgrid(tmp_path / "r0.TextGrid").tiers] == [
        "words",
        "phones",
    ]


def test_a_speaker_whose_utterances_failed_has_empty_tiers(audio, tmp_path):
    run(layout_of(tmp_path, "files"), made_utterances(audio, 2), failing=["r0/u1"])
    tiers = {tier.name: tier.intervals for tier in read_textgrid(tmp_path / "r0.TextGrid").tiers}
    assert [interval.label for interval in tiers["B - words"]] == [""]
    assert "r0/u1" not in (tmp_path / "manifest.nemo.jsonl").read_text()


def test_words_of_a_speaker_that_overlap_are_cut_not_lost_to_praat(audio, tmp_path):
    utterances = [
        dataclasses.replace(u, speaker="A", offset_s=0.05 * i)
        for i, u in enumerate(made_utterances(audio, 4))
    ]
    run(layout_of(tmp_path, "files"), utterances)
    for tier in read_textgrid(tmp_path / "r0.TextGrid").tiers:
        edges = [edge for interval in tier.intervals for edge in (interval.start_s, interval.end_s)]
        assert edges == sorted(edges)


@pytest.mark.parametrize("layout", ["files", "shards"])
def test_labels_and_times_are_heeded(audio, tmp_path, layout):
    utterances = made_utterances(audio, 2)
    run(layout_of(tmp_path, layout, labels="written", times="recording"), utterances)
    ctm = next(
        path for path in tmp_path.rglob("*.ctm") if "tokens" not in path.name and "0" in path.name
    ).read_text()
    assert "One," in ctm
    last = rendered(
        made_alignment(utterances[1]), "ctm", {"times": "recording", "labels": "written"}
    ).decode()
    assert last.splitlines()[-1] in "".join(p.read_text() for p in tmp_path.rglob("*.ctm"))
    if layout == "files":
        assert "“three”" not in ctm
        words = read_textgrid(tmp_path / "r0.TextGrid").tiers[0]
        assert words.intervals[1].label == "One,"


def test_a_group_in_which_all_fail_has_no_files(audio, tmp_path):
    utterances = made_utterances(audio, 4)
    layout = layout_of(tmp_path, "shards")
    run(layout, utterances)
    failing = [utterance.id for utterance in utterances]
    run(layout, utterances, again=failing, failing=failing)
    assert list(tmp_path.glob("alignments-*")) == []


@pytest.mark.parametrize("harm", ["gone", "cut", "foreign", "no ctm"])
def test_a_shard_that_is_not_whole_is_made_again(audio, tmp_path, harm):
    layout = layout_of(tmp_path, "shards")
    run(layout, made_utterances(audio))
    before = contents(tmp_path)
    path = tmp_path / "alignments-00001.jsonl.gz"
    if harm == "gone":
        path.unlink()
    elif harm == "no ctm":
        path.with_name("alignments-00001.ctm").unlink()
    else:
        path.write_bytes(path.read_bytes()[:-30] if harm == "cut" else b"mine")
    assert run(layout, made_utterances(audio)) == [f"r1/u{i}" for i in range(4, 8)]
    assert contents(tmp_path) == before


def test_a_line_more_in_the_source_moves_the_shards(audio, tmp_path):
    utterances = made_utterances(audio)
    more = [dataclasses.replace(utterances[0], id="new", output="new"), *utterances]
    run(layout_of(tmp_path / "whole", "shards"), more)
    layout = layout_of(tmp_path / "parts", "shards")
    run(layout, utterances)
    run(layout, more)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"kind": "heap"}, "--layout: expected one of files, shards, audiofolder"),
        (
            {"kind": "shards", "formats": ("json", "srt")},
            "shards holds json and ctm, got --format srt",
        ),
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
        Layout("out", **changes).check()
    assert says in str(caught.value)


def test_no_input_is_replaced(audio, tmp_path):
    sound = tmp_path / "r0.wav"
    sound.write_bytes(audio.read_bytes())
    (tmp_path / "r0.TextGrid").write_text("the user's transcript")
    layout = layout_of(tmp_path, "files")
    utterance = made_utterances(sound, 1)[0]
    with pytest.raises(OutputError, match="is an input of this call"):
        layout.place(0, utterance, made_alignment(utterance))
    source = tmp_path / "r0" / "u0.json"
    source.write_text("[]")
    protected = dataclasses.replace(layout, protect=(str(source),))
    other = dataclasses.replace(utterance, recording="")
    with pytest.raises(OutputError, match="is an input of this call"):
        protected.place(0, other, made_alignment(other))
    assert source.read_text() == "[]"


def test_a_shard_that_cannot_be_written_leaves_its_rows(audio, tmp_path):
    layout = layout_of(tmp_path / "out", "shards")
    blocked = tmp_path / "out" / "alignments-00000.ctm"
    blocked.mkdir(parents=True)
    with pytest.raises(OutputError, match=r"alignments-00000\.ctm"):
        run(layout, made_utterances(audio))
    assert list((tmp_path / "out").glob("*.gz")) == []
    blocked.rmdir()
    run(layout, made_utterances(audio))
    run(layout_of(tmp_path / "whole", "shards"), made_utterances(audio))
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_names_with_quotes_and_halves_of_surrogates(audio, tmp_path):
    utterances = [
        dataclasses.replace(utterance, id=f'say "{name}"\\', output=f"o{i}", recording="")
        for i, (utterance, name) in enumerate(
            zip(made_utterances(audio, 3), ["a b", "é", "\udce9"])
        )
    ]
    layout = layout_of(tmp_path, "shards", manifests=())
    with Assembly(layout) as assembly:
        for i, utterance in enumerate(utterances):
            assembly.announce(i, utterance)
            assembly.store_pending(
                [(utterance.id, layout.place(i, utterance, made_alignment(utterance)).pending)]
            )
            assembly.settle(i, True)
        assembly.finish()
    lines = lines_of(tmp_path / "alignments-00000.jsonl.gz")
    assert [line["utterance"] for line in lines] == [utterance.id for utterance in utterances]
    assert lines[0] == to_dict(made_alignment(utterances[0]))
    with Assembly(layout) as assembly:
        assert all(assembly.present(i, utterance) for i, utterance in enumerate(utterances))


RATE = 8000


def nemo_lines(folder: Path) -> list[dict]:
    return [
        json.loads(line)
        for line in (folder / "manifest.nemo.jsonl").read_text("utf-8").splitlines()
    ]


def lhotse_lines(folder: Path) -> list[dict]:
    return [
        json.loads(line)
        for line in gzip.decompress((folder / "manifest.lhotse.jsonl.gz").read_bytes()).splitlines()
    ]


def aligned_run(folder: Path, audio: Path, layout: str = "files") -> list[Utterance]:
    utterances = made_utterances(audio)
    utterances[2] = dataclasses.replace(utterances[2], channel=2, language="cy")
    run(layout_of(folder, layout), utterances, failing=["r1/u5"])
    return [utterance for utterance in utterances if utterance.id != "r1/u5"]


@pytest.mark.parametrize("layout", ["files", "shards"])
def test_nemo(audio, tmp_path, layout):
    utterances = aligned_run(tmp_path, audio, layout)
    lines = nemo_lines(tmp_path)
    assert [line["utterance"] for line in lines] == [utterance.id for utterance in utterances], (
        "in the source's order"
    )
    for line, utterance in zip(lines, utterances):
        assert line["audio_filepath"] == str(audio)
        assert (line["offset"], line["duration"], line["text"]) == (
            utterance.offset_s,
            0.5,
            utterance.text,
        )
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
    assert [cut["supervisions"][0].get("language", "") for cut in cuts] == [
        one.language for one in utterances
    ]
    for cut, utterance in zip(cuts, utterances):
        assert (cut["start"], cut["duration"]) == (utterance.offset_s, 0.5)
        assert cut["channel"] == (1 if utterance.channel == 2 else [0, 1])
        (supervision,) = cut["supervisions"]
        assert (supervision["start"], supervision["duration"]) == (
            0.0,
            0.5,
        ), "from the start of the cut"
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
        assert [(item.symbol, item.score) for item in supervision.alignment["word"]] == [
            (w.text, 0.75) for w in words
        ]
        parts = list(cut.trim_to_alignments("word"))
        assert [(part.supervisions[0].text, part.start) for part in parts] == [
            (word.text, pytest.approx(utterance.offset_s + word.start_s)) for word in words
        ]
        first = round((utterance.offset_s + words[-1].start_s) * RATE)
        said = samples[first : first + parts[-1].num_samples].T
        np.testing.assert_array_equal(
            parts[-1].load_audio(), said[1:] if utterance.channel else said
        )
        lhotse.qa.validate(cut)


def test_lines_of_a_shard_that_are_not_asked_for_are_passed_over(audio, tmp_path):
    utterances = aligned_run(tmp_path, audio, "shards")
    layout = layout_of(tmp_path, "shards")
    asked = [
        (i, utterance) for i, utterance in enumerate(made_utterances(audio)) if i in (0, 2, 3, 9)
    ]
    write_manifests(layout, iter(asked))
    assert [line["utterance"] for line in nemo_lines(tmp_path)] == [
        "r0/u0",
        "r0/u2",
        "r0/u3",
        "r2/u9",
    ]
    assert [line["text"] for line in nemo_lines(tmp_path)] == [
        utterance.text for _, utterance in asked
    ]
    assert len(utterances) == 10


def test_a_loss_that_is_no_number_is_null(audio, tmp_path):
    (utterance,) = made_utterances(audio, 1)
    alignment = dataclasses.replace(made_alignment(utterance), loss=float("inf"))
    OutputFiles(tmp_path / "r0", "u0", ("json",)).write(alignment)
    layout = layout_of(tmp_path, "files")
    write_manifests(layout, iter([(0, utterance)]))
    assert nemo_lines(tmp_path)[0]["loss"] is None
    assert lhotse_lines(tmp_path)[0]["supervisions"][0]["custom"]["loss"] is None


@pytest.mark.parametrize("layout", ["files", "shards"])
def test_an_output_that_is_gone_is_said_and_no_manifest_is_left_half_written(
    audio, tmp_path, layout
):
    aligned_run(tmp_path, audio, layout)
    for path in tmp_path.glob("manifest*"):
        path.unlink()
    gone = tmp_path / ("r1/u6.json" if layout == "files" else "alignments-00001.jsonl.gz")
    gone.unlink()
    before = contents(tmp_path)
    made = layout_of(tmp_path, layout)
    done = ((i, u) for i, u in enumerate(made_utterances(audio)) if u.id != "r1/u5")
    with pytest.raises(OutputError, match=gone.name):
        write_manifests(made, done)
    assert contents(tmp_path) == before


def test_alignments_are_read_one_at_a_time(audio, tmp_path):
    utterances = made_utterances(audio, 1)
    many = [dataclasses.replace(utterances[0], id=f"u{i:04}") for i in range(300)]
    run(layout_of(tmp_path, "shards", shard_size=100, manifests=()), many, window=300)
    held = []

    def counted():
        for index, utterance in enumerate(many):
            if index % 50 == 49:
                held.append(sum(type(each) is Alignment for each in gc.get_objects()))
            yield index, utterance

    before = sum(type(each) is Alignment for each in gc.get_objects())
    write_manifests(layout_of(tmp_path, "shards", shard_size=100), counted())
    assert len(held) == 6
    assert max(held) - before <= 2, held


FAILING = "r1/u5"
FLIPS = int(os.environ.get("FLIPS", "1"))
"""Bits that are flipped in each file."""


def recorded(layout: Layout, utterances: list[Utterance]) -> dict[str, Line]:
    """The lines of utterances whose outputs are in their places; their own files are written once
    more."""
    lines = {}
    for index, utterance in enumerate(utterances):
        if utterance.id != FAILING:
            placed = layout.place(index, utterance, made_alignment(utterance))
            lines[utterance.id] = journal_line(
                utterance.id, DONE, files=placed.files, row=placed.row
            )
    return lines


def found(layout: Layout, utterances: list[Utterance], lines: dict[str, Line]) -> dict[str, str]:
    """What is wrong, by utterance."""
    faults: dict[str, str] = {}
    groups: dict[str | None, list] = {}
    for index, utterance in enumerate(utterances):
        member = (GroupedUtterance.of(index, utterance), lines.get(utterance.id))
        groups.setdefault(layout.group(index, utterance), []).append(member)
    with Assembly(layout) as assembly:
        for name, members in groups.items():
            faults |= assembly.faults(name, members)
    return faults


@over_rows(("layout", "overlap"), [("files", False), ("files", True), ("shards", False)])
def test_every_changed_byte_is_seen(layout, overlap, audio, tmp_path_factory):
    folder, chance = tmp_path_factory.mktemp(layout), random.Random(layout)
    utterances = made_utterances(audio)
    if overlap:
        utterances = [dataclasses.replace(utterance, duration_s=1.2) for utterance in utterances]
    made = layout_of(folder, layout, cut="pause")
    run(made, utterances, failing=[FAILING])
    lines = recorded(made, utterances)
    assert found(made, utterances, lines) == {}
    for number, path in enumerate(sorted(path for path in folder.rglob("*") if path.is_file())):
        if path.name.startswith("manifest") or path.name == "journal.txt":
            continue  # manifests are made anew at the end of each run
        whole = path.read_bytes()
        last_bits = (
            [len(whole) - 9] if path.suffix == ".gz" else []
        )  # those of the content that mean nothing, too
        flips = (
            0 if overlap and path.suffix == ".TextGrid" else FLIPS
        )  # words that others cut are not compared
        for place in [*last_bits, *chance.sample(range(len(whole)), min(len(whole), flips))]:
            data = bytearray(whole)
            data[place] ^= 1 << (7 if place in last_bits else chance.randrange(8))
            path.write_bytes(data)
            assert found(made, utterances, lines), f"{path.name}: byte {place}"
        damages = [whole + b"\0", whole + whole, whole[: len(whole) // 2], b""]
        for data in damages if FLIPS > 1 else [damages[number % 4]]:
            path.write_bytes(data)
            assert found(made, utterances, lines), f"{path.name}: {len(data)} of {len(whole)} bytes"
        path.unlink()
        assert found(made, utterances, lines), f"{path.name} is gone"
        path.write_bytes(whole)
    assert found(made, utterances, lines) == {}


def test_a_shard_whose_last_bits_are_all_zero_is_whole(tmp_path):
    packed = (gzip.compress(b"%d" % number, mtime=0) for number in itertools.count())
    path = tmp_path / "a.gz"
    path.write_bytes(next(data for data in packed if data[-9] == 0))
    assert shared_files._has_zero_padding(path)


def test_only_files_of_an_earlier_success_go_when_an_utterance_fails(audio, tmp_path):
    """A journal may have been changed: names that cannot be the utterance's own are left alone."""
    out_dir = tmp_path / "out"
    layout = layout_of(out_dir, "files", cut="pause")
    utterance = dataclasses.replace(made_utterances(audio, 1)[0], recording="")
    other = tmp_path / "precious"
    other.write_text("theirs")
    (out_dir / "r0").mkdir()
    (out_dir / "r0" / "u0.txt").write_text("theirs")
    with Assembly(layout) as assembly:
        files = layout.place(0, utterance, made_alignment(utterance)).files
        forged = {"../precious": (6, ""), "r0/u0.txt": (6, ""), str(other): (6, "")}
        for line in (journal_line(utterance.id, FAILED), journal_line("other", FAILED)):
            assembly.remove_stale(utterance, line)
            assert all((out_dir / name).is_file() for name in files), (
                "what had failed already has no files of ours"
            )
        assembly.remove_stale(utterance, journal_line(utterance.id, DONE, files=files | forged))
        left = sorted(
            path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()
        )
        assert left == ["out/r0/u0.txt", "precious"]
        layout.place(0, utterance, made_alignment(utterance))
        assembly.remove_stale(utterance, None)
        assert not (out_dir / "r0" / "u0.json").exists(), "the JSON says whose they are"
        (out_dir / "r0" / "u0.json").write_text('{"format": "theirs", "utterance": "r0/u0"}')
        assembly.remove_stale(utterance, None)
        assert (out_dir / "r0" / "u0.json").exists()
