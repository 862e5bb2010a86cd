"""A table as one test: a row that fails is named, with those that fail beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from rows import over_rows


def test_every_row_runs_and_those_that_fail_are_named(tmp_path: Path) -> None:
    ran = []

    @over_rows(("number", "square"), [(1, 1), (2, 5), (3, 9), (4, 17)])
    def squares(folder: Path, number: int, square: int) -> None:
        ran.append((folder, number))
        assert number**2 == square

    with pytest.raises(
        pytest.fail.Exception, match=r"(?s)2 of 4 rows fail:\n\(2, 5\): .*\n\(4, 17\): "
    ):
        squares(folder=tmp_path)
    assert ran == [(tmp_path, number) for number in (1, 2, 3, 4)]


def test_what_should_have_raised_fails() -> None:
    @over_rows("value", [1])
    def never(value: int) -> None:
        with pytest.raises(ValueError):
            int(value)

    with pytest.raises(pytest.fail.Exception, match="1 of 1 rows fail"):
        never()


@over_rows("value", [1, 2])
def test_fixtures_reach_it(tmp_path: Path, value: int) -> None:
    assert tmp_path.is_dir()
    assert value
