"""A version is verified by whoever looks at it or copies it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from headrace.services.errors import WeightsError
from headrace.services.models.in_place import check_weights, copy_weights
from headrace.services.weights import WeightStore
from headrace.services.weights.version import Version

BUCKET_AND_MORE = 3 << 20
"""Elements of float32: two buckets of 8 MiB."""


def layer(value: float) -> torch.nn.Module:
    made = torch.nn.Linear(1024, BUCKET_AND_MORE // 1024)
    for parameter in made.parameters():
        parameter.data.fill_(value)
    return made


def published(folder: Path, value: float = 2.0) -> tuple[str, Path]:
    """The checksum of version 0, and its file."""
    checksum = WeightStore(folder).write("actor", 0, layer(value).state_dict())
    return checksum, folder / "actor" / "00000000.safetensors"


def damage(file: Path, at: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(b"\xff")


def taken(folder: Path, checksum: str) -> Version:
    return WeightStore(folder).take("actor", 0, checksum)


def test_a_model_that_copied_a_version_has_the_bits_that_were_published(tmp_path: Path) -> None:
    checksum, _ = published(tmp_path)
    model, version = layer(0.0), taken(tmp_path, checksum)
    check_weights(model, version)
    copy_weights(model, version)
    assert all(bool((tensor == 2.0).all()) for tensor in model.state_dict().values())


def test_weights_that_do_not_fit_are_refused_before_their_bytes_are_looked_at(tmp_path: Path) -> None:
    checksum, file = published(tmp_path)
    damage(file, -1 + file.stat().st_size)
    with pytest.raises(
        ValueError, match=r"unfit: weight: float32 \[3072, 1024\] where the model has float32"
    ):
        check_weights(torch.nn.Linear(8, 8), taken(tmp_path, checksum))


def test_a_copy_of_damaged_bytes_ends_in_an_error(tmp_path: Path) -> None:
    checksum, file = published(tmp_path)
    damage(file, file.stat().st_size - 1)
    with pytest.raises(WeightsError, match=r"xxh3 .* of weight to weight, but .* was published"):
        copy_weights(layer(0.0), taken(tmp_path, checksum))


def test_what_nobody_copies_is_verified_all_the_same(tmp_path: Path) -> None:
    checksum, file = published(tmp_path)
    damage(file, file.stat().st_size - 1)
    with pytest.raises(WeightsError, match="was published"):
        taken(tmp_path, checksum).copy_to({})
    with pytest.raises(WeightsError, match="was published"):
        taken(tmp_path, checksum)["bias"]


def test_a_copy_is_of_the_file_whatever_was_written_to_views_of_it(tmp_path: Path) -> None:
    checksum, _ = published(tmp_path)
    store, target = WeightStore(tmp_path), np.zeros(4 * 3072, np.uint8)
    store.read("actor", 0, checksum)["bias"].fill_(9.0)
    store.take("actor", 0, checksum).copy_to({"bias": target})
    assert target.view(np.float32).tolist() == [2.0] * 3072


def test_what_was_verified_by_a_copy_is_not_read_again(tmp_path: Path) -> None:
    checksum, file = published(tmp_path)
    version = taken(tmp_path, checksum)
    version.copy_to({})
    damage(file, file.stat().st_size - 1)
    version.verify()


def test_types_and_shapes_are_known_by_name(tmp_path: Path) -> None:
    checksum, _ = published(tmp_path)
    version = taken(tmp_path, checksum)
    assert list(version) == ["bias", "weight"]
    assert len(version) == 2
    assert version.forms["bias"].shape == (3072,)


def test_a_version_that_somebody_has_is_never_written_to(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    version = taken(tmp_path, store.write("actor", 0, {"w": torch.tensor([0.0])}))
    for number in range(1, 7):
        store.write("actor", number, {"w": torch.tensor([float(number)])})
    assert version["w"].tolist() == [0.0]
