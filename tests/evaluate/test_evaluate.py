from __future__ import annotations

import dataclasses
import gzip
import json
import random
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_alignments import CTM, WORDS, alignment, put, textgrid
from rows import over_rows
from sample_alignments import aligned, make_alignment, placed

from ctc_align.errors import InputError, UsageError
from ctc_align.evaluate import Options, evaluate, evaluate_intervals, read_intervals, read_labels
from ctc_align.evaluate.corrected_labels import label_doubts, labels_of, with_labels
from ctc_align.evaluate.pairing import (
    broad_phones,
    compared_intervals,
    normalised_label,
    pair_intervals,
)
from ctc_align.files import OutputFiles, Style, to_dict
from ctc_align.types import AlignedWord, Alignment, Interval


def words_at(*rows: tuple[str, float, float]) -> Alignment:
    return make_alignment(placed(aligned(*row, 0, row[0][:1]) for row in rows), 3.0)


OURS = words_at(("Hello,", 0.13, 0.5), ("big", 0.5, 0.9), ("world!", 1.0, 1.46))
TRUE = words_at(("hello", 0.10, 0.5), ("big", 0.5, 0.9), ("world", 0.98, 1.5))


@pytest.fixture
def folders(tmp_path) -> tuple[Path, Path]:
    """Two recordings, nested, ours as JSON, CTM and TextGrid, the reference as TextGrid."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for name in ("x", "deep/y"):
        folder, stem = Path(name).parent, Path(name).name
        OutputFiles(ours / folder, stem).write(OURS)
        OutputFiles(theirs / folder, stem, ("textgrid",)).write(TRUE)
    return ours, theirs


def test_figures_by_hand(folders):
    evaluation = evaluate(*folders)
    assert (evaluation.paired, evaluation.missing, evaluation.extra, evaluation.mismatched) == (
        6,
        0,
        0,
        0,
    )
    assert evaluation.onset.mae_ms == pytest.approx((30 + 0 + 20) / 3)
    assert evaluation.offset.mae_ms == pytest.approx(40 / 3)
    assert evaluation.both.mae_ms == pytest.approx(90 / 6)
    assert evaluation.onset.median_signed_ms == pytest.approx(20.0)
    assert evaluation.offset.mean_signed_ms == pytest.approx(-40 / 3)
    assert evaluation.both.median_abs_ms == pytest.approx(10.0)
    assert evaluation.both.count == 12
    percent = {limit: round(value) for limit, value in evaluation.both.within_ms.items()}
    assert percent == {10: 50, 20: 67, 25: 67, 50: 100, 100: 100}
    assert evaluation.complete


def test_worst_cases_and_worst_edges_early_or_late(folders):
    edges = evaluate(*folders).worst_edges(3)
    assert [(edge.label, edge.edge, edge.error_ms) for edge in edges] == [
        *[("world", "offset", -40.0)] * 2,
        ("hello", "onset", 30.0),
    ]
    assert (edges[2].utterance, edges[2].reference_s, edges[2].hypothesis_s) == (
        "deep/y",
        0.1,
        0.13,
    )
    assert len(evaluate(*folders).worst_edges(100)) == 12
    words_at(("hello", 0.1, 0.5), ("big", 0.5, 0.9), ("world", 0.98, 1.2)).save(
        folders[0] / "x.json", force=True
    )
    worst = evaluate(*folders).worst(1)[0]
    assert (worst.utterance, worst.worst_label, worst.worst_ms) == (
        "x",
        "world",
        pytest.approx(-300.0),
    )


def test_flat_names_meet_nested_ones_where_they_fit_once(folders, tmp_path):
    flat = tmp_path / "flat"
    for stem in ("x", "y"):
        OutputFiles(flat, stem, ("json",)).write(OURS)
    evaluation = evaluate(flat, folders[1])
    assert evaluation.paired == 6
    assert evaluation.complete
    OutputFiles(folders[1] / "other", "y", ("textgrid",)).write(TRUE)
    (flat / "x.json").unlink()
    assert evaluate(flat, folders[1]).missing_files == ("deep/y", "other/y", "x")
    evaluation = evaluate(folders[1], flat)
    assert (evaluation.missing_files, evaluation.extra_files) == (
        ("y",),
        ("deep/y", "other/y", "x"),
    )


def test_files_of_the_same_stem_meet_by_folder_and_by_format(folders, tmp_path):
    (folders[0] / "deep").rename(folders[0] / "other")
    evaluation = evaluate(*folders)
    assert (evaluation.missing_files, evaluation.extra_files) == (("deep/y",), ("other/y",))
    assert (evaluation.paired, evaluation.complete) == (3, False)
    for shift_s, format in ((0.03, "ctm"), (0.02, "textgrid"), (0.01, "json")):
        OutputFiles(tmp_path / "a", "x", (format,)).write(alignment("x", shift_s))
        OutputFiles(tmp_path / "b", "x", ("textgrid",), force=True).write(alignment("x"))
        assert evaluate(tmp_path / "a", tmp_path / "b").both.mae_ms == pytest.approx(1000 * shift_s)


def test_a_file_that_cannot_be_read_does_not_stop_the_others(folders):
    (folders[0] / "x.json").write_text("{")
    evaluation = evaluate(*folders)
    assert [name for name, _ in evaluation.failures] == ["x"]
    assert "x.json: not JSON" in evaluation.failures[0][1]
    assert not evaluation.complete
    with pytest.raises(InputError, match=r"x\.json: not JSON"):
        evaluate(folders[0] / "x.json", folders[1] / "x.TextGrid")


def test_words_without_time_silences_and_nothing_at_all(folders):
    words = (*OURS.words[:2], AlignedWord("world!", "", 11, 17, "unknown"))
    dataclasses.replace(OURS, words=words).save(folders[0] / "x.json", force=True)
    evaluation = evaluate(*folders)
    assert (evaluation.paired, evaluation.missing) == (5, 1)
    silence = [Interval(0.0, 0.1, label) for label in ("", " ", "<eps>", "sp", "SIL")]
    evaluation = evaluate_intervals([("a", silence, [])])
    assert evaluation.extra == 0
    evaluation = evaluate_intervals([("a", [], [Interval(0.0, 1.0, "a")])])
    assert evaluation.both.mae_ms is None
    assert evaluation.both.within_ms[20] is None
    assert json.dumps(evaluation.to_dict(), allow_nan=False)


def test_wrong_calls(folders, tmp_path):
    (tmp_path / "empty").mkdir()
    for name in (".hidden.TextGrid", "journal.jsonl"):
        (tmp_path / "empty" / name).write_text("x")
    for arguments, says in (
        ((folders[0] / "none", folders[1]), "no such file or folder"),
        ((folders[0], folders[1] / "x.TextGrid"), "two files or two folders"),
        ((folders[1] / "x.TextGrid", folders[0]), "two files or two folders"),
        ((tmp_path / "empty", folders[1]), "got none"),
        ((*folders, "syllables"), "expected the tier words or phones"),
    ):
        with pytest.raises(UsageError, match=says):
            evaluate(*arguments)
    OutputFiles(tmp_path, "a", ("json",)).write(
        dataclasses.replace(TRUE, offset_s=5.0), style=Style(times="recording")
    )
    assert read_intervals(tmp_path / "a.json")[0].start_s == 5.1


# What is read of which file, and which files meet.


def test_ctm_as_hypothesis_and_as_reference(tmp_path):
    OutputFiles(tmp_path / "ours", "a").write(alignment(shift_s=0.01))
    OutputFiles(tmp_path / "theirs", "a").write(alignment())
    for ours in ("a.json", "a.ctm", "a.TextGrid"):
        for theirs in ("a.json", "a.ctm", "a.TextGrid"):
            found = evaluate(tmp_path / "ours" / ours, tmp_path / "theirs" / theirs)
            assert (found.paired, found.mismatched, found.both.mae_ms) == (3, 0, 10.0), (
                ours,
                theirs,
            )
    for ours in ("a.json", "a.tokens.ctm", "a.TextGrid"):
        for theirs in ("a.json", "a.tokens.ctm", "a.TextGrid"):
            found = evaluate(tmp_path / "ours" / ours, tmp_path / "theirs" / theirs, "phones")
            assert (found.paired, found.mismatched, found.both.mae_ms) == (6, 0, 10.0), (
                ours,
                theirs,
            )


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (
            "a 1 0.1 0.2 x\na 1 0.3 0.4 y\n",
            [Interval(0.1, 0.3, "x"), Interval(0.3, 0.7, "y")],
        ),  # no rounding between
        (
            "a 1 0.5 0.1 y\na 1 0.1 0.2 x\n",
            [Interval(0.1, 0.3, "x"), Interval(0.5, 0.6, "y")],
        ),  # out of order
    ],
)
def test_rows_of_ctm_ascend_and_touch(tmp_path, content, rows):
    assert read_intervals(put(tmp_path / "a.ctm", content)) == rows


def test_ctm_with_many_utterances_against_a_folder_and_against_ctm(tmp_path):
    names = ("s1/a", "s1/b", "s2/c")
    many = put(
        tmp_path / "all.ctm",
        ";; a comment\n" + "".join(CTM.format(*[name] * 3).replace("{}", name) for name in names),
    )
    for name in names:
        textgrid(tmp_path / "theirs" / f"{name}.TextGrid", ("words", WORDS))
    found = evaluate(many, tmp_path / "theirs")
    assert (found.paired, found.complete, [u.utterance for u in found.utterances]) == (
        9,
        True,
        list(names),
    )
    assert evaluate(many, many).paired == 9
    assert evaluate(tmp_path / "theirs", many).paired == 9
    few = put(tmp_path / "few.ctm", CTM.replace("{}", "s1/a"))
    found = evaluate(few, many)
    assert (found.paired, found.missing_files) == (3, ("s1/b", "s2/c"))
    assert evaluate(tmp_path / "theirs" / "s2" / "c.TextGrid", many).missing_files == (
        "s1/a",
        "s1/b",
    )


def test_channels_and_utterances_that_come_twice(tmp_path):
    path = put(tmp_path / "a.ctm", "a A 0.1 0.2 x\na B 0.15 0.2 y\nb 1 0 1 z\n")
    assert [u.utterance for u in evaluate(path, path).utterances] == ["a:A", "a:B", "b"]
    line = json.dumps(to_dict(alignment("x")))
    path = put(tmp_path / "a.jsonl", f"{line}\n\n{line}\n")
    with pytest.raises(InputError, match=r"a.jsonl:3: .* got 'x' again"):
        evaluate(path, path)


@over_rows(
    ("name", "content", "says"),
    [
        (
            "a.ctm",
            "a 1 0.1 0.2",
            ":2: expected '<utterance> <channel> <start> <duration> <label>', got: a 1 0.1 0.2",
        ),
        ("a.ctm", "a 1 soon 0.2 x", ":2: expected '<utterance>"),
        ("a.ctm", "a 1 0.1 -0.2 x", ":2: expected a start and a duration in seconds, got 0.1 -0.2"),
        ("a.ctm", "a 1 nan 0.2 x", ":2: expected a start and a duration"),
        ("b.ctm", "", "got an empty file"),
        ("b.wrd", "0.1 0.2 one", ":2: expected '<first sample> <end> <label>', got: 0.1 0.2 one"),
        ("c.wrd", f"0 {'9' * 5000} one", ":2: expected '<first sample> <end> <label>'"),
        ("a.json", '{"format": "ctc-align/1"}', ""),
        ("a.json", "3", ""),
    ],
)
def test_labels_that_cannot_be_read(tmp_path, name, content, says):
    before = {"a.ctm": "a 1 0 0.1 x\n", "b.ctm": ";; nothing\n"}.get(
        name, "" if name == "a.json" else "0 1 x\n"
    )
    path = put(tmp_path / name, f"{before}{content}\n")
    with pytest.raises(InputError) as error:
        read_intervals(path)
    assert str(error.value).startswith(f"{path}")
    assert says in str(error.value)


def test_shards(tmp_path):
    lines = [json.dumps(to_dict(alignment(name, 0.01))) for name in ("s/x", "s/y")]
    shards = tmp_path / "ours"
    shards.mkdir()
    for i, line in enumerate(lines):
        with gzip.open(shards / f"alignments-0000{i}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.write(line + "\n")
    put(shards / "journal.jsonl", '{"id": "s/x"}\n')
    put(shards / "summary.json", "{}")
    for name in ("x", "y"):
        textgrid(tmp_path / "theirs" / "s" / f"{name}.TextGrid", ("words", WORDS))
    found = evaluate(shards, tmp_path / "theirs")
    assert (found.paired, found.both.mae_ms, found.complete, found.extra_files) == (
        6,
        10.0,
        True,
        (),
    )
    assert evaluate(shards / "alignments-00000.jsonl.gz", tmp_path / "theirs").missing_files == (
        "s/y",
    )
    with pytest.raises(UsageError, match=r"the program.s own output"):
        evaluate(shards, shards)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"no gzip", "not whole gzip data"),
        (
            gzip.compress(b"{}\n", mtime=0),
            ':1: expected an alignment of format "ctc-align/1", got other JSON',
        ),
        (gzip.compress(b"{\n", mtime=0), ":1: not JSON"),
        (
            gzip.compress(b'{"format": "ctc-align/1", "utterance": "a"}\n', mtime=0),
            ":1: not a whole alignment: audio is missing",
        ),
        (gzip.compress(b"x" * 1000, mtime=0)[:-12], "not whole gzip data"),
    ],
)
def test_shards_that_cannot_be_read(tmp_path, content, says):
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "alignments-00000.jsonl.gz").write_bytes(content)
    textgrid(tmp_path / "theirs" / "x.TextGrid", ("words", WORDS))
    found = evaluate(tmp_path / "ours", tmp_path / "theirs")
    assert not found.complete
    assert says in found.failures[0][1]
    assert found.missing_files == ("x",)


def test_tiers_by_name_and_by_number(tmp_path):
    others = tuple((label + "x", start, end) for label, start, end in WORDS)
    grid = textgrid(tmp_path / "a.TextGrid", (".points", ()), ("Notes", others), ("Wörter", WORDS))
    ours = textgrid(tmp_path / "b.TextGrid", ("words", WORDS))
    for name in ("Wörter", "wörter ", "3"):
        found = evaluate(ours, grid, options=Options(reference_tier=name))
        assert (found.paired, found.mismatched) == (3, 0)
        assert evaluate(grid, ours, options=Options(hypothesis_tier=name)).mismatched == 0
    assert evaluate(ours, grid, options=Options(reference_tier="2")).mismatched == 3
    with pytest.raises(
        InputError,
        match=r"a\.TextGrid: expected an interval tier named words.*got: 2 Notes, 3 Wörter",
    ):
        evaluate(ours, grid)
    for name in ("Worte", "1", "4"):
        with pytest.raises(
            InputError, match=f"expected an interval tier named '{name}', got: 2 Notes, 3 Wörter"
        ):
            evaluate(ours, grid, options=Options(reference_tier=name))
    grid = textgrid(tmp_path / "a.TextGrid", ("2", WORDS), ("words", ()))
    assert len(read_intervals(grid, "words", "2")) == 3


def test_speakers(tmp_path):
    late = tuple((label, start + 0.05, end + 0.05) for label, start, end in WORDS)
    both = textgrid(
        tmp_path / "a.TextGrid", ("Ann - words", WORDS), ("Ann - phones", ()), ("Bob - words", late)
    )
    same = textgrid(tmp_path / "b.TextGrid", ("bob - words", late), ("ann - words", WORDS))
    found = evaluate(both, same)
    assert [(u.utterance, u.mae_ms) for u in found.utterances] == [
        ("b (ann)", 0.0),
        ("b (bob)", 0.0),
    ]
    alone = textgrid(
        tmp_path / "c.TextGrid", ("words", tuple(sorted(WORDS + late, key=lambda row: row[1])))
    )
    found = evaluate(both, alone)
    assert (found.paired, found.both.mae_ms) == (6, 0.0)


def test_names_that_meet_by_their_ends_take_no_time(tmp_path):
    """Flat names against nested ones, thousands of them."""
    import time

    from ctc_align.evaluate.utterance_files import AlignmentSource, match_utterances

    def never():
        raise AssertionError

    ours, theirs = AlignmentSource(tmp_path), AlignmentSource(tmp_path)
    ours.utterances = {f"u{i}": never for i in range(20000)}
    theirs.utterances = {f"s{i % 7}/u{i}": never for i in range(20000)}
    began_s = time.process_time()
    assert len(match_utterances(ours, theirs)[0]) == 20000
    assert time.process_time() - began_s < 5.0


def test_labels_of_timit(tmp_path):
    """Samples at 16 kHz, words and phones in files of their own, in whatever case."""
    put(tmp_path / "theirs" / "dr1" / "A.WRD", "1600 6400 one\n6400 12000 two\n14400 20800 three\n")
    put(tmp_path / "theirs" / "dr1" / "A.PHN", "0 1600 h#\n1600 3200 o\n3200 6400 e\n")
    put(tmp_path / "theirs" / "dr1" / "A.TXT", "0 32000 one two three\n")
    OutputFiles(tmp_path / "ours" / "dr1", "A").write(alignment("A", 0.01))
    for tier, paired in (("words", 3), ("phones", 2)):
        found = evaluate(tmp_path / "ours", tmp_path / "theirs", tier)
        assert (found.paired, found.both.mae_ms, found.complete) == (paired, 10.0, True), tier
    grid = textgrid(tmp_path / "A.TextGrid", ("words", WORDS))
    assert evaluate(grid, tmp_path / "theirs" / "dr1" / "A.WRD").both.mae_ms == 0.0
    with pytest.raises(
        InputError, match=r"A\.PHN: holds phones, by its name, and no words; give --tier phones"
    ):
        evaluate(grid, tmp_path / "theirs" / "dr1" / "A.PHN")


# A TextGrid that a person has corrected, brought back into the alignment that it came from.

PHONES = (
    ("o", 0.1, 0.2),
    ("e", 0.2, 0.42),
    ("t", 0.42, 0.6),
    ("w", 0.6, 0.75),
    ("t", 0.9, 1.1),
    ("e", 1.1, 1.3),
)
MOVED = (("One,", 0.1, 0.42), ("two", 0.42, 0.75), ("three", 0.92, 1.3))


def spelled(**fields: object) -> Alignment:
    """The alignment of "one two three", each word at its place in the text."""
    made = alignment()
    places = [made.text.index(word.text) for word in made.words]
    words = [
        replace(word, char_start=at, char_end=at + len(word.text))
        for word, at in zip(made.words, places)
    ]
    return replace(made, words=tuple(words), **fields)


def test_its_edges_are_by_hand_in_times_of_the_recording_and_tiers_of_speakers_too(
    tmp_path: Path,
) -> None:
    grid = textgrid(
        tmp_path / "a.TextGrid", ("words", (*MOVED, ("", 1.3, 2.0))), ("phones", PHONES)
    )
    words = with_labels(spelled(), grid)
    assert [(word.text, word.start_s, word.end_s, word.by) for word in words] == [
        ("one", 0.1, 0.42, "hand"),
        ("two", 0.42, 0.75, "hand"),
        ("three", 0.92, 1.3, "hand"),
    ]
    tokens = [(token.token, token.start_s, token.by) for token in words[1].tokens]
    assert tokens == [("t", 0.42, "hand"), ("w", 0.6, "hand")]
    assert words[2].tokens == (), "its phones begin where it began before"
    assert {word.confidence for word in words} == {None}
    late = tuple((label, start + 5, end + 5) for label, start, end in MOVED)
    grid = textgrid(
        tmp_path / "a.TextGrid", ("Ann - words", late[1:]), ("Ben - words", late[:1]), end_s=7.0
    )
    made = spelled(offset_s=5.0, config={"times": "recording"})
    named = [replace(word, speaker=name) for word, name in zip(made.words, ("Ben", "Ann", "Ann"))]
    words = with_labels(replace(made, words=tuple(named)), grid)
    assert [(word.start_s, word.end_s) for word in words] == [
        (0.1, 0.42),
        (0.42, 0.75),
        (0.92, 1.3),
    ]


def test_labels_without_phones_or_written_as_silences(tmp_path: Path) -> None:
    words = with_labels(spelled(), textgrid(tmp_path / "a.TextGrid", ("words", MOVED)))
    assert [len(word.tokens) for word in words] == [0, 0, 0]
    words = with_labels(spelled(), textgrid(tmp_path / "a.TextGrid", ("words", WORDS)))
    assert [[token.by for token in word.tokens] for word in words] == [["", ""]] * 3
    made = spelled()
    words = (replace(made.words[0], text="Sil"), *made.words[1:])
    rows = (("sil", *MOVED[0][1:]), *MOVED[1:], ("sp", 1.3, 2.0))
    grid = textgrid(tmp_path / "a.TextGrid", ("words", rows))
    text = made.text.replace("one", "Sil")
    assert [word.by for word in with_labels(replace(made, words=words, text=text), grid)] == [
        "hand"
    ] * 3


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (MOVED[:2], r"got an end before word 3, 'three' \(0\.90 s\); if the text was wrong"),
        ((*MOVED, ("four", 1.4, 1.5)), r"got 'four' \(1\.40 s\) after the last of them"),
        (
            (MOVED[0], ("too", 0.42, 0.75), MOVED[2]),
            r"got 'too' \(0\.42 s\) for word 2, 'two' \(0\.40 s\)",
        ),
        ((MOVED[0], ("two", 0.3, 0.75), MOVED[2]), "overlap: move the edges"),
    ],
)
def test_other_words_are_refused(
    tmp_path: Path, rows: tuple[tuple[str, float, float], ...], says: str
) -> None:
    with pytest.raises(InputError, match=rf"a\.TextGrid: .*{says}"):
        with_labels(spelled(), textgrid(tmp_path / "a.TextGrid", ("words", rows)))


def test_the_labels_of_a_folder(tmp_path: Path) -> None:
    plain = textgrid(tmp_path / "spk" / "a.TextGrid", ("words", WORDS))
    other = textgrid(tmp_path / "a.TextGrid", ("words", WORDS))
    assert labels_of(tmp_path, Path("out/spk/a.json")) == plain
    assert labels_of(tmp_path, Path("out/other/a.json")) == other
    textgrid(tmp_path.parent / "out" / "a.TextGrid", ("words", WORDS))
    assert labels_of(tmp_path, Path("../out/a.json")) == other, (
        "not what was written beside the alignment"
    )
    kept = textgrid(tmp_path / "spk" / "a.hand.TextGrid", ("words", WORDS))
    assert labels_of(tmp_path, Path("out/spk/a.json")) == kept
    with pytest.raises(
        InputError, match=r"b\.json: expected its labels in .*, b\.TextGrid, got no such file"
    ):
        labels_of(tmp_path, Path("b.json"))


def test_labels_of_another_recording_are_doubted_and_json_is_refused(tmp_path: Path) -> None:
    """A take of the same words has them elsewhere; of JSON only what is marked is by hand, and it
    needs no --hand."""
    slow = tuple((label, 2 * start, 2 * end) for label, start, end in MOVED)
    made = spelled(duration_s=3.0)
    for rows, says in ((MOVED, ()), (slow, ("half of the edges are more than 0.25 s off",))):
        grid = textgrid(tmp_path / "a.TextGrid", ("words", rows), end_s=3.0)
        doubts = label_doubts(made, with_labels(made, grid), grid)
        assert all(
            str(grid) in doubt and each in doubt for doubt, each in zip(doubts, says, strict=True)
        )
    made.save(tmp_path / "a.corrected.json")
    with pytest.raises(
        InputError, match=r"a\.corrected\.json: .*give it in place of the alignment, without --hand"
    ):
        with_labels(made, tmp_path / "a.corrected.json")


# The worker that FA-Bench starts answers a line for each job, in its protocol.

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "ctc_align" / "demo"


def test_a_line_for_each_job(tmp_path, capsys):
    import fa_bench_worker

    text = (DEMO / "demo.txt").read_text(encoding="utf-8")
    jobs = [{"item_id": "a", "audio_path": str(DEMO / "demo.flac"), "transcript": text}]
    jobs += [{"item_id": "b", "audio_path": str(tmp_path / "gone.wav"), "transcript": "no"}]
    (tmp_path / "jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs), "utf-8")
    fa_bench_worker.main([str(tmp_path / "jobs.jsonl"), "english"])
    found, failed = map(json.loads, capsys.readouterr().out.splitlines())
    assert (found["item_id"], failed["item_id"]) == ("a", "b")
    assert "gone.wav" in failed["error"]
    assert [word[0] for word in found["words"][:2]] == ["Forced", "alignment"]
    assert [phone[0] for phone in found["phones"][:5]] == ["F", "AO", "R", "S", "T"]
    starts = [word[1] for word in found["words"]]
    assert starts == sorted(starts)
    assert all(
        0 <= start < end and 0 <= confidence <= 1 for _, start, end, confidence in found["words"]
    )


# Pairs of intervals, and labels that can be compared: maps, closures, phone sets.


def row(labels: str, start_s: float = 0.0) -> list[Interval]:
    """One interval a word, a second each."""
    return [Interval(start_s + i, start_s + i + 1, label) for i, label in enumerate(labels.split())]


def shown(pairing) -> list[str]:
    pairs = [
        f"{p.hypothesis.label}{'≠' if p.mismatch else '='}{p.reference.label}"
        for p in pairing.pairs
    ]
    return pairs + [f"-{i.label}" for i in pairing.missing] + [f"+{i.label}" for i in pairing.extra]


@over_rows(
    ("hypothesis", "reference", "expected"),
    [
        ("Hello, “world’s” end.", "hello WORLD'S end", "Hello,=hello “world’s”=WORLD'S end.=end"),
        ("a b d e", "a b c d e", "a=a b=b d=d e=e -c"),
        ("a b c d", "a b d", "a=a b=b d=d +c"),
        ("a x c", "a b c", "a=a x≠b c=c"),
        ("twenty two", "twentytwo", "twenty two=twentytwo"),
        ("in twenty-two lines", "in twenty two lines", "in=in twenty-two=twenty two lines=lines"),
        ("", "a b", "-a -b"),
        ("a", "", "+a"),
        ("", "", ""),
    ],
)
def test_fewest_edits_by_hand(hypothesis, reference, expected):
    assert " ".join(shown(pair_intervals(row(hypothesis), row(reference)))) == expected


def test_compounds_equal_words_and_rows_far_apart():
    compound = pair_intervals(row("in twenty-two lines"), row("in twenty two lines")).pairs[1]
    assert compound.reference == Interval(1.0, 3.0, "twenty two")
    reference = [Interval(0.0, 1.0, "the"), Interval(5.0, 6.0, "the")]
    for start_s, i in ((0.4, 0), (4.8, 1)):
        pairing = pair_intervals([Interval(start_s, start_s + 1.0, "the")], reference)
        assert pairing.pairs[0].reference == reference[i]
        assert pairing.missing == (reference[1 - i],)
    common = " ".join(map(str, range(60)))
    pairing = pair_intervals(row("x " * 20 + common), row(common + " y" * 20))
    assert [pair.hypothesis.label for pair in pairing.pairs] == common.split()
    assert (len(pairing.extra), len(pairing.missing)) == (20, 20)
    assert [normalised_label(label) for label in ("Don’t!", "—", " (U.S.) ", "ʔ")] == [
        "don't",
        "—",
        "u.s",
        "ʔ",
    ]


def edit_distance(left, right) -> int:
    @lru_cache(None)
    def distance(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        replaced = distance(i - 1, j - 1) + (left[i - 1] != right[j - 1])
        return min(replaced, distance(i - 1, j) + 1, distance(i, j - 1) + 1)

    return distance(len(left), len(right))


LETTERS = st.lists(st.sampled_from("abc"), max_size=30).map(" ".join)


@given(LETTERS, LETTERS)
def test_fewest_edits_in_order_and_all_accounted_for(left, right):
    pairing = pair_intervals(row(left), row(right))
    edits = sum(pair.mismatch for pair in pairing.pairs) + len(pairing.missing) + len(pairing.extra)
    assert edits <= edit_distance(left.split(), right.split())
    used = [label for p in pairing.pairs for label in p.reference.label.split()]
    assert sorted(used + [i.label for i in pairing.missing]) == sorted(right.split())
    used = [label for p in pairing.pairs for label in p.hypothesis.label.split()]
    assert sorted(used + [i.label for i in pairing.extra]) == sorted(left.split())
    for side in ("hypothesis", "reference"):
        starts = [getattr(pair, side).start_s for pair in pairing.pairs]
        assert starts == sorted(starts)


@over_rows(
    ("phones", "joined"),
    [
        ("kcl k ix tcl dcl jh gcl q axr tcl t h#", "k ih t jh g er t h#"),
        ("ae dcl", "ae d"),
        ("AH0 q el IX T", "ah q el ix t"),  # another phone set keeps its phones
    ],
)
def test_closures_join_their_bursts(phones, joined):
    assert [p.label for p in broad_phones(row(phones))] == joined.split()
    assert broad_phones(row("kcl k"))[0] == Interval(0.0, 2.0, "k")


# The 61 phones of TIMIT's documentation (doc/phoncode.doc), closures and silences last.
TIMIT_PHONES = """
    b d g p t k dx q jh ch s sh z zh f th v dh m n ng em en eng nx l r w y hh hv el iy ih eh ey ae aa aw ay ah ao oy ow
    uh uw ux er ax ix axr ax-h bcl dcl gcl pcl tcl kcl pau epi h#
"""


def tenths(labels: str) -> list[Interval]:
    edges = [i / 10 for i in range(len(labels.split()) + 1)]
    return [
        Interval(start, end, label) for (start, end), label in zip(pairwise(edges), labels.split())
    ]


def names(labels: str, *arguments) -> list[str]:
    return [interval.label for interval in compared_intervals(tenths(labels), "phones", *arguments)]


def test_timits_phones_and_closures():
    assert len(TIMIT_PHONES.split()) == 61
    kept = {label for phone in TIMIT_PHONES.split() for label in names(phone, read_labels("timit"))}
    assert len(kept) == 38
    apart = [Interval(0.0, 0.1, "kcl"), Interval(0.3, 0.4, "k")]
    assert compared_intervals(apart, "phones") == [Interval(0.0, 0.1, "k"), Interval(0.3, 0.4, "k")]
    assert compared_intervals(tenths("h# tcl ch"), "phones", {})[0] == Interval(0.1, 0.3, "ch")


@over_rows(
    ("phones", "maps", "compared"),
    [
        ("ao zh ax-h EL nx q pau epi h# hv", ("timit",), "aa sh ah l n hh"),
        ("h# tcl ch q kcl s dcl d", ("timit",), "ch k s d"),  # closures merge before the map
        ("AH0 ER1 6 aI6 e:2 t1", (), "ah er 6 ai6 e:2 t1"),  # only stress marks of dictionaries go
    ],
)
def test_labels_that_are_compared(phones, maps, compared):
    assert names(phones, *map(read_labels, maps)) == compared.split()


def test_maps_of_labels(tmp_path):
    path = tmp_path / "map.txt"
    path.write_text("\ufeff# comment\nA  b\t# why\n\nc\nh# pause\nb c\n", "utf-8")
    labels = read_labels(path)
    assert labels == {"a": "b", "c": "", "h#": "pause", "b": "c"}
    assert names("a c h# d B", labels) == ["b", "pause", "d", "c"]
    words = [Interval(0, 1, "A,"), Interval(1, 2, "c"), Interval(2, 3, "Dd")]
    assert [interval.label for interval in compared_intervals(words, "words", labels)] == [
        "b",
        "Dd",
    ]
    triples = [("a", tenths("AH0 b"), tenths("ah b"))]
    for labels, told in (({"x": "y"}, True), ({"AH": "ax"}, False), ({"b": ""}, False)):
        doubts = evaluate_intervals(triples, "phones", Options(labels=labels)).doubts
        assert doubts == (
            ("no label of either side is in the map: is it the right one?",) if told else ()
        )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a b\nah ah ax\n", r"map.txt:2: expected two columns, 'from to', got 3: ah ah ax"),
        (b"a b\na c\n", "map.txt:2: a becomes 'c', but 'b' further up"),
        (b"# nothing\n", "got none"),
        (b"\xff\xfe", "expected UTF-8"),
    ],
)
def test_files_that_are_no_map(tmp_path, content, says):
    path = tmp_path / "map.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=says):
        read_labels(path)
    with pytest.raises(UsageError, match="built-in map: timit"):
        read_labels(tmp_path / "none")


@over_rows(
    ("ours", "theirs", "tier", "labels", "mismatched"),
    [
        ("AO R IX", "aa r ih", "phones", "timit", 0),
        ("AO R IX", "aa r ih", "phones", None, 2),
        ("a: @", "a @", "phones", None, 1),  # punctuation is part of a phone
        ("a:", "a", "words", None, 0),
    ],
)
def test_both_sides_are_mapped(ours, theirs, tier, labels, mismatched):
    options = Options(labels=read_labels(labels)) if labels else Options()
    found = evaluate_intervals([("a", tenths(ours), tenths(theirs))], tier, options)
    assert (found.paired, found.mismatched) == (len(ours.split()), mismatched)


# What looks wrong is told, and what looks well is not.

REFERENCE = [Interval(start, end, label) for label, start, end in WORDS]
SAME_UNIT = "seconds are expected"


def moved(
    scale: float = 1.0, shift_s: float = 0.0, noise_s: float = 0.0, row=REFERENCE
) -> list[Interval]:
    draw = random.Random(1)
    times = [
        (scale * (i.start_s + draw.uniform(0, noise_s)) + shift_s, scale * i.end_s + shift_s)
        for i in row
    ]
    return [Interval(start, end, interval.label) for (start, end), interval in zip(times, row)]


def told(hypothesis, reference=REFERENCE) -> tuple[str, ...]:
    return evaluate_intervals([("u1", hypothesis, reference)]).doubts


def test_nothing_is_told_of_good_ones_and_scales_without_a_name_are_numbers():
    assert told(REFERENCE) == told(moved(noise_s=0.05)) == told(moved(shift_s=0.1)) == ()
    assert "the times of the hypothesis are 7 times the other's" in told(moved(7.0))[0]


@over_rows(
    ("scale", "unit"),
    [
        (1000.0, "milliseconds"),
        (100.0, "frames of 10 ms"),
        (50.0, "frames of 20 ms"),
        (16000.0, "samples at 16 kHz"),
        (44100.0, "samples at 44.1 kHz"),
        (1e7, "HTK's units of 100 ns"),
    ],
)
def test_other_units(scale, unit):
    assert told(moved(scale, noise_s=0.02)) == (
        f"the times of the hypothesis look like {unit}; {SAME_UNIT}",
    )
    assert told(REFERENCE, moved(scale)) == (
        f"the times of the reference look like {unit}; {SAME_UNIT}",
    )


@over_rows("shift_s", [5.1, 120.0, -0.6])
def test_a_shift_of_the_whole(shift_s):
    row = moved(shift_s=max(0.0, -shift_s))
    (doubt,) = told(moved(shift_s=shift_s, row=row), row)
    assert f"off by about the same, {shift_s:+.2f} s, in 1 utterance: u1" in doubt
    assert len(told(moved(shift_s=shift_s, noise_s=0.05, row=row), row)) == 1


def test_another_length(tmp_path):
    OutputFiles(tmp_path, "a", ("json",)).write(alignment())
    for end_s, expected in ((2.0, 0), (2.4, 0), (9.0, 1), (1.4, 1)):
        grid = textgrid(tmp_path / "b.TextGrid", ("words", WORDS), end_s=end_s)
        doubts = evaluate(tmp_path / "a.json", grid).doubts
        assert len(doubts) == expected
        assert all(f"b (2.00 s against {end_s:.2f} s)" in doubt for doubt in doubts)


def test_arguments_the_wrong_way_round(tmp_path):
    OutputFiles(tmp_path / "ours", "a", ("json", "ctm")).write(alignment())
    grid = textgrid(tmp_path / "b.TextGrid", ("words", WORDS))
    plain = put(tmp_path / "c.ctm", "c 1 0.1 0.2 one\n")
    for reference in ("a.json", "a.ctm"):
        for hypothesis in (grid, plain):
            doubt, *_ = evaluate(hypothesis, tmp_path / "ours" / reference).doubts
            assert "is the hypothesis given first?" in doubt
        assert evaluate(tmp_path / "ours" / reference, grid).doubts == ()
    assert evaluate(tmp_path / "ours" / "a.json", tmp_path / "ours" / "a.ctm").doubts == ()
    data = json.loads((tmp_path / "ours" / "a.json").read_text("utf-8"))
    data["words"][0]["by"] = "hand"
    corrected = put(tmp_path / "a.json", json.dumps(data))
    assert evaluate(corrected, tmp_path / "ours" / "a.json").doubts == ()


def test_other_transcripts_and_references_that_nobody_has_labelled():
    other = [Interval(i.start_s, i.end_s, "x" + i.label) for i in REFERENCE]
    triples = [("u1", REFERENCE, REFERENCE), ("u2", REFERENCE, REFERENCE), ("u3", other, REFERENCE)]
    (doubt,) = evaluate_intervals(triples).doubts
    assert doubt.startswith(
        "more than half of the reference has a different label or none in 1 utterance: u3"
    )
    assert told(other) == ("the labels of 3 of 3 pairs differ: are these the same transcripts?",)
    assert "a different label or none in 1 utterance: u1" in told(REFERENCE[:1])[0]
    (doubt,) = evaluate_intervals([("u1", REFERENCE, REFERENCE), ("u2", REFERENCE, [])]).doubts
    assert doubt == "the reference has no labels in 1 utterance: u2: is all of it labelled?"


def test_another_recording_of_the_same_sounds():
    """Phones of any two texts pair, and labels tell nothing: the distance does."""
    draw = random.Random(3)

    def phones() -> list[Interval]:
        starts = sorted(draw.uniform(0, 9) for _ in range(60))
        return [Interval(start, start + 0.05, draw.choice("aest")) for start in starts]

    (doubt,) = evaluate_intervals([("u1", phones(), phones())], "phones").doubts
    assert told([Interval(5.0, 5.4, "yes")], [Interval(5.5, 5.9, "yes")]) == (), (
        "one word, misplaced"
    )
    assert "more than 0.25 s off, which no aligner does, in 1 utterance: u1" in doubt
