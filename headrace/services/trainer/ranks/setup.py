"""What a rank is told before it loads anything, and the back end that it makes of it."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.algorithms.by_path import find
from headrace.algorithms.registry import Recipe
from headrace.services.options import ParallelOptions, PolicyOptions
from headrace.services.trainer.backend import Backend

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MEGATRON = "headrace.services.trainer.megatron.backend:MegatronBackend"
BY_DEVICE = "cpu:gloo,cuda:nccl"
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
LOOPBACK = "lo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The same for every rank."""

    backend: str
    """torch or megatron."""
    parallel: ParallelOptions
    policy: PolicyOptions
    recipe: Recipe
    """Of the algorithm that the run begins with; it says whether a value model or a value head is trained."""
    temperature: float
    seed: int
    """Of the initial weights, where they are drawn."""
    micro_batch_tokens: int
    total_steps: int | None
    """Of the optimizer in the run."""
    threads: int
    """Compute threads of each rank."""
    rendezvous: Path
    """A file that is not there yet, in a folder which all ranks see."""
    gpus: float = 0.0
    """Reserved for all ranks together; 0: they compute on the CPU."""
    timeout_s: float
    """Longest wait of one rank for another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    backend: Backend = field(repr=False)
    tokenizer: "PreTrainedTokenizerBase" = field(repr=False)


def join(setup: Setup, rank: int) -> None:
    """Makes the default group of torch.distributed, over loopback; waits until all ranks have come.

    Tensors of a CPU go by gloo, those of GPUs, of which each rank has one, by NCCL.
    """
    import torch.distributed as dist

    from headrace.services.devices import take

    size = setup.parallel.processes
    if dist.is_initialized():
        raise RuntimeError(
            "this process is a rank of another trainer, and torch.distributed has room for one; set runtime: "
            "ray, where each trainer has a process of its own"
        )
    device = take(setup.gpus, rank=rank)
    on_gpu = device.type == "cuda"
    with _over_loopback():
        dist.init_process_group(
            BY_DEVICE if on_gpu else "gloo",
            device_id=device if on_gpu else None,
            init_method=setup.rendezvous.absolute().as_uri(),
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=setup.timeout_s),
        )


def leave() -> None:
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


def open_rank(setup: Setup, rank: int) -> Opened:
    """The back end of a rank that has joined, its model loaded."""
    return _torch(setup, rank) if setup.backend == "torch" else _megatron(setup, rank)


def _torch(setup: Setup, rank: int) -> Opened:
    from headrace.services.devices import place
    from headrace.services.trainer.ranks.group import Group
    from headrace.services.trainer.scores import open_scores
    from headrace.services.trainer.sharded import shard
    from headrace.services.trainer.torch_backend import TorchBackend

    opened = open_scores(
        setup.policy,
        setup.recipe.build(),
        temperature=setup.temperature,
        seed=setup.seed,
        device=place(setup.gpus, rank=rank),
    )
    size = setup.parallel.processes
    if setup.parallel.fsdp:
        shard(opened.scores.model, size)
    backend = TorchBackend(
        opened.scores,
        setup.policy.optimizer,
        micro_batch_tokens=setup.micro_batch_tokens,
        total_steps=setup.total_steps,
        ranks=Group(rank, size),
    )
    return Opened(backend=backend, tokenizer=opened.tokenizer)


def _megatron(setup: Setup, rank: int) -> Opened:
    from headrace.services.devices import place
    from headrace.services.models import load_tokenizer

    backend = find(MEGATRON, key="backend", what="Class")(
        setup.policy,
        setup.policy.optimizer,
        micro_batch_tokens=setup.micro_batch_tokens,
        total_steps=setup.total_steps,
        seed=setup.seed,
        temperature=setup.temperature,
        tp=setup.parallel.tp,
        pp=setup.parallel.pp,
        device=place(setup.gpus, rank=rank),
    )
    return Opened(backend=backend, tokenizer=load_tokenizer(setup.policy.model))


_ENVIRONMENT = threading.Lock()


@contextmanager
def _over_loopback() -> Iterator[None]:
    """Ranks of one node meet on its loopback interface, unless the environment names another."""
    with _ENVIRONMENT:
        is_there = Path("/sys/class/net", LOOPBACK).exists()
        own = [name for name in INTERFACES if is_there and name not in os.environ]
        os.environ.update(dict.fromkeys(own, LOOPBACK))
        try:
            yield
        finally:
            for name in own:
                del os.environ[name]
