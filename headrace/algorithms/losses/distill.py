"""Distillation from a teacher on the student's own answers."""

import torch

from headrace.algorithms.losses.ratio import MAX_LOG_RATIO
from headrace.algorithms.shapes import assert_tokens


def reverse_kl(logprobs: torch.Tensor, teacher_logprobs: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """KL(student || teacher) from the sampled token: value w (log pi - log teacher), all [T].

    Its gradient is w (log pi - log teacher) grad log pi, the score-function form, which on the student's own
    tokens is that of the divergence in expectation. On-policy distillation by GKD's reverse divergence
    (https://arxiv.org/abs/2306.13649), without its gradient through the vocabulary. `weights`, detached,
    correct for stale tokens. The difference is clamped to +-20.
    """
    assert_tokens(logprobs=logprobs, teacher_logprobs=teacher_logprobs, weights=weights)
    distance_T = (logprobs - teacher_logprobs).detach().clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return weights.detach() * distance_T * torch.exp(logprobs - logprobs.detach())


def forward_kl(logprobs: torch.Tensor, teacher_logprobs: torch.Tensor, *, whole: bool) -> torch.Tensor:
    """KL(teacher || student) over K outcomes of each token: [T, K] each to [T].

    `whole`: the K outcomes are the vocabulary. Else they are the teacher's likeliest tokens, and what either
    side has beside them counts as one more outcome: never negative, and never above the whole divergence.
    Distilling the knowledge in a neural network (https://arxiv.org/abs/1503.02531).

    Raises ValueError for shapes that differ or are not [T, K].
    """
    if logprobs.ndim != 2 or logprobs.shape != teacher_logprobs.shape:
        raise ValueError(
            f"logprobs and teacher_logprobs must be [T, K] of one shape, got {tuple(logprobs.shape)} and "
            f"{tuple(teacher_logprobs.shape)}; gather both at the same token ids"
        )
    teacher_TK = teacher_logprobs.detach()
    divergence_T = (teacher_TK.exp() * (teacher_TK - logprobs)).sum(dim=1)
    if whole:
        return divergence_T
    floor = torch.finfo(logprobs.dtype).eps
    teacher_rest_T, student_rest_T = (
        (1.0 - side_TK.exp().sum(dim=1)).clamp(min=floor) for side_TK in (teacher_TK, logprobs)
    )
    return divergence_T + teacher_rest_T * (teacher_rest_T.log() - student_rest_T.log())
