"""GRPO on the copy task as a plain PyTorch loop: no cache, no packing, no services, one backward per step."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from headrace.services.models import load
from tests.services.trainer.copy_task import CopyTask, seeded

Sampler = Callable[[torch.Tensor, list[int], int, float], torch.Tensor]
"""(logits [B, V], seeds [B], place in the answer, temperature) to token ids [B]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Prompts [B, P]; answers, log-probabilities and mask [B, T], padded on the right; advantages [B].

    Log-probabilities are float32, as the table keeps them.
    """

    prompts: torch.Tensor
    answers: torch.Tensor
    logprobs: torch.Tensor
    mask: torch.Tensor
    advantages: torch.Tensor


def run(
    steps: int,
    seed: int,
    *,
    dtype: str = "float32",
    prompts: int = 32,
    samples: int = 8,
    max_new_tokens: int = 5,
    lr: float = 1e-3,
    temperature: float = 1.0,
    sampler: Sampler = seeded,
    watch: Callable[[Batch], None] = lambda batch: None,
) -> dict[str, torch.Tensor]:
    """The weights that the engine is to reach; `watch` sees the batch of each step before its update."""
    loaded = load("tiny-copier", dtype=dtype, seed=seed)
    model, (stop,) = loaded.model, loaded.stop_token_ids
    task = CopyTask(loaded.tokenizer, seed, samples)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.0)
    for step in range(steps):
        at = range(step * prompts, (step + 1) * prompts)
        asked, ids, done = (
            task.prompts(at),
            task.prompts(at),
            torch.zeros(prompts * samples, dtype=torch.bool),
        )
        masks = []
        for place in range(max_new_tokens):
            with torch.no_grad():
                logits = model(input_ids=ids, use_cache=False).logits[:, -1]
            drawn = sampler(logits, task.seeds(at), place, temperature)
            ids = torch.cat((ids, drawn[:, None]), 1)
            masks.append(~done)
            done = done | (drawn == stop)
        answers, mask = ids[:, asked.shape[1] :], torch.stack(masks, 1)
        words = [a[m & (a != stop)].tolist() for a, m in zip(answers, mask, strict=True)]
        with torch.no_grad():
            old = token_logprobs(model, asked, answers, temperature).float()
        credit = zscore(task.rewards(at, words), samples)
        batch = Batch(prompts=asked, answers=answers, logprobs=old, mask=mask, advantages=credit)
        watch(batch)
        update(model, optimizer, batch, temperature)
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def zscore(rewards: torch.Tensor, samples: int) -> torch.Tensor:
    grouped = rewards.view(-1, samples)
    centred, std = grouped - grouped.mean(1, keepdim=True), grouped.std(1, keepdim=True)
    return torch.where(std > 1e-8, centred / (std + 1e-4), torch.zeros_like(centred)).flatten()


def token_logprobs(
    model: PreTrainedModel, prompts: torch.Tensor, answers: torch.Tensor, temperature: float
) -> torch.Tensor:
    logits = model(input_ids=torch.cat((prompts, answers), 1), use_cache=False).logits / temperature
    predicting = logits[:, prompts.shape[1] - 1 : -1]
    return predicting.log_softmax(-1).gather(-1, answers[..., None])[..., 0]


def update(model: PreTrainedModel, optimizer: torch.optim.AdamW, batch: Batch, temperature: float) -> None:
    logprobs = token_logprobs(model, batch.prompts, batch.answers, temperature)
    ratio, credit = (logprobs - batch.logprobs).exp(), batch.advantages.to(logprobs.dtype)[:, None]
    losses = -torch.minimum(ratio * credit, ratio.clamp(0.8, 1.28) * credit)
    (losses[batch.mask].sum() / batch.mask.sum()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
