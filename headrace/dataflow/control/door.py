"""Where a live launch is asked: `control.json` in its run directory, with the address and the token.

Invariant: the file is there while the API answers, and its owner alone may read it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Self
from urllib.parse import urlencode

from headrace.dataflow.control.owned import owned, write_owned
from headrace.dataflow.record.rundir import RunDir, RunDirError
from headrace.dataflow.running.locks import Held, held

LOOPBACK = "127.0.0.1"
FILE, PAGE = "control.json", "dashboard.html"
ONWARD = '<!doctype html><title>Headrace</title><meta http-equiv="refresh" content="0; url={path}">'


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

    def link(self, who: str) -> str:
        """What lets a browser in, as `who`."""
        return f"{self.url}/?{urlencode({'token': self.token, 'who': who})}"

    def page_in(self, directory: Path, who: str) -> Path:
        """A file that leads a browser in: a link in a command line shows in `ps`. It goes with the launch."""
        page = RunDir.open(directory).path / PAGE
        write_owned(page, ONWARD.format(path=escape(self.link(who))))
        return page

    @contextmanager
    def shown_in(self, run_dir: Path) -> Iterator[None]:
        try:
            with owned(run_dir, {FILE: json.dumps(asdict(self))}):
                yield
        finally:
            (run_dir / PAGE).unlink(missing_ok=True)
