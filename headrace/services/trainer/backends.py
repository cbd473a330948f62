"""The back end of a trainer, by its options: in this process, or of several ranks of which it is one."""

import uuid

import torch

from headrace.algorithms.base import Algorithm
from headrace.algorithms.registry import Recipe
from headrace.services.base import Context, log_file
from headrace.services.devices import take
from headrace.services.options import TrainerOptions
from headrace.services.trainer.ranks.backend import RankedBackend
from headrace.services.trainer.ranks.setup import Opened, Setup
from headrace.services.trainer.scores import open_scores
from headrace.services.trainer.torch_backend import TorchBackend

PATIENCE = 0.9
"""Share of the run's longest time without progress after which a rank counts as lost: it is named before the
run gives up on the trainer as a whole."""


def open_backend(context: Context, algorithm: Algorithm) -> Opened:
    """With the policy's initial weights; `algorithm` is the run's first. Blocks while they are loaded.

    Raises RanksFailed where a rank does not come up, ValueError where policy and algorithm do not fit.
    """
    options: TrainerOptions = context.options
    if options.backend == "torch" and options.parallel.processes == 1:
        opened = open_scores(
            context.policy,
            algorithm,
            temperature=context.flow.temperature,
            seed=context.weights_seed,
            device=take(options.gpus),
        )
        backend = TorchBackend(
            opened.scores,
            context.policy.optimizer,
            micro_batch_tokens=options.micro_batch_tokens,
            total_steps=_total_steps(context),
        )
        return Opened(backend=backend, tokenizer=opened.tokenizer)
    ranked = RankedBackend(
        _setup(context), log_file=lambda rank: log_file(context.run_dir, f"{context.replica}-rank{rank}")
    )
    return Opened(backend=ranked, tokenizer=ranked.tokenizer)


def _setup(context: Context) -> Setup:
    options: TrainerOptions = context.options
    folder = context.shared_dir / "ranks"
    folder.mkdir(parents=True, exist_ok=True)
    return Setup(
        backend=options.backend,
        parallel=options.parallel,
        policy=context.policy,
        recipe=Recipe(
            options=options.algorithm,
            max_new_tokens=context.flow.max_new_tokens,
            step=context.flow.first_step,
        ),
        temperature=context.flow.temperature,
        seed=context.weights_seed,
        micro_batch_tokens=options.micro_batch_tokens,
        total_steps=_total_steps(context),
        threads=torch.get_num_threads(),
        rendezvous=folder / f"{context.node}-{uuid.uuid4().hex}",
        gpus=options.gpus,
        timeout_s=PATIENCE * context.flow.no_progress_timeout_s,
    )


def _total_steps(context: Context) -> int:
    return context.flow.steps * context.options.update.updates_per_batch
