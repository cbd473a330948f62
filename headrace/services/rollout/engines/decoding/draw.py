"""Draws the next token of each row and gives its log-probability under the sampling temperature."""

import torch


def draw(
    logits_BV: torch.Tensor, temperature: float, uniforms_B: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inverse-CDF sampling of softmax(logits / temperature).

    `uniforms_B`: float64 in [0, 1), of at most 52 bits, so that a draw times the total stays below the
    total. Returns token ids int64 [B] and log-probabilities [B], float64 where the logits are, else
    float32.
    """
    if logits_BV.dtype != torch.float64:
        logits_BV = logits_BV.float()
    logprobs_BV = torch.log_softmax(logits_BV / temperature, dim=-1)
    mass_BV = logprobs_BV.double().exp().cumsum(dim=-1)
    target_B1 = uniforms_B.unsqueeze(1) * mass_BV[:, -1:]
    ids_B1 = torch.searchsorted(mass_BV, target_B1, right=True)
    return ids_B1[:, 0], logprobs_BV.gather(1, ids_B1)[:, 0]
