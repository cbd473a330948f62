"""Advantages of samples that have a structure: trees, refinements, turns, contexts; as plug points.

Each names its columns. A sample's structure travels with its row, so no credit needs to look anything up.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from headrace.algorithms.advantages.chains import forest, in_order
from headrace.algorithms.advantages.contexts import context_split
from headrace.algorithms.advantages.tree import refinement_zscore, tree_leave_one_out
from headrace.algorithms.advantages.turns import step_level, to_tokens, turn_level
from headrace.algorithms.base import GroupScores
from headrace.algorithms.bounds import NonNegative, Share
from headrace.algorithms.checked import Checked


class _Grouped(Checked):
    needs_full_batch: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class TreeLeaveOneOut(_Grouped):
    """`tree_leave_one_out` of rows that are chains of a tree.

    Column `nodes`, int64 [length]: the node of each token; rows of a group that share a segment share its id.
    """

    weighting: Literal["token", "step"] = "token"

    def needs(self) -> tuple[str, ...]:
        return ("nodes",)

    def __call__(self, scores: GroupScores) -> list[np.ndarray]:
        trees = forest(scores.column("nodes"), scores.groups, scores.rewards)
        credits = tree_leave_one_out(
            trees.rewards, trees.parents, trees.groups, trees.tokens, weighting=self.weighting
        )
        masks = scores.column("loss_mask")
        return [
            np.where(mask > 0, credits[places], 0.0) for mask, places in zip(masks, trees.places, strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class Refinement(_Grouped):
    """`refinement_zscore` of rows that are attempts, each at its own reward.

    Columns `attempt` and `parent`, int64 [B]: ids within the group, parent -1 for a first attempt.
    """

    how: Literal["max", "mean"] = "max"

    def needs(self) -> tuple[str, ...]:
        return ("attempt", "parent")

    def __call__(self, scores: GroupScores) -> np.ndarray:
        order, parents = in_order(
            np.asarray(scores.column("attempt")), np.asarray(scores.column("parent")), scores.groups
        )
        credits = np.empty(len(order), dtype=np.float64)
        credits[order] = refinement_zscore(scores.rewards[order], parents, scores.groups[order], how=self.how)
        return credits


@dataclass(frozen=True, kw_only=True)
class TurnLevel(_Grouped):
    """`turn_level`; columns `turn_rewards` [turns] and `turns`, int64 [length], -1 on tokens of no turn."""

    outcome_weight: NonNegative = 1.0

    def needs(self) -> tuple[str, ...]:
        return ("turn_rewards", "turns")

    def __call__(self, scores: GroupScores) -> list[np.ndarray]:
        credits = turn_level(
            scores.column("turn_rewards"), scores.rewards, scores.groups, outcome_weight=self.outcome_weight
        )
        return to_tokens(credits, scores.column("turns"))


@dataclass(frozen=True, kw_only=True)
class StepLevel(_Grouped):
    """`step_level`; columns `turn_rewards` [turns], `states` int64 [turns], `turns` int64 [length].

    The row's own reward is not read: an episode's return is the sum of its turns'.
    """

    gamma: Share = 0.95
    step_weight: NonNegative = 1.0

    def needs(self) -> tuple[str, ...]:
        return ("turn_rewards", "states", "turns")

    def __call__(self, scores: GroupScores) -> list[np.ndarray]:
        credits = step_level(
            scores.column("turn_rewards"),
            scores.column("states"),
            scores.groups,
            gamma=self.gamma,
            step_weight=self.step_weight,
        )
        return to_tokens(credits, scores.column("turns"))


@dataclass(frozen=True, kw_only=True)
class ContextSplit(_Grouped):
    """`context_split`; column `context`, int64 [B], -1 for a sample of the bare prompt."""

    inter_weight: NonNegative = 1.1

    def needs(self) -> tuple[str, ...]:
        return ("context",)

    def __call__(self, scores: GroupScores) -> np.ndarray:
        contexts = np.asarray(scores.column("context"))
        return context_split(scores.rewards, scores.groups, contexts, inter_weight=self.inter_weight)
