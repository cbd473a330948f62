"""Weights between a trainer and its readers."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from headrace.services.errors import WeightsError, WeightsGone
from headrace.services.weights import WeightStore

WEIGHTS = {"a.weight": torch.arange(6.0).reshape(2, 3), "b.bias": torch.tensor([1.5, -2.0])}


def test_a_reader_gets_the_bits_that_were_published(tmp_path: Path) -> None:
    checksum = WeightStore(tmp_path).write("actor", 3, WEIGHTS)
    read = WeightStore(tmp_path).read("actor", 3, checksum)
    assert read.keys() == WEIGHTS.keys()
    assert all(torch.equal(read[name], WEIGHTS[name]) for name in WEIGHTS)


def test_equal_weights_have_equal_checksums_and_others_do_not(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    first = store.write("actor", 0, WEIGHTS)
    assert store.write("actor", 1, WEIGHTS) == first
    assert store.write("actor", 2, {**WEIGHTS, "b.bias": torch.tensor([1.5, -2.1])}) != first


def test_damaged_bytes_are_refused(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    checksum = store.write("actor", 0, WEIGHTS)
    path = tmp_path / "actor" / "00000000.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(WeightsError, match=r"of a\.weight to b\.bias, but .* was published"):
        store.read("actor", 0, checksum)


def test_other_weights_than_were_published_are_refused(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    store.write("actor", 0, WEIGHTS)
    with pytest.raises(WeightsError, match="but 0123456789ab was published"):
        store.read("actor", 0, "0123456789abcdef" * 2)


def test_a_file_without_a_header_is_refused(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    checksum = store.write("actor", 0, WEIGHTS)
    (tmp_path / "actor" / "00000000.safetensors").write_bytes(b"\xff\xff\0\0\0\0\0\0{}")
    with pytest.raises(WeightsError, match="no file of weights: 10 bytes where 65543 of header are due"):
        store.read("actor", 0, checksum)


def test_every_type_and_form_comes_back(tmp_path: Path) -> None:
    weights = {
        "bf16": torch.tensor([[1.5, -3.0, 0.25]], dtype=torch.bfloat16),
        "empty": torch.empty(0, 4),
        "flags": torch.tensor([True, False, True]),
        "long": torch.tensor(7),
        "turned": torch.arange(6.0, dtype=torch.float64).reshape(2, 3).T,
        "eight": torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn),
    }
    read = WeightStore(tmp_path).read("actor", 0, WeightStore(tmp_path).write("actor", 0, weights))
    assert read.keys() == weights.keys()
    for name, tensor in weights.items():
        assert read[name].dtype == tensor.dtype
        assert read[name].shape == tensor.shape
        assert torch.equal(read[name].to(torch.float64), tensor.to(torch.float64)), name


def test_a_type_that_no_file_holds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"weights of torch\.complex64 cannot be published; allowed are"):
        WeightStore(tmp_path).write("actor", 0, {"w": torch.zeros(1, dtype=torch.complex64)})


def test_a_version_larger_than_a_bucket_is_whole(tmp_path: Path) -> None:
    weights = {
        "a": torch.arange(3 << 20, dtype=torch.float32),
        "b": torch.arange(5 << 20, dtype=torch.int16),
        "c": torch.arange(1 << 20, dtype=torch.float32),
    }
    store = WeightStore(tmp_path)
    read = store.read("actor", 0, store.write("actor", 0, weights))
    assert all(torch.equal(read[name], weights[name]) for name in weights)


def test_a_version_opens_as_any_file_of_safetensors(tmp_path: Path) -> None:
    WeightStore(tmp_path).write("actor", 0, WEIGHTS)
    opened = load_file(tmp_path / "actor" / "00000000.safetensors")
    assert all(torch.equal(opened[name], WEIGHTS[name]) for name in WEIGHTS)


def test_the_two_newest_versions_are_kept_and_an_older_one_says_that_it_is_gone(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    checksums = [store.write("actor", version, WEIGHTS) for version in range(4)]
    with pytest.raises(WeightsGone, match=r"version 1 of 'actor' was pruned; have \[2, 3\]"):
        store.read("actor", 1, checksums[1])
    assert store.read("actor", 2, checksums[2])


def test_a_trainer_that_went_back_keeps_what_it_writes_and_takes_away_what_it_will_make_again(
    tmp_path: Path,
) -> None:
    store = WeightStore(tmp_path)
    for version in (1, 2, 3, 2):
        checksum = store.write("actor", version, {"w": torch.tensor([float(version)])})
    assert store.read("actor", 2, checksum)["w"].tolist() == [2.0]
    with pytest.raises(WeightsGone, match=r"version 3 of 'actor' was pruned; have \[2\]"):
        store.read("actor", 3, checksum)


def test_a_version_that_is_kept_aside_outlives_its_store_until_it_is_dropped(tmp_path: Path) -> None:
    store, aside = WeightStore(tmp_path / "store"), WeightStore(tmp_path / "aside")
    checksum = store.write("actor", 0, WEIGHTS)
    store.keep("actor", 0, aside)
    for version in (1, 2):
        store.write("actor", version, WEIGHTS)
    assert torch.equal(aside.read("actor", 0, checksum)["b.bias"], WEIGHTS["b.bias"])
    with pytest.raises(WeightsGone, match="version 0 of 'actor' was pruned; have "):
        store.keep("actor", 0, aside)
    aside.drop("actor", 0)
    with pytest.raises(WeightsGone):
        aside.read("actor", 0, checksum)


def number(value: float) -> dict[str, torch.Tensor]:
    return {"w": torch.tensor([value])}


def inode(folder: Path, version: int) -> int:
    return (folder / "actor" / f"{version:08d}.safetensors").stat().st_ino


def test_the_memory_of_a_retired_version_is_written_again(tmp_path: Path) -> None:
    store, inodes = WeightStore(tmp_path), []
    for version in range(6):
        store.write("actor", version, number(version))
        inodes.append(inode(tmp_path, version))
    assert inodes[:3] == inodes[3:]
    assert len(set(inodes)) == len(list((tmp_path / "actor").iterdir())) == 3


def test_a_version_that_is_made_again_leaves_its_former_memory_to_the_next(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    store.write("actor", 0, number(0))
    former = inode(tmp_path, 0)
    checksum = store.write("actor", 0, number(7))
    assert store.read("actor", 0, checksum)["w"].tolist() == [7.0]
    store.write("actor", 1, number(1))
    assert inode(tmp_path, 1) == former


def test_what_a_reader_looks_at_is_never_written_to(tmp_path: Path) -> None:
    store, reader = WeightStore(tmp_path), WeightStore(tmp_path)
    seen = reader.read("actor", 0, store.write("actor", 0, number(0)))["w"]
    first = inode(tmp_path, 0)
    for version in range(1, 7):
        store.write("actor", version, number(version))
        assert inode(tmp_path, version) != first
    assert seen.tolist() == [0.0]


def test_the_memory_of_a_version_that_a_reader_was_late_to_leave_is_written_again(tmp_path: Path) -> None:
    store, readers, seen = WeightStore(tmp_path), [WeightStore(tmp_path) for _ in range(2)], []
    for version, reader in enumerate(readers):
        seen.append(reader.read("actor", version, store.write("actor", version, number(version)))["w"])
    first = inode(tmp_path, 0)
    for version in (2, 3):
        store.write("actor", version, number(version))
    assert len(list((tmp_path / "actor").iterdir())) == 4
    del seen[0]
    store.write("actor", 4, number(4))
    assert inode(tmp_path, 4) == first
    assert seen[0].tolist() == [1.0]


def test_memory_that_more_readers_have_left_than_a_version_needs_is_given_back(tmp_path: Path) -> None:
    store, reader = WeightStore(tmp_path), WeightStore(tmp_path)
    seen = reader.read("actor", 0, store.write("actor", 0, number(0)))["w"]
    for version in range(1, 5):
        store.write("actor", version, number(version))
    assert len(list((tmp_path / "actor").iterdir())) == 4
    del seen
    store.write("actor", 5, number(5))
    assert len(list((tmp_path / "actor").iterdir())) == 3


def test_what_is_kept_aside_is_never_written_to(tmp_path: Path) -> None:
    store, aside = WeightStore(tmp_path / "store"), WeightStore(tmp_path / "aside")
    checksum = store.write("actor", 0, number(0))
    store.keep("actor", 0, aside)
    for version in range(1, 7):
        store.write("actor", version, number(version))
    assert aside.read("actor", 0, checksum)["w"].tolist() == [0.0]


def test_a_reader_that_writes_to_its_views_changes_them_for_itself_alone_and_once(tmp_path: Path) -> None:
    store, reader = WeightStore(tmp_path), WeightStore(tmp_path)
    checksum = store.write("actor", 0, number(1.0))
    reader.read("actor", 0, checksum)["w"].fill_(9.0)
    assert store.read("actor", 0, checksum)["w"].tolist() == [1.0]
    assert reader.read("actor", 0, checksum)["w"].tolist() == [1.0]


def test_a_reader_sees_what_was_written_anew_to_memory_that_it_knows(tmp_path: Path) -> None:
    store, reader = WeightStore(tmp_path), WeightStore(tmp_path)
    for version in range(8):
        checksum = store.write("actor", version, number(version))
        assert reader.read("actor", version, checksum)["w"].tolist() == [version]


def test_weights_of_another_layout_take_the_place_of_the_old(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    for version in range(4):
        store.write("actor", version, number(version))
    checksums = [store.write("actor", version, {"w": torch.zeros(2048)}) for version in range(4, 8)]
    assert len(list((tmp_path / "actor").iterdir())) == 3
    assert store.read("actor", 7, checksums[-1])["w"].shape == (2048,)


def test_a_folder_has_one_writer_at_a_time(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    with store.folder("actor").alone(), pytest.raises(WeightsError, match="has one writer at a time"):
        WeightStore(tmp_path).write("actor", 0, WEIGHTS)
    assert WeightStore(tmp_path).write("actor", 0, WEIGHTS)


def test_a_version_that_there_is_no_room_for_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    folder = WeightStore(tmp_path).folder("actor")
    with (
        folder.alone(),
        pytest.raises(WeightsError, match=f"no room for weights of {1 << 60} bytes in .*actor"),
    ):
        folder.writing(1 << 60).__enter__()
    assert list((tmp_path / "actor").iterdir()) == []


KILLED = """
import sys
from pathlib import Path
from headrace.services.weights.folder import Folder
folder = Folder(Path(sys.argv[1]))
with folder.alone(), folder.writing(8192) as writing:
    writing.array[:100] = 7
    print("halfway", flush=True)
    sys.stdin.read()
"""


def test_a_writer_that_is_killed_leaves_no_version_and_its_memory_to_the_next(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "actor")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"halfway\n"
        finally:
            os.kill(writer.pid, signal.SIGKILL)
    (left,) = (tmp_path / "actor").iterdir()
    spare = left.stat().st_ino
    weights = {"w": torch.zeros(1024)}
    checksum = WeightStore(tmp_path).write("actor", 0, weights)
    assert inode(tmp_path, 0) == spare
    assert WeightStore(tmp_path).read("actor", 0, checksum)["w"].count_nonzero() == 0
