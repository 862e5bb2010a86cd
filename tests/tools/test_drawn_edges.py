from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ctc_align.errors import InputError
from drawn_edges import COLUMNS, read_drawn
from synthetic_sounds import RATE, WORSE, made_worse


def test_the_package_has_drawn_edges_of_many_speakers_in_order() -> None:
    drawn = read_drawn()
    assert len(drawn) >= 60
    assert len({one.speaker for one in drawn}) >= 12
    for one in drawn:
        times = np.array([(word.start_s, word.end_s) for word in one.words]).ravel()
        assert (np.diff(times) >= 0).all(), one.recording
        assert (times[1::2] - times[::2] > 0.01).all(), one.recording
        assert (one.doubts_ms > 0).all()
        assert one.doubts_ms.shape == (len(one.words), 2)


@pytest.mark.parametrize("row", ["a/b\tann\tword\t1\tx\t3\t3", "a/b\tann\tword\t1\t2"])
def test_a_wrong_line_of_drawn_edges_is_named(tmp_path: Path, row: str) -> None:
    table = tmp_path / "drawn.tsv"
    table.write_text("# about\n" + "\t".join(COLUMNS) + "\n" + row + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"{table}:3: expected the columns recording, speaker, word"):
        read_drawn(table)


@pytest.mark.parametrize("kind", WORSE)
def test_worse_recordings_have_their_edges_where_they_were(kind: str) -> None:
    rng = np.random.default_rng(0)
    samples = np.zeros(RATE, np.float32)
    samples[RATE // 2 :] = np.sin(np.arange(RATE - RATE // 2) * 2 * np.pi * 500 / RATE)
    for _ in range(5):
        heard = made_worse(samples, kind, rng)
        assert heard.shape == samples.shape
        assert heard.dtype == np.float32
        levels = np.sqrt((heard.reshape(-1, 80) ** 2).mean(1))
        assert abs(int((np.diff(levels)).argmax()) + 1 - RATE // 2 // 80) <= 1
