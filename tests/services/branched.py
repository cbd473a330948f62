"""A table of answered prompts, the one that a branch makes of it, and a replica between them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from headrace.services.base import Bridge
from headrace.services.branch.service import Branch
from headrace.services.columns import BRANCHED, PROMPT, RESPONSE, joined
from headrace.services.join.service import Join
from headrace.services.models import load_tokenizer
from headrace.services.options import BranchOptions, JoinOptions
from headrace.services.replica import Replica
from headrace.services.weights import WeightStore
from headrace.transferqueue import Client, Column, Origin, TableSpec, Task
from tests.services.bench import Remembered, context, queue

READS = ("prompt_ids", "example", *(column.name for column in RESPONSE))
SOLVED = TableSpec(
    name="solved",
    columns=(*PROMPT, *RESPONSE, Column(name="verdict", dtype="float64")),
    tasks=(
        Task(name="judged", reads=READS),
        Task(name="learn", reads=("verdict",)),
    ),
    owed={"verdict": "verdicts"},
)
"""Answered by the first policy of two."""
ORIGIN = Origin(table="solved", samples=2, prompts=2)
MARK = Column(name=joined("verdicts"), dtype="bool")
JUDGED = TableSpec(
    name="judged",
    columns=(*BRANCHED, Column(name="reward", dtype="float64"), MARK),
    tasks=(
        Task(name="look", reads=tuple(column.name for column in BRANCHED), needs_full_group=True),
        Task(name="verdicts", reads=("reward",), writes=(MARK.name,), needs_full_group=True),
    ),
    origin=ORIGIN,
)
COPIED = replace(
    JUDGED,
    columns=(*PROMPT, *RESPONSE, MARK),
    tasks=(Task(name="look", reads=READS, needs_full_group=True),),
    origin=None,
)
BRIDGE = Bridge(
    table="judged", origin=ORIGIN, owed=("verdict",), policies=("solver", "judge"), answered_by="solver"
)
ANSWER = np.array([5, 6, 1], dtype=np.int32)
"""Two letters and the stop token; made by versions 3, 3 and 4."""


class Between:
    """The two tables, a client of them, and what a replica reported."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client, self.folder, self.report = client, folder, Remembered()

    async def solved(self, groups: int) -> None:
        """Rows group << 16 | 0 and 1 of each of `groups`, answered alike, and the end of the table."""
        numbers = np.repeat(np.arange(groups), 2)
        uids, rows = numbers << 16 | np.tile(np.arange(2), groups), 2 * groups
        columns = {
            "prompt_ids": [np.array([4, 2], dtype=np.int32)] * rows,
            "example": [{"number": int(number)} for number in numbers],
            "response_ids": [ANSWER] * rows,
            "logprobs": [np.zeros(3, dtype=np.float32)] * rows,
            "versions": [np.array([3, 3, 4], dtype=np.int32)] * rows,
            "loss_mask": [np.ones(3, dtype=np.int8)] * rows,
            "finish_reason": ["stop"] * rows,
            "retokenises": np.ones(rows, dtype=bool),
        }
        await self.client.put("solved", uids, columns, groups=numbers)
        await self.client.end("solved")

    async def branch(
        self,
        function: str | None,
        *,
        prompts: int = 2,
        bridge: Bridge = BRIDGE,
        load_tokenizer: Callable[[str], Any] = load_tokenizer,
    ) -> None:
        """A branch's whole life."""
        options = BranchOptions(function=function, samples_per_prompt=2, prompts_per_row=prompts)
        await self._live(
            Branch(load_tokenizer=load_tokenizer), options, bridge, table="solved", node="judged"
        )

    async def join(self, **options: Any) -> None:
        bridge = replace(BRIDGE, table="solved")
        await self._live(
            Join(), JoinOptions(column="verdict", **options), bridge, table="judged", node="verdicts"
        )

    async def _live(self, service: Any, options: Any, bridge: Bridge, *, table: str, node: str) -> None:
        made = context(
            self.client,
            self.report,
            self.folder,
            options=options,
            bridge=bridge,
            table=table,
            node=node,
            replica=f"{node}/0",
        )
        await Replica(service, made, WeightStore(self.folder / "weights")).run()

    async def fresh(self) -> Any:
        """All rows of the new table that are there, leased; None where there are none."""
        stats = (await self.client.stats()).tables["judged"]
        ready = stats.tasks["look"].ready
        return (await self.client.lease("look", ready, timeout_s=60.0)).rows if ready else None


@asynccontextmanager
async def between(tmp_path: Path, *, copied: bool = False) -> AsyncIterator[Between]:
    async with queue(tmp_path, SOLVED, COPIED if copied else JUDGED) as (_, client):
        yield Between(client, tmp_path)
