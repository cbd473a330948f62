"""Runs what the unfinished policies of a run need, and nothing else.

    a launch begins             ─► the nodes that they need are started, the tasks of the others are over
    a trainer or an eval ends,  ─► the nodes that nobody needs any more are retired, their tasks are over
    and others go on

Invariant: rows of a table that flows wait for no node that does not run, and a task is over only once its
node has stopped. In a table that gets no further row nothing is over: what it holds is there for a launch
that goes on with it.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.needed import needed, to_start
from headrace.dataflow.planning.plan import Plan
from headrace.dataflow.running.supervisor import Supervisor
from headrace.services.source.hearing import task_name
from headrace.transferqueue import Client
from headrace.transferqueue.schema import Task

AWAITED = ("trainer", "eval")
"""Kinds whose work is the run's: it has ended when theirs has."""

NEEDLESS = "no unfinished policy needs it"


class Needs:
    """Of one launch."""

    def __init__(
        self, spec: GraphSpec, planned: Plan, client: Client, *, steps_done: Mapping[str, int]
    ) -> None:
        """`steps_done`: by trainer, those of earlier launches."""
        self._spec = spec
        self._planned = planned
        self._client = client
        learning = {name for name, done in steps_done.items() if done < spec.steps_of(name)}
        self._unfinished = {*learning, *spec.of_kind("eval")}
        self._needed = needed(spec, self._unfinished)
        self.started = to_start(spec, self._unfinished)
        """The nodes that run, at first."""

    async def reopen(self) -> None:
        """Tasks of nodes that run are live, whatever an earlier launch said; the others are over.

        To be called once the trainers are back at their checkpoints.
        """
        for node, task in self._tasks():
            if node in self.started and task.kind != "train":
                await self._client.reopen(task.name)
        await self._finish(set(self._spec.nodes) - self.started)

    async def follow(self, awaited: Mapping[str, asyncio.Task[None]], supervisor: Supervisor) -> None:
        """Retires nodes as the trainers and evals end that needed them; returns once the last of these has.

        `awaited`: by node, what ends with it; one that fails ends the run, and is nothing to go by.
        """
        left = {node: task for node, task in awaited.items() if node in self._unfinished}
        while left:
            ended, _ = await asyncio.wait(left.values(), return_when=asyncio.FIRST_COMPLETED)
            if any(task.cancelled() or task.exception() for task in ended):
                return
            left = {node: task for node, task in left.items() if task not in ended}
            if left:
                await self._keep_only(left, supervisor)

    async def _keep_only(self, unfinished: Collection[str], supervisor: Supervisor) -> None:
        before, self._needed = self._needed, needed(self._spec, unfinished)
        retired = {name for name in before - self._needed if self._spec.nodes[name].kind not in AWAITED}
        await asyncio.gather(*(supervisor.retire(name, NEEDLESS) for name in sorted(retired)))
        await self._finish(retired)

    async def _finish(self, nodes: Collection[str]) -> None:
        """Tables that flow go on without these nodes."""
        for node, task in self._tasks(of=self._needed):
            if node in nodes:
                await self._client.finish(task.name)

    def _tasks(self, *, of: Collection[str] | None = None) -> Iterator[tuple[str, Task]]:
        """Nodes and their tasks, of all tables or of those named."""
        hearing = {task_name(source): source for source in self._spec.of_kind("source")}
        for name, table in self._planned.tables.items():
            for task in table.tasks if of is None or name in of else ():
                yield hearing.get(task.name, task.name), task
