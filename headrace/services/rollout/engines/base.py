"""An engine only generates: token ids in, token ids, log-probabilities and versions out.

Invariant: the ids an engine returned are the ids trained on; every token carries the version of the
weights that made it, and its log-probability is that of the distribution it was sampled from.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

FinishReason = Literal["stop", "length"]
OverNewWeights = Literal["finish", "swap", "abort_keep", "abort_restart"]

Carry = Mapping[str, Any]
"""`token_ids`, `logprobs`, `versions` of an interrupted generation, arrays or lists of equal length."""

NOT_SERVED, OWN = -1, 0
"""Versions of an engine with the model's own weights: where a trainer publishes others, which replace them
before a token is made, and where nobody trains the policy."""


class EngineDied(RuntimeError):
    """The engine failed or was closed and takes no more; `__cause__` is the error that ended it, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How tokens are drawn; the log-probabilities are those under `temperature`."""

    temperature: float = 1.0
    max_new_tokens: int = 16
    stop_token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One sample to generate. Requests of one `group` share `prompt_ids` and its prefill."""

    uid: int
    group: int
    prompt_ids: np.ndarray = field(repr=False)
    seed: int
    """Seeds this sample's own random stream, so that batching never changes what is drawn."""
    carry: Carry | None = None
    """What to go on from."""
    max_new_tokens: int | None = None
    """Longest answer, where it is to be shorter than the engine's; None: as long."""

    def most(self, engine: int) -> int:
        """Tokens of the longest answer, where the engine's own has `engine`."""
        return engine if self.max_new_tokens is None else min(engine, self.max_new_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A finished sample: arrays [T] of equal length, the stop token included when it was drawn."""

    uid: int
    token_ids: np.ndarray = field(repr=False)
    logprobs: np.ndarray = field(repr=False)
    versions: np.ndarray = field(repr=False)
    finish_reason: FinishReason

    def carry(self) -> Carry:
        """The whole of it, to be handed in once more."""
        return {"token_ids": self.token_ids, "logprobs": self.logprobs, "versions": self.versions}


class Engine(Protocol):
    """Continuous batching behind three calls; one decode loop per engine."""

    @property
    def version(self) -> int:
        """Version of the weights that the next token is made with: loaded, never merely sent."""
        ...

    def generate(
        self, requests: Sequence[Request], left: dict[int, Carry] | None = None
    ) -> AsyncGenerator[list[Completion], None]:
        """Yields what finished since the last yield, whole groups together, until all have.

        Closed early, it cancels what is still being generated, and puts into `left`, by uid, what it has of
        the samples that it did not yield.
        """
        ...

    async def load(self, version: int, weights: Mapping[str, Any]) -> None:
        """Takes new weights between decode steps; `over_new_weights` says what in-flight samples do.

        `finish`: they finish on the old weights first, and none starts meanwhile;
        `swap`: they go on with the new weights, their cache kept; later tokens carry the new version.
        `abort_keep`: as `swap`, but what is cached of them is made anew with the new weights, so that later
        tokens are those of the new model; `abort_restart`: they lose their tokens and begin anew.
        """
        ...

    def stats(self) -> dict[str, float]: ...

    async def close(self) -> None: ...
