"""A GPU's tensors reach a version's file by two buffers in turn."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from headrace.services.errors import WeightsError
from headrace.services.weights import WeightStore
from headrace.services.weights.copies import digests
from headrace.services.weights.landing import (
    LANDING_BYTES,
    Landing,
    Piece,
    copy_landed,
    gpu_of,
    pinned,
)
from headrace.services.weights.layout import arrange
from headrace.services.weights.tensors import form

MIB = 1 << 20
CPU = torch.device("cpu")
WEIGHTS = {
    "long": torch.arange(18 * MIB, dtype=torch.int32),
    "turned": torch.arange(6, dtype=torch.float64).reshape(2, 3).T,
    "none": torch.empty(0),
    "flag": torch.tensor([True, False, True]),
}
"""72 MiB and a little: three loads of a buffer, of which the first two are parts of one tensor."""
LAYOUT = arrange({name: form(tensor) for name, tensor in WEIGHTS.items()})


class Late:
    """A buffer whose bytes come only when it is asked for them, wrong until then."""

    def __init__(self, name: str, told: list[str]) -> None:
        self._name, self._told = name, told
        self._bytes = np.zeros(LANDING_BYTES, np.uint8)
        self._coming: Sequence[Piece] = ()

    def bring(self, pieces: Sequence[Piece]) -> None:
        self._told.append(f"bring {self._name}")
        self._bytes.fill(0xEE)
        self._coming = pieces

    def landed(self) -> np.ndarray:
        self._told.append(f"landed {self._name}")
        for piece in self._coming:
            raw = piece.tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
            self._bytes[piece.offset : piece.offset + piece.size] = raw[piece.begin : piece.end]
        return self._bytes


def landed(landings: tuple[Landing, Landing]) -> tuple[np.ndarray, list[str]]:
    data = np.zeros(LAYOUT.size, np.uint8)
    return data, copy_landed(WEIGHTS, LAYOUT, data, landings)


def test_what_landed_is_what_a_store_writes_of_tensors_on_the_cpu(tmp_path: Path) -> None:
    data, found = landed(pinned(CPU))
    store = WeightStore(tmp_path)
    store.write("actor", 0, WEIGHTS)
    with store.opened("actor", 0) as opened:
        assert tuple(found) == opened.header.digests
    assert found == digests(data, LAYOUT.buckets())
    assert (tmp_path / "actor" / "00000000.safetensors").read_bytes()[4096:] == data.tobytes()


def test_a_buffer_is_filled_while_the_other_is_read_and_never_before_it_was_read_itself() -> None:
    told: list[str] = []
    data, found = landed((Late("a", told), Late("b", told)))
    assert told == ["bring a", "bring b", "landed a", "bring a", "landed b", "landed a"]
    assert found == digests(data, LAYOUT.buckets())
    assert data[: 72 * MIB].view(np.int32)[[0, -1]].tolist() == [0, 18 * MIB - 1]


def test_no_weights_at_all_have_no_buckets() -> None:
    nothing = np.empty(0, np.uint8)
    assert copy_landed({}, arrange({}), nothing, pinned(CPU)) == []


def test_a_device_is_that_of_tensors_that_are_not_on_the_cpu() -> None:
    here, there = torch.zeros(1), torch.zeros(1, device="meta")
    assert gpu_of({"a": here}) is None
    assert gpu_of({"a": here, "b": there}) == torch.device("meta")


def test_weights_on_two_devices_are_refused() -> None:
    class On:
        def __init__(self, device: str) -> None:
            self.device = torch.device(device)

    two = {"a": On("cuda:1"), "b": On("cuda:0"), "c": On("cpu")}
    with pytest.raises(WeightsError, match="weights on cuda:0, cuda:1 cannot be published together; move"):
        gpu_of(two)  # pyright: ignore[reportArgumentType]
