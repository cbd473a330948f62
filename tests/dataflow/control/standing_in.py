"""Stands in for a launch, as the control API knows it: remembers what it was asked."""

from typing import Any

from headrace.dataflow.language.parse import load
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.record.seen import Seen
from headrace.dataflow.record.telemetry import METRICS, SAMPLES, Record
from headrace.dataflow.running.asks import Asker, Refusal
from headrace.dataflow.running.drills import Ordered
from headrace.dataflow.running.live import Paused
from headrace.dataflow.running.service_changes import Scaled
from headrace.transferqueue import ControllerUnreachable

OVERVIEW = {
    "name": "copy",
    "paused": None,
    "short": [],
    "steps": {"actor": {"done": 1, "of": 2}},
    "tables": {},
    "replicas": [],
    "changes": [],
}

SAMPLE = {
    "table": "prompts", "uid": "1152921504606846976", "group": "7", "prompt": "<b>", "answer": "<script>",
    "prompt_tokens": 5, "answer_tokens": 4, "reward": 1.0, "invalid": "", "parts": {"exact": 1.0},
    "finish_reason": "stop", "versions": [[3, 4]], "staleness": 1, "taken": 10.0, "trained": 11.0,
}  # fmt: skip


class Launch:
    """In the place of `Live`, and of its `services`; without `overview` its queue is away."""

    def __init__(self, overview: dict[str, Any] | None = None) -> None:
        self.asked: list[Any] = []
        self.services = self
        self._overview = overview
        self.spec, self.seen = load("grpo_copy_cpu").spec, Seen()
        at: dict[str, Any] = {"source": "learn/0", "at": 12.0, "policy": "actor"}
        self.seen.take(Record(kind=METRICS, step=0, body={"reward/mean": 0.5}, **at))
        self.seen.take(Record(kind=SAMPLES, step=None, body={"step": 2, "samples": [SAMPLE]}, **at))

    async def overview(self) -> dict[str, Any]:
        if self._overview is None:
            raise ControllerUnreachable("no answer within 5 s")
        return self._overview

    async def metrics(self) -> str:
        if self._overview is None:
            raise ControllerUnreachable("no answer within 5 s")
        return "headrace_step 3\n"

    def metrics_of(self, node: str) -> str:
        return f"# of {node}\n"

    def replicas(self) -> list[str]:
        return ["answers/0", "answers/1"]

    async def scale(self, node: str, replicas: int, asker: Asker, *, dry_run: bool = False) -> Scaled:
        self._require(node)
        self.asked.append((node, replicas, asker, dry_run))
        return Scaled(node=node, before=1, after=replicas, added=["answers/1"], drained=[], done=not dry_run)

    async def restart(self, node: str, asker: Asker) -> list[str]:
        self.asked.append((node, asker))
        return ["answers/0"]

    async def set_staleness(
        self, staleness: float, asker: Asker, *, policy: str | None = None
    ) -> dict[str, Any]:
        self.asked.append((staleness, policy))
        return {"prompts": "inf"}

    async def inject(self, order: Ordered, asker: Asker) -> None:
        self.asked.append((order, asker))

    def stop(self, asker: Asker) -> None:
        self.asked.append(asker)

    async def drain(self, replica: str, asker: Asker) -> Scaled:
        self._require(replica.rpartition("/")[0])
        self.asked.append((replica, asker))
        return Scaled(node="answers", before=2, after=1, added=[], drained=[replica], done=True)

    async def upgrade(self, node: str, given: GraphSpec, asker: Asker, *, dry_run: bool = False) -> list[str]:
        self._require(node)
        self.asked.append((node, given.name, asker, dry_run))
        return ["answers/2"]

    def cancel(self, node: str, asker: Asker) -> str:
        self._require(node)
        self.asked.append((node, asker))
        return "scale"

    async def pause(self, asker: Asker) -> Paused:
        self.asked.append(asker)
        return Paused(who=asker.who, why=asker.why, since=5.0)

    async def resume(self, asker: Asker) -> None:
        self.asked.append(asker)

    def _require(self, node: str) -> None:
        if node != "answers":
            raise Refusal(f"no service {node!r} runs; there are answers")
