"""From samples and a pack of them to the tokens that a loss reads."""

import numpy as np
import torch

from headrace.algorithms.base import TokenBatch
from headrace.services.scoring.packing import Pack
from headrace.services.trainer.samples import Samples


def trained_tokens(samples: Samples) -> np.ndarray:
    """int64 [B], trained tokens of each sample."""
    return np.array([np.count_nonzero(mask) for mask in samples.loss_mask], dtype=np.int64)


def group_totals(tokens: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """int64 [B], trained tokens of each sample's whole group."""
    _, inverse = np.unique(groups, return_inverse=True)
    return np.bincount(inverse, weights=tokens).astype(np.int64)[inverse]


def token_batch(
    samples: Samples, packed: Pack, group_tokens: np.ndarray, *, dtype: torch.dtype, device: torch.device
) -> TokenBatch:
    """The tokens of `packed`, in its order; `packed.index` points into `samples`.

    Log-probabilities of masked tokens are replaced by 0: they may be anything and are never trained on.
    """

    def column(values: list[np.ndarray]) -> torch.Tensor:
        return torch.from_numpy(np.concatenate(values)).to(device=device, dtype=dtype)

    chosen = packed.index
    mask_T = column([np.asarray(samples.loss_mask[i]) != 0 for i in chosen])
    sample_T = np.repeat(np.arange(len(chosen)), packed.lengths)
    trained_T = mask_T > 0

    def logprobs(values: list[np.ndarray]) -> torch.Tensor:
        return column(values).where(trained_T, torch.zeros((), dtype=dtype, device=device))

    reference = samples.reference_logprobs
    return TokenBatch(
        behaviour_logprobs=logprobs([samples.behaviour_logprobs[i] for i in chosen]),
        reference_logprobs=None if reference is None else logprobs([reference[i] for i in chosen]),
        advantages=column([samples.advantages[chosen][sample_T]]),
        mask=mask_T,
        sample=torch.from_numpy(sample_T).to(device),
        samples=len(chosen),
        group_tokens=column([group_tokens[chosen]]),
    )
