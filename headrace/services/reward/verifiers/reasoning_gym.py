"""The `score_answer` of reasoning-gym's own task set, on what stands between <answer> and </answer>.

An answer without the tags is scored whole, so that a small model has something to climb from.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from headrace.services.jsonable import from_jsonable
from headrace.services.options import ReasoningGymVerifier
from headrace.services.verdicts.errors import VerifierUnusable
from headrace.services.verdicts.verdict import Score

_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


class ReasoningGym:
    """`example`: what the reasoning_gym data set writes: `task`, `config`, `entry`."""

    def __init__(self, options: ReasoningGymVerifier) -> None:
        try:
            import reasoning_gym
        except ImportError as error:
            raise VerifierUnusable(
                "verifier reasoning_gym needs a package that is not installed: pip install reasoning-gym"
            ) from error
        self._create = reasoning_gym.create_dataset
        self._format_weight = options.format_weight
        self._tasks: dict[str, Any] = {}

    def __call__(self, response: str, example: Mapping[str, Any]) -> Score:
        tagged = _TAGGED.findall(response)
        answer = (tagged[-1] if tagged else response).strip()
        correct = float(self._task(example).score_answer(answer, from_jsonable(example["entry"])))
        formed = float(bool(tagged))
        value = self._format_weight * formed + (1.0 - self._format_weight) * correct
        return Score(
            value=value, parts={"exact": float(correct == 1.0), "correct": correct, "format": formed}
        )

    def _task(self, example: Mapping[str, Any]) -> Any:
        key = json.dumps([example["task"], example["config"]], sort_keys=True)
        if key not in self._tasks:
            config = from_jsonable(example["config"])
            self._tasks[key] = self._create(example["task"], size=1, seed=0, **config)
        return self._tasks[key]
