"""What can go wrong in a service.

ServiceError
├── LifecycleError    an edge that the state machine does not have
├── ReplicaFailed     a replica gave up; the cause is chained
│   ├── NoWayOn       and would again: a wait ended at its deadline, or a step cannot be taken
│   └── WeightsRefused    the weights that it was to serve are not those published: to be written once more
├── WeightsError      weights that are not what was published
│   └── WeightsGone   the version was pruned before it was read: ask for the newest
├── RanksFailed       a trainer of several processes that lost one
├── TransformError    a transform that cannot be called, that raised, or that gave what it did not declare
├── NoRoom            what is to be written does not fit on the disk, and nobody waits any more
└── TrainingError     a step that cannot be taken (non-finite gradient, staleness beyond the bound)
"""


class ServiceError(Exception):
    """Root of this folder's errors."""


class LifecycleError(ServiceError):
    """An edge that the state machine does not have."""


class ReplicaFailed(ServiceError):
    """A replica gave up; the cause is chained."""


class NoWayOn(ReplicaFailed):
    """A replica gave up, and another in its place would, of the same cause."""


class WeightsRefused(ReplicaFailed):
    """A replica gave up over weights that are not what was published; they are to be written once more."""


class WeightsError(ServiceError):
    """Weights that are not what was published."""


class WeightsGone(WeightsError):
    """The version was pruned before it was read: ask for the newest."""


class RanksFailed(ServiceError):
    """A trainer of several processes that lost one, or in which they disagreed."""


class TransformError(ServiceError):
    """A transform that cannot be called, that raised, or that gave what it did not declare."""


class NoRoom(ServiceError):
    """What is to be written does not fit on the disk, and nobody waits any more."""


class TrainingError(ServiceError):
    """A step that cannot be taken."""


def first_error(error: Exception) -> Exception:
    """The first leaf of an exception group: what happened, without the wrapping of task groups."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def describe(error: BaseException) -> str:
    """An error and what it came from, the root last, in one line."""
    parts = []
    current: BaseException | None = error
    while isinstance(current, Exception):
        parts.append(f"{type(current).__name__}: {' '.join(str(current).split())}")
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return " <- ".join(parts) or type(error).__name__
