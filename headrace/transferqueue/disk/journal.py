"""The queue's log on disk: SQLite in WAL mode, one transaction per group of operations.

Invariant: what `commit` has returned from is there after `kill -9`, and a group is there wholly or not at
all. `replace` swaps the log for a state in one transaction, so that reading it back stays short.

A log of what was asked was chosen over rows as state: the state machine is deterministic, so doing the same
again is the recovery, and the door is the one that tests drive. One insert of bytes per group is also the
least that a store can be asked to do.
"""

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from headrace.transferqueue.errors import JournalError, JournalFull, Refused
from headrace.transferqueue.room import is_full

Fsync = Literal["never", "batch", "always"]
"""What survives the loss of power. Each survives the death of any process.

`never`: nothing is synced. `batch`: the log is synced when SQLite folds it into the database and payload
when a state replaces the log; what was acknowledged since may go, the rest stays consistent. `always`: the
payload and then the log are synced before an operation is acknowledged.
"""

FORMAT = 3
_FILE = "journal.db"
_SYNCHRONOUS: dict[Fsync, str] = {"never": "OFF", "batch": "NORMAL", "always": "FULL"}
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS state (id INTEGER PRIMARY KEY CHECK (id = 0), seq INTEGER, wall_s REAL, data BLOB);
CREATE TABLE IF NOT EXISTS log (seq INTEGER PRIMARY KEY, wall_s REAL, entries BLOB);
CREATE TABLE IF NOT EXISTS archive (seq INTEGER PRIMARY KEY, tbl TEXT, rows BLOB);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What a journal holds: a state, and groups of entries since."""

    state: bytes | None
    """None: the log starts at the beginning."""
    groups: list[bytes]
    wall_s: float
    """When the newest of it was committed, in seconds since the epoch; 0 where there is nothing."""


class Journal:
    """The log of one directory, open for its controller alone."""

    def __init__(
        self,
        directory: Path,
        *,
        fsync: Fsync = "batch",
        before_writing: Callable[[], object] = lambda: None,
    ) -> None:
        """`before_writing` may raise OSError, as a full disk does."""
        if fsync not in get_args(Fsync):
            raise Refused(f"fsync is {fsync!r}; allowed are {', '.join(get_args(Fsync))}")
        self.fsync: Fsync = fsync
        self.log_bytes = 0
        """Bytes of the log since its state."""
        self.state_bytes = 0
        self._lock = _lock(directory)
        self._store = sqlite3.connect(directory / _FILE, isolation_level=None)
        self._store.execute("PRAGMA journal_mode=WAL")
        self._store.execute(f"PRAGMA synchronous={_SYNCHRONOUS[fsync]}")
        self._store.executescript(_SCHEMA)
        self._store.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (str(FORMAT),))
        newest = "SELECT max(seq) FROM (SELECT seq FROM log UNION SELECT seq FROM state)"
        self._seq: int = self._store.execute(newest).fetchone()[0] or 0
        self._before_writing = before_writing
        self._group: list[bytes] = []
        self._archived: list[tuple[str, bytes]] = []

    def read(self) -> Past:
        past = _read(self._store)
        self.log_bytes = sum(map(len, past.groups))
        self.state_bytes = len(past.state or b"")
        return past

    def append(self, entry: bytes) -> None:
        """Adds to the group; it is kept by the next `commit`."""
        self._group.append(entry)

    def archive(self, table: str, rows: bytes) -> None:
        """Adds to the archive, with the group."""
        self._archived.append((table, rows))

    def has_group(self) -> bool:
        return bool(self._group)

    def commit(self) -> None:
        """Keeps the group. Raises JournalFull where there is no room, and the group stays to be kept by the
        next call; JournalError where the store cannot. Then nothing of it may be answered."""
        if not self._group:
            return
        entries = b"".join(self._group)
        needed = len(entries) + sum(len(rows) for _, rows in self._archived)
        log = "INSERT INTO log VALUES (?, ?, ?)", (self._seq + 1, time.time(), entries)
        archive = [("INSERT INTO archive (tbl, rows) VALUES (?, ?)", row) for row in self._archived]
        self._write([log, *archive], needed)
        self._seq += 1
        self._archived.clear()
        self.log_bytes += len(entries)
        self._group.clear()

    def replace(self, state: bytes) -> None:
        """The state stands for everything committed so far. Raises as `commit`, and the log stays."""
        put = "INSERT OR REPLACE INTO state VALUES (0, ?, ?, ?)", (self._seq, time.time(), state)
        self._write([put, ("DELETE FROM log WHERE seq <= ?", (self._seq,))], len(state))
        self.log_bytes, self.state_bytes = 0, len(state)

    def close(self) -> None:
        self._store.close()
        os.close(self._lock)

    def _write(self, statements: Sequence[tuple[str, tuple[object, ...]]], needed_bytes: int) -> None:
        """All or none."""
        together = len(statements) > 1
        try:
            self._before_writing()
            if together:
                self._store.execute("BEGIN")
            for statement, values in statements:
                self._store.execute(statement, values)
            if together:
                self._store.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            if self._store.in_transaction:
                self._store.execute("ROLLBACK")
            if _is_full(error):
                raise JournalFull(f"the queue's journal has no room: {error}", needed_bytes) from error
            raise JournalError(
                f"the queue's journal cannot be written: {error}; nothing that was not acknowledged is kept. "
                "Give its directory room and start the controller again"
            ) from error


def read_journal(directory: Path) -> Past:
    """The journal of a directory, dead or live, without changing it; JournalError where there is none."""
    with _opened(directory) as store:
        return _read(store)


def read_archived(directory: Path, table: str) -> list[bytes]:
    """What left a table, group by group, as it was archived; see `archive.py`."""
    with _opened(directory) as store:
        found = store.execute("SELECT rows FROM archive WHERE tbl = ? ORDER BY seq", (table,))
        return [row[0] for row in found]


@contextmanager
def _opened(directory: Path) -> Iterator[sqlite3.Connection]:
    path = directory / _FILE
    if not path.is_file():
        raise JournalError(f"{directory} holds no queue: it has no {_FILE}; name a run's queue directory")
    store = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        yield store
    except sqlite3.Error as error:
        raise JournalError(f"{path} cannot be read: {error}") from error
    finally:
        store.close()


def _read(store: sqlite3.Connection) -> Past:
    store.execute("BEGIN")
    known = store.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
    if known is None or known[0] != str(FORMAT):
        raise JournalError(f"the journal is of format {known and known[0]}; this version reads {FORMAT}")
    state = store.execute("SELECT data, wall_s FROM state").fetchone()
    groups = store.execute("SELECT entries, wall_s FROM log ORDER BY seq").fetchall()
    store.execute("COMMIT")
    times = [row[1] for row in groups] or [state[1] if state else 0.0]
    return Past(state=state and state[0], groups=[row[0] for row in groups], wall_s=times[-1])


def _is_full(error: Exception) -> bool:
    """SQLite tells a full disk by codes of its own, of which one is for the file that its readers share."""
    code = getattr(error, "sqlite_errorcode", 0)
    full = code & 0xFF == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE
    return full or is_full(error)


def _lock(directory: Path) -> int:
    """Held while the journal is open; the kernel gives it up with the process."""
    lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise Refused(f"another controller serves {directory}; stop it, or use another directory") from error
    return lock
