"""The rollout service: prompts in, answers out, whole groups at a time.

Token in, token out: the ids that the engine returned are the ids that are trained on. Where their text would
be tokenised otherwise, the row says so.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Any

import numpy as np

from headrace.algorithms.seeds import sample_seed
from headrace.services.base import Context, Output
from headrace.services.errors import ReplicaFailed
from headrace.services.options import RolloutOptions
from headrace.services.rollout.engines import (
    NOT_SERVED,
    OWN,
    Carry,
    Completion,
    Engine,
    Request,
    build,
    tokenizer,
)
from headrace.services.rollout.fidelity import Fidelity
from headrace.transferqueue import Rows

FIRST = Request(uid=-1, group=-1, prompt_ids=np.zeros(1, dtype=np.int32), seed=0, max_new_tokens=1)
"""The one token by which an engine shows that it generates; id 0 is one of every vocabulary."""


class Rollout:
    """Generates one answer per row with the policy's newest weights, its own where nobody trains it."""

    capacity = 0
    follows = True
    _engine: Engine | None = None

    def __init__(self) -> None:
        self._begun: dict[int, Carry] = {}

    async def setup(self, context: Context) -> None:
        options: RolloutOptions = context.options
        self._seed = context.seed
        self.capacity = max(options.max_concurrent, context.flow.samples_per_prompt)
        self._fidelity = Fidelity(await tokenizer(options, context.policy))
        self.follows = context.policy_is_trained
        version = NOT_SERVED if self.follows else OWN
        self._begins_anew = context.flow.deterministic
        self._engine = await build(
            options,
            context.policy,
            seed=context.weights_seed,
            version=version,
            group_by_group=context.flow.deterministic,
        )

    @property
    def version(self) -> int:
        return self._ready().version

    async def load(self, version: int, weights: Mapping[str, Any]) -> None:
        await self._ready().load(version, weights)

    def progress(self) -> float:
        return self._ready().stats()["generated_tokens"]

    async def prove(self) -> None:
        """Raises ReplicaFailed unless the engine draws a token with the version that it says it serves."""
        engine = self._ready()
        async with aclosing(engine.generate([FIRST])) as generated:
            made = [each async for completions in generated for each in completions]
        versions = [version for each in made for version in each.versions.tolist()]
        if versions != [engine.version]:
            raise ReplicaFailed(
                f"the engine serves version {engine.version} by its own account, and drew tokens of versions "
                f"{versions} when one was asked for"
            )

    async def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        """Yields the answers of the groups that finished together; columns of `columns.RESPONSE`."""
        prompts = rows["prompt_ids"]
        requests = [
            Request(
                uid=uid,
                group=group,
                prompt_ids=prompt,
                seed=sample_seed(self._seed, uid),
                carry=None if self._begins_anew else carry,
            )
            for uid, group, prompt, carry in zip(
                rows.uids.tolist(), rows.groups.tolist(), prompts, rows.carries, strict=True
            )
        ]
        left = None if self._begins_anew else self._begun
        async with aclosing(self._ready().generate(requests, left)) as generated:
            async for completions in generated:
                retokenises = await self._fidelity.retokenise([c.token_ids for c in completions])
                yield answers(completions, retokenises)

    def begun(self, uids: Iterable[int]) -> dict[int, Carry]:
        """See `Resumable.begun`."""
        return {uid: self._begun.pop(uid) for uid in uids if uid in self._begun}

    async def close(self) -> None:
        if self._engine is not None:
            await self._engine.close()

    def _ready(self) -> Engine:
        assert self._engine is not None, "setup comes first"
        return self._engine


def answers(completions: list[Completion], retokenises: np.ndarray) -> Output:
    """The columns of `columns.RESPONSE`; `retokenises`: bool, one for each completion."""
    return Output(
        uids=np.array([c.uid for c in completions], dtype=np.int64),
        columns={
            "response_ids": [c.token_ids for c in completions],
            "logprobs": [np.asarray(c.logprobs, dtype=np.float32) for c in completions],
            "versions": [c.versions for c in completions],
            "loss_mask": [np.ones(len(c.token_ids), dtype=np.int8) for c in completions],
            "finish_reason": [c.finish_reason for c in completions],
            "retokenises": retokenises,
        },
    )
