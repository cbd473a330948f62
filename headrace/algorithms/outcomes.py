"""How each prompt has done so far; the state holds the prompts that were answered, however large the data."""

import numpy as np

from headrace.algorithms.feedback import Feedback, pass_rates
from headrace.algorithms.saved import State, check_size


class Outcomes:
    """Sum and number of the valid rewards of each prompt, both [size]."""

    def __init__(self, size: int) -> None:
        self.sums = np.zeros(size)
        self.counts = np.zeros(size, dtype=np.int64)

    def add(self, feedback: Feedback) -> None:
        sums, counts = pass_rates(feedback, len(self.counts))
        self.sums += sums
        self.counts += counts

    def means(self, prompts: np.ndarray) -> np.ndarray:
        """Mean reward of each prompt, float64 [n], NaN where none was seen."""
        counts = self.counts[prompts]
        return np.where(counts > 0, self.sums[prompts] / np.maximum(counts, 1), np.nan)

    def state(self) -> State:
        seen = np.flatnonzero(self.counts)
        return {
            "size": len(self.counts),
            "prompts": seen.tolist(),
            "sums": self.sums[seen].tolist(),
            "counts": self.counts[seen].tolist(),
        }

    def load_state(self, state: State) -> None:
        """Raises ValueError where the state is of data of another size."""
        check_size("prompts", state["size"], len(self.counts))
        seen = np.array(state["prompts"], dtype=np.int64)
        self.sums[:], self.counts[:] = 0.0, 0
        self.sums[seen], self.counts[seen] = state["sums"], state["counts"]
