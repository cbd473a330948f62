"""No split of a step changes it: micro-batches, packings, data-parallel ranks, in float64 to 1e-12.

A rank's gradient and count are the sums over its micro-batches; the step's are the sums over its ranks.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from headrace.algorithms.base import Algorithm, PolicyOutput, TokenBatch
from headrace.algorithms.registry import ALGORITHMS
from tests.algorithms.batches import made

LENGTHS = (3, 1, 9, 4, 0, 2, 5, 1)
GROUPS = (0, 0, 0, 1, 1, 1, 2, 3)
MASKED_SAMPLE = 5
COLUMNS = ("teacher_logprobs", "proximal_mean_logprobs", "values", "returns")
SPLITS: dict[str, list[list[list[int]]]] = {
    "one micro-batch per sample": [[[i] for i in range(8)]],
    "another packing": [[[6, 2, 0], [7], [1, 3, 5, 4]]],
    "two ranks": [[[0, 1], [2, 3]], [[4, 5, 6, 7]]],
    "four ranks, one of them without a trained token": [[[2]], [[4], [5]], [[0, 1], [3]], [[7, 6]]],
}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((kind, {}) for kind in ALGORITHMS),
    *(
        ("grpo", {"reduction": reduction, "kl_coef": 0.1, "entropy_coef": 0.2, "dual_clip": 3.0})
        for reduction in ("token_mean", "sequence_mean", "sequence_sum", "prompt_mean")
    ),
    ("decoupled_ppo", {"correction_level": "sequence", "correction": "truncate", "correction_high": 1.1}),
    ("pacs", {"balanced": True, "beta": 0.5}),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The tokens of eight samples, flat, and the same for any choice of them in any order."""

    policy: PolicyOutput
    batch: TokenBatch

    def of(self, samples: list[int]) -> "Step":
        places = [torch.nonzero(self.batch.sample == i)[:, 0] for i in samples]
        token, chosen = torch.cat(places), torch.tensor(samples)
        sizes = torch.tensor([len(place) for place in places])
        policy, batch = self.policy, self.batch
        assert policy.entropy is not None and policy.mean_logprobs is not None and policy.values is not None
        assert batch.proximal_logprobs is not None and batch.reference_logprobs is not None
        return Step(
            policy=PolicyOutput(
                logprobs=policy.logprobs[token],
                entropy=policy.entropy[token],
                mean_logprobs=policy.mean_logprobs[token],
                values=policy.values[token],
            ),
            batch=TokenBatch(
                behaviour_logprobs=batch.behaviour_logprobs[token],
                proximal_logprobs=batch.proximal_logprobs[token],
                reference_logprobs=batch.reference_logprobs[token],
                columns={name: column[token] for name, column in batch.columns.items()},
                advantages=batch.advantages[token],
                mask=batch.mask[token],
                sample=torch.repeat_interleave(torch.arange(len(samples)), sizes),
                samples=len(samples),
                group=batch.group[chosen],
                rewards=batch.rewards[chosen],
                group_tokens=batch.group_tokens[chosen],
            ),
        )


def random_step() -> Step:
    torch.manual_seed(7)
    tokens = sum(LENGTHS)
    sample = torch.repeat_interleave(torch.arange(8), torch.tensor(LENGTHS))
    mask = (torch.rand(tokens) > 0.2).double() * (sample != MASKED_SAMPLE)
    group = torch.tensor(GROUPS)
    by_sample = torch.zeros(8).double().index_add(0, sample, mask)
    near = torch.randn(8, tokens, dtype=torch.float64) * 0.3 - 1.5
    return Step(
        policy=PolicyOutput(
            logprobs=near[0].requires_grad_(),
            entropy=torch.rand(tokens, dtype=torch.float64).requires_grad_(),
            mean_logprobs=torch.randn(tokens, dtype=torch.float64),
            values=torch.rand(tokens, dtype=torch.float64).requires_grad_(),
        ),
        batch=TokenBatch(
            behaviour_logprobs=near[1],
            proximal_logprobs=near[2],
            reference_logprobs=near[3],
            columns=dict(zip(COLUMNS, near[4:], strict=True)),
            advantages=torch.randn(tokens, dtype=torch.float64),
            mask=mask,
            sample=sample,
            samples=8,
            group=group,
            rewards=torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.5, math.nan]).double(),
            group_tokens=torch.stack([by_sample[group == own].sum() for own in group]),
        ),
    )


def prepared(algorithm: Algorithm, step: Step) -> Step:
    """`prepare` sees the whole batch, as with a back end."""
    if not algorithm.prepares:
        return step
    detached = PolicyOutput(logprobs=step.policy.logprobs.detach())
    columns = algorithm.prepare(detached, step.batch)
    return replace(step, batch=replace(step.batch, columns={**step.batch.columns, **columns}))


def update(algorithm: Algorithm, step: Step, ranks: list[list[list[int]]]) -> list[torch.Tensor]:
    """Loss, gradient by log-probability, entropy and value, divided once by the global count."""
    total, count = torch.zeros((), dtype=torch.float64), 0.0
    for rank in ranks:
        parts = [step.of(samples) for samples in rank]
        losses = [algorithm.loss(part.policy, part.batch) for part in parts]
        total = total + torch.stack([loss.total for loss in losses]).sum()
        count += sum(loss.count for loss in losses)
    mean = total / count
    leaves = (step.policy.logprobs, step.policy.entropy, step.policy.values)
    gradients = torch.autograd.grad(mean, [leaf for leaf in leaves if leaf is not None], allow_unused=True)
    return [mean.detach(), *(g for g in gradients if g is not None), torch.tensor(count).double()]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(("kind", "values"), VARIANTS)
def test_how_a_step_is_split_never_changes_it(kind: str, values: dict[str, Any], split: str) -> None:
    algorithm = made(kind, **values)
    step = prepared(algorithm, random_step())
    whole = update(algorithm, step, [[list(range(8))]])
    for got, want in zip(update(algorithm, step, SPLITS[split]), whole, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["pacs"])
def test_groups_may_be_prepared_as_they_arrive(kind: str) -> None:
    algorithm, step = made(kind), random_step()
    assert not algorithm.needs_full_batch
    whole = update(algorithm, prepared(algorithm, step), [[list(range(8))]])
    parts = [prepared(algorithm, step.of(samples)) for samples in ([0, 1, 2], [3, 4, 5], [6], [7])]
    losses = [algorithm.loss(part.policy, part.batch) for part in parts]
    mean = torch.stack([loss.total for loss in losses]).sum() / sum(loss.count for loss in losses)
    (gradient,) = torch.autograd.grad(mean, step.policy.logprobs)
    torch.testing.assert_close(mean.detach(), whole[0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradient, whole[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_masked_and_empty_samples_alone_are_zero_over_zero(kind: str) -> None:
    algorithm = made(kind)
    step = random_step().of([4, MASKED_SAMPLE])
    part = prepared(algorithm, step)
    loss = algorithm.loss(part.policy, part.batch)
    assert (loss.total.item(), loss.count, dict(loss.maxima)) == (0.0, 0.0, {})
    assert all(float(value) == 0.0 for value in loss.sums.values())


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_masked_tokens_have_no_gradient(kind: str) -> None:
    algorithm = made(kind)
    step = prepared(algorithm, random_step())
    gradient = update(algorithm, step, [[list(range(8))]])[1]
    assert gradient[step.batch.mask == 0].abs().max() == 0.0
    assert gradient.isfinite().all()
