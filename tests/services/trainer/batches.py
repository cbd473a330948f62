"""Random ragged samples, and the naive update that packed accumulation must equal."""

from dataclasses import replace

import numpy as np
import torch
from transformers import PreTrainedModel

from headrace.algorithms.base import Algorithm, PolicyOutput, TokenBatch
from headrace.services.options import OptimizerOptions
from headrace.services.trainer.samples import Samples
from tests.services.scoring.models import VOCABULARY, naive_logprobs

OPTIMIZER = OptimizerOptions(lr=1e-2, weight_decay=0.1, max_grad_norm=0.5)


def ragged_samples(
    groups: int, samples: int, *, masked: tuple[int, ...] = (), empty: tuple[int, ...] = ()
) -> Samples:
    """Answers of 1 to 8 tokens with about a fifth of tokens masked; `masked` and `empty` wholly so."""
    random = np.random.default_rng(11)
    size = groups * samples
    prompts = [random.integers(0, VOCABULARY, random.integers(1, 10)) for _ in range(groups)]
    lengths = [0 if i in empty else int(random.integers(1, 9)) for i in range(size)]
    masks = [(random.random(n) > 0.2).astype(np.int8) * (i not in masked) for i, n in enumerate(lengths)]
    return Samples(
        uids=np.arange(size),
        groups=np.repeat(np.arange(groups), samples),
        prompt_ids=[p for p in prompts for _ in range(samples)],
        response_ids=[random.integers(0, VOCABULARY, n).astype(np.int32) for n in lengths],
        behaviour_logprobs=[-3.0 + random.standard_normal(n) for n in lengths],
        loss_mask=masks,
        rewards=random.integers(0, 2, size).astype(np.float64),
        advantages=random.standard_normal(size),
        reference_logprobs=[-3.0 + random.standard_normal(n) for n in lengths],
    )


def select(samples: Samples, index: list[int]) -> Samples:
    return Samples(
        uids=samples.uids[index],
        groups=samples.groups[index],
        prompt_ids=[samples.prompt_ids[i] for i in index],
        response_ids=[samples.response_ids[i] for i in index],
        behaviour_logprobs=[samples.behaviour_logprobs[i] for i in index],
        loss_mask=[samples.loss_mask[i] for i in index],
        rewards=samples.rewards[index],
        advantages=np.asarray(samples.advantages)[index],
        reference_logprobs=[samples.reference_logprobs[i] for i in index]
        if samples.reference_logprobs
        else None,
    )


def naive_gradients(
    model: PreTrainedModel, samples: Samples, algorithm: Algorithm
) -> dict[str, torch.Tensor]:
    """Gradients of the mean loss from one padded batch and one backward, by name."""
    model.zero_grad()
    logprobs = naive_logprobs(model, list(samples.prompt_ids), list(samples.response_ids), 1.0)
    dtype, lengths = logprobs[0].dtype, [len(ids) for ids in samples.response_ids]
    mask = torch.from_numpy(np.concatenate(samples.loss_mask)).to(dtype)
    sample = torch.repeat_interleave(torch.arange(len(samples)), torch.tensor(lengths))
    tokens = torch.zeros(len(samples), dtype=dtype).index_add(0, sample, mask)
    groups = torch.from_numpy(samples.groups)
    batch = TokenBatch(
        behaviour_logprobs=torch.from_numpy(np.concatenate(samples.behaviour_logprobs)).to(dtype),
        reference_logprobs=torch.from_numpy(np.concatenate(samples.reference_logprobs or [])).to(dtype),
        advantages=torch.from_numpy(np.asarray(samples.advantages)).to(dtype)[sample],
        mask=mask,
        sample=sample,
        samples=len(samples),
        group=groups,
        rewards=torch.from_numpy(samples.rewards).to(dtype),
        group_tokens=torch.stack([tokens[groups == group].sum() for group in groups]),
    )
    policy = PolicyOutput(logprobs=torch.cat(logprobs))
    prepared = algorithm.prepare(policy, batch) if algorithm.prepares else {}
    summed = algorithm.loss(policy, replace(batch, columns={**batch.columns, **prepared}))
    (summed.total / summed.count).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def naive_update(
    model: PreTrainedModel, samples: Samples, algorithm: Algorithm, optimizer: torch.optim.AdamW
) -> float:
    """One step of `optimizer` on the naive gradient; returns its norm."""
    naive_gradients(model, samples, algorithm)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), OPTIMIZER.max_grad_norm)
    optimizer.step()
    return norm.item()


def adamw(model: PreTrainedModel) -> torch.optim.AdamW:
    return torch.optim.AdamW(
        model.parameters(), lr=OPTIMIZER.lr, betas=OPTIMIZER.betas, eps=OPTIMIZER.eps, weight_decay=0.1
    )
