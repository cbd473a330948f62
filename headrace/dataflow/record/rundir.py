"""A run directory is the run: where everything of it lies, and how its records are written and read.

Invariant: a record is one line of JSON, flushed when written. A crash can tear the last line only; readers
skip a torn end and say so, writers cut it off before they go on.
"""

import json
import logging
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from headrace.transferqueue.room import is_full

log = logging.getLogger(__name__)


class RunDirError(Exception):
    """A directory that cannot be used as the run's."""


@dataclass(frozen=True, slots=True)
class RunDir:
    """Paths of one run. `create` makes a new one, `open` finds one to go on with or to read."""

    path: Path

    @classmethod
    def create(cls, name: str, output: Path | None = None, *, root: Path = Path("runs")) -> Self:
        """Makes `output`, or `<root>/<name>/<start time>` with `<root>/latest` pointing at it.

        Raises RunDirError where `output` exists and holds anything.
        """
        run = cls((output if output is not None else _fresh(root / name)).absolute())
        _refuse_used(run)
        for folder in (run.path, run.logs, run.checkpoints):
            folder.mkdir(parents=True, exist_ok=True)
        if output is None:
            _point(root / "latest", run.path)
        return run

    @classmethod
    def open(cls, path: Path) -> Self:
        """Raises RunDirError where `path` is not a run's directory."""
        run = cls(path.absolute())
        if not run.graph.is_file():
            raise RunDirError(f"{path} is no run directory: it has no graph.yaml; runs/latest is the newest")
        return run

    @property
    def graph(self) -> Path:
        return self.path / "graph.yaml"

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def checkpoints_of(self, policy: str, *, alone: bool) -> Path:
        """Those of one policy; where it is the run's only one, `checkpoints` itself."""
        return self.checkpoints if alone else self.checkpoints / policy

    @property
    def queue(self) -> Path:
        """Rows of a queue on disk; not there where it is in memory."""
        return self.path / "queue"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"


def _fresh(parent: Path) -> Path:
    stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    path, number = parent / stamp, 2
    while path.exists():
        path, number = parent / f"{stamp}-{number}", number + 1
    return path


def _refuse_used(run: RunDir) -> None:
    if run.path.exists() and not run.path.is_dir():
        raise RunDirError(f"{run.path} is a file; --output takes a directory that is new or empty")
    if run.graph.is_file():
        raise RunDirError(
            f"{run.path} already holds a run; go on with it by `headrace run {run.path}`,"
            " or give --output a directory that is new or empty"
        )
    if run.path.is_dir() and (found := sorted(entry.name for entry in run.path.iterdir())):
        raise RunDirError(
            f"{run.path} holds files that are not a run's ({', '.join(found[:3])});"
            " --output takes a directory that is new or empty"
        )


def _point(link: Path, target: Path) -> None:
    """Replaces `link` in one step, so that readers find the old run or the new one."""
    aside = link.with_name(f".{link.name}-{os.getpid()}")
    aside.symlink_to(os.path.relpath(target, link.absolute().parent))
    aside.replace(link)


class JsonlWriter:
    """Appends records to a file, each at once; NaN and infinities are written as null.

    Where the disk is full they are kept here and written, in order, with the next that finds room.
    """

    def __init__(self, path: Path) -> None:
        _cut_torn_end(path)
        self._path = path
        self._file = path.open("ab", buffering=0)
        self._behind = bytearray()

    def write(self, record: Mapping[str, Any]) -> None:
        self._behind += json.dumps(_finite(record), allow_nan=False).encode() + b"\n"
        self._catch_up()

    def close(self) -> None:
        self._catch_up()
        if self._behind:
            log.warning("%s: %d bytes are lost, the disk is full", self._path, len(self._behind))
        self._file.close()

    def _catch_up(self) -> None:
        try:
            while self._behind:
                del self._behind[: self._file.write(self._behind)]
        except OSError as error:
            if not is_full(error):
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def _cut_torn_end(path: Path) -> None:
    if not path.exists() or not (content := path.read_bytes()) or content.endswith(b"\n"):
        return
    whole = content.rfind(b"\n") + 1
    log.warning("%s: cut off a torn last line of %d bytes", path, len(content) - whole)
    os.truncate(path, whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """What a JSONL file holds."""

    records: list[dict[str, Any]]
    torn_bytes: int
    """Length of a last line that was not written to its end; 0: none."""


def read_jsonl(path: Path) -> Lines:
    """Records of `path`, none where there is no file. A torn last line is skipped, counted and logged.

    Raises RunDirError for a line in between that is not JSON.
    """
    if not path.exists():
        return Lines(records=[], torn_bytes=0)
    *whole, torn = path.read_bytes().split(b"\n")
    if torn:
        _say_torn(path, torn)
    return Lines(records=[_parse(path, n, line) for n, line in enumerate(whole, 1)], torn_bytes=len(torn))


def each_of_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """As the records of `read_jsonl`, one at a time: a long run's file is longer than memory."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(b"\n"):
                yield _parse(path, number, line)
            else:
                _say_torn(path, line)


def _say_torn(path: Path, line: bytes) -> None:
    log.warning("%s: skipped a torn last line of %d bytes", path, len(line))


def _parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        return json.loads(line)
    except ValueError as error:
        raise RunDirError(f"{path}:{number}: not a line of JSON: {line[:80]!r}") from error
