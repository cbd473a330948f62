"""A trainer in a process group of one: NCCL for what is on the card, gloo for the rest; and Megatron."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from bench.gpu_check import material, training
from bench.gpu_check.path import Figures, at_most
from headrace.services.devices import take
from headrace.services.options import ParallelOptions
from headrace.services.options.policy import Dtype
from headrace.services.trainer.ranks.backend import RankedBackend
from headrace.services.trainer.ranks.group import Group
from headrace.services.trainer.ranks.setup import Setup

TIMEOUT_S = 60.0


def group_of_one(gpus: float) -> Figures:
    """Steps of a model in shards over one rank, and sums of tensors wherever they lie."""
    alone = training.backend("float64", take(gpus))
    with opened("torch", "float64", gpus) as ranked:
        tensors = [torch.ones(3), torch.ones(3, device=take(gpus))]
        Group(0, 1).add_up(tensors)
        if any(tensor.tolist() != [1.0] * 3 for tensor in tensors):
            raise AssertionError(f"sums over one rank are {tensors}")
        off = compared(alone, ranked, 1e-9)
        weights = material.difference(alone.weights(), ranked.weights())
    return {"loss_difference": off, "weight_difference": at_most("difference of weights", weights, 1e-9)}


def megatron(gpus: float) -> Figures:
    """Losses and gradient norms of both back ends on the same device."""
    alone = training.backend("float32", take(gpus))
    with opened("megatron", "float32", gpus) as ranked:
        return {"loss_difference": compared(alone, ranked, 1e-3)}


@contextmanager
def opened(backend: str, dtype: Dtype, gpus: float) -> Iterator[RankedBackend]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ranked = RankedBackend(
            setup(backend, dtype, gpus, folder), log_file=lambda rank: folder / f"rank-{rank}.log"
        )
        try:
            yield ranked
        finally:
            ranked.close()


def setup(backend: str, dtype: Dtype, gpus: float, folder: Path) -> Setup:
    return Setup(
        backend=backend,
        parallel=ParallelOptions(fsdp=backend == "torch"),
        policy=material.policy(dtype),
        recipe=material.RECIPE,
        temperature=material.TEMPERATURE,
        seed=material.SEED,
        micro_batch_tokens=60,
        total_steps=None,
        threads=1,
        gpus=gpus,
        rendezvous=folder / "rendezvous",
        timeout_s=TIMEOUT_S,
    )


def compared(alone: training.TorchBackend, ranked: RankedBackend, most: float) -> float:
    batch, algorithm, off = material.samples(), material.algorithm(), 0.0
    for step in range(training.STEPS):
        results = []
        for backend in (alone, ranked):
            backend.accumulate(batch, algorithm)
            results.append(backend.step(step))
        one, other = results
        off = max(off, abs(one.loss - other.loss), abs(one.grad_norm - other.grad_norm))
    return at_most("difference of losses and norms", off, most)
