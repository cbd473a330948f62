import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from headrace.services.trainer import checkpoint
from headrace.services.trainer.checkpoint import newest, prune, read
from headrace.services.trainer.tensor_files import state_files, write_state

WEIGHTS = {"layer.weight": torch.tensor([[1.0, 2.0]])}
MOMENTS = {"optimizer/layer.weight/exp_avg": torch.tensor([[0.5, -0.5]]), "rng/torch": torch.arange(8)}


def save(folder: Path) -> None:
    save_file(WEIGHTS, folder / "model.safetensors")
    write_state(folder, MOMENTS)
    (folder / "config.json").write_text("{}")


def write(directory: Path, step: int) -> Path:
    values = {"data_position": step * 32, "version": step}
    return checkpoint.write(directory, step, save=save, values=values).path


def reasons(directory: Path) -> list[tuple[str, str]]:
    return [(skipped.path.name, skipped.reason) for skipped in newest(directory).skipped]


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    path = write(tmp_path, 50)
    found = newest(tmp_path).checkpoint
    assert found is not None
    assert (found.path, found.step) == (path, 50)
    assert path.name == "step-00000050"
    assert found.values == {"data_position": 1600, "version": 50}
    assert torch.equal(load_file(path / "model.safetensors")["layer.weight"], WEIGHTS["layer.weight"])
    assert {name: tensor.tolist() for name, tensor in state_files(path).items()} == {
        name: tensor.tolist() for name, tensor in MOMENTS.items()
    }


def test_nothing_is_left_aside(tmp_path: Path) -> None:
    write(tmp_path, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_the_newest_is_by_step_and_not_by_the_time_of_writing(tmp_path: Path) -> None:
    write(tmp_path, 100)
    write(tmp_path, 50)
    found = newest(tmp_path)
    assert found.checkpoint is not None and found.checkpoint.step == 100
    assert found.skipped == ()


def test_an_empty_or_absent_folder_has_none(tmp_path: Path) -> None:
    assert newest(tmp_path).checkpoint is None
    assert newest(tmp_path / "absent").checkpoint is None


def test_a_changed_byte_makes_it_skip_to_the_one_before_and_say_so(tmp_path: Path) -> None:
    write(tmp_path, 1)
    weights = write(tmp_path, 2) / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    found = newest(tmp_path)
    assert found.checkpoint is not None and found.checkpoint.step == 1
    assert reasons(tmp_path) == [("step-00000002", "model.safetensors does not match its sha256")]
    with pytest.raises(ValueError, match="is not a complete checkpoint: model"):
        read(found.skipped[0].path)


def test_one_that_was_passed_over_never_takes_the_place_of_those_that_verify(tmp_path: Path) -> None:
    write(tmp_path, 5)
    (write(tmp_path, 20) / "manifest.json").unlink()
    aside = checkpoint.set_aside_after(tmp_path, 5)
    assert [path.name for path in aside] == ["unverified-00000020"] and aside[0].is_dir()
    write(tmp_path, 8)
    assert [path.name for path in prune(tmp_path, keep=1)] == ["step-00000005"]
    found = newest(tmp_path)
    assert found.checkpoint is not None and (found.checkpoint.step, found.skipped) == (8, ())
    assert checkpoint.set_aside_after(tmp_path, 8) == []


def test_each_kind_of_incompleteness_is_named(tmp_path: Path) -> None:
    (write(tmp_path, 1) / "state.json").unlink()
    (write(tmp_path, 2) / "manifest.json").unlink()
    (write(tmp_path, 3) / "manifest.json").write_text("{")
    (write(tmp_path, 4) / "manifest.json").write_text(json.dumps({"sha256": {}}))
    some = {"sha256": {"state.json": "", "model.safetensors": ""}}
    (write(tmp_path, 5) / "manifest.json").write_text(json.dumps(some))
    assert reasons(tmp_path) == [
        ("step-00000005", "manifest.json lists no trainer*.safetensors"),
        ("step-00000004", "manifest.json does not list state.json"),
        ("step-00000003", "manifest.json is not readable"),
        ("step-00000002", "manifest.json is missing"),
        ("step-00000001", "state.json is missing"),
    ]


def test_a_write_that_dies_leaves_the_old_checkpoint_the_newest(tmp_path: Path) -> None:
    write(tmp_path, 1)

    def dies(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        checkpoint.write(tmp_path, 2, save=dies, values={})
    found = newest(tmp_path)
    assert found.checkpoint is not None and (found.checkpoint.step, found.skipped) == (1, ())
    write(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000001", "step-00000002"]


def test_the_same_step_again_replaces_it(tmp_path: Path) -> None:
    write(tmp_path, 1)
    checkpoint.write(tmp_path, 1, save=save, values={"again": True})
    found = newest(tmp_path).checkpoint
    assert found is not None and found.values == {"again": True}


def test_a_model_saved_in_no_or_many_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"wrote no model\.safetensors"):
        checkpoint.write(tmp_path, 1, save=lambda folder: None, values={})


def test_prune_keeps_the_newest_and_clears_what_unfinished_writes_left(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        write(tmp_path, step)
    (tmp_path / ".tmp" / "step-00000004").mkdir(parents=True)
    assert [path.name for path in prune(tmp_path, keep=2)] == ["step-00000001"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000002", "step-00000003"]
    with pytest.raises(ValueError, match="keep is 0"):
        prune(tmp_path, keep=0)


def test_prune_keeps_every_so_many_steps_for_ever_and_the_queue_goes_by_the_newest(tmp_path: Path) -> None:
    for step in (10, 20, 25, 30, 35, 40):
        write(tmp_path, step)
    removed = prune(tmp_path, keep=2, keep_every=20)
    assert [path.name for path in removed] == ["step-00000010", "step-00000025", "step-00000030"]
    assert list(checkpoint.steps(tmp_path)) == [20, 35, 40]
    assert checkpoint.oldest_step(tmp_path, keep=2) == 35
