"""A policy's score on prompts that it is not trained on."""

from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.algorithms.bounds import Count, Positive
from headrace.services.options.data import Dataset
from headrace.services.options.placed import STALLED_LEAST_S, Placed
from headrace.services.options.verifiers import Verifier
from headrace.services.options.vllm import VllmOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalOptions(Placed):
    """Scores exact versions of a policy's weights on prompts of its own, beside the training."""

    dataset: Dataset
    """What the prompts are drawn from; drawn in its own order, which no seed of the training shares."""
    verifier: Verifier
    """What scores an answer."""
    every: Count = 10
    """Versions from one evaluation to the next; the first and the last version are always among them."""
    prompts: Count = 64
    """Prompts of an evaluation, the same each time."""
    samples_per_prompt: Count = 1
    """Answers to each."""
    engine: Literal["torch", "vllm", "fake"] = "torch"
    """What generates."""
    max_new_tokens: Count = 16
    """Longest answer, in tokens."""
    temperature: Positive = 1.0
    """Sampling temperature."""
    max_concurrent: Count = 256
    """Sequences decoded at once."""
    vllm: VllmOptions = field(default_factory=VllmOptions)
    """Settings of the engine vllm."""
    fake: dict[str, Any] = field(default_factory=dict)
    """Script of the fake engine; see `services/rollout/engines/fake.py`."""

    def longest_work_s(self, no_progress_timeout_s: float) -> float:
        """It holds nobody back."""
        return max(no_progress_timeout_s, STALLED_LEAST_S)
