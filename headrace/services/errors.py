"""What can go wrong in a service.

ServiceError
├── LifecycleError    an edge that the state machine does not have
├── ReplicaFailed     a replica gave up; the cause is chained
├── WeightsError      weights that are not what was published
│   └── WeightsGone   the version was pruned before it was read: ask for the newest
└── TrainingError     a step that cannot be taken (non-finite gradient, staleness beyond the bound)
"""


class ServiceError(Exception):
    """Root of this folder's errors."""


class LifecycleError(ServiceError):
    """An edge that the state machine does not have."""


class ReplicaFailed(ServiceError):
    """A replica gave up; the cause is chained."""


class WeightsError(ServiceError):
    """Weights that are not what was published."""


class WeightsGone(WeightsError):
    """The version was pruned before it was read: ask for the newest."""


class TrainingError(ServiceError):
    """A step that cannot be taken."""
