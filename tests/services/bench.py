"""What tests of a service stand on: a queue in this process, a context over it, a report that remembers."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from headrace.services.base import Context, Flow
from headrace.services.options import PolicyOptions
from headrace.transferqueue import Client, Column, Controller, TableSpec, Task

NUMBERS = TableSpec(
    name="numbers",
    columns=(Column(name="x", dtype="int64"), Column(name="y", dtype="int64")),
    tasks=(
        Task(name="double", reads=("x",), writes=("y",)),
        Task(name="check", reads=("x", "y"), needs_full_group=True),
    ),
)
FLOW = Flow(
    table="numbers",
    steps=2,
    first_step=0,
    samples_per_prompt=2,
    prompts_per_step=2,
    staleness=0.0,
    temperature=1.0,
    max_new_tokens=16,
    model="tiny-copier",
    no_progress_timeout_s=60.0,
)


class Remembered:
    """A `Report` in memory."""

    def __init__(self) -> None:
        self.lines: list[tuple[int | None, dict[str, float]]] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.confirmed: dict[int, asyncio.Event] = defaultdict(asyncio.Event)
        """Set once a replica confirms that version of its weights."""

    def metrics(self, values: Mapping[str, float], *, step: int | None = None) -> None:
        self.lines.append((step, dict(values)))
        if (version := values.get("sync/version_confirmed")) is not None:
            self.confirmed[int(version)].set()

    def event(self, kind: str, **detail: Any) -> None:
        self.events.append((kind, detail))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [detail for name, detail in self.events if name == kind]

    @property
    def states(self) -> list[str]:
        return [str(detail["new"]) for detail in self.of("state")]


@asynccontextmanager
async def queue(tmp_path: Path, *tables: TableSpec) -> AsyncIterator[tuple[str, Client]]:
    """Address of a controller with `tables`, and a client of it."""
    async with (
        Controller(tmp_path / "queue", f"ipc://{tmp_path}/q") as controller,
        await Client.connect(controller.address, holder="test") as client,
    ):
        for table in tables:
            await client.create(table)
        yield controller.address, client


async def put_numbers(client: Client, groups: int, size: int = 2) -> None:
    """Rows 0, 1, ... in groups of `size`, each holding its own uid, and the end of the table."""
    uids = np.arange(groups * size)
    await client.put("numbers", uids, {"x": uids}, groups=uids // size)
    await client.end("numbers")


def context(
    client: Client, report: Remembered, run_dir: Path, *, options: Any = None, **changes: Any
) -> Context:
    """`changes` are of the context, or of its flow."""
    of_flow = {name: changes.pop(name) for name in list(changes) if hasattr(FLOW, name)}
    made = Context(
        run="test",
        run_dir=run_dir,
        node="double",
        replica="double/0",
        seed=0,
        client=client,
        options=options,
        shared_dir=run_dir,
        resume=None,
        policy_name="actor",
        policy=PolicyOptions(model="tiny-copier"),
        flow=replace(FLOW, **of_flow),
        report=report,
    )
    return replace(made, **changes)
