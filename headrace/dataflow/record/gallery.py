"""The newest samples that trainers showed of their steps, for people to read.

Invariant: at most `MOST_SAMPLES` of each policy are kept, and none is written to the run's files.
"""

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, Literal

from headrace.dataflow.record.telemetry import SAMPLES, Record

MOST_SAMPLES: Final = 256

Order = Literal["newest", "best", "worst"]

Sample = Mapping[str, Any]
"""One of `headrace.services.trainer.shown`, with `step`, `policy` and `at`, Unix seconds."""


class Gallery:
    def __init__(self, most: int = MOST_SAMPLES) -> None:
        self._most = most
        self._samples: dict[str, deque[Sample]] = {}

    def take(self, record: Record) -> None:
        """A record of telemetry; those that show no samples are passed over."""
        if record.kind != SAMPLES:
            return
        kept = self._samples.setdefault(record.policy, deque(maxlen=self._most))
        step = record.body["step"]
        if kept and kept[-1]["step"] >= step:
            self._samples[record.policy] = kept = deque(
                (sample for sample in kept if sample["step"] < step), maxlen=self._most
            )
        of = {"step": step, "policy": record.policy, "at": record.at}
        kept.extend({**of, **sample} for sample in record.body["samples"])

    def found(
        self,
        *,
        most: int,
        policy: str | None = None,
        step: int | None = None,
        reward_min: float | None = None,
        reward_max: float | None = None,
        order: Order = "newest",
    ) -> list[Sample]:
        """In that order, then the newest first. A bound of the reward, and an order by it, leave out samples
        whose reward is invalid."""
        of = [policy] if policy is not None else list(self._samples)
        by_reward = reward_min is not None or reward_max is not None or order != "newest"
        low = -math.inf if reward_min is None else reward_min
        high = math.inf if reward_max is None else reward_max
        samples = [
            sample
            for name in of
            for sample in self._samples.get(name, ())
            if step in (None, sample["step"]) and (not by_reward or _within(sample["reward"], low, high))
        ]
        samples.sort(key=lambda sample: (-sample["at"], sample["uid"]))
        if order != "newest":
            samples.sort(key=lambda sample: sample["reward"], reverse=order == "best")
        return samples[:most]


def _within(reward: float | None, low: float, high: float) -> bool:
    return reward is not None and low <= reward <= high
