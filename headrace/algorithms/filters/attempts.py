"""Bounds what filtering may cost: a step asks for so many batches of groups, then trains or stops.

Dropped groups return their room at once and are counted by reason; what happens when a step's attempts are
used up is the user's choice, never a wait.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from headrace.algorithms.bounds import Count
from headrace.algorithms.checked import Checked
from headrace.algorithms.filters.base import Verdict
from headrace.algorithms.saved import State

Decision = Literal["collect", "train", "train_smaller"]


class FilterExhausted(RuntimeError):
    """A step used up its attempts and the run was told to stop."""


@dataclass(slots=True, kw_only=True)
class Attempts(Checked):
    """Counts the groups of one step.

    >>> attempts = Attempts(groups_per_step=4, max_attempts=2)
    >>> attempts.count(3, Verdict(groups={7: "equal_rewards"}))
    >>> attempts.decide()
    'collect'
    """

    groups_per_step: Count
    max_attempts: Count = 10
    """Batches of groups that a step may look at; 10 is what DAPO's published recipe allows."""
    when_used_up: Literal["stop", "train_smaller"] = "stop"
    """`train_smaller` trains what was accepted, if that is anything at all."""
    accepted: int = field(default=0, init=False)
    rejected: Counter[str] = field(default_factory=Counter, init=False)
    """Groups of this step by reason."""

    @property
    def missing(self) -> int:
        """Groups still to be accepted; so many may be asked for at once."""
        return max(self.groups_per_step - self.accepted, 0)

    def count(self, judged: int, verdict: Verdict) -> None:
        """Enters `judged` groups, of which the verdict dropped some."""
        self.accepted += judged - len(verdict.groups)
        self.rejected.update(verdict.groups.values())

    def decide(self) -> Decision:
        """Raises FilterExhausted, with the counts by reason, where the attempts are used up."""
        if self.missing == 0:
            return "train"
        seen = self.accepted + self.rejected.total()
        if seen < self.max_attempts * self.groups_per_step:
            return "collect"
        if self.when_used_up == "train_smaller" and self.accepted:
            return "train_smaller"
        reasons = ", ".join(f"{reason} {number}" for reason, number in sorted(self.rejected.items()))
        raise FilterExhausted(
            f"the step needs {self.groups_per_step} groups; of {seen} seen, {self.accepted} were kept and the"
            f" rest dropped ({reasons}); raise max_attempts, mix in data that the policy sometimes solves, or"
            " set when_used_up: train_smaller"
        )

    def next_step(self) -> None:
        """Begins a step with the groups that were accepted beyond the last one's need."""
        self.accepted = max(self.accepted - self.groups_per_step, 0)
        self.rejected.clear()

    def state(self) -> State:
        return {"accepted": self.accepted, "rejected": dict(self.rejected)}

    def load_state(self, state: State) -> None:
        self.accepted = state["accepted"]
        self.rejected = Counter(state["rejected"])
