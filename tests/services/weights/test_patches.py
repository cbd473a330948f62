"""What changed between two versions, exact to the bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.services.errors import WeightsError
from headrace.services.weights.patches import apply, between, is_sparse, whole


def raw(values: list[float], dtype: str = "<f4") -> np.ndarray:
    return np.array(values, dtype=dtype).view(np.uint8)


def test_a_sparse_patch_holds_counts_places_and_values() -> None:
    old, new = raw([0.0] * 8), raw([0.0, 1.0, 0.0, 0.0, 0.0, -2.0, 0.0, 0.0])
    expected = b"\1" + bytes([2, 0, 0, 0]) + bytes([1, 0, 5, 0]) + np.array([1.0, -2.0], "<f4").tobytes()
    assert between(old, new, 4) == expected


def test_a_bucket_that_changed_too_much_is_sent_whole() -> None:
    """Of 8 floats, 4 changed: 4 + 4 * 6 = 28 bytes are less than 32; 5: 34 are not."""
    old = raw([0.0] * 8)
    assert is_sparse(between(old, raw([1.0] * 4 + [0.0] * 4), 4))
    new = raw([1.0] * 5 + [0.0] * 3)
    assert between(old, new, 4) == whole(new) == b"\0" + new.tobytes()


def test_bits_are_compared_and_not_numbers() -> None:
    old, new = raw([0.0, float("nan")] * 8), raw([-0.0] + [float("nan"), 0.0] * 7 + [float("nan")])
    patch, target = between(old, new, 4), np.zeros(64, np.uint8)
    assert len(patch) == 1 + 4 + 6
    apply(patch, old, target, 4)
    assert target.tobytes() == new.tobytes()


def test_places_reach_over_blocks() -> None:
    old = np.zeros(3 * 65536 * 2, np.uint8)
    new = old.copy()
    new.view("<u2")[[0, 65535, 65536, 196607]] = [1, 2, 3, 4]
    patch, target = between(old, new, 2), np.ones_like(old)
    assert len(patch) == 1 + 3 * 4 + 4 * (2 + 2)
    apply(patch, old, target, 2)
    assert np.array_equal(target, new)


@given(st.data())
def test_a_patch_gives_the_new_bytes(data: st.DataObject) -> None:
    width = data.draw(st.sampled_from([1, 2, 4, 8]))
    count = data.draw(st.integers(1, 200))
    old = np.frombuffer(data.draw(st.binary(min_size=count * width, max_size=count * width)), np.uint8)
    new = old.copy()
    for place in data.draw(st.lists(st.integers(0, len(new) - 1), max_size=40)):
        new[place] ^= 1 + place % 255
    target = np.zeros_like(old)
    patch = between(old, new, width)
    apply(patch, old, target, width)
    assert np.array_equal(target, new)
    assert len(patch) <= 1 + len(new)


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (b"", "a patch of kind none and 0 bytes does not fit a bucket of 32"),
        (b"\0" + bytes(31), "a patch of kind 00 and 31 bytes does not fit a bucket of 32"),
        (b"\2" + bytes(32), "a patch of kind 02 and 32 bytes"),
        (b"\1\0\0", "a sparse patch of 2 bytes is not as long as it says"),
        (b"\1\2\0\0\0" + bytes(6), "a sparse patch of 10 bytes is not as long as it says"),
        (b"\1\1\0\0\0" + bytes([8, 0]) + bytes(4), "a sparse patch names element 8 of 8"),
    ],
)
def test_a_patch_that_is_none_is_refused(patch: bytes, message: str) -> None:
    with pytest.raises(WeightsError, match=message):
        apply(patch, np.zeros(32, np.uint8), np.zeros(32, np.uint8), 4)


def test_a_sparse_patch_needs_what_it_was_made_from() -> None:
    patch = between(raw([0.0] * 8), raw([1.0] + [0.0] * 7), 4)
    with pytest.raises(WeightsError, match="a patch of kind 01"):
        apply(patch, None, np.zeros(32, np.uint8), 4)
