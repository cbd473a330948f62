"""Token batches from plain lists, in float64."""

import torch

from headrace.algorithms.base import TokenBatch


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
        group_tokens=vector(*totals),
    )
