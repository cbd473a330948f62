"""What every algorithm's options have: a kind, and what the dataflow must know before torch is loaded.

The figures are checked wherever the options are made, so a class that takes them need not.
"""

from dataclasses import dataclass, fields, replace
from typing import Self

from headrace.algorithms.bounds import check_bounds
from headrace.algorithms.updates.annealed import Annealed, at


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of one algorithm. Raises ValueError for a value that its annotation does not allow."""

    kind: str

    def __post_init__(self) -> None:
        check_bounds(self)

    def needs(self) -> tuple[str, ...]:
        """Columns that it reads beyond prompt_ids, response_ids, logprobs, loss_mask and reward."""
        return ()

    def annealed(self) -> tuple[str, ...]:
        """The coefficients that move over the run."""
        return tuple(
            member.name for member in fields(self) if isinstance(getattr(self, member.name), Annealed)
        )

    def at(self, step: int) -> Self:
        """The options of a training step: what is annealed has its value there."""
        return replace(self, **{name: at(getattr(self, name), step) for name in self.annealed()})

    @property
    def values_by_head(self) -> bool:
        """Whether the loss trains a value head of the trainer's."""
        return False

    @property
    def trains_values(self) -> bool:
        """Whether the policy is a value model, which makes no tokens and has no log-probabilities."""
        return False

    @property
    def compares_group(self) -> bool:
        """Whether answers of one prompt are compared, so that a lone one teaches nothing."""
        return True
