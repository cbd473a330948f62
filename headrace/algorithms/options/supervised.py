"""Options of the algorithms that have a target instead of an advantage."""

from dataclasses import dataclass
from typing import Literal

from headrace.algorithms.bounds import Positive, PositiveOrInf
from headrace.algorithms.options.base import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class SftOptions(Options):
    """Maximum likelihood of the trained tokens; rewards have no part in it."""

    kind: Literal["sft"] = "sft"

    @property
    def compares_group(self) -> bool:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class OpdOptions(Options):
    """On-policy distillation (arXiv 2306.13649): reverse divergence from a teacher on the sampled tokens."""

    kind: Literal["opd"] = "opd"
    weight_high: PositiveOrInf = 2.0
    """Largest importance weight of a stale token."""

    def needs(self) -> tuple[str, ...]:
        return ("teacher_logprobs",)

    @property
    def compares_group(self) -> bool:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class PacsOptions(Options):
    """PACS (arXiv 2509.02522): the reward, in [0, 1], as the label of the answer's score."""

    kind: Literal["pacs"] = "pacs"
    beta: Positive = 1.0
    """Weight of the summed log-ratio in the score."""
    balanced: bool = False
    """Weigh right and wrong answers of a prompt alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoverOptions(Options):
    """ROVER (arXiv 2509.24981): regression to the value of a uniformly random policy."""

    kind: Literal["rover"] = "rover"
