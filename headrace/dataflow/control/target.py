"""Says in the run directory where Prometheus finds the launch, in a file of targets and one of the token.

Invariant: they are there while the API answers, and the token's owner alone may read it.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from headrace.dataflow.control.door import Door

TARGETS: Final = "prometheus.json"
"""For `file_sd_configs`."""
TOKEN: Final = "prometheus.token"
"""For `credentials_file`."""


@contextmanager
def scraped(door: Door, run_dir: Path) -> Iterator[None]:
    labels = {"run": f"{run_dir.parent.name}/{run_dir.name}"}
    targets = [{"targets": [urlsplit(door.url).netloc], "labels": labels}]
    made = {TOKEN: door.token, TARGETS: json.dumps(targets)}
    for file, text in made.items():
        _write(run_dir / file, text)
    try:
        yield
    finally:
        for file in made:
            (run_dir / file).unlink(missing_ok=True)


def _write(file: Path, text: str) -> None:
    aside = file.with_name(f"{file.name}.writing")
    aside.unlink(missing_ok=True)
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    aside.rename(file)
