"""The transfer queue of a run."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """Where the transfer queue keeps rows, and what they survive."""

    durability: Literal["memory", "disk"] = "memory"
    """In shared memory, gone with the launch; or in the run's queue/, from where every acknowledged row comes
    back after any death."""
    fsync: Literal["never", "batch", "always"] = "batch"
    """With disk, what a loss of power may take: all, the newest operations, or nothing acknowledged."""
    archive: bool = False
    """With disk, keep the rows that leave, for `headrace queue DIR --export`."""

    @property
    def durable(self) -> bool:
        return self.durability == "disk"
