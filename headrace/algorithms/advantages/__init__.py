"""Credit: from rewards to the advantage of each sample or token. Pure functions in float64."""

from headrace.algorithms.advantages.base import Advantage
from headrace.algorithms.advantages.composed import DurationWeighted, PerTask
from headrace.algorithms.advantages.contexts import context_split
from headrace.algorithms.advantages.group import (
    STD_FLOOR,
    batch_zscore,
    group_mean,
    group_mean_batch_std,
    group_zscore,
    leave_one_out,
    singletons,
    zero_std_frac,
)
from headrace.algorithms.advantages.grouping import STD_TOLERANCE
from headrace.algorithms.advantages.length import overlong_penalty
from headrace.algorithms.advantages.structured import (
    ContextSplit,
    Refinement,
    StepLevel,
    TreeLeaveOneOut,
    TurnLevel,
)
from headrace.algorithms.advantages.tasks import per_task
from headrace.algorithms.advantages.tokens import (
    Estimates,
    Ragged,
    gae,
    reinforce_pp,
    reinforce_pp_baseline,
    terminal_rewards,
    whiten,
)
from headrace.algorithms.advantages.tree import (
    along_paths,
    fork_points,
    refinement_zscore,
    subtree_credit,
    tree_leave_one_out,
    widest,
)
from headrace.algorithms.advantages.turns import step_level, to_tokens, turn_level
from headrace.algorithms.advantages.weighting import disagreement_weights, duration_weighted, position_weights

STRUCTURED: dict[str, type[Advantage]] = {
    "context_split": ContextSplit,
    "refinement": Refinement,
    "step_level": StepLevel,
    "tree_leave_one_out": TreeLeaveOneOut,
    "turn_level": TurnLevel,
}
"""Advantages that read the structure of samples, by the name that a dataflow gives."""

__all__ = [
    "STD_FLOOR",
    "STD_TOLERANCE",
    "STRUCTURED",
    "Advantage",
    "ContextSplit",
    "DurationWeighted",
    "Estimates",
    "PerTask",
    "Ragged",
    "Refinement",
    "StepLevel",
    "TreeLeaveOneOut",
    "TurnLevel",
    "along_paths",
    "batch_zscore",
    "context_split",
    "disagreement_weights",
    "duration_weighted",
    "fork_points",
    "gae",
    "group_mean",
    "group_mean_batch_std",
    "group_zscore",
    "leave_one_out",
    "overlong_penalty",
    "per_task",
    "position_weights",
    "refinement_zscore",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "singletons",
    "step_level",
    "subtree_credit",
    "terminal_rewards",
    "to_tokens",
    "tree_leave_one_out",
    "turn_level",
    "whiten",
    "widest",
    "zero_std_frac",
]
