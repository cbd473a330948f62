"""Trains a Hugging Face model in this process, with AdamW: a language model or a value model.

A step with nothing to train on is skipped and says so; one with a gradient that is not finite is an error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from headrace.algorithms.base import Algorithm, LossSum
from headrace.services.options import OptimizerOptions
from headrace.services.scoring.outputs import join
from headrace.services.scoring.packing import Pack, pack
from headrace.services.scoring.score import unpacked
from headrace.services.trainer.backend import NonFiniteGradientError, StepResult
from headrace.services.trainer.before import aligned, before
from headrace.services.trainer.determinism import deterministic
from headrace.services.trainer.optimizer_state import dump_optimizer, restore_optimizer
from headrace.services.trainer.rates import make_rate
from headrace.services.trainer.samples import Samples
from headrace.services.trainer.scores import Scores
from headrace.services.trainer.tally import Tally
from headrace.services.trainer.tokens import group_totals, token_batch, trained_tokens

RNG = "rng/torch"


class TorchBackend:
    """Accumulate groups, then step: `accumulate* -> step -> accumulate* -> step ...`."""

    def __init__(
        self,
        scores: Scores,
        optimizer: OptimizerOptions,
        *,
        micro_batch_tokens: int,
        total_steps: int | None,
    ) -> None:
        """`total_steps` of the optimizer in the run, for the schedule; None: unknown, which only an endless
        one allows."""
        self._scores = scores
        self._model = model = scores.model
        self._options = optimizer
        self._micro_batch_tokens = micro_batch_tokens
        self._rate = make_rate(optimizer, total_steps)
        self._named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._named |= scores.own
        self._adamw = torch.optim.AdamW(
            self._named.values(),
            lr=optimizer.lr,
            betas=optimizer.betas,
            eps=optimizer.eps,
            weight_decay=optimizer.weight_decay,
            fused=True,
        )
        self._tally = Tally()

    def accumulate(self, samples: Samples, algorithm: Algorithm) -> dict[str, float]:
        """Raises ValueError for an algorithm that reads what a language model does not give."""
        packs, group_tokens = self._packs(samples)
        own = Tally()
        prepared = self._prepare(samples, packs, group_tokens, algorithm)
        for packed, columns in zip(packs, prepared, strict=True):
            own.add(self._backward(samples, packed, group_tokens, algorithm, columns))
        self._tally.merge(own)
        return dict(own.sums)

    def step(self, step: int) -> StepResult:
        lr = self._rate.at(step)
        tally, self._tally = self._tally, Tally()
        skipped = tally.count == 0
        grad_norm = 0.0
        if not skipped:
            grad_norm = self._scale_gradients(step, tally.count)
            for group in self._adamw.param_groups:
                group["lr"] = lr
            self._adamw.step()
            self._rate.observe(tally.total / tally.count)
        self._adamw.zero_grad(set_to_none=True)
        return StepResult(
            step=step,
            grad_norm=grad_norm,
            lr=lr,
            skipped=skipped,
            count=tally.count,
            loss=0.0 if skipped else tally.total / tally.count,
            sums=tally.sums,
            maxima=tally.maxima,
        )

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
        return before(
            self._scores, prompt_ids, response_ids, groups, names=names, max_tokens=self._micro_batch_tokens
        )

    def prepared(self, samples: Samples, algorithm: Algorithm) -> Samples:
        packs, group_tokens = self._packs(samples)
        made = self._prepare(samples, packs, group_tokens, algorithm)
        names = made[0] if made else {}
        columns = {name: unpacked(packs, [part[name] for part in made], len(samples)) for name in names}
        own = aligned(columns, samples.response_ids)
        return replace(samples, columns={**samples.columns, **own}, is_prepared=True)

    def weights(self) -> dict[str, torch.Tensor]:
        once = dict(self._model.named_parameters())
        aliases = {name for name, _ in self._model.named_parameters(remove_duplicate=False)} - once.keys()
        return {name: tensor for name, tensor in self._model.state_dict().items() if name not in aliases}

    def save_model(self, directory: Path) -> None:
        self._model.save_pretrained(directory)

    def state(self) -> dict[str, torch.Tensor]:
        """Raises RuntimeError between an `accumulate` and its `step`: gradients are in no checkpoint."""
        if self._tally.count:
            raise RuntimeError("state() was asked for within a step; take checkpoints right after step()")
        moments = dump_optimizer(self._adamw, self._named)
        own = {name: parameter.detach() for name, parameter in self._scores.own.items()}
        return moments | own | self._rate.state() | {RNG: torch.get_rng_state()}

    def load_state(self, weights: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]) -> None:
        """Raises ValueError where a weight is missing, unknown or of another shape."""
        held = self.weights()
        if held.keys() != weights.keys():
            odd = sorted(held.keys() ^ weights.keys())
            raise ValueError(f"weights do not fit the model: {len(odd)} names differ, such as {odd[0]}")
        for name, tensor in held.items():
            if tensor.shape != weights[name].shape:
                raise ValueError(f"{name} is {tuple(weights[name].shape)}, not {tuple(tensor.shape)}")
        if absent := [name for name in self._scores.own if name not in state]:
            raise ValueError(
                f"the checkpoint has no {absent[0]}: it was saved by a trainer of another algorithm; go on "
                "with that one"
            )
        for name, tensor in held.items():
            tensor.copy_(weights[name])
        for name, parameter in self._scores.own.items():
            parameter.data.copy_(state[name])
        self._rate.load_state(state)
        restore_optimizer(self._adamw, self._named, state)
        torch.set_rng_state(state[RNG].cpu())
        self.discard()

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
        return summed

    def _scale_gradients(self, step: int, count: float) -> float:
        """Divides and clips; returns the norm between the two."""
        trained = {name: p.grad for name, p in self._named.items() if p.grad is not None}
        for gradient in trained.values():
            gradient.div_(count)
        norm = get_total_norm(trained.values())
        if not torch.isfinite(norm):
            odd = [name for name, grad in trained.items() if not torch.isfinite(grad).all()]
            self._adamw.zero_grad(set_to_none=True)
            raise NonFiniteGradientError(
                f"step {step}: the gradient norm is {norm.item()}, not finite in {len(odd)} of "
                f"{len(trained)} parameters ({', '.join(odd[:3])}); the weights are unchanged: check "
                "the step's rewards and log-probabilities, or lower the learning rate"
            )
        clip_grads_with_norm_(self._named.values(), self._options.max_grad_norm, norm)
        return norm.item()
