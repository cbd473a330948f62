"""Weights between a trainer and its readers."""

from pathlib import Path

import pytest
import torch

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
    with pytest.raises(WeightsError, match="was published"):
        store.read("actor", 0, checksum)


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
