"""How a task chooses among its ready rows, as its spec declares it."""

from dataclasses import dataclass
from typing import Literal, get_args

from headrace.transferqueue.errors import SchemaError

SamplerKind = Literal["fifo", "earliest_deadline", "shortest_first", "priority", "token_balanced", "replay"]

_TAKES = {
    "fifo": (),
    "earliest_deadline": (),
    "shortest_first": ("by",),
    "priority": ("by",),
    "token_balanced": ("by", "ranks"),
    "replay": ("uses", "seed"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """A sampler by name, with its parameters; one that its kind does not take must keep its default.

    Gate and take rule hold whatever the order: a sampler chooses among the rows that they allow.
    """

    kind: SamplerKind
    by: str = ""
    """shortest_first, token_balanced: the `aligned` label whose length counts; priority: a scalar column
    of numbers, the highest first."""
    ranks: int = 1
    """token_balanced: data-parallel ranks; each asks for its own rows with `lease(rank=...)`."""
    uses: int = 1
    """replay: times that a row may be seen."""
    seed: int = 0
    """replay: of the draws."""

    def __post_init__(self) -> None:
        if self.kind not in _TAKES:
            raise SchemaError(
                f"sampling has kind {self.kind!r}; allowed are {', '.join(get_args(SamplerKind))}"
            )
        taken = _TAKES[self.kind]
        for name, default in (("by", ""), ("ranks", 1), ("uses", 1), ("seed", 0)):
            if name not in taken and getattr(self, name) != default:
                raise SchemaError(
                    f"sampling {self.kind!r} does not take {name!r}; it takes {', '.join(taken) or 'nothing'}"
                )
        if "by" in taken and not self.by:
            raise SchemaError(f"sampling {self.kind!r} needs `by`: what rows are compared by")
        if self.ranks < 1 or self.uses < 1:
            raise SchemaError(f"ranks is {self.ranks} and uses is {self.uses}; both must be at least 1")
