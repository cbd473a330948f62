import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from headrace.transferqueue import Column, SchemaError, TableSpec, Task
from headrace.transferqueue.link.wire import pack, unpack


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"staleness": -1.0}, "staleness is -1.0; it must be a number >= 0"),
        ({"staleness": float("nan")}, "staleness is nan"),
        ({"units_per_step": 0}, "units_per_step is 0"),
        ({"max_rows": 0}, "max_rows is 0"),
        ({"lease_s": 0.0}, "lease_s is 0.0"),
        ({"first_step": -1}, "first_step is -1"),
        ({"tasks": ()}, "no task reads it"),
        ({"tasks": (Task(name="a", reads=("reward",)),)}, "no task of kind train consumes it"),
        (
            {"tasks": (Task(name="a", reads=("rewrad",)), Task(name="t", reads=(), kind="train"))},
            "task 'a' names column 'rewrad', which the table lacks",
        ),
        (
            {
                "tasks": (
                    Task(name="a", reads=(), writes=("reward",)),
                    Task(name="b", reads=(), writes=("reward",)),
                    Task(name="t", reads=(), kind="train"),
                )
            },
            "tasks 'a' and 'b' both write column 'reward'",
        ),
    ],
)
def test_a_table_that_cannot_work_is_refused(
    spec: Callable[..., TableSpec], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        spec(**changes)


def test_a_spec_travels_and_comes_back_equal(spec: Callable[..., TableSpec]) -> None:
    table = spec(staleness=float("inf"))
    assert TableSpec.from_wire(unpack(pack(table.to_wire()))) == table
    with pytest.raises(SchemaError, match="not a table spec"):
        TableSpec.from_wire({"columns": [{"nam": 1}], "tasks": []})


def test_only_lists_may_be_aligned() -> None:
    with pytest.raises(SchemaError, match="has no length to align on 'response'"):
        Column(name="x", dtype="int32", aligned="response")


def test_naming_columns_loads_neither_arrow_nor_zeromq() -> None:
    heavy = "{'pyarrow', 'zmq', 'numpy'}"
    code = f"import sys, headrace.transferqueue as q; q.Column; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
