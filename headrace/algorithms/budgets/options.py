"""Options of the budget allocators, as plain data: read and checked before anything is drawn.

`hears`: whether the allocator is told how answers did. `needs`: what the data set must tell for it.
`spends_budget`: as of `BudgetAllocator`. `group_sizes` bounds what it gives a prompt, given the samples per
prompt that the budget is made of.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from headrace.algorithms.bounds import Count, Positive
from headrace.algorithms.by_path import ClassPath
from headrace.algorithms.checked import Checked
from headrace.algorithms.curricula.options import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedOptions(Checked):
    """The budget in equal shares."""

    kind: Literal["fixed"] = "fixed"
    hears: ClassVar[bool] = False
    needs: ClassVar[tuple[Column, ...]] = ()
    spends_budget: ClassVar[bool] = True

    def group_sizes(self, samples_per_prompt: int) -> tuple[int, int]:
        return samples_per_prompt, samples_per_prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSize(Checked):
    prompts: Count
    """Draws that the stage lasts, as in the `hard_focus` sampler beside it; the last goes on without end."""
    samples_per_prompt: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedOptions(Checked):
    """DRIVE: another number of samples in each stage."""

    kind: Literal["staged"] = "staged"
    hears: ClassVar[bool] = False
    needs: ClassVar[tuple[Column, ...]] = ()
    spends_budget: ClassVar[bool] = False
    stages: tuple[StageSize, ...]

    def __post_init__(self) -> None:
        if not self.stages:
            raise ValueError("stages is empty; give at least one")

    def group_sizes(self, samples_per_prompt: int) -> tuple[int, int]:
        sizes = [stage.samples_per_prompt for stage in self.stages]
        return min(sizes), max(sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounded(Checked):
    low: Count
    high: Count

    def __post_init__(self) -> None:
        super(_Bounded, self).__post_init__()
        if self.low > self.high:
            raise ValueError(f"low is {self.low} and high {self.high}; low must not be above high")

    def group_sizes(self, samples_per_prompt: int) -> tuple[int, int]:
        return self.low, self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class SgpoOptions(_Bounded):
    """sGPO: the inverse of the pass rate that a profile found."""

    kind: Literal["sgpo"] = "sgpo"
    hears: ClassVar[bool] = False
    needs: ClassVar[tuple[Column, ...]] = ("pass_rates",)
    spends_budget: ClassVar[bool] = False
    low: Count = 2
    """Least samples of a prompt."""
    high: Count = 8
    """Most samples of a prompt, and those of one that the profile never saw solved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CobaRlOptions(_Bounded):
    """CoBA-RL: by what the policy, as capable as it now is, gains from a sample."""

    kind: Literal["coba_rl"] = "coba_rl"
    hears: ClassVar[bool] = True
    needs: ClassVar[tuple[Column, ...]] = ()
    spends_budget: ClassVar[bool] = True
    low: Count = 2
    """Least samples of a prompt."""
    high: Count = 32
    """Most samples of a prompt."""
    window: Count = 3
    """Steps over which pass rates and the failure rate are taken."""
    tau_min: Positive = 3.0
    """Samples over which the value saturates when all pass rates are alike; in units of 1 / p (1 - p)."""
    tau_max: Positive = 12.0
    """The same when pass rates lie far apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions(_Bounded):
    """TRACE: by the chance that outcomes come out mixed."""

    kind: Literal["trace"] = "trace"
    hears: ClassVar[bool] = True
    needs: ClassVar[tuple[Column, ...]] = ()
    spends_budget: ClassVar[bool] = True
    low: Count = 1
    """Least samples of an anchor."""
    high: Count = 32
    """Most samples of an anchor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonBudgetOptions(_Bounded):
    """A class of yours with the methods of `headrace.algorithms.budgets.base.BudgetAllocator`."""

    kind: Literal["python"] = "python"
    path: ClassPath
    """Where it is: `module:Class`, or `path/to/file.py:Class`; called with a `PromptData` and the options."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the class."""
    hears: bool = True
    """Whether its `update` is told how answers did; false: it goes by the data and the prompts alone."""
    low: Count = 2
    """Least samples that it gives a prompt which it does not leave out."""
    high: Count = 32
    """Most samples that it gives a prompt; the table and the rollouts are laid out for as many."""
    needs: ClassVar[tuple[Column, ...]] = ()
    spends_budget: ClassVar[bool] = False


BudgetOptions = (
    FixedOptions | StagedOptions | SgpoOptions | CobaRlOptions | TraceOptions | PythonBudgetOptions
)
