"""What the decoder asks of vLLM. Between two calls nothing runs: that is where weights change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What a step added to one submission: `token_ids` and `logprobs` are of one length."""

    key: str
    token_ids: list[int]
    logprobs: list[float]
    ended: str | None
    """Why vLLM takes it for finished, in its own word; None: it goes on."""


class Llm(Protocol):
    """One instance of vLLM with the weights of one version at a time."""

    def submit(self, key: str, prompt_ids: Sequence[int], fields: Mapping[str, Any], salt: str) -> None:
        """Queues a generation: `fields` are of vLLM's SamplingParams; prompts of one salt share prefixes."""
        ...

    def step(self) -> list[Drawn]:
        """One pass of the model over what vLLM schedules; returns those that got tokens or ended."""
        ...

    def abort(self, keys: Sequence[str]) -> None: ...

    def load(self, version: int, weights: Mapping[str, Any]) -> None:
        """Raises where any worker does not confirm `version`; then no token may be drawn any more."""
        ...

    def forget_prefixes(self) -> None:
        """Drops cached prefixes that no submission uses."""
        ...

    def close(self) -> None: ...
