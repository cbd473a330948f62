"""The tokens of one sample while they are drawn, each with its log-probability and version."""

from collections.abc import Container
from dataclasses import dataclass, field, replace

import numpy as np

from headrace.services.rollout.engines.base import Carry, Completion, FinishReason
from headrace.services.rollout.engines.decoding.slots import Sample


@dataclass(slots=True, kw_only=True, eq=False)
class Draft:
    """A sample and what it has of its answer, the tokens of an interrupted generation first."""

    sample: Sample
    token_ids: list[int] = field(default_factory=list, repr=False)
    logprobs: list[float] = field(default_factory=list, repr=False)
    versions: list[int] = field(default_factory=list, repr=False)
    begun_at: int = 0
    """Tokens that it had when vLLM was given it."""

    @classmethod
    def of(cls, sample: Sample) -> "Draft":
        carry = sample.request.carry
        if carry is None:
            return cls(sample=sample)
        return cls(
            sample=sample,
            token_ids=[int(i) for i in carry["token_ids"]],
            logprobs=[float(p) for p in carry["logprobs"]],
            versions=[int(v) for v in carry["versions"]],
        )

    def anew(self) -> "Draft":
        """The sample without any token, nor those that an earlier lease left."""
        return Draft(sample=replace(self.sample, request=replace(self.sample.request, carry=None)))

    def carry(self) -> Carry:
        """What it has, to be gone on from."""
        return {"token_ids": self.token_ids, "logprobs": self.logprobs, "versions": self.versions}

    def has_begun(self) -> bool:
        """Whether a token was drawn since vLLM was given it."""
        return len(self.token_ids) > self.begun_at

    def prompt(self) -> list[int]:
        """What the next token follows: the prompt and the tokens so far."""
        return [*(int(i) for i in self.sample.request.prompt_ids), *self.token_ids]

    def add(self, token_ids: list[int], logprobs: list[float], version: int) -> None:
        self.token_ids += token_ids
        self.logprobs += logprobs
        self.versions += [version] * len(token_ids)

    def reason(self, stops: Container[int], most: int) -> FinishReason | None:
        """Why the answer is whole; None: it goes on. `most`: tokens of the longest one."""
        if self.token_ids and self.token_ids[-1] in stops:
            return "stop"
        return "length" if len(self.token_ids) >= most else None

    def completion(self, reason: FinishReason) -> Completion:
        return Completion(
            uid=self.sample.request.uid,
            token_ids=np.array(self.token_ids, dtype=np.int32),
            logprobs=np.array(self.logprobs, dtype=np.float32),
            versions=np.array(self.versions, dtype=np.int32),
            finish_reason=reason,
        )
