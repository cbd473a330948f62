"""An update of several optimizer steps against a plain loop: padded batches, losses written out, float64."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from headrace.algorithms.base import PolicyOutput, TokenBatch
from headrace.algorithms.corrected import CorrectedRatio
from headrace.algorithms.losses import second_moment_mask
from headrace.algorithms.masked import KEPT, M2po
from headrace.algorithms.options import DecoupledPpoOptions, GrpoOptions, M2poOptions
from headrace.algorithms.registry import build
from headrace.algorithms.updates import Accumulate, MiniBatches
from headrace.services.options import OptimizerOptions
from headrace.services.scoring.model import PackedModel
from headrace.services.trainer.samples import Samples
from headrace.services.trainer.torch_backend import TorchBackend
from headrace.services.trainer.update import metrics, optimizer_steps
from tests.services.scoring.models import llama, naive_logprobs
from tests.services.trainer.batches import ragged_samples

SCHEDULE = MiniBatches(number=2, epochs=2)
OPTIMIZER = OptimizerOptions(lr=1e-2, max_grad_norm=0.5, schedule="linear")
ALGORITHM = CorrectedRatio(DecoupledPpoOptions(correction_high=3.0))


def backend(model: PreTrainedModel, *, total_steps: int = 8, micro_batch_tokens: int = 40) -> TorchBackend:
    return TorchBackend(
        PackedModel(model, temperature=1.0),
        OPTIMIZER,
        micro_batch_tokens=micro_batch_tokens,
        total_steps=total_steps,
    )


def anchored(ours: TorchBackend, samples: Samples) -> Samples:
    before = ours.before(samples.prompt_ids, samples.response_ids, samples.groups)
    return replace(samples, proximal_logprobs=before["logprobs"], reference_logprobs=None)


def flat(columns: object, index: np.ndarray) -> torch.Tensor:
    assert isinstance(columns, list)
    return torch.from_numpy(np.concatenate([columns[i] for i in index])).double()


def plain_loss(
    current: list[torch.Tensor], proximal: list[np.ndarray], samples: Samples, index: np.ndarray
) -> torch.Tensor:
    """Decoupled PPO: -min(r A, clip(r, 0.8, 1.2) A) w over trained tokens, w = 0 above 3."""
    cur, mask = torch.cat([current[i] for i in index]), flat(samples.loss_mask, index)
    prox, behaviour = flat(proximal, index), flat(samples.behaviour_logprobs, index)
    lengths = torch.tensor([len(samples.response_ids[i]) for i in index])
    credit = torch.repeat_interleave(torch.from_numpy(np.asarray(samples.advantages)[index]), lengths)
    ratio, weight = (cur - prox).exp(), (prox - behaviour).exp()
    weight = torch.where(weight > 3.0, 0.0, weight)
    surrogate = torch.minimum(ratio * credit, ratio.clamp(0.8, 1.2) * credit)
    return -(surrogate * weight * mask).sum() / mask.sum()


def plain_update(model: PreTrainedModel, samples: Samples, first: int) -> Iterator[float]:
    """Gradient norms of four optimizer steps, the rate falling from 1e-2 to 0 over eight."""
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
    with torch.no_grad():
        said = naive_logprobs(model, list(samples.prompt_ids), list(samples.response_ids), 1.0)
        proximal = [values.numpy() for values in said]
    for number, index in enumerate(SCHEDULE.plan(first // 4, samples.groups, seed=3)):
        current = naive_logprobs(model, list(samples.prompt_ids), list(samples.response_ids), 1.0)
        adamw.zero_grad()
        plain_loss(current, proximal, samples, index).backward()
        yield torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5).item()
        for group in adamw.param_groups:
            group["lr"] = 1e-2 * (1 - (first + number) / 8)
        adamw.step()


def test_mini_batches_and_epochs_equal_a_plain_loop() -> None:
    samples = replace(ragged_samples(4, 3, masked=(2,), empty=(7,)), reference_logprobs=None)
    plain, ours = llama(), backend(llama())
    want = list(plain_update(plain, samples, 0))
    results = list(optimizer_steps(ours, SCHEDULE, anchored(ours, samples), ALGORITHM, step=0, seed=3))
    assert [result.grad_norm for result in results] == pytest.approx(want, rel=1e-9)
    assert [result.lr for result in results] == pytest.approx([1e-2, 8.75e-3, 7.5e-3, 6.25e-3], abs=1e-15)
    expected = dict(plain.named_parameters())
    for name, tensor in ours.weights().items():
        torch.testing.assert_close(tensor, expected[name].detach(), rtol=0, atol=1e-9, msg=name)


def test_the_ratio_to_the_proximal_policy_is_one_in_the_first_mini_batch_alone() -> None:
    ours = backend(llama())
    samples = anchored(ours, ragged_samples(4, 3))
    results = list(optimizer_steps(ours, SCHEDULE, samples, ALGORITHM, step=0, seed=3))
    assert results[0].maxima["ratio/max"] == pytest.approx(1.0, abs=1e-9)
    assert results[1].maxima["ratio/max"] > 1.0 + 1e-4
    whole = metrics(results)
    assert whole["ratio/std"] > 0.0
    assert (whole["actor/updates"], whole["actor/skipped"]) == (4.0, 0.0)
    assert whole["actor/grad_norm"] == pytest.approx(sum(r.grad_norm for r in results) / 4, abs=1e-12)
    assert whole["actor/lr"] == results[-1].lr


def test_optimizer_steps_count_on_from_one_training_step_to_the_next() -> None:
    ours = backend(llama())
    samples = anchored(ours, ragged_samples(2, 2))
    results = list(optimizer_steps(ours, SCHEDULE, samples, ALGORITHM, step=1, seed=3))
    assert [result.step for result in results] == [4, 5, 6, 7]


def test_a_batch_of_one_group_leaves_a_mini_batch_empty_and_says_so() -> None:
    ours = backend(llama())
    samples = anchored(ours, ragged_samples(1, 3))
    results = list(optimizer_steps(ours, SCHEDULE, samples, ALGORITHM, step=0, seed=3))
    assert sorted(result.skipped for result in results) == [False, False, True, True]
    assert metrics(results)["actor/skipped"] == 2.0


def test_a_schedule_that_streams_steps_once_on_what_was_accumulated() -> None:
    streamed, ours = backend(llama()), backend(llama())
    samples = replace(ragged_samples(2, 3), reference_logprobs=None)
    for each in (streamed, ours):
        each.accumulate(samples, ALGORITHM)
    (result,) = optimizer_steps(streamed, Accumulate(), None, ALGORITHM, step=5, seed=3)
    assert result == ours.step(5)


def test_what_is_prepared_of_the_whole_batch_holds_for_each_of_its_mini_batches() -> None:
    class Once(M2po):
        seen: list[int]

        def prepare(self, policy: PolicyOutput, batch: TokenBatch) -> Mapping[str, torch.Tensor]:
            self.seen.append(batch.samples)
            return super().prepare(policy, batch)

    algorithm, model = Once(M2poOptions(threshold=0.5)), llama()
    algorithm.seen = []
    samples = replace(ragged_samples(4, 3, masked=(2,), empty=(7,)), reference_logprobs=None)
    logprobs = torch.cat(naive_logprobs(model, list(samples.prompt_ids), list(samples.response_ids), 1.0))
    every = np.arange(len(samples))
    want = second_moment_mask(
        logprobs.detach(),
        flat(samples.behaviour_logprobs, every),
        mask=flat(samples.loss_mask, every),
        threshold=0.5,
    )
    ours = backend(model)
    prepared = ours.prepared(samples, algorithm)
    assert torch.equal(flat(prepared.columns[KEPT], every), want)
    assert 0 < want.sum() < sum(int(mask.sum()) for mask in samples.loss_mask)
    algorithm.seen = []
    list(optimizer_steps(ours, SCHEDULE, samples, algorithm, step=0, seed=3))
    assert algorithm.seen == [10]


def test_a_greedy_rate_answers_to_the_loss_and_goes_on_from_a_checkpoint() -> None:
    options = OptimizerOptions(lr=1e-3, schedule="greedy")
    options = replace(options, greedy=replace(options.greedy, factor=0.5))

    def made() -> TorchBackend:
        return TorchBackend(
            PackedModel(llama(), temperature=1.0), options, micro_batch_tokens=100, total_steps=None
        )

    algorithm = build(GrpoOptions(), max_new_tokens=8)
    samples = replace(ragged_samples(2, 2), reference_logprobs=None)
    first, rates, losses = made(), [], []
    for step in range(4):
        first.accumulate(samples, algorithm)
        result = first.step(step)
        rates.append(result.lr)
        losses.append(result.loss)
    moves = [2.0 if b < a else 0.5 for a, b in pairwise(losses)]
    assert rates == pytest.approx([1e-3, 1e-3, 1e-3 * moves[0], 1e-3 * moves[0] * moves[1]], abs=1e-15)
    second = made()
    second.load_state(
        {name: tensor.clone() for name, tensor in first.weights().items()},
        {name: tensor.clone() for name, tensor in first.state().items()},
    )
    for each in (first, second):
        each.accumulate(samples, algorithm)
    assert first.step(4) == second.step(4)
    with pytest.raises(ValueError, match="has no rate/rate: it was saved with another schedule"):
        made().load_state(first.weights(), backend(llama()).state())
