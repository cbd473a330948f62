"""The running count and diagnostics of one step."""

from dataclasses import dataclass, field

from headrace.algorithms.base import LossSum


@dataclass(slots=True)
class Tally:
    """Adds up what the losses of a step say; merging parts in any order gives the same step."""

    total: float = 0.0
    """The loss, not yet divided."""
    count: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)
    maxima: dict[str, float] = field(default_factory=dict)

    def add(self, loss: LossSum) -> None:
        self.merge(
            Tally(
                total=loss.total.item(),
                count=loss.count,
                sums={name: value.item() for name, value in loss.sums.items()},
                maxima={name: value.item() for name, value in loss.maxima.items()},
            )
        )

    def merge(self, other: "Tally") -> None:
        self.total += other.total
        self.count += other.count
        for name, value in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        for name, value in other.maxima.items():
            self.maxima[name] = max(value, self.maxima.get(name, value))
