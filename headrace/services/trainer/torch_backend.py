"""Trains a Hugging Face model with AdamW, in this process or as one of several ranks: a language model or a
value model, all of its weights or its adapters.

A step with nothing to train on is skipped and says so; one with a gradient that is not finite is an error.
Among several ranks each trains whole groups of its own, and the gradients are added before they are divided.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headrace.algorithms.base import Algorithm, LossSum
from headrace.services.models.lora import is_adapter, merged, published, save_adapters
from headrace.services.options import OptimizerOptions
from headrace.services.scoring.outputs import join
from headrace.services.scoring.packing import Pack, pack
from headrace.services.scoring.score import unpacked
from headrace.services.trainer.backend import NonFiniteGradientError, StepResult
from headrace.services.trainer.before import aligned, before
from headrace.services.trainer.checkpoint import WEIGHTS
from headrace.services.trainer.determinism import deterministic
from headrace.services.trainer.gradients import scale
from headrace.services.trainer.masters import Masters
from headrace.services.trainer.optimizer_state import dump_optimizer, restore_optimizer
from headrace.services.trainer.ranks.group import ALONE, Ranks
from headrace.services.trainer.ranks.saving import Saving
from headrace.services.trainer.ranks.shares import shares, spread
from headrace.services.trainer.rates import make_rate
from headrace.services.trainer.samples import Samples
from headrace.services.trainer.scores import Scores
from headrace.services.trainer.sharded import in_turn, is_sharded, put, wholes
from headrace.services.trainer.snapshot import Beside, HostCopies
from headrace.services.trainer.tally import Tally
from headrace.services.trainer.tensor_files import TensorFiles, state_files, write_state
from headrace.services.trainer.tokens import group_totals, token_batch, trained_tokens

RNG = "rng/torch"
ADAPTERS = "adapter/"
"""Of a state: the adapters as they are, since a saved model holds them added to its layers."""


class TorchBackend:
    """Accumulate groups, then step: `accumulate* -> step -> accumulate* -> step ...`."""

    def __init__(
        self,
        scores: Scores,
        optimizer: OptimizerOptions,
        *,
        micro_batch_tokens: int,
        total_steps: int | None,
        ranks: Ranks = ALONE,
    ) -> None:
        """`total_steps` of the optimizer in the run, for the schedule; None: unknown, which only an endless
        one allows. `ranks`: those that train the model together, each with one of these; where it is to be in
        shards, it is by now."""
        self._scores = scores
        self._model = model = scores.model
        self._options = optimizer
        self._micro_batch_tokens = micro_batch_tokens
        self._ranks = ranks
        self._rate = make_rate(optimizer, total_steps)
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._is_sharded = any(is_sharded(p) for p in trained.values())
        self._masters = Masters(trained | dict(scores.own))
        self._stepped = self._masters.stepped
        self._adamw = torch.optim.AdamW(
            _alike(self._stepped),
            lr=optimizer.lr,
            betas=optimizer.betas,
            eps=optimizer.eps,
            weight_decay=optimizer.weight_decay,
            fused=True,
        )
        self._tally = Tally()
        self._unmoved = {name for name, p in model.named_parameters() if not p.requires_grad}
        self._model_copies, self._state_copies = HostCopies(), HostCopies()
        self._copied: tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]] = ({}, {})
        """Model and state of the last snapshot."""
        self._beside = Beside()

    def accumulate(self, samples: Samples, algorithm: Algorithm) -> dict[str, float]:
        """Raises ValueError for an algorithm that reads what a language model does not give."""
        if self._ranks.size > 1 and algorithm.prepares and not samples.is_prepared:
            samples = self.prepared(samples, algorithm)
        mine = self._share(samples)
        packs, group_tokens = self._packs(mine)
        idle = self._idle_passes(samples.prompt_ids, samples.response_ids, len(packs))
        own = Tally()
        prepared = self._prepare(mine, packs, group_tokens, algorithm)
        for packed, columns in zip(packs, prepared, strict=True):
            own.add(self._backward(mine, packed, group_tokens, algorithm, columns))
        for packed in idle:
            self._pass_idly(packed, algorithm)
        own = self._ranks.together(own)
        self._tally.merge(own)
        return dict(own.sums)

    def step(self, step: int) -> StepResult:
        lr = self._rate.at(step)
        tally, self._tally = self._tally, Tally()
        grad_norm = 0.0
        if tally.count:
            grad_norm = self._scale_gradients(step, tally.count)
            for group in self._adamw.param_groups:
                group["lr"] = lr
            self._adamw.step()
            self._masters.publish()
            self._rate.observe(tally.total / tally.count)
        self._adamw.zero_grad(set_to_none=True)
        return StepResult.of(tally, step=step, lr=lr, grad_norm=grad_norm)

    def discard(self) -> None:
        self._tally = Tally()
        self._adamw.zero_grad(set_to_none=True)

    def before(
        self,
        prompt_ids: Sequence[np.ndarray],
        response_ids: Sequence[np.ndarray],
        groups: np.ndarray,
        names: Sequence[str] = (),
    ) -> dict[str, list[np.ndarray]]:
        own = shares(prompt_ids, response_ids, groups, self._ranks.size)[self._ranks.rank]
        packs = pack(
            [prompt_ids[i] for i in own],
            [response_ids[i] for i in own],
            groups[own],
            max_tokens=self._micro_batch_tokens,
        )
        idle = self._idle_passes(prompt_ids, response_ids, len(packs))
        found = before(self._scores, [*packs, *idle], names=names)
        columns = {name: unpacked(packs, parts[: len(packs)], len(own)) for name, parts in found.items()}
        return spread(columns, own, response_ids, self._ranks)

    def prepared(self, samples: Samples, algorithm: Algorithm) -> Samples:
        packs, group_tokens = self._packs(samples)
        made = self._prepare(samples, packs, group_tokens, algorithm)
        names = made[0] if made else {}
        columns = {name: unpacked(packs, [part[name] for part in made], len(samples)) for name in names}
        own = aligned(columns, samples.response_ids)
        return replace(samples, columns={**samples.columns, **own}, is_prepared=True)

    def weights(self) -> dict[str, torch.Tensor]:
        """Of a model with adapters those alone; at rank 0 alone, and asked for in every rank."""
        return wholes(published(self._held()), kept=self._ranks.rank == 0)

    def save(self, directory: Path) -> None:
        state, saving = self.state(), Saving()
        model = wholes(self._held(), kept=self._ranks.rank == 0)
        with saving.here():
            self._write(directory, model, state)
        saving.settle(self._ranks)

    def snapshot(self) -> None:
        state, is_first = self._state(), self._ranks.rank == 0
        held = self._held()
        moving = {name: tensor for name, tensor in held.items() if name not in self._unmoved}
        copied = self._model_copies.of(in_turn(moving, kept=is_first))
        still = wholes({name: held[name] for name in held if name in self._unmoved}, kept=is_first)
        further = self._rate.state() | {RNG: torch.get_rng_state()}
        kept = self._state_copies.of(chain(in_turn(state, kept=is_first), further.items()))
        self._copied = (copied | still, kept)

    def write(self, directory: Path) -> Future[None]:
        return self._beside.begin(partial(self._write, directory, *self._copied))

    def written(self) -> None:
        self._beside.settle(self._ranks)

    def load(self, directory: Path) -> None:
        self.load_state(TensorFiles([directory / WEIGHTS]), state_files(directory))

    def state(self) -> dict[str, torch.Tensor]:
        """Raises RuntimeError between an `accumulate` and its `step`: gradients are in no checkpoint."""
        whole = wholes(self._state(), kept=self._ranks.rank == 0)
        return whole | self._rate.state() | {RNG: torch.get_rng_state()}

    def load_state(self, weights: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]) -> None:
        """Raises ValueError where a weight is missing, unknown or of another shape, of a model with adapters
        where an adapter is; what these are added to stays as it was loaded."""
        own = {name: parameter.detach() for name, parameter in self._scores.own.items()}
        further = own | self._adapters()
        if absent := [name for name in further if name not in state]:
            raise ValueError(
                f"the checkpoint has no {absent[0]}: it was saved by a trainer of another algorithm, or "
                "without these adapters; go on with that one"
            )
        held = {} if self._adapters() else self._held()
        _check_fit(held, weights if held else {})
        _check_fit(further, {name: state[name] for name in further})
        for name, tensor in held.items():
            put(tensor, weights[name])
        for name, tensor in further.items():
            put(tensor, state[name])
        self._masters.load_state(state)
        self._rate.load_state(state)
        restore_optimizer(self._adamw, self._stepped, state)
        torch.set_rng_state(state[RNG].cpu())
        self.discard()

    def close(self) -> None:
        """It started nothing: as one of several ranks, it is ended by what started those."""

    def _state(self) -> dict[str, torch.Tensor]:
        """What lies in shards where the model does."""
        if self._tally.count:
            raise RuntimeError("state() was asked for within a step; take checkpoints right after step()")
        moments = dump_optimizer(self._adamw, self._stepped)
        own = {name: parameter.detach() for name, parameter in self._scores.own.items()}
        return moments | own | self._adapters() | self._masters.state()

    def _write(
        self, directory: Path, model: dict[str, torch.Tensor], state: Mapping[str, torch.Tensor]
    ) -> None:
        """At rank 0, which alone has them."""
        if self._ranks.rank != 0:
            return
        if any(map(is_adapter, model)):
            save_adapters(self._model, model, directory)
            model = merged(self._model, model)
        self._model.save_pretrained(directory, state_dict=model)
        write_state(directory, state)

    def _held(self) -> dict[str, torch.Tensor]:
        """Parameters and saved buffers by Hugging Face name, tied ones once."""
        once = dict(self._model.named_parameters())
        aliases = {name for name, _ in self._model.named_parameters(remove_duplicate=False)} - once.keys()
        return {name: tensor for name, tensor in self._model.state_dict().items() if name not in aliases}

    def _adapters(self) -> dict[str, torch.Tensor]:
        return {f"{ADAPTERS}{name}": tensor for name, tensor in self._held().items() if is_adapter(name)}

    def _share(self, samples: Samples) -> Samples:
        """This rank's groups."""
        if self._ranks.size == 1:
            return samples
        own = shares(samples.prompt_ids, samples.response_ids, samples.groups, self._ranks.size)
        return samples.select(own[self._ranks.rank])

    def _idle_passes(
        self, prompt_ids: Sequence[np.ndarray], response_ids: Sequence[np.ndarray], passes: int
    ) -> list[Pack]:
        """What a rank that has fewer passes than another puts through a model in shards, which all ranks go
        through together; asked for in every rank before its first pass."""
        missing = self._ranks.most(passes) - passes if self._is_sharded else 0
        if not missing:
            return []
        shortest = min(
            (i for i, ids in enumerate(response_ids) if len(ids)), key=lambda i: len(prompt_ids[i])
        )
        one = [prompt_ids[shortest]], [response_ids[shortest][:1]], np.zeros(1, dtype=np.int64)
        return pack(*one, max_tokens=self._micro_batch_tokens) * missing

    def _packs(self, samples: Samples) -> tuple[list[Pack], np.ndarray]:
        """The samples that have a trained token, and the trained tokens of every sample's group."""
        tokens = trained_tokens(samples)
        trained = np.flatnonzero(tokens)
        packs = pack(
            [samples.prompt_ids[i] for i in trained],
            [samples.response_ids[i] for i in trained],
            samples.groups[trained],
            max_tokens=self._micro_batch_tokens,
        )
        placed = [replace(packed, index=trained[packed.index]) for packed in packs]
        return placed, group_totals(tokens, samples.groups)

    def _prepare(
        self, samples: Samples, packs: list[Pack], group_tokens: np.ndarray, algorithm: Algorithm
    ) -> list[dict[str, torch.Tensor]]:
        """What the algorithm decides before any gradient, cut to the packs."""
        if not algorithm.prepares or samples.is_prepared or not packs:
            return [{} for _ in packs]
        with torch.no_grad():
            whole = join([self._scores.outputs(packed, algorithm.outputs()) for packed in packs])
            like = {"dtype": whole.logprobs.dtype, "device": whole.logprobs.device}
            made = algorithm.prepare(whole, token_batch(samples, packs, group_tokens, **like))
        sizes = [len(packed.targets) for packed in packs]
        parts = {name: torch.split(column, sizes) for name, column in made.items()}
        return [{name: part[number] for name, part in parts.items()} for number in range(len(packs))]

    def _backward(
        self,
        samples: Samples,
        packed: Pack,
        group_tokens: np.ndarray,
        algorithm: Algorithm,
        prepared: Mapping[str, torch.Tensor],
    ) -> LossSum:
        policy = self._scores.outputs(packed, algorithm.outputs())
        logprobs_T = policy.logprobs
        batch = token_batch(
            samples,
            [packed],
            group_tokens,
            dtype=logprobs_T.dtype,
            device=logprobs_T.device,
            prepared=prepared,
        )
        summed = algorithm.loss(policy, batch)
        with deterministic():
            summed.total.backward()
        self._masters.collect()
        return summed

    def _pass_idly(self, packed: Pack, algorithm: Algorithm) -> None:
        """Its gradient, of zeros, reaches every weight that a loss reaches: ranks add up the same shards."""
        policy = self._scores.outputs(packed, algorithm.outputs())
        found = (policy.logprobs, *(getattr(policy, name) for name in algorithm.outputs()))
        told = [each.sum() for each in found if each is not None and each.requires_grad]
        with deterministic():
            (torch.stack(told).sum() * 0.0).backward()
        self._masters.collect()

    def _scale_gradients(self, step: int, count: float) -> float:
        """Adds up what ranks have, divides and clips; returns the norm before the clipping."""
        self._ranks.add_gradients([p for p in self._stepped.values() if not is_sharded(p)])
        try:
            return scale(self._stepped, step=step, count=count, max_norm=self._options.max_grad_norm)
        except NonFiniteGradientError:
            self._adamw.zero_grad(set_to_none=True)
            raise


def _alike(parameters: Mapping[str, torch.nn.Parameter]) -> list[dict[str, Any]]:
    """What the optimizer steps at once: shards apart from what every rank has whole."""
    parts = [[p for p in parameters.values() if is_sharded(p) is sharded] for sharded in (False, True)]
    return [{"params": part} for part in parts if part]


def _check_fit(held: Mapping[str, torch.Tensor], given: Mapping[str, torch.Tensor]) -> None:
    if held.keys() != given.keys():
        odd = sorted(held.keys() ^ given.keys())
        raise ValueError(f"weights do not fit the model: {len(odd)} names differ, such as {odd[0]}")
    for name, tensor in held.items():
        if tensor.shape != given[name].shape:
            raise ValueError(f"{name} is {tuple(given[name].shape)}, not {tuple(tensor.shape)}")
