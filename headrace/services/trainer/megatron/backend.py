"""Trains a policy with megatron-core over tensor-, pipeline- and data-parallel ranks, by AdamW on the shards.

Every rank makes the same calls with the same arguments and gets the same results, besides the weights, which
rank 0 alone gets. Checkpoints name Hugging Face tensors, so that they are those of every layout and of the
torch back end.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import distributed

from headrace.algorithms.base import Algorithm, LossSum, PolicyOutput
from headrace.services.devices import CPU
from headrace.services.options import OptimizerOptions, PolicyOptions
from headrace.services.scoring.score import Ragged, unpacked
from headrace.services.trainer.backend import NonFiniteGradientError, StepResult
from headrace.services.trainer.before import aligned
from headrace.services.trainer.checkpoint import WEIGHTS
from headrace.services.trainer.megatron.batches import MicroBatch, shared_out
from headrace.services.trainer.megatron.fit import policy_fault
from headrace.services.trainer.megatron.geometry import Geometry
from headrace.services.trainer.megatron.gradients import reduce, scale
from headrace.services.trainer.megatron.grid import Grid
from headrace.services.trainer.megatron.library import ready
from headrace.services.trainer.megatron.logprobs import check_names
from headrace.services.trainer.megatron.mapping import entries
from headrace.services.trainer.megatron.model import build
from headrace.services.trainer.megatron.model_file import write_model
from headrace.services.trainer.megatron.moments import ShardedAdamW
from headrace.services.trainer.megatron.pipeline import Pipeline
from headrace.services.trainer.megatron.scored import Order, told
from headrace.services.trainer.megatron.shards import (
    check_weights,
    held,
    published_shapes,
    set_weights,
    streamed,
)
from headrace.services.trainer.megatron.source import open_source
from headrace.services.trainer.ranks.group import Group
from headrace.services.trainer.ranks.saving import Saving
from headrace.services.trainer.rates import make_rate
from headrace.services.trainer.samples import Samples
from headrace.services.trainer.snapshot import Beside, HostCopies
from headrace.services.trainer.tally import Tally
from headrace.services.trainer.tensor_files import Offsets, TensorFiles, state_files, write_state
from headrace.services.trainer.tokens import group_totals, token_batch, trained_tokens

RNG = "rng/torch"


class MegatronBackend:
    """Accumulate groups, then step: `accumulate* -> step -> accumulate* -> step ...`, on every rank."""

    def __init__(
        self,
        policy: PolicyOptions,
        optimizer: OptimizerOptions,
        *,
        micro_batch_tokens: int,
        total_steps: int | None,
        seed: int,
        temperature: float,
        tp: int,
        pp: int,
        device: torch.device = CPU,
    ) -> None:
        """In every rank, after torch.distributed was initialised; what `tp` x `pp` ranks leave is data
        parallel.

        `total_steps` of the optimizer in the run, for the schedule; None: unknown, which only an endless one
        allows. `seed` draws the weights of a recipe. Raises ValueError for what `fit` refuses.
        """
        if (problem := policy_fault(policy)) is not None:
            raise ValueError(problem)
        self._source = open_source(policy.model, dtype=policy.precision, seed=seed)
        geometry = Geometry.of(self._source.config.to_dict())
        geometry.check_layout(tp=tp, pp=pp)
        self._rate = make_rate(optimizer, total_steps)
        self._options = optimizer
        self._micro_batch_tokens = micro_batch_tokens
        self._dtype: torch.dtype = getattr(torch, policy.precision)
        self._device = device
        ready(device)
        self._grid = Grid.of(tp=tp, pp=pp)
        self._ranks = Group(distributed.get_rank(), distributed.get_world_size())
        self._entries = entries(geometry, tp=tp, pp=pp)
        self._is_held_twice = any(entry.is_copy for entry in self._entries)
        model = build(
            geometry,
            self._source.config,
            dtype=self._dtype,
            device=self._device,
            recomputes=policy.gradient_checkpointing,
        )
        self._held = held(model, self._entries, self._grid.pp_rank)
        set_weights(self._held, self._source.tensors, self._grid)
        self._adamw = ShardedAdamW(self._held, optimizer, self._grid)
        self._pipeline = Pipeline(model, geometry, self._grid, temperature=temperature, device=self._device)
        self._tally = Tally()
        self._model_copies, self._state_copies = HostCopies(), HostCopies()
        self._copied: tuple[dict[str, torch.Tensor], dict[str, Offsets], dict[str, torch.Tensor]] = (
            {},
            {},
            {},
        )
        """The last snapshot: of the model, which rank 0 has, and of this rank's share of the state."""
        self._beside = Beside()
        self._source = replace(self._source, tensors={})

    def accumulate(self, samples: Samples, algorithm: Algorithm) -> dict[str, float]:
        """Raises ValueError for an algorithm that reads what the back end does not give."""
        check_names(algorithm.outputs())
        if algorithm.prepares and not samples.is_prepared:
            samples = self.prepared(samples, algorithm)
        tokens = trained_tokens(samples)
        group_tokens = group_totals(tokens, samples.groups)

        def loss(policy: PolicyOutput, batch: MicroBatch) -> LossSum:
            like = {"dtype": policy.logprobs.dtype, "device": policy.logprobs.device}
            return algorithm.loss(policy, token_batch(samples, [batch], group_tokens, **like))

        shared = self._shared(
            samples.prompt_ids, samples.response_ids, samples.groups, np.flatnonzero(tokens)
        )
        own = Tally()
        for summed in self._pipeline.backward(shared[self._grid.dp_rank], loss, algorithm.outputs()):
            own.add(summed)
        whole = self._whole(own)
        self._tally.merge(whole)
        return dict(whole.sums)

    def step(self, step: int) -> StepResult:
        lr = self._rate.at(step)
        tally, self._tally = self._tally, Tally()
        grad_norm = 0.0
        if tally.count:
            grad_norm = self._scale_gradients(step, tally.count)
            self._adamw.step(lr)
            self._rate.observe(tally.total / tally.count)
        self._adamw.zero_grad()
        return StepResult.of(tally, step=step, lr=lr, grad_norm=grad_norm)

    def discard(self) -> None:
        self._tally = Tally()
        self._adamw.zero_grad()

    def before(
        self,
        prompt_ids: Sequence[np.ndarray],
        response_ids: Sequence[np.ndarray],
        groups: np.ndarray,
        names: Sequence[str] = (),
    ) -> dict[str, Ragged]:
        check_names(names)
        chosen = np.arange(len(response_ids))
        asked = ("logprobs", *names)
        return self._scored(prompt_ids, response_ids, groups, chosen, asked)

    def prepared(self, samples: Samples, algorithm: Algorithm) -> Samples:
        check_names(algorithm.outputs())
        tokens = trained_tokens(samples)
        chosen = np.flatnonzero(tokens)
        if not algorithm.prepares or not len(chosen):
            return replace(samples, is_prepared=True)
        found = self._scored(
            samples.prompt_ids,
            samples.response_ids,
            samples.groups,
            chosen,
            tuple(dict.fromkeys(("logprobs", "entropy", *algorithm.outputs()))),
        )
        order = Order(index=chosen, lengths=np.array([len(samples.response_ids[i]) for i in chosen]))
        policy = order.policy(found, self._device)
        batch = token_batch(
            samples,
            [order],
            group_totals(tokens, samples.groups),
            dtype=policy.logprobs.dtype,
            device=self._device,
        )
        made = algorithm.prepare(policy, batch)
        columns = {name: unpacked([order], [column], len(samples)) for name, column in made.items()}
        own = aligned(columns, samples.response_ids)
        return replace(samples, columns={**samples.columns, **own}, is_prepared=True)

    def weights(self) -> dict[str, torch.Tensor]:
        """Copies in the host's memory at rank 0; nothing on the other ranks."""
        return {name: tensor.to("cpu", copy=True).contiguous() for name, tensor in self._streamed()}

    def save(self, directory: Path) -> None:
        """Rank 0 writes the model as its tensors come, each rank a file of its share of the state."""
        self._require_between_steps()
        tensors, saving = self._streamed(), Saving()
        with saving.here():
            self._write_model(directory, tensors)
        deque(tensors, maxlen=0)
        begins, state = self._state(HostCopies())
        with saving.here():
            self._write_state(directory, begins, state)
        saving.settle(self._ranks)

    def snapshot(self) -> None:
        """The model is copied at rank 0, each rank's share of the state at that rank."""
        self._require_between_steps()
        self._copied = (self._model_copies.of(self._streamed()), *self._state(self._state_copies))

    def write(self, directory: Path) -> Future[None]:
        return self._beside.begin(partial(self._write, directory, *self._copied))

    def written(self) -> None:
        self._beside.settle(self._ranks)

    def load(self, directory: Path) -> None:
        """Raises ValueError where a weight is missing, unknown or of another shape."""
        weights, state = TensorFiles([directory / WEIGHTS]), state_files(directory)
        check_weights(self._entries, weights)
        self._rate.load_state(state)
        self._adamw.load(state)
        set_weights(self._held, weights, self._grid)
        torch.set_rng_state(state[RNG])
        self.discard()

    def close(self) -> None:
        """Gives up megatron's process groups, so that this process can make another."""
        self._grid.close()

    def _require_between_steps(self) -> None:
        if self._tally.count:
            raise RuntimeError("save() was asked for within a step; take checkpoints right after step()")

    def _state(self, copies: HostCopies) -> tuple[dict[str, Offsets], dict[str, torch.Tensor]]:
        """Where each part of this rank's share begins, and the part, copied."""
        begins: dict[str, Offsets] = {}

        def parts() -> Iterator[tuple[str, torch.Tensor]]:
            further = self._rate.state() | {RNG: torch.get_rng_state()}
            for name, begin, part in self._adamw.saved(self._entries, further):
                begins[name] = begin
                yield name, part

        return begins, copies.of(parts())

    def _write(
        self,
        directory: Path,
        model: Mapping[str, torch.Tensor],
        begins: Mapping[str, Offsets],
        state: Mapping[str, torch.Tensor],
    ) -> None:
        self._write_model(directory, model.items())
        self._write_state(directory, begins, state)

    def _write_model(self, directory: Path, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        if self._grid.is_first:
            self._source.save_configuration(directory)
            write_model(directory / WEIGHTS, published_shapes(self._entries), self._dtype, tensors)

    def _write_state(
        self, directory: Path, begins: Mapping[str, Offsets], state: Mapping[str, torch.Tensor]
    ) -> None:
        write_state(directory, state, begins, rank=self._ranks.rank, ranks=self._ranks.size)

    def _shared(
        self,
        prompt_ids: Sequence[np.ndarray],
        response_ids: Sequence[np.ndarray],
        groups: np.ndarray,
        chosen: np.ndarray,
    ) -> list[list[MicroBatch]]:
        """The micro-batches of each data-parallel rank."""
        return shared_out(
            prompt_ids,
            response_ids,
            groups,
            chosen,
            ranks=self._grid.dp,
            max_tokens=self._micro_batch_tokens,
        )

    def _scored(
        self,
        prompt_ids: Sequence[np.ndarray],
        response_ids: Sequence[np.ndarray],
        groups: np.ndarray,
        chosen: np.ndarray,
        names: Sequence[str],
    ) -> dict[str, Ragged]:
        """What the policy says of the samples at `chosen`, [B] of [length] each; empty of the others."""
        shared = self._shared(prompt_ids, response_ids, groups, chosen)
        own = self._pipeline.score(shared[self._grid.dp_rank], names)
        dtype = torch.promote_types(self._dtype, torch.float32)
        return {
            name: told(
                [getattr(policy, name) for policy in own],
                shared,
                self._grid,
                size=len(response_ids),
                dtype=dtype,
                device=self._device,
            )
            for name in names
        }

    def _whole(self, own: Tally) -> Tally:
        """Of all ranks that saw losses, the same on every rank."""
        return self._ranks.together(own if self._grid.speaks else Tally())

    def _scale_gradients(self, step: int, count: float) -> float:
        """Adds up, divides and clips; returns the norm before the clipping."""
        buckets, most = self._adamw.buckets, self._options.max_grad_norm
        reduce(buckets, self._grid, is_held_twice=self._is_held_twice)
        try:
            return scale(buckets, self._grid, self._ranks, step=step, count=count, max_norm=most)
        except NonFiniteGradientError:
            self._adamw.zero_grad()
            raise

    def _streamed(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Hugging Face names and tensors at rank 0, valid until the next; every rank goes to its end."""
        own = {each.entry.local: each.parameter.detach() for each in self._held}
        return streamed(self._entries, own, self._grid)
