"""What can be asked of a launch while it goes on: to look, to scale, to restart, to move the knob, to end.

Every change is an event `asked` with who asked and why, before anything is done. A service is changed by one
ask at a time. Refusal is raised, and nothing done, where an ask cannot be met.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from headrace.dataflow.check import check
from headrace.dataflow.language.problems import errors
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.planning.plan import plan
from headrace.dataflow.record.board import Board
from headrace.dataflow.running.asks import Asker, Refusal
from headrace.dataflow.running.drills import Drills, Ordered
from headrace.dataflow.running.supervisor import Supervisor
from headrace.dataflow.running.waiting import AT_NOTHING, at
from headrace.services.base import Report
from headrace.services.host import Assignment
from headrace.services.kinds import kind_of
from headrace.services.lifecycle import State
from headrace.transferqueue import Client

DRAIN_S = 60.0
"""After which a draining replica hands back what it has not finished."""
MOST_REPLICAS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """What scaling a service came to, or would."""

    node: str
    before: int
    after: int
    added: Sequence[str]
    drained: Sequence[str]
    done: bool
    """False of a dry run."""


class Live:
    """One launch in progress."""

    def __init__(
        self,
        spec: GraphSpec,
        told: Sequence[Assignment],
        *,
        cluster: Cluster,
        board: Board,
        supervisor: Supervisor,
        client: Client,
        report: Report,
        drills: Drills,
        keep: Callable[[Assignment], None],
        stop: Callable[[], None],
    ) -> None:
        """`told`: to the replicas that it began with. `cluster`: that of the plan; a process that is on it
        cannot ask anew. `keep` starts one more and watches it, `stop` ends the run as an interrupt does."""
        self._spec = spec
        self._told = {assignment.node: assignment for assignment in reversed(told)}
        self._cluster = cluster
        self._board = board
        self._supervisor = supervisor
        self._client = client
        self._report = report
        self._drills = drills
        self._keep = keep
        self._stop = stop
        self._changing: set[str] = set()
        self._setting = asyncio.Lock()

    async def overview(self) -> dict[str, Any]:
        """Steps by policy, the queue's figures by table, and how every replica stands."""
        stats, done = await self._client.stats(), self._board.steps()
        found = await at(self._supervisor, self._client)
        return {
            "name": self._spec.name,
            "steps": {
                policy: {"done": done.get(policy, 0), "of": self._spec.steps_of(trainer)}
                for trainer, policy in self._trainers().items()
            },
            "tables": {
                name: {
                    "step": table.step,
                    "staleness": written(table.staleness),
                    "rows": table.rows,
                    "bytes": table.bytes,
                    "oldest_age_s": table.oldest_age_s,
                    "quarantined": table.quarantined,
                    "tasks": {task: asdict(figures) for task, figures in table.tasks.items()},
                }
                for name, table in stats.tables.items()
                if name in self._spec.nodes
            },
            "replicas": [
                {**standing.to_json(), **found.get(standing.replica, AT_NOTHING)}
                for standing in self._board.standings()
            ],
        }

    def replicas(self) -> list[str]:
        """All that this launch started."""
        return [standing.replica for standing in self._board.standings()]

    async def scale(self, node: str, replicas: int, asker: Asker, *, dry_run: bool = False) -> Scaled:
        """Adds replicas, or drains the youngest; returns once these are ready, or gone."""
        template = self._changeable(node)
        if not 1 <= replicas <= MOST_REPLICAS:
            raise Refusal(f"{node}: got {replicas} replicas; 1 to {MOST_REPLICAS} are allowed")
        running = self._supervisor.replicas(node)
        taken = {int(name.rpartition("/")[2]) for name in running}
        free = (index for index in range(len(taken) + replicas) if index not in taken)
        added = [replace(template, index=next(free)) for _ in range(replicas - len(running))]
        drained = running[replicas:]
        self._check(self._scaled(node, replicas))
        scaled = Scaled(
            node=node,
            before=len(running),
            after=replicas,
            added=[assignment.replica for assignment in added],
            drained=drained,
            done=not dry_run,
        )
        if dry_run:
            return scaled
        async with self._change(node, "scale", asker, before=len(running), after=replicas):
            for assignment in added:
                self._keep(assignment)
            ends = await asyncio.gather(*map(self._ready, added), return_exceptions=True)
            if failures := [end for end in ends if isinstance(end, BaseException)]:
                await asyncio.gather(*(self._drain(each.replica, "could not be added") for each in added))
                raise failures[0]
            await asyncio.gather(*(self._drain(name, f"scaled to {replicas}") for name in drained))
            self._spec = self._scaled(node, replicas)
        return scaled

    async def restart(self, node: str, asker: Asker) -> list[str]:
        """One replica after another is drained and started anew; the next once the last is ready again."""
        template = self._changeable(node)
        restarted = self._supervisor.replicas(node)
        async with self._change(node, "restart", asker, replicas=restarted):
            for name in restarted:
                if name not in self._supervisor.replicas(node):
                    raise Refusal(
                        f"{name} has ended by itself; those before it were restarted, the rest were not"
                    )
                await self._drain(name, "restarted")
                again = replace(template, index=int(name.rpartition("/")[2]))
                self._keep(again)
                await self._ready(again)
        return restarted

    async def set_staleness(
        self, staleness: float, asker: Asker, *, policy: str | None = None
    ) -> dict[str, float | str]:
        """Moves the knob of one policy, or of the run; returns the bound of each table that it moved.

        Units that were begun keep the bound under which they were begun.
        """
        async with self._setting:
            spec = self._with(staleness, policy)
            self._check(spec)
            tables = plan(spec, self._cluster).tables
            now = (await self._client.stats()).tables
            moved = {name: table for name, table in tables.items() if table.staleness != now[name].staleness}
            async with self._change("", "set staleness", asker, staleness=staleness, policy=policy or ""):
                for table in moved.values():
                    await self._client.create(table)
                self._spec = self._with(staleness, policy)
        return {name: written(table.staleness) for name, table in moved.items()}

    async def inject(self, order: Ordered, asker: Asker) -> None:
        """Has something go wrong, as a drill."""
        await self._drills.inject(order, asker)

    def stop(self, asker: Asker) -> None:
        """The run ends as at an interrupt: what is held is handed back, a checkpoint is made."""
        self._report.event("asked", action="stop", who=asker.who, why=asker.why)
        self._stop()

    def _trainers(self) -> Mapping[str, str]:
        return {name: str(node.policy) for name, node in self._spec.of_kind("trainer").items()}

    def _with(self, staleness: float, policy: str | None) -> GraphSpec:
        if policy is None:
            return replace(self._spec, staleness=staleness)
        if policy not in self._spec.policies:
            raise Refusal(f"there is no policy {policy!r}; there are {', '.join(self._spec.policies)}")
        own = replace(self._spec.policies[policy], staleness=staleness)
        return replace(self._spec, policies={**self._spec.policies, policy: own})

    def _scaled(self, node: str, replicas: int) -> GraphSpec:
        found = self._spec.nodes[node]
        options = replace(found.options, replicas=replicas)
        return replace(self._spec, nodes={**self._spec.nodes, node: replace(found, options=options)})

    def _check(self, spec: GraphSpec) -> None:
        if wrong := errors(check(spec, cluster=self._cluster)):
            raise Refusal("; ".join(map(str, wrong)))

    def _changeable(self, node: str) -> Assignment:
        if node not in self._told:
            raise Refusal(f"no service {node!r} runs; there are {', '.join(sorted(self._told))}")
        template = self._told[node]
        if why := kind_of(template.kind).is_single:
            raise Refusal(
                f"{node} is a {template.kind}, of which there is one, since {why}; stop the run, and go on "
                "with it by `headrace run DIR`"
            )
        if node in self._changing:
            raise Refusal(f"{node} is being changed by an earlier ask; wait for that to end")
        if not self._supervisor.replicas(node):
            raise Refusal(f"{node} has no replica left that runs: no unfinished policy needs it")
        return template

    async def _drain(self, replica: str, reason: str) -> None:
        standing = self._board.standing(replica)
        ready = standing is not None and standing.state is State.READY
        await self._supervisor.drain(replica, reason, timeout_s=DRAIN_S if ready else 0.0)

    async def _ready(self, assignment: Assignment) -> None:
        """Raises Refusal where a replica is not ready in the time in which a run must get on."""
        limit_s = assignment.flow.no_progress_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await self._board.reached(assignment.replica, State.READY)
        except TimeoutError:
            standing = self._board.standing(assignment.replica)
            error = "" if standing is None else standing.error
            raise Refusal(
                f"{assignment.replica} is not ready after {limit_s:g} s{': ' * bool(error)}{error}; its log: "
                f"{assignment.log_file}"
            ) from None

    @asynccontextmanager
    async def _change(self, node: str, action: str, asker: Asker, **detail: Any) -> AsyncIterator[None]:
        self._report.event("asked", action=action, node=node, who=asker.who, why=asker.why, **detail)
        self._changing.add(node)
        try:
            yield
        finally:
            self._changing.discard(node)


def written(staleness: float) -> float | str:
    """As JSON and YAML have it: without a bound it is "inf"."""
    return staleness if math.isfinite(staleness) else "inf"
