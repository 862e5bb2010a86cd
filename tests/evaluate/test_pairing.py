"""Pairs of intervals, and labels that can be compared: maps, closures, phone sets."""

from __future__ import annotations

import json
import random
from functools import lru_cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_alignments import WORDS, alignment, put, textgrid
from rows import over_rows

from ctc_align.errors import InputError, UsageError
from ctc_align.evaluate import Options, evaluate, evaluate_intervals, read_labels
from ctc_align.evaluate.pairing import broad_phones, compared_intervals, normalised_label, pair_intervals
from ctc_align.files import OutputFiles
from ctc_align.types import Interval


def row(labels: str, start_s: float = 0.0) -> list[Interval]:
    """One interval a word, a second each."""
    return [Interval(start_s + i, start_s + i + 1, label) for i, label in enumerate(labels.split())]


def shown(pairing) -> list[str]:
    pairs = [f"{p.hypothesis.label}{'≠' if p.mismatch else '='}{p.reference.label}" for p in pairing.pairs]
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
    assert [normalised_label(label) for label in ("Don’t!", "—", " (U.S.) ", "ʔ")] == ["don't", "—", "u.s", "ʔ"]


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
    return [Interval(start, end, label) for (start, end), label in zip(pairwise(edges), labels.split())]


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
    assert [interval.label for interval in compared_intervals(words, "words", labels)] == ["b", "Dd"]
    triples = [("a", tenths("AH0 b"), tenths("ah b"))]
    for labels, told in (({"x": "y"}, True), ({"AH": "ax"}, False), ({"b": ""}, False)):
        doubts = evaluate_intervals(triples, "phones", Options(labels=labels)).doubts
        assert doubts == (("no label of either side is in the map: is it the right one?",) if told else ())


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


def moved(scale: float = 1.0, shift_s: float = 0.0, noise_s: float = 0.0, row=REFERENCE) -> list[Interval]:
    draw = random.Random(1)
    times = [(scale * (i.start_s + draw.uniform(0, noise_s)) + shift_s, scale * i.end_s + shift_s) for i in row]
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
    assert told(moved(scale, noise_s=0.02)) == (f"the times of the hypothesis look like {unit}; {SAME_UNIT}",)
    assert told(REFERENCE, moved(scale)) == (f"the times of the reference look like {unit}; {SAME_UNIT}",)


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
            (doubt, *_) = evaluate(hypothesis, tmp_path / "ours" / reference).doubts
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
    assert doubt.startswith("more than half of the reference has another label or none in 1 utterance: u3")
    assert told(other) == ("the labels of 3 of 3 pairs differ: are these the same transcripts?",)
    assert "another label or none in 1 utterance: u1" in told(REFERENCE[:1])[0]
    (doubt,) = evaluate_intervals([("u1", REFERENCE, REFERENCE), ("u2", REFERENCE, [])]).doubts
    assert doubt == "the reference has no labels in 1 utterance: u2: is all of it labelled?"


def test_another_recording_of_the_same_sounds():
    """Phones of any two texts pair, and labels tell nothing: the distance does."""
    draw = random.Random(3)

    def phones() -> list[Interval]:
        starts = sorted(draw.uniform(0, 9) for _ in range(60))
        return [Interval(start, start + 0.05, draw.choice("aest")) for start in starts]

    (doubt,) = evaluate_intervals([("u1", phones(), phones())], "phones").doubts
    assert told([Interval(5.0, 5.4, "yes")], [Interval(5.5, 5.9, "yes")]) == (), "one word, misplaced"
    assert "more than 0.25 s off, which no aligner does, in 1 utterance: u1" in doubt
