"""Maps of labels, and closures."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ctc_align.errors import InputError, UsageError
from ctc_align.evaluate import Options, evaluate_intervals, read_labels
from ctc_align.evaluate.pairing import compared_intervals
from ctc_align.types import Interval

# The 61 phones of TIMIT's documentation (doc/phoncode.doc), closures and silences last.
TIMIT_PHONES = """
    b d g p t k dx q jh ch s sh z zh f th v dh m n ng em en eng nx l r w y hh hv el iy ih eh ey ae aa aw ay ah ao oy ow
    uh uw ux er ax ix axr ax-h bcl dcl gcl pcl tcl kcl pau epi h#
"""


def row(labels: str) -> list[Interval]:
    edges = [i / 10 for i in range(len(labels.split()) + 1)]
    return [Interval(start, end, label) for (start, end), label in zip(pairwise(edges), labels.split())]


def names(labels: str, *arguments) -> list[str]:
    return [interval.label for interval in compared_intervals(row(labels), "phones", *arguments)]


def test_timit_is_folded_into_39_classes_one_of_which_is_silence():
    assert len(TIMIT_PHONES.split()) == 61
    kept = {label for phone in TIMIT_PHONES.split() for label in names(phone, read_labels("timit"))}
    assert len(kept) == 38
    assert names("ao zh ax-h EL nx q pau epi h# hv", read_labels("timit")) == ["aa", "sh", "ah", "l", "n", "hh"]


def test_closures_merge_before_the_map():
    assert names("h# tcl ch q kcl s dcl d", read_labels("timit")) == ["ch", "k", "s", "d"]
    assert compared_intervals(row("h# tcl ch"), "phones", {})[0] == Interval(0.1, 0.3, "ch")


def test_a_closure_does_not_reach_over_a_gap():
    apart = [Interval(0.0, 0.1, "kcl"), Interval(0.3, 0.4, "k")]
    assert compared_intervals(apart, "phones") == [Interval(0.0, 0.1, "k"), Interval(0.3, 0.4, "k")]


def test_a_file(tmp_path):
    path = tmp_path / "map.txt"
    path.write_text("\ufeff# comment\nA  b\t# why\n\nc\nh# pause\nb c\n", "utf-8")
    labels = read_labels(path)
    assert labels == {"a": "b", "c": "", "h#": "pause", "b": "c"}
    assert names("a c h# d B", labels) == ["b", "pause", "d", "c"]
    words = [Interval(0, 1, "A,"), Interval(1, 2, "c"), Interval(2, 3, "Dd")]
    assert [interval.label for interval in compared_intervals(words, "words", labels)] == ["b", "Dd"]


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


def test_a_map_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="built-in map: timit"):
        read_labels(tmp_path / "none")


def test_both_sides_are_mapped():
    found = evaluate_intervals([("a", row("AO R IX"), row("aa r ih"))], "phones", Options(labels=read_labels("timit")))
    assert (found.paired, found.mismatched) == (3, 0)
    assert evaluate_intervals([("a", row("AO R IX"), row("aa r ih"))], "phones").mismatched == 2


def test_punctuation_is_part_of_a_phone():
    assert evaluate_intervals([("a", row("a: @"), row("a @"))], "phones").mismatched == 1
    assert evaluate_intervals([("a", row("a:"), row("a"))], "words").mismatched == 0


def test_a_map_that_changes_nothing_is_told():
    triples = [("a", row("AH0 b"), row("ah b"))]
    for labels, told in (({"x": "y"}, True), ({"AH": "ax"}, False), ({"b": ""}, False)):
        doubts = evaluate_intervals(triples, "phones", Options(labels=labels)).doubts
        assert doubts == (("no label of either side is in the map: is it the right one?",) if told else ())


def test_only_stress_marks_of_dictionaries_go():
    assert names("AH0 ER1 6 aI6 e:2 t1") == ["ah", "er", "6", "ai6", "e:2", "t1"]
