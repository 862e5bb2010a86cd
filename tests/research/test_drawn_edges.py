from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ctc_align.errors import InputError
from drawn_edges import COLUMNS, read_drawn


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
    with pytest.raises(
        InputError, match=rf"{table}:3: expected the columns recording, speaker, word"
    ):
        read_drawn(table)
