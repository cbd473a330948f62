"""Continuous batching without asyncio: samples go in, steps run, completions come out.

Invariant: between two calls every admitted sample is waiting, live in one slot, or finished. Used by one
thread at a time; `DecodeLoop` sees to that.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from transformers import PreTrainedModel

from headrace.services.models.in_place import check_weights, replace_weights
from headrace.services.rollout.engines.base import Carry, Completion, FinishReason, Request, Sampling
from headrace.services.rollout.engines.decode_loop import Finished
from headrace.services.rollout.engines.decoding.draw import draw
from headrace.services.rollout.engines.decoding.kv import Layout
from headrace.services.rollout.engines.decoding.model import DecodingModel
from headrace.services.rollout.engines.decoding.prefixes import (
    Prefix,
    PrefixTable,
    places,
    share,
    take_for_prefill,
)
from headrace.services.rollout.engines.decoding.slots import Sample, SlotTable
from headrace.services.rollout.engines.decoding.streams import uniforms
from headrace.services.rollout.engines.refusals import check_request

PREFILL_TOKENS = 4096


class Decoder:
    """Decodes up to `max_concurrent` samples at once; the rest wait their turn, first come first served."""

    def __init__(
        self,
        model: PreTrainedModel,
        sampling: Sampling,
        *,
        max_concurrent: int,
        version: int,
        group_by_group: bool = False,
    ) -> None:
        self.version = version
        self.model = DecodingModel(model, max_rows=max_concurrent, max_new_tokens=sampling.max_new_tokens)
        self.waiting = 0
        self.generated_tokens = 0
        self.prefill_tokens = 0
        self.discarded_tokens = 0
        self.decode_steps = 0
        self._sampling = sampling
        self._stops = np.zeros(self.model.vocabulary, dtype=bool)
        self._stops[list(sampling.stop_token_ids)] = True
        logprob_dtype = np.float64 if self.model.dtype == torch.float64 else np.float32
        self._max_rows = max_concurrent
        self._group_by_group = group_by_group
        self._table = SlotTable(max_concurrent, sampling.max_new_tokens, logprob_dtype)
        self._prefixes = PrefixTable()
        self._waiting: deque[Prefix] = deque()
        self._finished: list[Finished] = []
        self._layout: Layout | None = None

    @property
    def running(self) -> int:
        return self._table.rows

    def check(self, request: Request) -> None:
        """See `decode_loop.Decoder.check`."""
        check_request(
            request,
            vocabulary=self.model.vocabulary,
            longest=self.model.max_tokens,
            max_new_tokens=self._sampling.max_new_tokens,
        )

    def check_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """See `decode_loop.Decoder.check_weights`."""
        check_weights(self.model.model, weights)

    def add(self, samples: Iterable[Sample]) -> None:
        """Queues samples; a carry that is already whole finishes at once."""
        begun = [sample for sample in samples if not self._finish_whole_carry(sample)]
        self._waiting.extend(share(begun))
        self.waiting += len(begun)

    def cancel(self, owner: object) -> dict[int, Carry]:
        """See `decode_loop.Decoder.cancel`."""
        for prefix in (*self._waiting, *self._prefixes.active):
            kept = deque(sample for sample in prefix.pending if sample.owner is not owner)
            self.waiting -= len(prefix.pending) - len(kept)
            prefix.pending = kept
        self._waiting = deque(prefix for prefix in self._waiting if prefix.pending)
        mine = [slot for slot in range(self.running) if self._table.samples[slot].owner is owner]
        begun = [self._table.interrupted(slot).request for slot in mine]
        self._remove(np.array(mine, dtype=np.int64))
        return {request.uid: request.carry for request in begun if request.carry is not None}

    def interrupt(self, *, keep: bool) -> None:
        """Takes all samples out of their slots and puts them first in line, to be prefilled anew.

        They keep their tokens, or lose them and begin anew, with those that an earlier lease left.
        """
        slots = range(self.running)
        samples = [self._table.interrupted(slot) for slot in slots]
        if not keep:
            self.discarded_tokens += sum(sample.carried() for sample in samples)
            samples = [replace(sample, request=replace(sample.request, carry=None)) for sample in samples]
        self._remove(np.arange(self.running))
        self._waiting.extendleft(reversed(share(samples)))
        self.waiting += len(samples)

    def use_weights(self, version: int, weights: Mapping[str, torch.Tensor]) -> None:
        """Puts checked weights in; later tokens carry `version`. Prefills of samples still to start are made
        anew."""
        for slot in reversed(self._prefixes.with_pending()):
            prefix = self._prefixes.active[slot]
            self._waiting.appendleft(Prefix(token_ids=prefix.token_ids, pending=prefix.pending))
            prefix.pending = deque()
        self._remove(np.empty(0, dtype=np.int64))
        replace_weights(self.model.model, weights)
        self.version = version

    def stats(self) -> dict[str, float]:
        """Since the start: tokens made, read and discarded, and steps."""
        return {
            "generated_tokens": float(self.generated_tokens),
            "prefill_tokens": float(self.prefill_tokens),
            "discarded_tokens": float(self.discarded_tokens),
            "decode_steps": float(self.decode_steps),
        }

    def close(self) -> None:
        """The model is its owner's."""

    @torch.inference_mode()
    def run(self, interrupted: Callable[[], bool], *, start: bool) -> list[Finished]:
        """Steps until samples finish, nothing is left, or `interrupted`; starts samples only if `start`."""
        while not self._finished and not interrupted():
            if start and self._start():
                continue
            if not self.running:
                break
            self._step()
        finished, self._finished = self._finished, []
        return finished

    def _start(self) -> bool:
        """Draws first tokens for as many samples as there are free slots; False if there is none to start."""
        free = self._max_rows - self.running
        if not free:
            return False
        if not self._prefixes.with_pending() and not self._prefill_next(free):
            return False
        slots: list[int] = []
        samples: list[Sample] = []
        for slot in self._prefixes.with_pending():
            prefix = self._prefixes.active[slot]
            while prefix.pending and len(samples) < free:
                slots.append(slot)
                samples.append(prefix.pending.popleft())
                prefix.live += 1
        self.waiting -= len(samples)
        self._first_tokens(samples, np.array(slots, dtype=np.int64))
        return True

    def _prefill_next(self, free: int) -> bool:
        """Prefills as many prompts as get a row; False if none may begin now."""
        if self._group_by_group:
            if self.running:
                return False
            self.model.cache.clear()
        batch = take_for_prefill(self._waiting, free, 0 if self._group_by_group else PREFILL_TOKENS)
        if batch:
            self._prefill(batch)
        return bool(batch)

    def _prefill(self, batch: Sequence[Prefix]) -> None:
        logits = self.model.prefill([prefix.token_ids for prefix in batch], len(self._prefixes))
        self.prefill_tokens += sum(len(prefix.token_ids) for prefix in batch)
        for prefix, row in zip(batch, logits, strict=True):
            prefix.logits = row
        self._prefixes.active.extend(batch)

    def _first_tokens(self, samples: Sequence[Sample], slots: np.ndarray) -> None:
        distinct, which = np.unique(slots, return_inverse=True)
        rows = [self._prefixes.active[slot].logits for slot in distinct]
        logits = torch.stack([row for row in rows if row is not None])
        new = self._table.add(samples, slots, self._prefixes.lengths()[slots])
        self._layout = None
        self._draw(logits[self.model.tensor(which)], new)

    def _step(self) -> None:
        rows = self.running
        table = self._table
        layout = self._layout = self._layout or self._lay_out()
        logits = self.model.decode(
            layout, table.last_ids(), table.prefix_tokens[:rows], table.suffix_tokens[:rows]
        )
        table.suffix_tokens[:rows] += 1
        self.decode_steps += 1
        self._draw(logits, slice(0, rows))

    def _draw(self, logits: torch.Tensor, slots: slice) -> None:
        """Adds a token to each of `slots` from its row of `logits`, and retires those that are done."""
        table = self._table
        numbers = uniforms(table.keys[slots], table.drawn[slots])
        ids, logprobs = draw(logits, self._sampling.temperature, self.model.tensor(numbers))
        new_ids = ids.cpu().numpy()
        table.append(slots, new_ids, logprobs.cpu().numpy(), self.version)
        self.generated_tokens += len(new_ids)
        stopped = self._stops[new_ids]
        done = np.flatnonzero(stopped | (table.drawn[slots] >= table.most[slots]))
        if len(done):
            for index in done:
                reason: FinishReason = "stop" if stopped[index] else "length"
                slot = slots.start + int(index)
                sample: Sample = table.samples.item(slot)
                self._finished.append((sample, table.completion(slot, reason)))
            self._remove(slots.start + done)

    def _remove(self, leaving: np.ndarray) -> None:
        """Frees the slots `leaving` and the prefixes that nobody needs any more."""
        self._prefixes.left(self._table.prefix[leaving])
        sources, targets = self._table.remove(leaving)
        cached = self._table.suffix_tokens[targets] > 0
        if cached.any():
            self.model.cache.move_rows(self.model.tensor(sources[cached]), self.model.tensor(targets[cached]))
        sources, targets = self._prefixes.remove_unused(self._table.prefix[: self.running])
        if len(sources):
            self.model.cache.move_prefixes(self.model.tensor(sources), self.model.tensor(targets))
        self._layout = None

    def _lay_out(self) -> Layout:
        of_row = self._table.prefix[: self.running]
        row_at, place_of_row = places(of_row, len(self._prefixes))
        lengths = self._prefixes.lengths()
        return Layout(
            rows=self.running,
            prefixes=len(self._prefixes),
            prefix_tokens=int(lengths.max()),
            prefix_of_row=self.model.tensor(of_row.copy()),
            row_at=self.model.tensor(row_at),
            place_of_row=self.model.tensor(place_of_row),
            prefix_mask=self.model.prefix_mask(lengths),
        )

    def _finish_whole_carry(self, sample: Sample) -> bool:
        """Finishes a sample whose carry ends in a stop token or is as long as an answer may be."""
        carry = sample.request.carry
        count = sample.carried()
        if carry is None or not count:
            return False
        token_ids = np.asarray(carry["token_ids"], dtype=np.int32)
        stopped = bool(self._stops[token_ids[-1]])
        if not stopped and count < sample.request.most(self._sampling.max_new_tokens):
            return False
        completion = Completion(
            uid=sample.request.uid,
            token_ids=token_ids,
            logprobs=np.asarray(carry["logprobs"], dtype=self._table.logprobs.dtype),
            versions=np.asarray(carry["versions"], dtype=np.int32),
            finish_reason="stop" if stopped else "length",
        )
        self._finished.append((sample, completion))
        return True
