"""What leads from one policy's rows to another's, and back."""

from dataclasses import dataclass
from typing import Literal

from headrace.algorithms.bounds import Count
from headrace.algorithms.by_path import FunctionPath
from headrace.services.options.placed import Placed


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchOptions(Placed):
    """Makes prompts of another table from rows: of a rollout's answers, those of the next policy."""

    function: FunctionPath | None = None
    """`function(row: Parent) -> Prompt, several, or None`, of `headrace.services.branch`; None: whole groups
    go over as they are, for the trainer of another policy."""
    samples_per_prompt: Count = 1
    """Answers asked for each prompt that the function makes."""
    prompts_per_row: Count = 1
    """The most prompts that the function makes of a row."""
    columns: tuple[str, ...] = ()
    """Columns that the function reads beside prompt, answer and example, in `row.columns`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinOptions(Placed):
    """Brings what became of a branch's rows back to the row that they came from, as one number."""

    column: str
    """Column that it writes there; NaN where the branch made no prompt, or nothing valid came of it."""
    of: str = "reward"
    """Column of the branch's rows that it takes, or a key of one, e.g. reward_parts.exact."""
    reduce: Literal["mean", "min", "max", "sum", "std"] = "mean"
    """How the valid values of all rows that came of one become a number."""
