"""Says in the run directory where Prometheus finds the launch, in a file of targets and one of the token.

Invariant: they are there while the API answers, and the token's owner alone may read it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from headrace.dataflow.control.door import Door
from headrace.dataflow.control.owned import owned

TARGETS: Final = "prometheus.json"
"""For `file_sd_configs`."""
TOKEN: Final = "prometheus.token"
"""For `credentials_file`."""


@contextmanager
def scraped(door: Door, run_dir: Path) -> Iterator[None]:
    labels = {"run": f"{run_dir.parent.name}/{run_dir.name}"}
    targets = [{"targets": [urlsplit(door.url).netloc], "labels": labels}]
    with owned(run_dir, {TOKEN: door.token, TARGETS: json.dumps(targets)}):
        yield
