"""Tables of a test: as one test of which every row runs, or with only the first row in the short
suite."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def first_row_of(rows: Iterable[Any]) -> list[Any]:
    """Return the rows for `pytest.mark.parametrize`: the first always runs, the others with
    `--long`."""
    first, *others = [row if isinstance(row, tuple) else (row,) for row in rows]
    return [pytest.param(*first), *(pytest.param(*row, marks=pytest.mark.long) for row in others)]


def over_rows(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Return a decorator with the arguments of `pytest.mark.parametrize` that makes one test of all
    rows.

    The other arguments of the test are fixtures, made once for all rows.
    """
    columns = (names,) if isinstance(names, str) else names
    table = [(row,) if isinstance(names, str) else tuple(row) for row in rows]
    assert table, "no rows"

    def decorate(test: Test) -> Test:
        def run(**fixtures: Any) -> None:
            failures = []
            for row in table:
                try:
                    test(**dict(zip(columns, row)), **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    failures.append(f"{row!r:.300}: {type(error).__name__}: {error}")
            if failures:
                pytest.fail(
                    "\n".join([f"{len(failures)} of {len(table)} rows fail:", *failures]),
                    pytrace=False,
                )

        signature = inspect.signature(test)
        fixtures = [
            parameter for name, parameter in signature.parameters.items() if name not in columns
        ]
        run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        run.__name__, run.__qualname__, run.__doc__ = test.__name__, test.__qualname__, test.__doc__
        run.__module__ = test.__module__
        return run

    return decorate
