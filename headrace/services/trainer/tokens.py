"""From samples and a pack of them to the tokens that a loss reads."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from headrace.algorithms.base import TokenBatch
from headrace.services.devices import moved
from headrace.services.scoring.packing import Placed
from headrace.services.trainer.samples import Samples


def trained_tokens(samples: Samples) -> np.ndarray:
    """int64 [B], trained tokens of each sample."""
    return np.array([np.count_nonzero(mask) for mask in samples.loss_mask], dtype=np.int64)


def group_totals(tokens: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """int64 [B], trained tokens of each sample's whole group."""
    _, inverse = np.unique(groups, return_inverse=True)
    return np.bincount(inverse, weights=tokens).astype(np.int64)[inverse]


def token_batch(
    samples: Samples,
    packs: Sequence[Placed],
    group_tokens: np.ndarray,
    *,
    dtype: torch.dtype,
    device: torch.device,
    prepared: Mapping[str, torch.Tensor] | None = None,
) -> TokenBatch:
    """The tokens of `packs`, in their order; each `index` points into `samples`.

    What stands at masked tokens is replaced by 0: it may be anything and is never trained on. `prepared`
    are columns that the algorithm has already made for these tokens.
    """
    chosen = np.concatenate([packed.index for packed in packs])
    sample_T = np.repeat(np.arange(len(chosen)), np.concatenate([packed.lengths for packed in packs]))

    def column(values: Sequence[np.ndarray]) -> torch.Tensor:
        return moved(np.concatenate(values), device, dtype)

    mask_T = column([np.asarray(samples.loss_mask[i]) != 0 for i in chosen])
    zero = torch.zeros((), dtype=dtype, device=device)

    def trained(values: Sequence[np.ndarray]) -> torch.Tensor:
        return column([values[i] for i in chosen]).where(mask_T > 0, zero)

    proximal, reference, credit = samples.proximal_logprobs, samples.reference_logprobs, samples.advantages
    return TokenBatch(
        behaviour_logprobs=trained(samples.behaviour_logprobs),
        proximal_logprobs=None if proximal is None else trained(proximal),
        reference_logprobs=None if reference is None else trained(reference),
        columns={name: trained(values) for name, values in samples.columns.items()} | dict(prepared or {}),
        advantages=trained(credit) if isinstance(credit, list) else column([credit[chosen][sample_T]]),
        mask=mask_T,
        sample=moved(sample_T, device),
        samples=len(chosen),
        group=moved(samples.groups[chosen], device),
        rewards=column([samples.rewards[chosen]]),
        group_tokens=column([group_tokens[chosen]]),
        progress=samples.progress,
    )
