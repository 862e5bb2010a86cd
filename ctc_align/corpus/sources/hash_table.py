"""A table from names to whole numbers in 16 bytes a slot, for millions of names that need not be kept themselves."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np


class HashTable:
    """64-bit keys (never 0) to 64-bit values; open addressing, at most three quarters full.

    Ten million entries take 268 MB, and half as much again for the moment in which the table grows.

    >>> table = HashTable()
    >>> table.put(hash64(b"a"), 7)
    >>> table.get(hash64(b"a")), table.get(hash64(b"b"))
    (7, None)
    """

    def __init__(self) -> None:
        self._count = 0
        self._reserve(2**10)

    def __len__(self) -> int:
        return self._count

    def get(self, key: int) -> int | None:
        slot = self._slot(key)
        return self._values[slot] if self._keys[slot] else None

    def put(self, key: int, value: int) -> None:
        slot = self._slot(key)
        self._count += not self._keys[slot]
        self._keys[slot], self._values[slot] = key, value
        if 4 * self._count > 3 * len(self._keys):
            self._grow()

    def _slot(self, key: int) -> int:
        """Where `key` is, or the empty slot where it belongs."""
        keys, mask = self._keys, len(self._keys) - 1
        slot = key & mask
        while keys[slot] and keys[slot] != key:
            slot = (slot + 1) & mask
        return slot

    def _reserve(self, slots: int) -> None:
        # memory views: reading one number of a numpy array costs several times as much
        self._keys = np.zeros(slots, np.uint64).data  # 0: empty
        self._values = np.zeros(slots, np.uint64).data

    def _grow(self) -> None:
        keys, values = self._keys, self._values
        self._reserve(2 * len(keys))
        for old in range(len(keys)):
            if keys[old]:
                slot = self._slot(keys[old])
                self._keys[slot], self._values[slot] = keys[old], values[old]


def hash64(name: bytes) -> int:
    """64 bits of BLAKE2, never 0: among ten million names two meet once in 370,000 corpora."""
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "little") or 1


def hash31(name: bytes) -> int:
    """31 bits that say nothing of those of `hash64`."""
    return int.from_bytes(blake2b(name, digest_size=4, person=b"who").digest(), "little") >> 1
