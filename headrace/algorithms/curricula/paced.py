"""PACED-RL: prompts are drawn by how uncertain their outcome is, as the fitted partition function says."""

import numpy as np

from headrace.algorithms.curricula.options import PacedRlOptions
from headrace.algorithms.feedback import Feedback, pass_rates
from headrace.algorithms.prompt_data import PromptData
from headrace.algorithms.saved import State, check_size
from headrace.algorithms.seeds import sample_seed

PRIOR = 0.5
"""Accuracy assumed of a prompt that was never answered: such prompts come first."""


def reference_accuracy(log_partitions: np.ndarray, *, beta: float) -> np.ndarray:
    """Accuracy of the reference policy on each prompt, from log Z: (Z - 1) / (exp(beta) - 1), within [0, 1].

    For the target pi(y) proportional to reference(y) * exp(beta * r(y)) and r of 0 or 1, Z is
    1 - p + p * exp(beta). Derived from the relation that PACED-RL names. `log_partitions` float64 [n].
    """
    return np.clip(np.expm1(log_partitions) / np.expm1(beta), 0.0, 1.0)


def online_accuracy(log_partitions: np.ndarray, divergences: np.ndarray, *, beta: float) -> np.ndarray:
    """Accuracy of the current policy on each prompt: (log Z + KL(policy || reference)) / beta, in [0, 1].

    Z is fitted so that log Z = E[beta * r - log(policy / reference)] under the policy's own samples, which
    is beta * p - KL. Both float64 [n], the divergence a mean over samples.
    """
    return np.clip((log_partitions + divergences) / beta, 0.0, 1.0)


class Paced:
    """Draws a prompt in proportion to p (1 - p), without repetition within one call of `draw`.

    p is the accuracy that log Z tells, where the loss fits one, else a moving average of observed rewards,
    which must then lie in [0, 1].
    """

    def __init__(self, data: PromptData, options: PacedRlOptions) -> None:
        self._seed, self._options = data.seed, options
        self._accuracies = np.full(data.size, PRIOR)
        self._errors = np.zeros(data.size)
        self._calls = 0

    @property
    def accuracies(self) -> np.ndarray:
        """Estimated accuracy by prompt, float64 [size]."""
        return self._accuracies.copy()

    @property
    def errors(self) -> np.ndarray:
        """|estimate - last observed mean reward| by prompt, float64 [size]: the priority of a replay."""
        return self._errors.copy()

    def draw(self, count: int) -> np.ndarray:
        if count > len(self._accuracies):
            raise IndexError(
                f"{count} prompts were asked for at once, the data has {len(self._accuracies)}; draw fewer"
            )
        generator = np.random.default_rng(sample_seed(self._seed, self._calls))
        self._calls += 1
        weights = self._accuracies * (1.0 - self._accuracies) + self._options.floor
        keys = np.log(weights) + generator.gumbel(size=len(weights))
        return np.argsort(-keys, kind="stable")[:count].astype(np.int64)

    def update(self, feedback: Feedback) -> None:
        size = len(self._accuracies)
        sums, counts = pass_rates(feedback, size)
        seen = counts > 0
        observed = sums[seen] / counts[seen]
        if feedback.log_partitions is None:
            kept = self._options.smoothing * self._accuracies[seen]
            estimates = np.clip(kept + (1.0 - self._options.smoothing) * observed, 0.0, 1.0)
        else:
            estimates = self._told(feedback, counts, seen)
        self._accuracies[seen] = estimates
        self._errors[seen] = np.abs(estimates - observed)

    def _told(self, feedback: Feedback, counts: np.ndarray, seen: np.ndarray) -> np.ndarray:
        valid = ~np.isnan(feedback.rewards)

        def mean(values: np.ndarray) -> np.ndarray:
            sums = np.bincount(feedback.prompts[valid], weights=values[valid], minlength=len(counts))
            return sums[seen] / counts[seen]

        assert feedback.log_partitions is not None
        log_partitions = mean(feedback.log_partitions)
        if feedback.divergences is None:
            return reference_accuracy(log_partitions, beta=self._options.beta)
        return online_accuracy(log_partitions, mean(feedback.divergences), beta=self._options.beta)

    def state(self) -> State:
        told = np.flatnonzero((self._accuracies != PRIOR) | (self._errors != 0))
        return {
            "calls": self._calls,
            "size": len(self._accuracies),
            "prompts": told.tolist(),
            "accuracies": self._accuracies[told].tolist(),
            "errors": self._errors[told].tolist(),
        }

    def load_state(self, state: State) -> None:
        check_size("prompts", state["size"], len(self._accuracies))
        told = np.array(state["prompts"], dtype=np.int64)
        self._calls = state["calls"]
        self._accuracies[:], self._errors[:] = PRIOR, 0.0
        self._accuracies[told], self._errors[told] = state["accuracies"], state["errors"]
