"""A launch over a runtime whose replicas live as a list says, changed as an operator would."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, cast

from headrace.dataflow.language.parse import parse
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.planning.plan import Plan, plan
from headrace.dataflow.planning.precision import settled
from headrace.dataflow.record.board import Board
from headrace.dataflow.record.telemetry import Record
from headrace.dataflow.running.assignments import Places, Start, assignments
from headrace.dataflow.running.changes import Changes
from headrace.dataflow.running.current import Current
from headrace.dataflow.running.service_changes import ServiceChanges
from headrace.dataflow.running.supervisor import Supervisor
from headrace.services.host import Assignment
from headrace.transferqueue import Client
from tests.dataflow.running.lives import Lives, Queue
from tests.services.bench import Remembered

GRAPH = """\
name: copy
steps: 20
no_progress_timeout_s: 60
policies:
  actor: {model: tiny-copier}
nodes:
  prompts: {kind: source, dataset: copy}
  answers: {kind: rollout, inputs: [prompts], policy: actor}
  scores: {kind: reward, inputs: [answers], verifier: copy}
  learn: {kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo, prompts_per_step: 4}
"""
CLUSTER = Cluster(cpus=4.0, gpus=0.0, cores=4)
PLACES = Places(
    run_dir=Path("/run"),
    shared_dir=Path("/run"),
    queue_address="ipc://q",
    queue_timeout_s=1.0,
    starts={"prompts": Start()},
    checkpoints={},
)


def graph(**replaced: str) -> GraphSpec:
    """GRAPH with some of its nodes written anew."""
    text = GRAPH
    for node, by in replaced.items():
        line = next(line for line in text.splitlines() if line.startswith(f"  {node}:"))
        text = text.replace(line, f"  {node}: {by}")
    return settled(parse(text).spec)


def current(spec: GraphSpec) -> Current:
    def tell(spec: GraphSpec, planned: Plan) -> list[Assignment]:
        return assignments(spec, planned, PLACES)

    return Current(spec, cluster=CLUSTER, tell=tell)


class Heard(Remembered):
    """Takes what the supervisor says to a board, on which replicas are ready as they start."""

    def __init__(self, board: Board, loading: tuple[str, ...]) -> None:
        super().__init__()
        self.board, self.loading = board, loading
        self.starts: Counter[str] = Counter()

    def event(self, kind: str, **detail: Any) -> None:
        super().event(kind, **detail)
        self.board.take(Record(source="launch", kind=kind, at=0.0, step=None, body=detail))
        if kind != "started":
            return
        name = detail["replica"]
        self.starts[name] += 1
        if f"{name} start {self.starts[name]}" not in self.loading:
            ready = {"old": "loading", "new": "ready", "reason": ""}
            self.board.take(Record(source=name, kind="state", at=0.0, step=None, body=ready))


class Launched:
    """`services` of a launch of `spec`; `loading` names starts, as "scores/0 start 2", that do not come to be
    ready."""

    def __init__(
        self, spec: GraphSpec, *, node: str = "scores", loading: tuple[str, ...] = (), **lives: list[Any]
    ) -> None:
        """`node`: whose replicas live."""
        self.diary: list[str] = []
        self.told: list[Assignment] = []
        """To each replica that was started."""
        self.current = current(spec)
        board = Board()
        self.report = Heard(board, loading)
        self.runtime = Lives(self.diary, **lives)
        queue = cast(Client, Queue(self.diary))
        self.supervisor = Supervisor(cast(Any, self.runtime), queue, self.report, max_restarts=3)
        told = assignments(spec, plan(spec, CLUSTER), PLACES)
        for each in told:
            if each.node == node:
                self.keep(each)
        self.changes = Changes(self.report)
        self.services = ServiceChanges(
            self.current,
            told,
            changes=self.changes,
            board=board,
            supervisor=self.supervisor,
            keep=self.keep,
        )

    def keep(self, assignment: Assignment, *, trial: bool = False) -> None:
        self.told.append(assignment)
        self.supervisor.keep(assignment, trial=trial)

    async def up(self) -> "Launched":
        """Once the first replicas have started."""
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return self
