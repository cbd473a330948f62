"""The files of a sink: part-00000000.parquet and so on, each whole and each row in one of them.

    append ─► spool, on disk ─► rows_per_file reached, or finish ─► written aside ─► renamed ─► spool removed

Invariant: a file that has its name is whole and on disk. Whatever is cut off, the rows whose `append`
returned are in a file or in the spool, and `Parts` makes a file of what it finds there when it is opened.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.services.errors import ServiceError
from headrace.services.sink.formats import FORMATS
from headrace.services.sink.spool import Spool
from headrace.services.synced import sync

_SPOOL, _ASIDE, _OWNER = ".rows", ".aside", ".headrace.json"


class SinkError(ServiceError):
    """A folder that rows cannot be kept in."""


class Parts:
    """Files in `folder`. Not for two processes, or two threads, at the same time."""

    def __init__(self, folder: Path, *, kind: str, rows_per_file: int, owner: str) -> None:
        """`owner`: whose rows they are; their uids say nothing of the rows of another run.

        Raises SinkError where the folder holds another's.
        """
        self._folder = folder
        self._kind = kind
        self._rows_per_file = rows_per_file
        folder.mkdir(parents=True, exist_ok=True)
        self._take(owner)
        self._spool = Spool(folder / _SPOOL)
        self._waiting: list[pa.Table] = []
        self._open: set[int] = set()
        self._kept = _sorted(_uids_in(folder))
        self.again = 0
        """Rows that came under the number of one that is kept, which stands."""
        self._recover()

    @property
    def room(self) -> int:
        """Rows that the file in the making still takes."""
        return self._rows_per_file - len(self._open)

    @property
    def rows(self) -> int:
        """Rows kept, those of earlier launches included."""
        return len(self._kept) + len(self._open)

    def append(self, table: pa.Table) -> None:
        """Keeps the rows that are not kept yet, at most `room`; they outlive a crash on return."""
        new = self._new(table)
        if len(new):
            self._waiting.append(self._spool.append(new))
            self._open.update(new["uid"].to_pylist())
        if self.room <= 0:
            self.finish()

    def finish(self) -> None:
        """Makes a file of the rows that wait for one."""
        if not self._waiting:
            return
        self._write(pa.concat_tables(self._waiting))
        self._kept = _sorted([self._kept, np.fromiter(self._open, np.int64)])
        self._waiting, self._open = [], set()
        self._spool.clear()

    def _new(self, table: pa.Table) -> pa.Table:
        uids = table["uid"].to_numpy()
        known = _among(self._kept, uids) | np.array([uid in self._open for uid in uids.tolist()], bool)
        self.again += int(known.sum())
        return table.filter(pa.array(~known)) if known.any() else table

    def _write(self, table: pa.Table) -> None:
        number = 1 + max((int(path.stem.removeprefix("part-")) for path in _parts(self._folder)), default=-1)
        whole = self._folder / f"part-{number:08d}.{self._kind}"
        aside = whole.with_name(f".{whole.name}{_ASIDE}")
        FORMATS[self._kind].write(table, aside)
        sync(aside)
        aside.rename(whole)
        sync(self._folder)

    def _recover(self) -> None:
        """Files for what an earlier launch left on the way; its columns may have been others."""
        for torn in self._folder.glob(f".part-*{_ASIDE}"):
            torn.unlink()
        for table in self._spool.read():
            new = self._new(table)
            if self._waiting and new.schema != self._waiting[-1].schema:
                self._write(pa.concat_tables(self._waiting))
                self._waiting = []
            if len(new):
                self._waiting.append(new)
                self._open.update(new["uid"].to_pylist())
        self.finish()
        self._spool.clear()

    def _take(self, owner: str) -> None:
        path = self._folder / _OWNER
        if not path.exists():
            path.write_text(json.dumps({"owner": owner}))
            return
        other = json.loads(path.read_text())["owner"]
        if other != owner:
            raise SinkError(
                f"{self._folder} holds rows of {other}, not of {owner}, and their numbers mean other "
                "rows; set another directory"
            )


def _parts(folder: Path) -> list[Path]:
    return sorted(path for kind in FORMATS for path in folder.glob(f"part-*.{kind}"))


def _uids_in(folder: Path) -> Iterator[np.ndarray]:
    return (FORMATS[path.suffix[1:]].uids(path) for path in _parts(folder))


def _sorted(uids: Iterable[np.ndarray]) -> np.ndarray:
    return np.sort(np.concatenate([np.empty(0, np.int64), *uids]))


def _among(known: np.ndarray, uids: np.ndarray) -> np.ndarray:
    """bool [n]: which of `uids` stand in the sorted `known`."""
    at = np.minimum(np.searchsorted(known, uids), max(len(known) - 1, 0))
    return known[at] == uids if len(known) else np.zeros(len(uids), bool)
