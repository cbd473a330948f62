"""GreedyLR: the learning rate rises while the loss falls, and falls while it rises."""

from collections import deque
from dataclasses import dataclass, field

from headrace.algorithms.bounds import Count, Natural, NonNegative, Positive, check_bounds
from headrace.algorithms.saved import State


@dataclass(slots=True, kw_only=True)
class GreedyRate:
    """Learning rate in a closed loop, https://arxiv.org/abs/2512.14527.

    After more than `patience` losses in a row that fell, the rate is divided by `factor`; after as many that
    did not, it is multiplied. Deviation: a loss is compared with the one before, as the paper's algorithm
    has it, where its published code compares with the best so far, which one lucky batch freezes.

    >>> rate = GreedyRate(initial=0.1, factor=0.5)
    >>> [rate.observe(loss) for loss in (1.0, 0.8, 0.9)]
    [0.1, 0.2, 0.1]
    """

    initial: Positive
    factor: Positive = 0.95
    """F, below 1; one observation moves the rate by F or 1 / F at most."""
    patience: Natural = 0
    """Losses in a row that are let pass before the rate moves."""
    threshold: NonNegative = 0.0
    """What a loss must fall by to count as fallen."""
    window: Count = 1
    """Losses that are averaged before they are compared."""
    lowest: NonNegative = 0.0
    highest: Positive = 1.0
    rate: float = field(default=0.0, init=False)
    _losses: deque[float] = field(default_factory=deque, init=False)
    _previous: float | None = field(default=None, init=False)
    _run: int = field(default=0, init=False)
    """Losses in a row: above 0 that fell, below 0 that did not."""

    def __post_init__(self) -> None:
        check_bounds(self)
        if not (self.factor < 1.0 and self.lowest <= self.initial <= self.highest):
            raise ValueError(
                f"factor is {self.factor}, initial {self.initial} within {self.lowest} to {self.highest};"
                " factor must be below 1 and the initial rate within the bounds"
            )
        self.rate = self.initial
        self._losses = deque(maxlen=self.window)

    def observe(self, loss: float) -> float:
        """Takes the loss of the step just made; returns the rate of the next. NaN is no observation."""
        if loss != loss:
            return self.rate
        self._losses.append(loss)
        current = sum(self._losses) / len(self._losses)
        previous, self._previous = self._previous, current
        if previous is None:
            return self.rate
        fell = current < previous - self.threshold
        self._run = max(self._run, 0) + 1 if fell else min(self._run, 0) - 1
        if abs(self._run) > self.patience:
            moved = self.rate / self.factor if fell else self.rate * self.factor
            self.rate = min(max(moved, self.lowest), self.highest)
            self._run = 0
        return self.rate

    def state(self) -> State:
        return {
            "rate": self.rate,
            "losses": list(self._losses),
            "previous": self._previous,
            "run": self._run,
        }

    def load_state(self, state: State) -> None:
        self.rate = state["rate"]
        self._losses = deque(state["losses"], maxlen=self.window)
        self._previous = state["previous"]
        self._run = state["run"]
