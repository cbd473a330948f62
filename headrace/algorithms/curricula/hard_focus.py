"""Stages that keep ever fewer, ever harder prompts: the data half of a staged recipe.

A stage lasts a number of drawn prompts; at its start the hardest prompts of those before it are kept, by the
pass rates that the last stage observed. The number of samples per prompt is the `StagedBudget`'s.
"""

import numpy as np

from headrace.algorithms.curricula.domains import Uniform
from headrace.algorithms.curricula.options import HardFocusOptions, UniformOptions
from headrace.algorithms.feedback import Feedback
from headrace.algorithms.outcomes import Outcomes
from headrace.algorithms.prompt_data import PromptData
from headrace.algorithms.saved import State
from headrace.algorithms.seeds import sample_seed


class HardFocus:
    """DRIVE (https://arxiv.org/abs/2511.06307): a broad stage, then few hard prompts with many samples each.

    Feedback counts for the stage in which it arrives. A prompt that no valid reward was seen for has no pass
    rate and is dropped before any that has one; among equal pass rates the lower index is kept.
    """

    def __init__(self, data: PromptData, options: HardFocusOptions) -> None:
        self._size, self._seed, self._stages = data.size, data.seed, options.stages
        self._stage, self._drawn = 0, 0
        self._kept = np.arange(data.size)
        self._order = self._uniform()
        self._outcomes = Outcomes(self._size)

    @property
    def stage(self) -> int:
        """The current stage, counted from 0; it changes with the first draw of the next."""
        return self._stage

    @property
    def kept(self) -> np.ndarray:
        """Indices of the stage's prompts, int64, ascending."""
        return self._kept.copy()

    def draw(self, count: int) -> np.ndarray:
        chosen = np.empty(count, dtype=np.int64)
        for place in range(count):
            if self._drawn == self._stages[self._stage].prompts and self._stage + 1 < len(self._stages):
                self._advance()
            chosen[place] = self._kept[self._order.draw(1)[0]]
            self._drawn += 1
        return chosen

    def update(self, feedback: Feedback) -> None:
        self._outcomes.add(feedback)

    def state(self) -> State:
        return {
            "stage": self._stage,
            "drawn": self._drawn,
            "kept": self._kept.tolist() if len(self._kept) < self._size else None,
            "order": self._order.state(),
            "outcomes": self._outcomes.state(),
        }

    def load_state(self, state: State) -> None:
        self._stage, self._drawn = state["stage"], state["drawn"]
        kept = state["kept"]
        self._kept = np.arange(self._size) if kept is None else np.array(kept, dtype=np.int64)
        self._order = self._uniform()
        self._order.load_state(state["order"])
        self._outcomes.load_state(state["outcomes"])

    def _advance(self) -> None:
        self._stage, self._drawn = self._stage + 1, 0
        keep = self._stages[self._stage].keep
        if keep is not None:
            rates = self._outcomes.means(self._kept)
            self._kept = np.sort(self._kept[np.argsort(rates, kind="stable")[:keep]])
        self._order = self._uniform()
        self._outcomes = Outcomes(self._size)

    def _uniform(self) -> Uniform:
        seed = sample_seed(self._seed, self._stage)
        return Uniform(PromptData(size=len(self._kept), seed=seed), UniformOptions())
