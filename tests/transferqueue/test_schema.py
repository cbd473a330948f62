import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from headrace.transferqueue import Column, Origin, SchemaError, TableSpec, Task
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
            {"origin": Origin(table="samples", samples=1, prompts=1)},
            "table 'samples': its groups come from its own rows; an origin is another table",
        ),
        ({"owed": {"rewrad": "join"}}, "task 'join' owes column 'rewrad', which the table lacks"),
        ({"owed": {"reward": "join"}}, "column 'reward' is owed by 'join', and its own task 'score' writes"),
        ({"owed": {"prompt": "roll"}}, "column 'prompt' is owed by its own task 'roll'; say that the task"),
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
    origin = Origin(table="solved", samples=8, prompts=2)
    table = spec(staleness=float("inf"), origin=origin, owed={"prompt": "join"})
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


def test_a_group_has_its_parent_in_its_number() -> None:
    """Row 3 of group 5, of 8 rows at most, two prompts of each row: (5 * 8 + 3) * 2 + 1 = 87."""
    origin = Origin(table="solved", samples=8, prompts=2)
    uid = 5 << 16 | 3
    assert [origin.group_of(uid, index) for index in (0, 1)] == [86, 87]
    assert [origin.uid_of(group) for group in (0, 86, 87, 88)] == [0, uid, uid, 5 << 16 | 4]


@pytest.mark.parametrize(
    ("uid", "index", "message"),
    [
        (5 << 16 | 8, 0, "row 327688 of table 'solved' has sample number 8; allowed are .* samples 0 to 7"),
        (-1, 0, "row -1 of table 'solved'"),
        (1, 2, "prompt 2 of row 1 of table 'solved'; allowed are 0 to 1: make fewer prompts of a row"),
        (1, -1, "prompt -1 of row 1"),
        (
            (1 << 43) << 16,
            0,
            "row 576460752303423488 of table 'solved' gives group 140737488355328; the greatest is "
            "140737488355327: declare fewer prompts or samples per row, or branch fewer times in a row",
        ),
    ],
)
def test_a_group_without_a_number_is_refused(uid: int, index: int, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Origin(table="solved", samples=8, prompts=2).group_of(uid, index)


def test_the_greatest_group_has_rows_that_fit_64_bits() -> None:
    origin = Origin(table="solved", samples=1, prompts=1)
    uid = ((1 << 47) - 1) << 16
    assert origin.group_of(uid, 0) << 16 | 0xFFFF == (1 << 63) - 1
    assert origin.uid_of((1 << 47) - 1) == uid
    with pytest.raises(SchemaError, match="group 140737488355328 of a table from 'solved'; allowed are 0 to"):
        origin.uid_of(1 << 47)


@pytest.mark.parametrize("field", ["samples", "prompts"])
def test_an_origin_without_rows_is_refused(field: str) -> None:
    with pytest.raises(SchemaError, match=f"origin in table 'solved': {field} is 0; allowed are 1 to"):
        Origin(**{"table": "solved", "samples": 1, "prompts": 1, field: 0})
