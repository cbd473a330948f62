from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from headrace.services.trainer.megatron.model_file import write_model

TENSORS = {"b.weight": torch.arange(6.0).view(2, 3), "a.bias": torch.tensor([0.5, -1.0, 3.0])}
SHAPES = {name: tuple(tensor.shape) for name, tensor in TENSORS.items()}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_tensors_that_come_one_by_one_make_the_file_that_safetensors_reads(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    path = tmp_path / "model.safetensors"
    write_model(path, SHAPES, dtype, ((name, tensor.to(dtype)) for name, tensor in TENSORS.items()))
    found = load_file(path)
    assert found.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert torch.equal(found[name], tensor.to(dtype))
    with safe_open(path, framework="pt") as opened:
        assert opened.metadata() == {"format": "pt"}


def test_another_tensor_than_the_header_says_is_refused(tmp_path: Path) -> None:
    swapped = [(name, TENSORS[name]) for name in ("a.bias", "b.weight")]
    with pytest.raises(RuntimeError, match=r"a.bias \(3,\) of torch.float32 came where b.weight \(2, 3\)"):
        write_model(tmp_path / "model.safetensors", SHAPES, torch.float32, swapped)
