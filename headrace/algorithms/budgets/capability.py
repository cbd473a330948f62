"""CoBA-RL: samples go where the policy, as capable as it now is, gains most from them."""

import math
from collections import deque
from typing import ClassVar

import numpy as np

from headrace.algorithms.budgets.greedy import greedy
from headrace.algorithms.budgets.options import CobaRlOptions
from headrace.algorithms.feedback import Feedback, pass_rates
from headrace.algorithms.prompt_data import PromptData
from headrace.algorithms.saved import State

RATE_FLOOR = 0.01
"""Pass rates are held this far from 0 and 1 in the value, which would be 0 or infinite there."""

UNSEEN = 0.5
"""Pass rate assumed of a prompt that was never answered."""

VARIANCE_MAX = 1.0 / 6.0
"""Variance of pass rates at which the saturation is slowest."""


def beta_parameters(failure_rate: float, *, total: float = 7.0) -> tuple[float, float]:
    """(alpha, beta) of the density over pass rates: alpha = 1 + (total - 2) * f, beta = total - alpha.

    f is the global failure rate F where it is above 1/2, else 1 / (1 + exp(-10 (F - 1/2))); the density's
    mode is at pass rate f. So a policy that fails often is fed what it can already solve, and one that
    rarely fails is fed what it cannot.
    """
    moved = failure_rate if failure_rate > 0.5 else 1.0 / (1.0 + math.exp(-10.0 * (failure_rate - 0.5)))
    alpha = 1.0 + (total - 2.0) * moved
    return alpha, total - alpha


def beta_density(rates: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    """Density of Beta(alpha, beta) at `rates`, float64 [P] within (0, 1)."""
    log_norm = math.lgamma(alpha) + math.lgamma(beta) - math.lgamma(alpha + beta)
    return np.exp((alpha - 1.0) * np.log(rates) + (beta - 1.0) * np.log1p(-rates) - log_norm)


class Capability:
    """Greedy on V(n, p) = Beta(p; alpha, beta) * (1 - exp(-n p (1 - p) / tau)), concave in n.

    CoBA-RL (https://arxiv.org/abs/2602.03048), formula and constants of its published code: alpha and beta
    as `beta_parameters`, from the failure rate of the last `window` steps (mean over a step's prompts); tau
    from 3 to 12, linear in the variance of the pass rates up to 1/6. Deviation: one greedy pass spends the
    whole budget, where the published code sets a share aside for prompts that are always or never solved.
    """

    spends_budget: ClassVar[bool] = True

    def __init__(self, data: PromptData, options: CobaRlOptions) -> None:
        """Raises ValueError where tau_min is above tau_max."""
        if options.tau_min > options.tau_max:
            raise ValueError(f"tau_min is {options.tau_min} and tau_max {options.tau_max}; they must ascend")
        self._options = options
        self._rates: dict[int, deque[tuple[float, int]]] = {}
        self._failures = deque[float](maxlen=options.window)
        self._size = data.size

    @property
    def failure_rate(self) -> float | None:
        """Mean over the last steps; None: nothing has been heard yet."""
        return sum(self._failures) / len(self._failures) if self._failures else None

    def allocate(self, prompts: np.ndarray, budget: int) -> np.ndarray:
        options = self._options
        rates = np.clip([self._rate(int(prompt)) for prompt in prompts], RATE_FLOOR, 1.0 - RATE_FLOOR)
        failure_rate = 0.5 if self.failure_rate is None else self.failure_rate
        densities = beta_density(rates, *beta_parameters(failure_rate))
        spread = min(float(rates.var()) / VARIANCE_MAX, 1.0) if len(rates) else 0.0
        decays = rates * (1.0 - rates) / (options.tau_min + (options.tau_max - options.tau_min) * spread)
        first_gains = (densities * -np.expm1(-decays)).tolist()
        decay_list = decays.tolist()

        def marginal(prompt: int, samples: int) -> float:
            return first_gains[prompt] * math.exp(-samples * decay_list[prompt])

        return greedy(marginal, prompts=len(prompts), low=options.low, high=options.high, budget=budget)

    def update(self, feedback: Feedback) -> None:
        sums, counts = pass_rates(feedback, self._size)
        seen = np.flatnonzero(counts)
        if len(seen) == 0:
            return
        for prompt in seen.tolist():
            kept = self._rates.setdefault(prompt, deque(maxlen=self._options.window))
            kept.append((float(sums[prompt]), int(counts[prompt])))
        self._failures.append(1.0 - float((sums[seen] / counts[seen]).mean()))

    def state(self) -> State:
        rates = {str(prompt): [list(step) for step in steps] for prompt, steps in self._rates.items()}
        return {"rates": rates, "failures": list(self._failures)}

    def load_state(self, state: State) -> None:
        self._rates = {
            int(prompt): deque(((total, number) for total, number in steps), maxlen=self._options.window)
            for prompt, steps in state["rates"].items()
        }
        self._failures = deque(state["failures"], maxlen=self._options.window)

    def _rate(self, prompt: int) -> float:
        steps = self._rates.get(prompt)
        if steps is None:
            return UNSEEN
        return sum(total for total, _ in steps) / sum(number for _, number in steps)
