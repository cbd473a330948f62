"""Where a verifier runs: in this process where it is ours, in its own where it may hang, leak or exit."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from headrace.services.options import CopyVerifier
from headrace.services.reward.isolated import IsolatedVerifier
from headrace.services.reward.verifiers import Verifier, VerifierOptions, make
from headrace.services.verdicts.errors import RewardError, VerifierRaised
from headrace.services.verdicts.verdict import Verdict


class Scorer(Protocol):
    async def start(self) -> None:
        """Raises VerifierUnusable."""
        ...

    async def score(self, response: str, example: Mapping[str, Any], **columns: Any) -> Verdict:
        """`columns`: those that the verifier asks for, plain JSON. Raises RewardError: to be tried again."""
        ...

    async def close(self) -> None: ...


class InProcess:
    """For verifiers of this package that end at once."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier

    async def start(self) -> None:
        """Ready as it is."""

    async def score(self, response: str, example: Mapping[str, Any], **columns: Any) -> Verdict:
        try:
            return self._verifier(response, example, **columns)
        except RewardError:
            raise
        except Exception as error:
            raise VerifierRaised(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Holds nothing."""


def scorer(options: VerifierOptions, *, log_file: Path | None = None, run_dir: Path | None = None) -> Scorer:
    """`log_file` takes what a verifier of its own process prints; None: this process's stderr does. One with
    limits cannot read `run_dir`."""
    if isinstance(options, CopyVerifier):
        return InProcess(make(options))
    return IsolatedVerifier(options, log_file=log_file, run_dir=run_dir)
