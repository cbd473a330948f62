"""Where a launch begins, and each later life of a replica: a trainer at its newest checkpoint, an eval after
the versions that it has scored."""

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.topology import trainer_on
from headrace.dataflow.record.history import History
from headrace.dataflow.record.rundir import RunDir, each_of_jsonl
from headrace.dataflow.running.assignments import Start
from headrace.dataflow.running.supervisor import Again, NotAgain, the_same
from headrace.services.base import Report
from headrace.services.errors import describe
from headrace.services.host import Assignment
from headrace.services.trainer.checkpoint import Found, newest, steps
from headrace.services.trainer.copying import brought
from headrace.transferqueue import Client, Refused


class StoreUnreachable(Exception):
    """A run has no checkpoint here, and its store, which may have some, cannot be asked."""


class Beginnings:
    """Of one run directory."""

    def __init__(self, spec: GraphSpec, run: RunDir, report: Report) -> None:
        self._spec = spec
        self._run = run
        self._report = report

    def of_table(self, table: str) -> Start:
        trainer = trainer_on(self._spec, table)
        if trainer is None:
            return Start()
        policy = str(self._spec.nodes[trainer].policy)
        self._bring(policy)
        return self._start(policy)

    def _start(self, policy: str) -> Start:
        """Where a policy's newest checkpoint stands."""
        found = newest(self.checkpoints(policy))
        self._tell_of(found)
        if found.checkpoint is None:
            return Start()
        return Start(step=found.checkpoint.step, checkpoint=found.checkpoint.path)

    def _bring(self, policy: str) -> None:
        """From the policy's store what is newer than the checkpoints here. A store that cannot be asked is
        told of, and the run goes on from what is here. Raises StoreUnreachable where nothing is."""
        trainers = [node for node in self._spec.of_kind("trainer").values() if node.policy == policy]
        address = next((node.options.checkpoint_store for node in trainers), None)
        if address is None:
            return
        try:
            found = brought(address, self.checkpoints(policy))
        except Exception as error:
            self._report.event("checkpoint_not_fetched", store=address, reason=describe(error))
            if steps(self.checkpoints(policy)):
                return
            raise StoreUnreachable(
                f"checkpoint_store {address} of policy {policy!r} cannot be asked what it has, and no "
                f"checkpoint is here: {describe(error)}; have it answer, or leave checkpoint_store out"
            ) from error
        self._tell_of(found)
        if found.checkpoint is not None:
            self._report.event("checkpoint_fetched", store=address, step=found.checkpoint.step)

    def _tell_of(self, found: Found) -> None:
        for skipped in found.skipped:
            self._report.event("checkpoint_skipped", path=str(skipped.path), reason=skipped.reason)

    def checkpoints(self, policy: str) -> Path:
        return self._run.checkpoints_of(policy, alone=len(self._spec.of_kind("trainer")) == 1)

    def again(self, assignment: Assignment, client: Client) -> Again:
        """How a replica is replaced; a trainer needs the rows of the steps since its checkpoint."""
        if assignment.kind == "eval":
            return self._eval_again
        return partial(self._trainer_again, client) if assignment.kind == "trainer" else the_same

    async def _eval_again(self, died: Assignment) -> Assignment:
        """It goes on after the versions that its earlier life scored."""
        history = await asyncio.to_thread(History.of, each_of_jsonl(self._run.metrics), [])
        scored = history.evals.get(died.node)
        versions = [] if scored is None else [line[scored.over] for line in scored.lines]
        step = max([died.flow.first_step, *(version + 1 for version in versions)])
        return replace(died, flow=replace(died.flow, first_step=step))

    async def _trainer_again(self, client: Client, died: Assignment) -> Assignment:
        """A queue in memory has the rows of no step that was committed, so that none may be lacking."""
        start = self._start(died.policy_name)
        try:
            await client.rewind(died.node, start.step)
        except Refused as refused:
            raise NotAgain(str(refused)) from refused
        self._report.event("rewound", replica=died.replica, step=start.step)
        return replace(died, flow=replace(died.flow, first_step=start.step), resume=start.checkpoint)
