"""Which samples vLLM has, and which version each of their tokens is of.

    waiting ─► live (submitted, at most `max_concurrent`) ─► finished
       ▲─────────┘ withdrawn before their first token, or interrupted, when weights change

Invariant: a step returns every token that it drew, so what is returned before `use_weights` is of the old
version and what comes after of the new one. A prefix is cached under the load that made it: a sample that
begins under new weights never reads keys of older ones.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Protocol

from headrace.services.rollout.engines.base import Carry, Request, Sampling
from headrace.services.rollout.engines.decode_loop import Finished
from headrace.services.rollout.engines.decoding.slots import Sample
from headrace.services.rollout.engines.refusals import check_request, check_sampling
from headrace.services.rollout.engines.vllm.drafts import Draft
from headrace.services.rollout.engines.vllm.llm import Drawn, Llm
from headrace.services.rollout.engines.vllm.parameters import sampling_fields


class Shape(Protocol):
    """What a model takes."""

    vocabulary: int
    longest: int

    def check(self, weights: Mapping[str, Any]) -> None:
        """Raises ValueError for weights that are not the model's by name, shape and type."""
        ...

    def named(self, weights: Mapping[str, Any]) -> dict[str, Any]:
        """Checked weights with each tied tensor once, under the name that vLLM reads."""
        ...


class VllmDecoder:
    """A `decode_loop.Decoder` over one vLLM."""

    def __init__(
        self, llm: Llm, shape: Shape, sampling: Sampling, *, max_concurrent: int, version: int
    ) -> None:
        check_sampling(sampling, max_concurrent)
        self.version = version
        self._llm = llm
        self._shape = shape
        self._sampling = sampling
        self._stops = frozenset(sampling.stop_token_ids)
        self._max_concurrent = max_concurrent
        self._waiting: deque[Draft] = deque()
        self._live: dict[str, Draft] = {}
        self._finished: list[Finished] = []
        self._keys = map(str, count())
        self._loads = 0
        self._tokens = self._discarded = self._steps = 0

    @property
    def running(self) -> int:
        return len(self._live)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def check(self, request: Request) -> None:
        """See `Decoder.check`."""
        check_request(
            request,
            vocabulary=self._shape.vocabulary,
            longest=self._shape.longest,
            max_new_tokens=self._sampling.max_new_tokens,
        )

    def check_weights(self, weights: Mapping[str, Any]) -> None:
        """See `Decoder.check_weights`."""
        self._shape.check(weights)

    def add(self, samples: Iterable[Sample]) -> None:
        """See `Decoder.add`."""
        for sample in samples:
            draft = Draft.of(sample)
            if not self._finish(draft):
                self._waiting.append(draft)

    def cancel(self, owner: object) -> dict[int, Carry]:
        """See `Decoder.cancel`."""
        mine = [draft for draft in self._waiting if draft.sample.owner is owner]
        self._waiting = deque(draft for draft in self._waiting if draft.sample.owner is not owner)
        mine += self._abort([key for key, draft in self._live.items() if draft.sample.owner is owner])
        return {draft.sample.request.uid: draft.carry() for draft in mine if draft.token_ids}

    def interrupt(self, *, keep: bool) -> None:
        """See `Decoder.interrupt`."""
        drafts = self._abort(list(self._live))
        if not keep:
            self._discarded += sum(len(draft.token_ids) for draft in drafts)
            drafts = [draft.anew() for draft in drafts]
        self._waiting.extendleft(reversed(drafts))

    def use_weights(self, version: int, weights: Mapping[str, Any]) -> None:
        """See `Decoder.use_weights`. What is cached of samples that go on stays."""
        self._withdraw()
        self._llm.load(version, self._shape.named(weights))
        self._loads += 1
        if not self._live:
            self._llm.forget_prefixes()
        self.version = version

    def run(self, interrupted: Callable[[], bool], *, start: bool) -> list[Finished]:
        """See `Decoder.run`. Without `start`, samples that have no token yet go back into the line."""
        if not start:
            self._withdraw()
        while not self._finished and not interrupted():
            if start:
                self._submit()
            if not self._live:
                break
            self._take(self._llm.step())
        finished, self._finished = self._finished, []
        return finished

    def stats(self) -> dict[str, float]:
        """Since the start: tokens made and discarded, and steps."""
        return {
            "generated_tokens": float(self._tokens),
            "discarded_tokens": float(self._discarded),
            "decode_steps": float(self._steps),
        }

    def close(self) -> None:
        self._llm.close()

    def _submit(self) -> None:
        while self._waiting and len(self._live) < self._max_concurrent:
            draft = self._waiting.popleft()
            draft.begun_at = len(draft.token_ids)
            fields = sampling_fields(self._sampling, draft.sample.request, drawn=len(draft.token_ids))
            key = next(self._keys)
            self._llm.submit(key, draft.prompt(), fields, salt=str(self._loads))
            self._live[key] = draft

    def _withdraw(self) -> None:
        drafts = self._abort([key for key, draft in self._live.items() if not draft.has_begun()])
        self._waiting.extendleft(reversed(drafts))

    def _abort(self, keys: Sequence[str]) -> list[Draft]:
        """Takes submissions away from vLLM; returns them in order."""
        if keys:
            self._llm.abort(keys)
        return [self._live.pop(key) for key in keys]

    def _take(self, drawn: Iterable[Drawn]) -> None:
        self._steps += 1
        for each in drawn:
            draft = self._live[each.key]
            draft.add(each.token_ids, each.logprobs, self.version)
            self._tokens += len(each.token_ids)
            whole = self._finish(draft)
            if whole != (each.ended is not None):
                raise RuntimeError(
                    f"sample {draft.sample.request.uid}: vLLM says {each.ended or 'that it goes on'} after "
                    f"{len(draft.token_ids)} of {self._most(draft)} tokens, the last of them "
                    f"{draft.token_ids[-1:]}; its answer would not be the one that was asked for"
                )
            if whole:
                del self._live[each.key]

    def _finish(self, draft: Draft) -> bool:
        """Hands a whole answer over; False if it goes on."""
        reason = draft.reason(self._stops, self._most(draft))
        if reason is not None:
            self._finished.append((draft.sample, draft.completion(reason)))
        return reason is not None

    def _most(self, draft: Draft) -> int:
        """Tokens of the sample's longest answer."""
        return draft.sample.request.most(self._sampling.max_new_tokens)
