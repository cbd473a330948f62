"""Megatron over processes against the torch back end in one, on the same batches, in float64."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import distributed
from transformers import PreTrainedModel

from headrace.services.scoring.model import PackedModel
from headrace.services.trainer.backend import StepResult
from headrace.services.trainer.tensor_files import state_files
from headrace.services.trainer.torch_backend import TorchBackend
from tests.services.scoring.models import grouped_query_llama, qwen2
from tests.services.trainer.batches import OPTIMIZER
from tests.services.trainer.megatron.models import qwen3
from tests.services.trainer.megatron.worker import (
    GRPO,
    MICRO_BATCH_TOKENS,
    ROUNDED,
    TEMPERATURE,
    batch,
    find,
    going_on,
    two_steps,
)

EXACT: dict[str, Callable[[], PreTrainedModel]] = {
    "tied": grouped_query_llama,
    "biased": qwen2,
    "normed": qwen3,
}
MODELS = EXACT | {ROUNDED: lambda: grouped_query_llama(torch.bfloat16)}
ROOT = Path(__file__).parents[4]
DEADLINE_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What two steps leave, and what was there before them."""

    start: dict[str, torch.Tensor]
    logprobs: dict[str, torch.Tensor]
    results: list[StepResult]
    end: dict[str, torch.Tensor]
    state: dict[str, torch.Tensor]


def run(folder: Path, world: int, layouts: str) -> None:
    """All ranks to their end; none is left."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    ranks: list[subprocess.Popen[bytes]] = []
    logs = [folder / f"rank-{rank}.log" for rank in range(world)]
    try:
        for rank, log in enumerate(logs):
            command = [sys.executable, "-m", "tests.services.trainer.megatron.worker", str(folder)]
            command += [str(rank), str(world), layouts]
            with log.open("wb") as out:
                ranks.append(
                    subprocess.Popen([*command, *MODELS], env=environment, stdout=out, stderr=out, cwd=ROOT)
                )
        codes = [rank.wait(DEADLINE_S) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert codes == [0] * world, "\n".join(log.read_text()[-3000:] for log in logs)


@pytest.mark.parametrize("name", EXACT)
def test_two_steps_of_one_rank_equal_those_of_the_torch_back_end(name: str, tmp_path: Path) -> None:
    MODELS[name]().save_pretrained(tmp_path / name)
    store = f"file://{tmp_path / 'store'}"
    distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        find(tmp_path, name, tp=1, pp=1)
    finally:
        distributed.destroy_process_group()
    _compare(tmp_path / f"{name}-1x1", found_by_torch(MODELS[name]()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "layouts"),
    [
        pytest.param(2, "2x1,1x1,1x2", id="two: tensor, data, pipeline"),
        pytest.param(4, "2x1,1x2,2x2", id="four: pairs of them", marks=pytest.mark.nightly),
    ],
)
def test_two_steps_over_processes_equal_those_of_the_torch_back_end(
    world: int, layouts: str, tmp_path: Path
) -> None:
    wanted = {}
    for name, make in MODELS.items():
        make().save_pretrained(tmp_path / name)
        wanted[name] = found_by_torch(make())
    run(tmp_path, world, layouts)
    order = layouts.split(",")
    for layout, other in zip(order, (*order[1:], order[0]), strict=True):
        for name in EXACT:
            _compare(tmp_path / f"{name}-{layout}", wanted[name])
        _compare_rounded(tmp_path / f"{ROUNDED}-{layout}", wanted[ROUNDED])
        for name in going_on(world, list(MODELS)):
            saved = tmp_path / f"{name}-{layout}"
            again, further = (Path(f"{saved}-{kind}-{other}") for kind in ("again", "further"))
            assert_same_checkpoint(again, saved)
            if name == ROUNDED:
                continue
            ours = torch_backend(MODELS[name]())
            ours.load(saved)
            assert_close(ours.state(), state_files(saved), 0.0)
            ours.accumulate(batch(), GRPO)
            ours.step(2)
            assert_close(load_file(further / "model.safetensors"), ours.weights(), 1e-9)
            assert_close(state_files(further), ours.state(), 1e-9)


def torch_backend(model: PreTrainedModel) -> TorchBackend:
    return TorchBackend(
        PackedModel(model, temperature=TEMPERATURE),
        OPTIMIZER,
        micro_batch_tokens=MICRO_BATCH_TOKENS,
        total_steps=None,
    )


def found_by_torch(model: PreTrainedModel) -> Found:
    ours = torch_backend(model)
    samples = batch()
    start = {each: tensor.clone() for each, tensor in ours.weights().items()}
    logprobs = ours.before(samples.prompt_ids, samples.response_ids, samples.groups)["logprobs"]
    return Found(
        start=start,
        logprobs={str(i): torch.from_numpy(each) for i, each in enumerate(logprobs) if len(each)},
        results=two_steps(ours),
        end=ours.weights(),
        state=ours.state(),
    )


def _compare(path: Path, want: Found) -> None:
    def tensors(kind: str) -> dict[str, torch.Tensor]:
        return load_file(f"{path}-{kind}.safetensors")

    assert_close(tensors("start"), want.start, 0.0)
    assert_close(tensors("logprobs"), want.logprobs, 1e-12)
    for found, result in zip(json.loads(Path(f"{path}.json").read_text()), want.results, strict=True):
        assert found["loss"] == pytest.approx(result.loss, rel=1e-9)
        assert found["grad_norm"] == pytest.approx(result.grad_norm, rel=1e-9)
        assert found["sums"] == pytest.approx(dict(result.sums), rel=1e-9)
    assert_close(tensors("end"), want.end, 1e-9)
    assert_close(load_file(path / "model.safetensors"), tensors("end"), 0.0)
    assert_close(state_files(path), want.state, 1e-9)


def _compare_rounded(path: Path, want: Found) -> None:
    """In bfloat16, where layers round otherwise: the same steps but for that, of weights that are rounded."""
    for found, result in zip(json.loads(Path(f"{path}.json").read_text()), want.results, strict=True):
        assert found["loss"] == pytest.approx(result.loss, rel=0.1)
        assert found["grad_norm"] == pytest.approx(result.grad_norm, rel=0.2)
    state, end = state_files(path), load_file(path / "model.safetensors")
    assert_close({name: state[f"master/{name}"].bfloat16() for name in end}, end, 0.0)
    moved, wanted = (
        torch.cat(
            [(copies[f"master/{name}"] - start.float()).flatten() for name, start in want.start.items()]
        )
        for copies in (state, want.state)
    )
    assert torch.cosine_similarity(moved, wanted, dim=0) > 0.95
    assert (moved.norm() / wanted.norm()).item() == pytest.approx(1.0, abs=0.02)


def assert_same_checkpoint(found: Path, want: Path) -> None:
    """Bit for bit."""
    assert (found / "model.safetensors").read_bytes() == (want / "model.safetensors").read_bytes()
    assert_close(state_files(found), state_files(want), 0.0)


def assert_close(
    found: Mapping[str, torch.Tensor], want: Mapping[str, torch.Tensor], tolerance: float
) -> None:
    found = {name: tensor for name, tensor in found.items() if tensor.numel()}
    assert found.keys() == want.keys()
    for name, tensor in want.items():
        if name != "rng/torch":
            torch.testing.assert_close(found[name], tensor, rtol=0, atol=tolerance, msg=name)
