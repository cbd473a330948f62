"""What can go wrong in scoring one answer; each is an error to retry, never a reward of 0.

RewardError
├── VerdictRefused      the verifier returned something that is no verdict (NaN, text, ...)
├── VerifierRaised      the verifier raised
├── VerifierDied        the verifier's process ended while it scored
├── VerifierUnusable    the verifier cannot be made at all: a package or function that is not there
├── JudgeSilent         the judge's endpoint gave no reply, however often it was asked
├── JudgeOdd            the judge's endpoint answered with something that is no reply
└── JudgeUnusable       the judge cannot be asked at all: its template, pattern or key
"""

from headrace.services.errors import ServiceError


class RewardError(ServiceError):
    """Root of this folder's errors."""


class VerdictRefused(RewardError):
    """The verifier returned something that is no verdict."""


class VerifierRaised(RewardError):
    """The verifier raised; the message says what and where."""


class VerifierDied(RewardError):
    """The verifier's process ended while it scored."""


class VerifierUnusable(RewardError):
    """The verifier cannot be made at all."""


class JudgeSilent(RewardError):
    """The judge's endpoint gave no reply, however often it was asked."""


class JudgeOdd(RewardError):
    """The judge's endpoint answered with something that is no reply."""


class JudgeUnusable(RewardError):
    """The judge cannot be asked at all."""
