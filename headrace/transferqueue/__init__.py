"""The data bus: tables of write-once cells, leases on their rows, and one gate on staleness.

    client.py ─► link/ ─► controller.py ─► server/ ─► state/     decides: `state/table.py`
        └──────► payload/ (cells, in mapped files) ◄──┘  └─► disk/    remembers, where asked to

Start at `client.py` for use and `schema.py` for what a table is. Names are loaded on first use, so that a
graph can name its columns without Arrow or ZeroMQ.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.transferqueue.sampling import SamplerKind, Sampling
from headrace.transferqueue.schema import SAMPLE_BITS, Column, Dtype, Origin, TableSpec, Task, TaskKind

if TYPE_CHECKING:
    from headrace.transferqueue.blocking import BlockingClient
    from headrace.transferqueue.client import Client
    from headrace.transferqueue.controller import Controller
    from headrace.transferqueue.errors import (
        ControllerUnreachable,
        EndOfData,
        JournalError,
        LeaseLost,
        PayloadError,
        QueueError,
        Refused,
        RowsGone,
        RowsLost,
        SchemaError,
        StepRefused,
        TimelineMoved,
        UnitLost,
        UnknownName,
        WaitTimeout,
        WireError,
        WriteConflict,
    )
    from headrace.transferqueue.rows import Lease, Rows
    from headrace.transferqueue.state.records import Publication
    from headrace.transferqueue.stats import Shortage, Stats, TableStats, TaskStats, Waited
    from headrace.transferqueue.storage import StorageUnit

__all__ = [
    "SAMPLE_BITS",
    "BlockingClient",
    "Client",
    "Column",
    "Controller",
    "ControllerUnreachable",
    "Dtype",
    "EndOfData",
    "JournalError",
    "Lease",
    "LeaseLost",
    "Origin",
    "PayloadError",
    "Publication",
    "QueueError",
    "Refused",
    "Rows",
    "RowsGone",
    "RowsLost",
    "SamplerKind",
    "Sampling",
    "SchemaError",
    "Shortage",
    "Stats",
    "StepRefused",
    "StorageUnit",
    "TableSpec",
    "TableStats",
    "Task",
    "TaskKind",
    "TaskStats",
    "TimelineMoved",
    "UnitLost",
    "UnknownName",
    "WaitTimeout",
    "Waited",
    "WireError",
    "WriteConflict",
]

_HOMES = {
    "BlockingClient": "blocking",
    "Client": "client",
    "Controller": "controller",
    "Lease": "rows",
    "Shortage": "stats",
    "Publication": "state.records",
    "Rows": "rows",
    "Stats": "stats",
    "StorageUnit": "storage",
    "TableStats": "stats",
    "TaskStats": "stats",
    "Waited": "stats",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
