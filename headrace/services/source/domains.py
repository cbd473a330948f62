"""Figures of a data set's domains, under the names of docs/metrics.md."""

import numpy as np

from headrace.algorithms.curricula.domains import DomainSampler
from headrace.algorithms.feedback import Feedback
from headrace.services.source.datasets.base import Labels


class DomainFigures:
    """Counts prompts drawn since the run's start; rewards are of the last step that was heard."""

    def __init__(self, labels: Labels) -> None:
        self._names, self._domains = labels.names, labels.domains
        self._drawn = np.zeros(len(labels.names), dtype=np.int64)
        self._rewards: dict[str, float] = {}

    def drawn(self, indices: list[int]) -> None:
        if self._domains is not None and indices:
            self._drawn += np.bincount(self._domains[indices], minlength=len(self._names))

    def heard(self, feedback: Feedback) -> None:
        if self._domains is None:
            return
        valid = ~np.isnan(feedback.rewards)
        domains = self._domains[feedback.prompts[valid]]
        counts = np.bincount(domains, minlength=len(self._names))
        sums = np.bincount(domains, weights=feedback.rewards[valid], minlength=len(self._names))
        self._rewards = {
            f"data/domain/{name}/reward": total / count
            for name, total, count in zip(self._names, sums.tolist(), counts.tolist(), strict=True)
            if count
        }

    def metrics(self, sampler: object) -> dict[str, float]:
        figures = {f"data/domain/{n}/drawn": float(d) for n, d in zip(self._names, self._drawn, strict=True)}
        if isinstance(sampler, DomainSampler) and sampler.number == len(self._names):
            for name, probability in zip(self._names, sampler.probabilities.tolist(), strict=True):
                figures[f"data/domain/{name}/probability"] = probability
        return figures | self._rewards
