"""Boxes of tensors over several files, read whole and in part, by us and by torch."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict_loader import load

from headrace.services.trainer.tensor_files import TensorFiles, state_files, write_state

GRID = torch.arange(24.0).view(4, 6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A matrix of three boxes, and a number, in the files of three ranks."""
    boxes = {(0, 0): GRID[:, :4], (0, 4): GRID[:1, 4:], (1, 4): GRID[1:, 4:]}
    for rank, (begin, box) in enumerate(boxes.items()):
        count = {} if rank else {"count": torch.tensor(3.0)}
        write_state(tmp_path, {"grid": box} | count, {"grid": begin}, rank=rank, ranks=3)
    return tmp_path


def test_what_ranks_wrote_in_boxes_is_read_whole_and_in_any_part(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [
        "trainer-00001-of-00003.safetensors",
        "trainer-00002-of-00003.safetensors",
        "trainer-00003-of-00003.safetensors",
    ]
    found = state_files(folder)
    assert found.keys() == {"grid", "count"}
    assert found.shape("grid") == (4, 6)
    assert torch.equal(found["grid"], GRID)
    assert found["count"].item() == 3.0
    assert found.part("grid", [slice(0, 2), slice(3, 5)]).tolist() == [[3.0, 4.0], [9.0, 10.0]]
    assert found.part("grid", [slice(2, 3), slice(1, 3)]).tolist() == [[13.0, 14.0]]


def test_the_files_are_those_of_a_distributed_checkpoint_of_torch(folder: Path) -> None:
    into = {"grid": torch.zeros(4, 6), "count": torch.zeros(())}
    with pytest.warns(UserWarning, match="load in a single process"):
        load(into, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=True)
    assert torch.equal(into["grid"], GRID)
    assert into["count"].item() == 3.0


def test_a_missing_box_is_refused_by_name(folder: Path) -> None:
    (folder / "trainer-00002-of-00003.safetensors").unlink()
    found = state_files(folder)
    assert torch.equal(found.part("grid", [slice(1, 4), slice(0, 6)]), GRID[1:])
    with pytest.raises(ValueError, match="a part of grid is in none of the files"):
        found["grid"]


def test_files_of_whole_tensors_are_read_alike(tmp_path: Path) -> None:
    save_file({"grid": GRID}, tmp_path / "model.safetensors")
    found = TensorFiles([tmp_path / "model.safetensors"])
    assert torch.equal(found["grid"], GRID)
    assert found.part("grid", [slice(3, 4), slice(5, 6)]).tolist() == [[23.0]]
