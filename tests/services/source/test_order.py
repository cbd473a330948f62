import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.services.source.order import DataOrder


@given(st.integers(1, 300), st.integers(0, 1 << 40), st.integers(0, 3))
def test_each_epoch_is_a_permutation(size: int, seed: int, epoch: int) -> None:
    order = DataOrder(size=size, seed=seed)
    drawn = [order.at(epoch * size + offset) for offset in range(size)]
    assert {e for e, _ in drawn} == {epoch}
    assert sorted(index for _, index in drawn) == list(range(size))


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    first, second = DataOrder(size=50, seed=1), DataOrder(size=50, seed=2)
    orders = {
        tuple(order.at(start + offset)[1] for offset in range(50))
        for order in (first, second)
        for start in (0, 50, 100)
    }
    assert len(orders) == 6


def test_a_million_prompts_are_permuted_without_a_table() -> None:
    order = DataOrder(size=1_000_000, seed=3)
    drawn = {order.at(position)[1] for position in range(20_000)}
    assert len(drawn) == 20_000
    assert 480_000 < sum(drawn) / len(drawn) < 520_000


def test_the_order_of_a_seed_never_changes() -> None:
    """A10: a resumed run must draw what an uninterrupted one would have drawn, by any later version too."""
    order = DataOrder(size=10, seed=1)
    assert [order.at(position) for position in range(12)] == [
        (0, 2), (0, 0), (0, 5), (0, 4), (0, 7), (0, 8), (0, 1), (0, 6), (0, 9), (0, 3), (1, 7), (1, 1),
    ]  # fmt: skip
    long = DataOrder(size=1_000_000, seed=0)
    text = " ".join(str(long.at(position)[1]) for position in range(1000))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "3b8b1297c3a135a8"


def test_without_shuffling_every_epoch_follows_the_data_set() -> None:
    order = DataOrder(size=3, seed=9, shuffle=False)
    assert [order.at(position) for position in range(5)] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]


def test_positions_beyond_the_last_epoch_are_refused() -> None:
    order = DataOrder(size=8, seed=0, epochs=5)
    assert order.total == 40
    assert order.at(39)[0] == 4
    with pytest.raises(IndexError, match="position 40 is outside the data: 8 prompts x 5 epochs"):
        order.at(40)


@pytest.mark.parametrize(("size", "epochs", "named"), [(0, None, "size is 0"), (4, 0, "epochs is 0")])
def test_empty_data_is_refused(size: int, epochs: int | None, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        DataOrder(size=size, seed=0, epochs=epochs)
