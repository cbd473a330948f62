"""The machine that a replica is on, where a run has several."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The default is that of a run on one machine."""

    node: str = ""
    """Its name in the queue; "": the controller's own."""
    keys: Path | None = None
    """Folder of the run's keys on that machine; None: nothing leaves it."""
    peers: Path | None = None
    """File that names the weight servers of the other machines; None: there are none."""
