from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ctc_align.corpus.sources.hash_table import HashTable, hash31, hash64

KEYS = st.integers(1, 12).map(lambda n: n << 10) | st.integers(1, 2**64 - 1)  # many that meet in one slot


@given(st.lists(st.tuples(KEYS, st.integers(0, 2**64 - 1)), max_size=60))
def test_it_is_a_dictionary(pairs):
    table, expected = HashTable(), {}
    for key, value in pairs:
        assert table.get(key) == expected.get(key)
        table.put(key, value)
        expected[key] = value
        assert len(table) == len(expected)
    assert {key: table.get(key) for key in expected} == expected


def test_it_grows_and_forgets_nothing():
    table = HashTable()
    for number in range(20_000):
        table.put(hash64(b"%d" % number), number)
    assert all(table.get(hash64(b"%d" % number)) == number for number in range(20_000))
    assert table.get(hash64(b"-1")) is None


def test_the_two_hashes_are_of_their_size_and_not_one_another():
    names = [b"%d" % number for number in range(1000)]
    assert all(0 < hash64(name) < 2**64 and 0 <= hash31(name) < 2**31 for name in names)
    assert not any(hash64(name) % 2**31 == hash31(name) for name in names)
    assert len(set(map(hash31, names))) == 1000
