"""Trainers of several ranks on the tiny model, batches for them, and the trainer that they must equal."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from headrace.algorithms.base import Algorithm
from headrace.algorithms.options import AlgorithmOptions, GrpoOptions
from headrace.algorithms.registry import Recipe
from headrace.services.options import OptimizerOptions, ParallelOptions, PolicyOptions
from headrace.services.trainer.ranks.backend import RankedBackend
from headrace.services.trainer.ranks.setup import Setup
from headrace.services.trainer.samples import Samples
from headrace.services.trainer.scores import open_scores
from headrace.services.trainer.torch_backend import TorchBackend
from tests.services.trainer.batches import ragged_samples

GRPO = GrpoOptions(kl_coef=0.1)
POLICY = PolicyOptions(
    model="tiny-copier",
    dtype="float64",
    optimizer=OptimizerOptions(lr=1e-2, weight_decay=0.1, max_grad_norm=0.5),
)
TIMEOUT_S = 120.0


def setup(
    directory: Path,
    parallel: ParallelOptions,
    *,
    policy: PolicyOptions = POLICY,
    algorithm: AlgorithmOptions = GRPO,
    backend: str = "torch",
    timeout_s: float = TIMEOUT_S,
) -> Setup:
    return Setup(
        backend=backend,
        parallel=parallel,
        policy=policy,
        recipe=recipe(algorithm),
        temperature=1.0,
        seed=3,
        micro_batch_tokens=60,
        total_steps=None,
        threads=1,
        rendezvous=directory / "rendezvous",
        timeout_s=timeout_s,
    )


def recipe(algorithm: AlgorithmOptions) -> Recipe:
    return Recipe(options=algorithm, max_new_tokens=8, step=0)


@contextmanager
def ranked(told: Setup) -> Iterator[RankedBackend]:
    folder = told.rendezvous.parent
    folder.mkdir(exist_ok=True)
    made = RankedBackend(told, log_file=lambda rank: folder / f"rank-{rank}.log")
    try:
        yield made
    finally:
        made.close()


def alone(policy: PolicyOptions = POLICY, algorithm: AlgorithmOptions = GRPO) -> TorchBackend:
    opened = open_scores(policy, recipe(algorithm).build(), temperature=1.0, seed=3)
    return TorchBackend(opened.scores, policy.optimizer, micro_batch_tokens=60, total_steps=None)


def samples(groups: int = 5) -> Samples:
    """Of the tiny model's tokens; groups of 3, of unlike lengths."""
    drawn = ragged_samples(groups, 3, masked=(1,), empty=(4,))
    return replace(
        drawn,
        prompt_ids=[ids % 13 for ids in drawn.prompt_ids],
        response_ids=[ids % 13 for ids in drawn.response_ids],
    )


def halves(whole: Samples) -> list[Samples]:
    """As groups arrive: two groups, then the rest."""
    return [whole.select(np.arange(6)), whole.select(np.arange(6, len(whole)))]


def copied(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}


def built(algorithm: AlgorithmOptions = GRPO) -> Algorithm:
    return recipe(algorithm).build()
