"""Options of the samplers, as plain data: read and checked before anything is drawn.

`hears`: whether the sampler is told how answers did. `needs`: what the data set must tell for it.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from headrace.algorithms.bounds import Count, Decay, NonNegative, Positive, Share
from headrace.algorithms.by_path import ClassPath
from headrace.algorithms.checked import Checked

Column = Literal["domains", "pass_rates"]
"""What a data set may tell of its prompts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformOptions(Checked):
    """Every prompt once per epoch."""

    kind: Literal["uniform"] = "uniform"
    hears: ClassVar[bool] = False
    needs: ClassVar[tuple[Column, ...]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureOptions(Checked):
    """Domains in fixed proportions."""

    kind: Literal["mixture"] = "mixture"
    hears: ClassVar[bool] = False
    needs: ClassVar[tuple[Column, ...]] = ("domains",)
    proportions: tuple[NonNegative, ...] | None = None
    """One for each domain, in any unit; None: all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions(Checked):
    """DUMP: upper confidence bound on the advantage of each domain."""

    kind: Literal["dump"] = "dump"
    hears: ClassVar[bool] = True
    needs: ClassVar[tuple[Column, ...]] = ("domains",)
    window: Count = 300
    """Rows of a domain whose advantages are averaged."""
    temperature: Positive = 0.1
    """Of the softmax over domains; in units of advantage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class E2hCosineOptions(Checked):
    """E2H: levels from easy to hard along a cosine. Domains are levels, 0 the easiest."""

    kind: Literal["e2h_cosine"] = "e2h_cosine"
    hears: ClassVar[bool] = False
    needs: ClassVar[tuple[Column, ...]] = ("domains",)


@dataclass(frozen=True, slots=True, kw_only=True)
class E2hGaussianOptions(Checked):
    """E2H: a normal curve that moves over the levels. Domains are levels, 0 the easiest."""

    kind: Literal["e2h_gaussian"] = "e2h_gaussian"
    hears: ClassVar[bool] = False
    needs: ClassVar[tuple[Column, ...]] = ("domains",)
    exponent: Positive = 0.5
    """Of the progress: below 1 leaves the easy levels sooner."""
    sigma: Positive = 0.5
    """Width of the curve, in levels."""
    floor: Share = 0.0
    """Share that every level keeps; at most 1 / levels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleReasonerOptions(Checked):
    """RuleReasoner: domains by how far their reward lies below the target."""

    kind: Literal["rule_reasoner"] = "rule_reasoner"
    hears: ClassVar[bool] = True
    needs: ClassVar[tuple[Column, ...]] = ("domains",)
    target: float = 1.0
    """Reward at which a domain needs no more."""
    smoothing: Decay = 0.5
    """Weight of the past in the moving average of a domain's reward."""
    temperature: Positive = 0.25
    """Of the softmax over domains, in units of reward; ours, since the one used was not published."""
    floor: Share = 0.0
    """Share that every domain keeps; at most 1 / domains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacedRlOptions(Checked):
    """PACED-RL: prompts by the uncertainty of their outcome."""

    kind: Literal["paced_rl"] = "paced_rl"
    hears: ClassVar[bool] = True
    needs: ClassVar[tuple[Column, ...]] = ()
    beta: Positive = 1.0
    """Of the loss whose partition function is read: the weight of the reward against the divergence."""
    smoothing: Decay = 0.5
    """Weight of the past in the moving average of rewards, where the loss fits no partition function."""
    floor: Positive = 1e-3
    """Weight of a prompt whose outcome is sure; one that is open weighs up to 0.25."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Checked):
    prompts: Count
    """Draws that the stage lasts; the last stage goes on without end."""
    keep: Count | None = None
    """How many of the prompts before it the stage keeps, the hardest; None: all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HardFocusOptions(Checked):
    """DRIVE: a broad stage, then few hard prompts."""

    kind: Literal["hard_focus"] = "hard_focus"
    hears: ClassVar[bool] = True
    needs: ClassVar[tuple[Column, ...]] = ()
    stages: tuple[Stage, ...]
    """In order; the first keeps every prompt."""

    def __post_init__(self) -> None:
        if not self.stages or self.stages[0].keep is not None:
            raise ValueError(
                f"stages are {self.stages}; give at least one, and no keep for the first:"
                " nothing has been observed before it"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledOptions(Checked):
    """sGPO: easy to hard by a profile, without what is trivial."""

    kind: Literal["profiled"] = "profiled"
    hears: ClassVar[bool] = False
    needs: ClassVar[tuple[Column, ...]] = ("pass_rates",)
    trivial: Share = 1.0
    """Pass rate from which on a prompt is left out."""
    unsolved_share: Share = 0.5
    """Share of the prompts that the profile never saw solved, which are kept."""
    epochs: Count | None = None
    """Passes over what is left; None: without end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonSamplerOptions(Checked):
    """A class of yours with the methods of `headrace.algorithms.curricula.base.DataSampler`."""

    kind: Literal["python"] = "python"
    path: ClassPath
    """Where it is: `module:Class`, or `path/to/file.py:Class`; called with a `PromptData` and the options."""
    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the class."""
    hears: bool = True
    """Whether its `update` is told how answers did; false: it goes by the data and the draws alone."""
    needs: ClassVar[tuple[Column, ...]] = ()


SamplerOptions = (
    UniformOptions
    | MixtureOptions
    | DumpOptions
    | E2hCosineOptions
    | E2hGaussianOptions
    | RuleReasonerOptions
    | PacedRlOptions
    | HardFocusOptions
    | ProfiledOptions
    | PythonSamplerOptions
)
