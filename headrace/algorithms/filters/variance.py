"""Groups whose rewards teach nothing, dropped: dynamic sampling keeps the others and draws more."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from headrace.algorithms.advantages.grouping import is_constant
from headrace.algorithms.bounds import NonNegative
from headrace.algorithms.checked import Checked
from headrace.algorithms.filters.base import ScoredRows, Stateless, Verdict


@dataclass(frozen=True, kw_only=True)
class ZeroVariance(Checked, Stateless):
    """Drops groups of equal rewards, DAPO's dynamic sampling (https://arxiv.org/abs/2503.14476, eq. 11).

    Reasons: `no_valid_reward`, `single_reward`, `equal_rewards`, `narrow_rewards`. DAPO asks that some but
    not all answers are right, which for rewards of 0 and 1 is the same.
    """

    kind: Literal["zero_variance"] = "zero_variance"
    min_std: NonNegative = 0.0
    """Least standard deviation of a group that is kept, population's; 0: any that is not floating noise.
    ReST-GRPO keeps wide groups alone."""

    def judge(self, rows: ScoredRows) -> Verdict:
        dropped: dict[int, str] = {}
        for group in np.unique(rows.groups).tolist():
            rewards = rows.rewards[rows.groups == group]
            reason = self._reason(rewards[~np.isnan(rewards)])
            if reason is not None:
                dropped[group] = reason
        return Verdict(groups=dropped)

    def _reason(self, rewards: np.ndarray) -> str | None:
        if len(rewards) == 0:
            return "no_valid_reward"
        if len(rewards) == 1:
            return "single_reward"
        if is_constant(rewards):
            return "equal_rewards"
        return "narrow_rewards" if float(rewards.std()) < self.min_std else None
