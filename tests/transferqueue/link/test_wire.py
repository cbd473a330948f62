from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.transferqueue import LeaseLost, WireError
from headrace.transferqueue.link.wire import (
    pack,
    pack_ints,
    read_reply,
    read_request,
    unpack,
    unpack_ints,
    write_error,
    write_request,
)


def test_a_carry_with_arrays_comes_back_as_it_went() -> None:
    carry = unpack(pack({"token_ids": np.array([[1, 2]], np.int32), "n": np.int64(3), "text": "a"}))
    assert carry["token_ids"].dtype == np.int32
    assert carry["token_ids"].tolist() == [[1, 2]]
    assert (carry["n"], carry["text"]) == (3, "a")


def test_objects_are_never_packed() -> None:
    with pytest.raises(WireError, match="object is not plain data"):
        pack({"x": object()})
    with pytest.raises(WireError):
        pack(np.array([object()]))


def test_row_ids_are_packed_as_int64() -> None:
    assert unpack_ints(pack_ints([2**62, -1])) == [2**62, -1]
    assert unpack_ints(pack_ints(np.array([3], np.int32))) == [3]
    wrong_ids: list[Any] = [[1.5], np.array([1.5]), [2**63]]
    for wrong in wrong_ids:
        with pytest.raises(WireError):
            pack_ints(wrong)
    with pytest.raises(WireError, match="3 bytes are no int64 array"):
        unpack_ints(b"abc")


def test_an_error_travels_by_its_name() -> None:
    number, error = read_reply(write_error(4, LeaseLost("gone")))
    assert (number, type(error), str(error)) == (4, LeaseLost, "gone")


def test_a_field_of_another_type_is_refused() -> None:
    arguments = read_request(write_request(1, 1, "lease", {"want": "3", "flag": 1})).arguments
    with pytest.raises(WireError, match="field 'want' is str; int is due"):
        arguments.integer("want")
    with pytest.raises(WireError, match="field 'flag' is int; bool is due"):
        arguments.boolean("flag")
    with pytest.raises(WireError, match="field 'task' is NoneType; str is due"):
        arguments.text("task")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    try:
        read_request(data)
    except WireError:
        return
