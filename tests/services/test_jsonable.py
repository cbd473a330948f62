import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.services.jsonable import from_jsonable, to_jsonable

leaves = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
keys = st.integers() | st.text() | st.sampled_from(["$tuple", "$dict"])
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner),
    max_leaves=12,
)


@given(values)
def test_every_value_survives_a_round_trip_through_json_text(value: object) -> None:
    assert from_jsonable(json.loads(json.dumps(to_jsonable(value)))) == value


def test_tuples_and_integer_keys_are_tagged() -> None:
    assert to_jsonable({"range": (1, 4)}) == {"range": {"$tuple": [1, 4]}}
    assert to_jsonable({3: "c"}) == {"$dict": [[3, "c"]]}


def test_numpy_scalars_become_the_numbers_they_equal() -> None:
    assert to_jsonable([np.float64(0.5), np.int64(3), np.str_("x"), np.bool_(True)]) == [0.5, 3, "x", True]


def test_what_cannot_come_back_is_refused_by_place() -> None:
    with pytest.raises(TypeError, match=r"entry\.metadata\.seen\[1\] is a builtins\.set"):
        to_jsonable({"metadata": {"seen": [1, {2}]}}, where="entry")
    with pytest.raises(TypeError, match=r"value\.score is nan"):
        to_jsonable({"score": float("nan")})
