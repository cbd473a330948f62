"""Everything the queue refuses, and why.

QueueError
├── SchemaError               a spec or a cell does not fit its declared shape
├── WireError                 bytes that are no message of ours
├── UnitLost                 the storage unit of another node does not give its cells
├── PayloadError              a segment of cells cannot be written or read
│   ├── PayloadFull           there is no room for it
│   └── CellsDamaged          cells are not as they were written; they are out of the queue
├── JournalError              a queue's directory cannot be written, read or replayed
│   └── JournalFull           there is no room; what was to be kept is kept once there is
├── ControllerUnreachable     nobody answers at the controller's address (a ConnectionError)
├── WaitTimeout               a wait ended at its deadline (a TimeoutError)
├── EndOfData                 the producer ended the table and nothing is left to lease
└── Refused                   the state of the queue forbids it
    ├── UnknownName           no such table, task or policy
    ├── RowsGone              the rows are not in the table, or not any more
    ├── WriteConflict         a cell is already written with other bytes
    ├── LeaseLost             the lease has ended; what it held may be with somebody else
    │   └── RowsLost          it goes on without some of the rows that were named
    └── StepRefused           a step or version that is not the one due
        └── TimelineMoved     the holder has to load what was published since, and may then lease again

A message says what is wrong, the value got, what is allowed and the way out.
"""


class QueueError(Exception):
    """Root of the tree."""


class SchemaError(QueueError):
    """A spec or a cell does not fit its declared shape."""


class WireError(QueueError):
    """Bytes that are no message of ours."""


class PayloadError(QueueError):
    """A segment of cells cannot be written or read."""


class PayloadFull(PayloadError):
    """There is no room for a block of cells; the same may be written once there is."""


class CellsDamaged(PayloadError):
    """Cells are not as they were written. The queue takes them out: who wrote them is asked once more."""


class JournalError(QueueError):
    """A queue's directory cannot be written, read or replayed."""


class JournalFull(JournalError):
    """There is no room for what was to be kept; the same call keeps it once there is."""

    def __init__(self, message: str, needed_bytes: int = 0) -> None:
        super().__init__(message)
        self.needed_bytes = needed_bytes


class UnitLost(QueueError):
    """The storage unit of another node does not give its cells; the message says what became of the rows."""


class ControllerUnreachable(QueueError, ConnectionError):
    """Nobody answers at the controller's address."""


class WaitTimeout(QueueError, TimeoutError):
    """A wait ended at its deadline; the message names what was missing and who owes it."""


class EndOfData(QueueError):
    """The producer ended the table and nothing is left to lease."""


class Refused(QueueError):
    """The state of the queue forbids it."""


class UnknownName(Refused):
    """No such table, task or policy."""


class RowsGone(Refused):
    """The rows are not in the table, or not any more."""


class WriteConflict(Refused):
    """A cell is already written with other bytes."""


class LeaseLost(Refused):
    """The lease has ended; what it held may be with somebody else."""


class RowsLost(LeaseLost):
    """The lease goes on without some of the rows that were named: they were dropped, or handed back."""


class StepRefused(Refused):
    """A step or version that is not the one due."""


class TimelineMoved(StepRefused):
    """A new timeline began and the holder was not told: ask for what is published, load it, lease again."""


BY_NAME: dict[str, type[QueueError]] = {
    kind.__name__: kind
    for kind in (
        QueueError,
        SchemaError,
        WireError,
        PayloadError,
        PayloadFull,
        CellsDamaged,
        UnitLost,
        JournalError,
        JournalFull,
        ControllerUnreachable,
        WaitTimeout,
        EndOfData,
        Refused,
        UnknownName,
        RowsGone,
        WriteConflict,
        LeaseLost,
        RowsLost,
        StepRefused,
        TimelineMoved,
    )
}
"""How an error travels: by its name, and back."""
