"""What every algorithm's options have: a kind, and what the dataflow must know before torch is loaded.

The figures are checked wherever the options are made, so a class that takes them need not.
"""

from dataclasses import dataclass

from headrace.algorithms.bounds import check_bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of one algorithm. Raises ValueError for a value that its annotation does not allow."""

    kind: str

    def __post_init__(self) -> None:
        check_bounds(self)

    def needs(self) -> tuple[str, ...]:
        """Columns that it reads beyond prompt_ids, response_ids, logprobs, loss_mask and reward."""
        return ()

    @property
    def compares_group(self) -> bool:
        """Whether answers of one prompt are compared, so that a lone one teaches nothing."""
        return True
