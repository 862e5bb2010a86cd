from __future__ import annotations

from functools import lru_cache

from hypothesis import given
from hypothesis import strategies as st

from ctc_align.evaluate.pairing import broad_phones, normalised_label, pair_intervals
from ctc_align.types import Interval


def row(labels: str, start_s: float = 0.0) -> list[Interval]:
    """One interval a word, a second each."""
    return [Interval(start_s + i, start_s + i + 1, label) for i, label in enumerate(labels.split())]


def shown(pairing) -> list[str]:
    pairs = [f"{p.hypothesis.label}{'≠' if p.mismatch else '='}{p.reference.label}" for p in pairing.pairs]
    return pairs + [f"-{i.label}" for i in pairing.missing] + [f"+{i.label}" for i in pairing.extra]


def test_equal_but_for_case_and_punctuation():
    assert shown(pair_intervals(row("Hello, “world’s” end."), row("hello WORLD'S end"))) == [
        "Hello,=hello",
        "“world’s”=WORLD'S",
        "end.=end",
    ]


def test_a_missing_word_does_not_shift_the_others():
    assert shown(pair_intervals(row("a b d e"), row("a b c d e"))) == ["a=a", "b=b", "d=d", "e=e", "-c"]


def test_an_extra_word_does_not_shift_the_others():
    assert shown(pair_intervals(row("a b c d"), row("a b d"))) == ["a=a", "b=b", "d=d", "+c"]


def test_another_label_is_a_mismatch_in_its_place():
    assert shown(pair_intervals(row("a x c"), row("a b c"))) == ["a=a", "x≠b", "c=c"]


def test_compounds_written_apart_are_one_stretch():
    pairing = pair_intervals(row("in twenty-two lines"), row("in twenty two lines"))
    assert shown(pairing) == ["in=in", "twenty-two=twenty two", "lines=lines"]
    assert pairing.pairs[1].reference == Interval(1.0, 3.0, "twenty two")
    assert shown(pair_intervals(row("twenty two"), row("twentytwo"))) == ["twenty two=twentytwo"]


def test_of_two_equal_words_the_nearer_one_is_paired():
    reference = [Interval(0.0, 1.0, "the"), Interval(5.0, 6.0, "the")]
    for start_s, i in ((0.4, 0), (4.8, 1)):
        pairing = pair_intervals([Interval(start_s, start_s + 1.0, "the")], reference)
        assert pairing.pairs[0].reference == reference[i]
        assert pairing.missing == (reference[1 - i],)


def test_nothing_against_something():
    assert shown(pair_intervals([], row("a b"))) == ["-a", "-b"]
    assert shown(pair_intervals(row("a"), [])) == ["+a"]
    assert shown(pair_intervals([], [])) == []


def test_far_apart_rows_widen_the_band():
    common = " ".join(map(str, range(60)))
    pairing = pair_intervals(row("x " * 20 + common), row(common + " y" * 20))
    assert [pair.hypothesis.label for pair in pairing.pairs] == common.split()
    assert (len(pairing.extra), len(pairing.missing)) == (20, 20)


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


def test_normalised_labels():
    assert [normalised_label(label) for label in ("Don’t!", "—", " (U.S.) ", "ʔ")] == ["don't", "—", "u.s", "ʔ"]


def test_closures_join_their_bursts():
    assert [p.label for p in broad_phones(row("kcl k ix tcl dcl jh gcl q axr tcl t h#"))] == [
        *("k", "ih", "t", "jh", "g", "er", "t", "h#"),
    ]
    assert broad_phones(row("kcl k"))[0] == Interval(0.0, 2.0, "k")


def test_a_closure_at_the_end_is_the_stop():
    assert broad_phones(row("ae dcl"))[-1] == Interval(1.0, 2.0, "d")


def test_other_phone_sets_keep_their_phones():
    assert [p.label for p in broad_phones(row("AH0 q el IX T"))] == ["ah", "q", "el", "ix", "t"]
