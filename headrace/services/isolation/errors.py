"""What can go wrong with a function in a process of its own.

IsolationError
├── Unusable      the function cannot be made at all
├── Raised        it raised; the message says what and where
├── Died          its process ended while it was asked
└── TookTooLong   it did not answer in time
"""

from headrace.services.errors import ServiceError


class IsolationError(ServiceError):
    """Root of this folder's errors."""


class Unusable(IsolationError):
    """The function cannot be made at all."""


class Raised(IsolationError):
    """The function raised; the message says what and where."""


class Died(IsolationError):
    """The function's process ended while it was asked."""


class TookTooLong(IsolationError):
    """The function did not answer in time; its process was ended."""
