"""Options of the fit of a value model."""

from dataclasses import dataclass
from typing import Literal

from headrace.algorithms.bounds import Positive, Share
from headrace.algorithms.options.base import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOptions(Options):
    """A value model fitted to the returns of its own answers' rewards (arXiv 1506.02438): PPO's critic.

    The policy is a token classifier with one label, and a critic node of the same policy writes the values.
    """

    kind: Literal["value"] = "value"
    gamma: Share = 1.0
    """Discount of later rewards, per token."""
    gae_lambda: Share = 1.0
    """Weight of longer returns; 1, the reward itself, is the critic's in arXiv 2503.01491, whatever the
    actor's is. Below it the fit leans on the values that were written."""
    value_clip: Positive | None = 0.2
    """Most that the loss lets a value move from the one that was written, either way; None: no bound."""

    def needs(self) -> tuple[str, ...]:
        return ("values",)

    @property
    def trains_values(self) -> bool:
        return True

    @property
    def compares_group(self) -> bool:
        return False
