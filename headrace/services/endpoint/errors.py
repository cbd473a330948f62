"""What can go wrong in asking an endpoint; that it answers nobody is a ReplicaFailed.

EndpointError
├── Silent       no answer to any of the requests, however often it was asked
├── Refused      it will never answer this question; the text is the code of why
├── Rejected     a status that no repeat changes; the text says which, and what the endpoint told
└── KeyMissing   the environment variable of its key is not set
"""

from headrace.services.errors import ServiceError


class EndpointError(ServiceError):
    """Root of this folder's errors."""


class Silent(EndpointError):
    """No answer to any of the requests."""


class Refused(EndpointError):
    """It will never answer this question; the text is the code of why."""


class Rejected(EndpointError):
    """A status that no repeat changes."""


class KeyMissing(EndpointError):
    """The environment variable of the key is not set."""
