"""Token batches from plain lists, in float64."""

from dataclasses import replace
from typing import Any, get_args

import torch

from headrace.algorithms.base import Algorithm, LossSum, PolicyOutput, TokenBatch
from headrace.algorithms.diagnostics import summary
from headrace.algorithms.options import AlgorithmOptions
from headrace.algorithms.registry import build


def vector(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def token_batch(
    mask: list[list[int]],
    *,
    groups: list[int] | None = None,
    behaviour: torch.Tensor | None = None,
    advantages: torch.Tensor | None = None,
    proximal: torch.Tensor | None = None,
    reference: torch.Tensor | None = None,
    rewards: list[float] | None = None,
    columns: dict[str, torch.Tensor] | None = None,
) -> TokenBatch:
    """`mask` by sample; every sample its own group unless `groups` says otherwise."""
    flat = vector(*(value for sample in mask for value in sample))
    sample = torch.tensor([index for index, row in enumerate(mask) for _ in row], dtype=torch.int64)
    tokens = [sum(row) for row in mask]
    ids = groups if groups is not None else list(range(len(mask)))
    totals = [sum(n for n, other in zip(tokens, ids, strict=True) if other == own) for own in ids]
    return TokenBatch(
        behaviour_logprobs=torch.zeros_like(flat) if behaviour is None else behaviour,
        proximal_logprobs=proximal,
        reference_logprobs=reference,
        advantages=torch.ones_like(flat) if advantages is None else advantages,
        mask=flat,
        sample=sample,
        samples=len(mask),
        group=torch.tensor(ids, dtype=torch.int64),
        rewards=vector(*([0.0] * len(mask) if rewards is None else rewards)),
        columns=columns or {},
        group_tokens=vector(*totals),
    )


def made(kind: str, *, max_new_tokens: int = 8, **values: Any) -> Algorithm:
    """The algorithm of a kind with the defaults of its options, but for `values`."""
    by_kind = {
        options.__dataclass_fields__["kind"].default: options for options in get_args(AlgorithmOptions)
    }
    return build(by_kind[kind](**values), max_new_tokens=max_new_tokens)


def loss_of(algorithm: Algorithm, policy: PolicyOutput, batch: TokenBatch) -> LossSum:
    """Prepares as a back end does, then takes the loss."""
    if algorithm.prepares:
        detached = PolicyOutput(logprobs=policy.logprobs.detach())
        batch = replace(batch, columns={**batch.columns, **algorithm.prepare(detached, batch)})
    return algorithm.loss(policy, batch)


def value_and_gradient(
    algorithm: Algorithm, logprobs: torch.Tensor, batch: TokenBatch, **outputs: torch.Tensor
) -> tuple[float, list[float], float]:
    """Of the summed loss, by current log-probability; and the divisor."""
    leaf = logprobs.clone().requires_grad_()
    loss = loss_of(algorithm, PolicyOutput(logprobs=leaf, **outputs), batch)
    (gradient,) = torch.autograd.grad(loss.total, leaf)
    return loss.total.item(), gradient.tolist(), loss.count


def metrics_of(algorithm: Algorithm, policy: PolicyOutput, batch: TokenBatch) -> dict[str, float]:
    loss = loss_of(algorithm, policy, batch)
    return summary(
        {name: float(value) for name, value in loss.sums.items()},
        {name: float(value) for name, value in loss.maxima.items()},
    )
