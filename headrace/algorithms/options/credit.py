"""How rewards become credit, as a policy-gradient algorithm's options name it."""

from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.algorithms.by_path import ClassPath
from headrace.algorithms.checked import Checked

CreditName = Literal[
    "group_zscore",
    "group_mean",
    "leave_one_out",
    "group_mean_batch_std",
    "batch_zscore",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "gae",
]
IN_GROUP = ("group_zscore", "group_mean", "leave_one_out", "group_mean_batch_std", "reinforce_pp_baseline")
OVER_BATCH = ("group_mean_batch_std", "batch_zscore", "reinforce_pp", "reinforce_pp_baseline")


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonCredit(Checked):
    """A class with the methods of `headrace.algorithms.advantages.base.Advantage`: ours by path, or yours."""

    kind: Literal["python"] = "python"
    path: ClassPath
    """Where it is: `module:Class`, or `path/to/file.py:Class`."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the class."""
    reads: tuple[str, ...] = ()
    """What its `needs()` returns: the file is not run before the launch."""
    over_batch: bool = False
    """What its `needs_full_batch` is."""


Credit = CreditName | PythonCredit
