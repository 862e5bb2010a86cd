from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from sample_alignments import aligned, make_alignment

from ctc_align.errors import InputError, UsageError
from ctc_align.evaluate import evaluate, evaluate_intervals, read_intervals
from ctc_align.files import Alignment, OutputFiles, Style
from ctc_align.types import AlignedWord, Interval


def alignment(*rows: tuple[str, float, float]) -> Alignment:
    return make_alignment(tuple(aligned(text, start_s, end_s, 0, text[:1]) for text, start_s, end_s in rows), 3.0)


OURS = alignment(("Hello,", 0.13, 0.5), ("big", 0.5, 0.9), ("world!", 1.0, 1.46))
TRUE = alignment(("hello", 0.10, 0.5), ("big", 0.5, 0.9), ("world", 0.98, 1.5))


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
    assert (evaluation.paired, evaluation.missing, evaluation.extra, evaluation.mismatched) == (6, 0, 0, 0)
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
    assert (edges[2].utterance, edges[2].reference_s, edges[2].hypothesis_s) == ("deep/y", 0.1, 0.13)
    assert len(evaluate(*folders).worst_edges(100)) == 12
    alignment(("hello", 0.1, 0.5), ("big", 0.5, 0.9), ("world", 0.98, 1.2)).save(folders[0] / "x.json", force=True)
    worst = evaluate(*folders).worst(1)[0]
    assert (worst.utterance, worst.worst_label, worst.worst_ms) == ("x", "world", pytest.approx(-300.0))


def test_a_flat_folder_meets_a_nested_one_by_the_end_of_the_path(folders, tmp_path):
    flat = tmp_path / "flat"
    for stem in ("x", "y"):
        OutputFiles(flat, stem, ("json",)).write(OURS)
    evaluation = evaluate(flat, folders[1])
    assert evaluation.paired == 6
    assert evaluation.complete


def test_the_same_stem_in_other_folders_is_another_file(folders):
    (folders[0] / "deep").rename(folders[0] / "other")
    evaluation = evaluate(*folders)
    assert (evaluation.missing_files, evaluation.extra_files) == (("deep/y",), ("other/y",))
    assert (evaluation.paired, evaluation.complete) == (3, False)


def test_a_flat_name_that_fits_twice_fits_none(folders, tmp_path):
    OutputFiles(folders[1] / "other", "y", ("textgrid",)).write(TRUE)
    flat = tmp_path / "flat"
    OutputFiles(flat, "y", ("json",)).write(OURS)
    assert evaluate(flat, folders[1]).missing_files == ("deep/y", "other/y", "x")
    evaluation = evaluate(folders[1], flat)
    assert (evaluation.missing_files, evaluation.extra_files) == (("y",), ("deep/y", "other/y", "x"))


def test_a_file_that_cannot_be_read_does_not_stop_the_others(folders):
    (folders[0] / "x.json").write_text("{")
    evaluation = evaluate(*folders)
    assert [name for name, _ in evaluation.failures] == ["x"]
    assert "x.json: not JSON" in evaluation.failures[0][1]
    assert not evaluation.complete
    with pytest.raises(InputError, match=r"x\.json: not JSON"):
        evaluate(folders[0] / "x.json", folders[1] / "x.TextGrid")


def test_words_without_time_are_missing(folders):
    words = (*OURS.words[:2], AlignedWord("world", "", 0, 5, "unknown"))
    dataclasses.replace(OURS, words=words).save(folders[0] / "x.json", force=True)
    evaluation = evaluate(*folders)
    assert (evaluation.paired, evaluation.missing) == (5, 1)


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


def test_times_of_the_recording_are_compared_as_they_stand(tmp_path):
    OutputFiles(tmp_path, "a", ("json",)).write(dataclasses.replace(TRUE, offset_s=5.0), style=Style(times="recording"))
    assert read_intervals(tmp_path / "a.json")[0].start_s == 5.1


def test_nothing_paired_has_no_figures():
    evaluation = evaluate_intervals([("a", [], [Interval(0.0, 1.0, "a")])])
    assert evaluation.both.mae_ms is None
    assert evaluation.both.within_ms[20] is None
    assert json.dumps(evaluation.to_dict(), allow_nan=False)


def test_silences_are_no_words():
    silence = [Interval(0.0, 0.1, label) for label in ("", " ", "<eps>", "sp", "SIL")]
    evaluation = evaluate_intervals([("a", silence, [])])
    assert evaluation.extra == 0
