"""What is written of a snapshot is what was saved when it was taken, byte for byte."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from headrace.algorithms.clipped import ClippedRatio
from headrace.algorithms.options import GrpoOptions
from headrace.services.models.lora import attach
from headrace.services.options import LoraOptions
from headrace.services.scoring.model import PackedModel
from headrace.services.trainer.backend import NotSaved
from headrace.services.trainer.snapshot import HostCopies
from headrace.services.trainer.torch_backend import TorchBackend
from tests.services.scoring.models import llama
from tests.services.trainer.batches import OPTIMIZER, ragged_samples

GRPO = ClippedRatio(GrpoOptions(kl_coef=0.1))


def full(dtype: torch.dtype) -> PreTrainedModel:
    return llama(dtype)


def adapted(dtype: torch.dtype) -> PreTrainedModel:
    pytest.importorskip("peft")
    model = llama(dtype)
    attach(model, LoraOptions(rank=3), seed=5)
    return model


def trained(ours: TorchBackend, step: int) -> None:
    ours.accumulate(ragged_samples(3, 3), GRPO)
    ours.step(step)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("make", [full, adapted])
def test_steps_that_are_taken_meanwhile_change_nothing_of_it(
    make: Callable[[torch.dtype], PreTrainedModel], dtype: torch.dtype, tmp_path: Path
) -> None:
    ours = TorchBackend(
        PackedModel(make(dtype), temperature=1.0), OPTIMIZER, micro_batch_tokens=40, total_steps=None
    )
    for step in (0, 1):
        trained(ours, step)
        for folder in (saved := tmp_path / f"saved-{step}", beside := tmp_path / f"beside-{step}"):
            folder.mkdir()
        ours.save(saved)
        ours.snapshot()
        trained(ours, step + 2)
        ours.write(beside).result()
        ours.written()
        assert contents(beside) == contents(saved)


def test_a_snapshot_is_refused_within_a_step(tmp_path: Path) -> None:
    ours = TorchBackend(
        PackedModel(llama(), temperature=1.0), OPTIMIZER, micro_batch_tokens=40, total_steps=None
    )
    ours.accumulate(ragged_samples(3, 3), GRPO)
    with pytest.raises(RuntimeError, match="within a step; take checkpoints right after step"):
        ours.snapshot()


def test_what_could_not_be_written_is_written_again_from_the_same_snapshot(tmp_path: Path) -> None:
    ours = TorchBackend(
        PackedModel(llama(), temperature=1.0), OPTIMIZER, micro_batch_tokens=40, total_steps=None
    )
    (want := tmp_path / "want").mkdir()
    ours.save(want)
    ours.snapshot()
    (into := tmp_path / "into").mkdir()
    (blocked := into / "trainer.safetensors").mkdir()
    ours.write(into)
    with pytest.raises(NotSaved, match="a checkpoint could not be written; rank 0: "):
        ours.written()
    blocked.rmdir()
    trained(ours, 0)
    ours.write(into)
    ours.written()
    assert contents(into) == contents(want)


def test_copies_go_into_the_memory_of_those_before_where_they_fit() -> None:
    copies, tensor = HostCopies(), torch.arange(3.0)
    first = copies.of([("a", tensor), ("b", tensor)])["a"]
    tensor += 1
    again = copies.of([("a", tensor), ("b", torch.arange(2))])
    assert again["a"].data_ptr() == first.data_ptr()
    assert {name: each.tolist() for name, each in again.items()} == {"a": [1.0, 2.0, 3.0], "b": [0, 1]}
    assert copies.of([("c", tensor)]).keys() == {"c"}
