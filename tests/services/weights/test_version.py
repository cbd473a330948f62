"""A version is verified before anything of it is looked at, and stays as it is while a model holds it."""

from pathlib import Path

import pytest
import torch

from headrace.services.errors import WeightsError
from headrace.services.models.in_place import check_weights, replace_weights
from headrace.services.weights import WeightStore
from headrace.services.weights.version import Version

BUCKET_AND_MORE = 3 << 20
"""Elements of float32: two buckets of 8 MiB."""


def layer(value: float) -> torch.nn.Module:
    made = torch.nn.Linear(1024, BUCKET_AND_MORE // 1024)
    for parameter in made.parameters():
        parameter.data.fill_(value)
    return made


class Named(torch.nn.Module):
    """Parameters alone."""

    def __init__(self, **tensors: torch.Tensor) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self.register_parameter(name, torch.nn.Parameter(tensor))


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


def test_a_model_holds_a_version_where_it_lies_and_has_the_bits_that_were_published(tmp_path: Path) -> None:
    checksum, _ = published(tmp_path)
    model, version = layer(0.0), taken(tmp_path, checksum)
    check_weights(model, version)
    replace_weights(model, version)
    for name, tensor in model.state_dict().items():
        assert bool((tensor == 2.0).all())
        assert tensor.data_ptr() == version[name].data_ptr()


def test_what_lies_off_the_lines_of_a_cache_is_copied(tmp_path: Path) -> None:
    """`b` begins behind the three numbers of `a`."""
    published = {"a": torch.tensor([1.0, 2.0, 3.0]), "b": torch.tensor([4.0, 5.0])}
    store, model = WeightStore(tmp_path), Named(a=torch.zeros(3), b=torch.zeros(2))
    version = store.take("actor", 0, store.write("actor", 0, published))
    replace_weights(model, version)
    held = model.state_dict()
    assert (held["a"].tolist(), held["b"].tolist()) == ([1.0, 2.0, 3.0], [4.0, 5.0])
    assert held["a"].data_ptr() == version["a"].data_ptr()
    assert held["b"].data_ptr() != version["b"].data_ptr()
    assert held["b"].data_ptr() % 64 == 0


def test_tensors_that_are_one_stay_one(tmp_path: Path) -> None:
    first, second, store = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), WeightStore(tmp_path)
    second.weight = first.weight
    model = torch.nn.Sequential(first, second)
    published = {"0.weight": torch.full((4, 4), 0.5), "0.bias": torch.ones(4), "1.bias": torch.ones(4)}
    version = store.take("actor", 0, store.write("actor", 0, published))
    check_weights(model, version)
    replace_weights(model, version)
    assert second.weight is first.weight
    assert second.weight.data_ptr() == version["0.weight"].data_ptr()


def test_what_a_model_writes_to_its_weights_changes_them_for_itself_alone(tmp_path: Path) -> None:
    checksum, _ = published(tmp_path)
    store, model = WeightStore(tmp_path), layer(0.0)
    replace_weights(model, store.take("actor", 0, checksum))
    model.state_dict()["bias"].fill_(9.0)
    assert bool((taken(tmp_path, checksum)["bias"] == 2.0).all())
    replace_weights(model, store.take("actor", 0, checksum))
    assert bool((model.state_dict()["bias"] == 2.0).all())


def test_other_weights_are_not_written_into_a_version_that_a_model_holds(tmp_path: Path) -> None:
    """Two models of one process hold it; one of them leaves it for weights that lie in no file."""
    checksum, _ = published(tmp_path)
    store, left, stays = WeightStore(tmp_path), layer(0.0), layer(0.0)
    for model in (left, stays):
        replace_weights(model, store.take("actor", 0, checksum))
    replace_weights(left, layer(5.0).state_dict())
    assert bool((left.state_dict()["weight"] == 5.0).all())
    assert bool((stays.state_dict()["weight"] == 2.0).all())


def test_a_model_that_takes_other_weights_lets_go_of_the_version_that_it_held(tmp_path: Path) -> None:
    store, model = WeightStore(tmp_path), layer(0.0)
    replace_weights(model, taken(tmp_path, store.write("actor", 0, layer(7.0).state_dict())))
    replace_weights(model, layer(5.0).state_dict())
    for version in range(1, 4):
        store.write("actor", version, layer(float(version)).state_dict())
    assert len(list((tmp_path / "actor").iterdir())) == 3


def test_the_file_that_a_model_holds_is_written_again_once_it_holds_another(tmp_path: Path) -> None:
    store, reader, model, files = WeightStore(tmp_path), WeightStore(tmp_path), layer(0.0), []
    for version in range(8):
        checksum = store.write("actor", version, layer(float(version)).state_dict())
        files.append((tmp_path / "actor" / f"{version:08d}.safetensors").stat().st_ino)
        replace_weights(model, reader.take("actor", version, checksum))
        assert bool((model.state_dict()["weight"] == float(version)).all())
    assert files[:3] == files[3:6] and len(set(files)) == 3


def test_the_file_that_a_model_holds_is_left_alone_for_as_long_as_it_does(tmp_path: Path) -> None:
    store, model = WeightStore(tmp_path), layer(0.0)
    replace_weights(model, taken(tmp_path, store.write("actor", 0, layer(7.0).state_dict())))
    for version in range(1, 6):
        store.write("actor", version, layer(float(version)).state_dict())
    assert bool((model.state_dict()["weight"] == 7.0).all())


def test_weights_that_do_not_fit_are_refused_before_their_bytes_are_looked_at(tmp_path: Path) -> None:
    checksum, file = published(tmp_path)
    damage(file, -1 + file.stat().st_size)
    with pytest.raises(
        ValueError, match=r"unfit: weight: float32 \[3072, 1024\] where the model has float32"
    ):
        check_weights(torch.nn.Linear(8, 8), taken(tmp_path, checksum))


def test_damaged_bytes_are_refused_and_leave_a_model_as_it_was(tmp_path: Path) -> None:
    checksum, file = published(tmp_path)
    damage(file, file.stat().st_size - 1)
    model = layer(0.5)
    with pytest.raises(WeightsError, match=r"xxh3 .* of weight to weight, but .* was published"):
        replace_weights(model, taken(tmp_path, checksum))
    assert all(bool((tensor == 0.5).all()) for tensor in model.state_dict().values())


def test_a_tensor_is_handed_out_only_where_all_of_the_version_is_right(tmp_path: Path) -> None:
    checksum, file = published(tmp_path)
    damage(file, file.stat().st_size - 1)
    with pytest.raises(WeightsError, match="was published"):
        taken(tmp_path, checksum)["bias"]


def test_what_was_verified_is_not_read_again(tmp_path: Path) -> None:
    checksum, file = published(tmp_path)
    version = taken(tmp_path, checksum)
    version.verify()
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
