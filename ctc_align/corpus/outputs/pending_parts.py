"""Parts of larger files that are not complete yet, in a SQLite file that survives a killed process."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from ctc_align.errors import OutputError
from ctc_align.files.whole_files import is_link, sync_folder

_VERSION = "1"


def pending_parts_name(job: str = "") -> str:
    """Return the name of the SQLite file in the output folder; each job of several has its own.

    >>> pending_parts_name(), pending_parts_name("0-of-4")
    ('.ctc-align-spool.sqlite', '.ctc-align-spool.0-of-4.sqlite')
    """
    return f".ctc-align-spool{'.' + job if job else ''}.sqlite"


class PendingParts:
    """Rows of bytes by utterance id, on disk, not in memory; the file is made with the first row.

    Rows survive a `kill -9` and a loss of power once `put` has returned. One process writes at a time.

    Args:
        path: the SQLite file; one that another version or another layout wrote, or that cannot be read, is replaced.
        signature: what the rows are for; rows with another signature are of no use.
    """

    def __init__(self, path: str | Path, signature: str = "") -> None:
        self.path = Path(path)
        self._signature = f"{_VERSION} {signature}"
        self._open: sqlite3.Connection | None = None
        if self.path.exists():
            self._connect()

    def put(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """Keep (id, data), all of them or none; earlier rows of these ids are replaced.

        Raises:
            OutputError: the disk is full, or the folder cannot be written.
        """
        with self._reporting():
            connection = self._connect()
            with connection:
                connection.executemany("INSERT OR REPLACE INTO rows (id, data) VALUES (?, ?)", map(_row, rows))

    def get(self, id: str) -> bytes | None:
        """Return the row of an utterance, None where there is none."""
        if self._open is None:
            return None
        with self._reporting():
            found = self._open.execute("SELECT data FROM rows WHERE id = ?", (_key(id),)).fetchone()
        return None if found is None else found[0]

    def holds(self, id: str) -> bool:
        """Return whether an utterance has a row."""
        if self._open is None:
            return False
        with self._reporting():
            return self._open.execute("SELECT 1 FROM rows WHERE id = ?", (_key(id),)).fetchone() is not None

    def rows(self, ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield (id, data) of those of `ids` that have a row, in their order."""
        for id in ids:
            data = self.get(id)
            if data is not None:
                yield id, data

    def all(self) -> Iterator[tuple[str, bytes]]:
        """Yield (id, data) of all rows."""
        if self._open is not None:
            with self._reporting():
                for key, data in self._open.execute("SELECT id, data FROM rows"):
                    yield key.decode("utf-8", "surrogatepass"), data

    def drop(self, ids: Iterable[str]) -> None:
        """Remove these rows, all of them or none."""
        if self._open is not None:
            with self._reporting(), self._open as connection:
                connection.executemany("DELETE FROM rows WHERE id = ?", ((_key(id),) for id in ids))

    def close(self, *, remove: bool = False) -> None:
        """Close the file; with `remove` delete it."""
        if self._open is not None:
            with self._reporting():
                self._open.close()
            self._open = None
        if remove:
            self._remove()

    def _connect(self) -> sqlite3.Connection:
        if self._open is not None:
            return self._open
        if is_link(self.path):
            self._remove()  # SQLite would write what it leads to
        try:
            self._open = self._opened()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise OutputError(f"{self.path}: the spool cannot be opened ({error})") from error
            self._remove()
            self._open = self._opened()
        return self._open

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=30.0)
        try:
            # a rollback journal, not a write-ahead log: that needs shared memory, which network folders do not have
            connection.execute("PRAGMA journal_mode = DELETE")
            # journal lines rely on rows: they outlive a loss of power, one transaction a batch
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA cache_size = -8192")
            with connection:
                connection.execute("CREATE TABLE IF NOT EXISTS about (signature TEXT)")
                found = connection.execute("SELECT signature FROM about").fetchone()
                if found != (self._signature,):
                    connection.execute("DROP TABLE IF EXISTS rows")
                    connection.execute("DELETE FROM about")
                    connection.execute("INSERT INTO about VALUES (?)", (self._signature,))
                connection.execute("CREATE TABLE IF NOT EXISTS rows (id BLOB PRIMARY KEY, data BLOB) WITHOUT ROWID")
            sync_folder(self.path.parent)
        except BaseException:
            connection.close()
            raise
        return connection

    def _remove(self) -> None:
        for suffix in ("", "-journal"):
            with contextlib.suppress(FileNotFoundError):  # a link itself goes, not what it leads to
                self.path.with_name(self.path.name + suffix).unlink()

    @contextlib.contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise OutputError(f"{self.path}: the spool cannot be written or read ({error})") from error


def _key(id: str) -> bytes:
    """Return an id as bytes: ids from file names may hold halves of surrogate pairs, which SQLite's text cannot."""
    return id.encode("utf-8", "surrogatepass")


def _row(row: tuple[str, bytes]) -> tuple[bytes, bytes]:
    return _key(row[0]), row[1]
