"""A table of two tasks and one writer of its rows: `work` fills `y` from `x`, `watch` looks on."""

from typing import Any

import numpy as np

from headrace.transferqueue import (
    Client,
    Column,
    TableSpec,
    Task,
)


def plain(**changes: Any) -> TableSpec:
    columns = (Column(name="x", dtype="list<int32>"), Column(name="y", dtype="float64"))
    tasks = (Task(name="work", reads=("x",), writes=("y",)), Task(name="watch", reads=("y",)))
    return TableSpec(name="plain", columns=columns, tasks=tasks, **changes)


async def put(client: Client, uids: list[int], **more: Any) -> None:
    cells = [np.full(uid % 5, uid, np.int32) for uid in uids]
    await client.put("plain", uids, {"x": cells}, groups=uids, **more)
