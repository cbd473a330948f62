"""One rank of a Megatron trainer: what each does in the tests of several processes.

`python -m tests.services.trainer.megatron.worker FOLDER RANK WORLD LAYOUTS MODEL...`, layouts as `2x1,1x2`,
tensor times pipeline ranks; rank 0 leaves in FOLDER what it found of each model in each layout.
"""

import json
import sys
from datetime import timedelta
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import distributed

from headrace.algorithms.clipped import ClippedRatio
from headrace.algorithms.masked import M2po
from headrace.algorithms.options import GrpoOptions, M2poOptions
from headrace.services.options import PolicyOptions
from headrace.services.trainer.backend import Backend, NotSaved, StepResult
from headrace.services.trainer.megatron.backend import MegatronBackend
from headrace.services.trainer.megatron.geometry import Geometry
from headrace.services.trainer.megatron.grid import Grid
from headrace.services.trainer.megatron.mapping import entries
from headrace.services.trainer.megatron.shards import shard_of, streamed
from headrace.services.trainer.megatron.source import open_source
from headrace.services.trainer.samples import Samples
from tests.services.trainer.batches import OPTIMIZER, ragged_samples, select

DEADLINE = timedelta(seconds=120)
GRPO = ClippedRatio(GrpoOptions(kl_coef=0.1, entropy_coef=0.01))
WHOLE_BATCH = M2po(M2poOptions(threshold=0.5))
TEMPERATURE = 0.7
MICRO_BATCH_TOKENS = 30
ROUNDED = "rounded"
"""The model that is trained in bfloat16."""


def batch() -> Samples:
    return ragged_samples(3, 4, masked=(2,), empty=(7,))


def two_steps(backend: Backend) -> list[StepResult]:
    """One of groups as they come, one of a batch whose decisions precede the gradient."""
    samples = batch()
    backend.accumulate(select(samples, list(range(4))), GRPO)
    backend.accumulate(select(samples, list(range(4, 12))), GRPO)
    first = backend.step(0)
    backend.accumulate(samples, WHOLE_BATCH)
    return [first, backend.step(1)]


def open_backend(model: str, dtype: str, *, tp: int, pp: int, recomputes: bool = False) -> MegatronBackend:
    return MegatronBackend(
        PolicyOptions(model=model, dtype=dtype, gradient_checkpointing=recomputes),  # pyright: ignore[reportArgumentType]
        OPTIMIZER,
        micro_batch_tokens=MICRO_BATCH_TOKENS,
        total_steps=None,
        seed=3,
        temperature=TEMPERATURE,
        tp=tp,
        pp=pp,
    )


def main(folder: Path, rank: int, world: int, layouts: list[tuple[int, int]], models: list[str]) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'store'}",
        rank=rank,
        world_size=world,
        timeout=DEADLINE,
    )
    try:
        for tp, pp in layouts:
            for model in models:
                find(folder, model, tp=tp, pp=pp)
        for saved, (tp, pp) in zip(layouts, (*layouts[1:], layouts[0]), strict=True):
            for model in going_on(world, models):
                go_on(folder, model, tp=tp, pp=pp, saved=f"{saved[0]}x{saved[1]}")
    finally:
        distributed.destroy_process_group()


def _streams_in_small_buckets(model: str, *, tp: int, pp: int) -> None:
    """What is cut into shards comes back whole at rank 0, a few numbers at a time."""
    source = open_source(model, dtype="float64", seed=3)
    grid = Grid.of(tp=tp, pp=pp)
    parts = entries(Geometry.of(source.config.to_dict()), tp=tp, pp=pp)
    own = {each.local: shard_of(each, source.tensors, grid) for each in parts if each.stage == grid.pp_rank}
    found = dict(streamed(parts, own, grid, bucket_bytes=5000))
    grid.close()
    assert found.keys() == (set(source.tensors) if grid.is_first else set())
    assert all(torch.equal(tensor, source.tensors[name]) for name, tensor in found.items())


def _check_shares(backend: MegatronBackend, *, ranks: int) -> None:
    """Of what this rank's optimizer could keep, one of `ranks` parts is kept."""
    (kept,) = backend._adamw._adamw.state.values()
    held = sum(each.parameter.numel() for each in backend._held)
    assert kept["exp_avg"].numel() == kept["exp_avg_sq"].numel() == -(-held // ranks)


def _save_after_a_refusal(backend: MegatronBackend, into: Path) -> None:
    """Of the first rank the model, and of the last its state, cannot be written at first."""
    world = distributed.get_world_size()
    state = "trainer.safetensors" if world == 1 else f"trainer-{world:05d}-of-{world:05d}.safetensors"
    blocked = [into / "model.safetensors", into / state]
    if not distributed.get_rank():
        for path in blocked:
            path.mkdir(parents=True)
    distributed.barrier()
    try:
        backend.save(into)
    except NotSaved as error:
        told = str(error)
    else:
        raise AssertionError("a checkpoint was saved where two of its files could not be written")
    assert f"; rank 0: IsADirectoryError: [Errno 21] Is a directory: '{blocked[0]}'" in told
    assert world == 1 or f"; rank {world - 1}: " in told
    distributed.barrier()
    if not distributed.get_rank():
        for path in blocked:
            path.rmdir()
    distributed.barrier()
    backend.save(into)


def find(folder: Path, model: str, *, tp: int, pp: int) -> None:
    """Takes two steps and leaves what came of them."""
    _streams_in_small_buckets(str(folder / model), tp=tp, pp=pp)
    backend = open_backend(str(folder / model), dtype_of(model), tp=tp, pp=pp)
    samples = batch()
    start = backend.weights()
    scores = backend.before(samples.prompt_ids, samples.response_ids, samples.groups, ("entropy",))
    results = two_steps(backend)
    _check_shares(backend, ranks=distributed.get_world_size() // (tp * pp))
    saved = folder / f"{model}-{tp}x{pp}"
    _save_after_a_refusal(backend, saved)
    end = backend.weights()
    backend.close()
    if distributed.get_rank():
        return
    logprobs = {f"{i}": torch.from_numpy(values) for i, values in enumerate(scores["logprobs"])}
    for kind, tensors in {"start": start, "end": end, "logprobs": logprobs}.items():
        save_file(tensors, folder / f"{model}-{tp}x{pp}-{kind}.safetensors")
    told = [{"loss": each.loss, "grad_norm": each.grad_norm, "sums": dict(each.sums)} for each in results]
    (folder / f"{model}-{tp}x{pp}.json").write_text(json.dumps(told))


def dtype_of(model: str) -> str:
    return "bfloat16" if model == ROUNDED else "float64"


def going_on(world: int, models: list[str]) -> list[str]:
    """The models of which checkpoints go on: of two ranks the first alone, for the time that it takes."""
    return models[:1] if world == 2 else models


def go_on(folder: Path, model: str, *, tp: int, pp: int, saved: str) -> None:
    """From what another layout saved: saves it again while it takes a step, saves that while it takes one."""
    backend = open_backend(str(folder / model), dtype_of(model), tp=tp, pp=pp)
    backend.load(folder / f"{model}-{saved}")
    for name in ("again", "further"):
        (into := folder / f"{model}-{saved}-{name}-{tp}x{pp}").mkdir(exist_ok=True)
        distributed.barrier()
        backend.snapshot()
        backend.write(into)
        backend.accumulate(batch(), GRPO)
        backend.step(2)
        backend.written()
    backend.close()


if __name__ == "__main__":
    folder, rank, world, layouts, *models = sys.argv[1:]
    pairs = [(int(tp), int(pp)) for tp, _, pp in (each.partition("x") for each in layouts.split(","))]
    main(Path(folder), int(rank), int(world), pairs, models)
