"""Where a live launch is asked: `control.json` in its run directory, with the address and the token.

Invariant: the file is there while the API answers, and its owner alone may read it.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from headrace.dataflow.record.rundir import RunDir, RunDirError
from headrace.dataflow.running.locks import Held, held

LOOPBACK = "127.0.0.1"
FILE = "control.json"


class AskRefused(Exception):
    """What a launch answered, where it did not do as asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Address and token of one launch's control API."""

    url: str
    token: str = field(repr=False)

    @classmethod
    def of(cls, directory: Path) -> Self:
        """Raises RunDirError where no launch of the run goes on."""
        file = RunDir.open(directory).path / FILE
        try:
            return cls(**json.loads(file.read_text()))
        except FileNotFoundError:
            raise RunDirError(
                f"no launch of {directory} goes on: it has no {FILE}; go on with the run by `headrace run "
                f"{directory}`"
            ) from None

    @classmethod
    def is_of_live(cls, directory: Path) -> bool:
        """Whether a launch of the run goes on. Raises RunDirError where it is no run's directory."""
        run = RunDir.open(directory)
        try:
            with held(run.path):
                return False
        except Held:
            return True

    @contextmanager
    def shown_in(self, run_dir: Path) -> Iterator[None]:
        file, aside = run_dir / FILE, run_dir / f"{FILE}.writing"
        aside.unlink(missing_ok=True)
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            json.dump(asdict(self), out)
        aside.rename(file)
        try:
            yield
        finally:
            file.unlink(missing_ok=True)
