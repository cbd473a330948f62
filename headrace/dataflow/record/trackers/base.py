"""The contract of a tracker, and what each needs installed. Imports none of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

PACKAGES: Final = {"tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow", "trackio": "trackio"}
"""By kind, the package that it is made with, which is the extra's name too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The run that a tracker follows."""

    run_dir: Path
    name: str
    """The graph's."""
    graph: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Resolved, as `graph.yaml` has it."""

    @property
    def title(self) -> str:
        """What people tell the runs of a graph apart by."""
        return self.run_dir.name

    @property
    def id(self) -> str:
        """The same for every launch of the run, and no other's: 16 hexadecimal digits."""
        return sha256(str(self.run_dir).encode()).hexdigest()[:16]


class Tracker(Protocol):
    """Used by one thread of a process of its own; whatever it raises ends it, and not the run."""

    def log(self, figures: Mapping[str, float], *, step: int, at: float) -> None:
        """`at`: Unix seconds. A step may come again: a resumed run goes on from its checkpoint."""

    def close(self) -> None: ...


def missing(kind: str) -> str | None:
    """What has to be installed before a tracker of this kind is opened, None if nothing. A folder of the
    package's name, such as the wandb/ of earlier runs, is no package."""
    package = PACKAGES[kind]
    found = find_spec(package)
    if found is not None and found.origin is not None:
        return None
    return f"the package {package} is not installed; pip install 'headrace[{package}]'"
