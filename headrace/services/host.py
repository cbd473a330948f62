"""Hosts one replica: builds its service, connects it to the queue, runs it and cleans up behind it.

The same for every runtime: a process of its own under Ray, a task of the driver's loop in `local`.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from headrace.algorithms.by_path import find
from headrace.services.base import Bridge, Context, Flow, Loop, Publisher, Service, log_file
from headrace.services.errors import (
    NoWayOn,
    ReplicaFailed,
    TrainingError,
    WeightsError,
    WeightsRefused,
    describe,
    first_error,
)
from headrace.services.faults import Fault, Faults
from headrace.services.kinds import kind_of
from headrace.services.lifecycle import Lifecycle, State
from headrace.services.options import PolicyOptions, TransformOptions
from headrace.services.pulse import LOADING, Beat, Pulse
from headrace.services.replica import Replica
from headrace.services.report import QueueReport
from headrace.services.site import Site
from headrace.services.trace import Trace, trace_file
from headrace.services.weights import WeightStore
from headrace.services.weights.peers import Peers
from headrace.transferqueue import Client, WaitTimeout

FINAL = (TrainingError, WaitTimeout)
"""Errors that a replica in the place of one that raised them would raise again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What one replica is told: enough to build it in another process."""

    kind: str
    node: str
    index: int
    run: str
    run_dir: Path
    shared_dir: Path
    queue_address: str
    queue_timeout_s: float
    """How long the queue's controller may be silent, or away while it is started again."""
    seed: int
    threads: int
    options: Any = field(repr=False)
    policy_name: str
    policy: PolicyOptions = field(repr=False)
    policy_is_trained: bool
    flow: Flow = field(repr=False)
    bridge: Bridge | None = field(default=None, repr=False)
    transforms: tuple[TransformOptions, ...] = ()
    checkpoints: Path | None = None
    resume: Path | None = None
    avoid: str = ""
    """Node of the cluster where it is not to be, if another has room."""
    site: Site = field(default_factory=Site)

    @property
    def replica(self) -> str:
        return f"{self.node}/{self.index}"

    @property
    def log_file(self) -> Path:
        return log_file(self.run_dir, self.replica)


class Hosted:
    """One replica and the two things asked of it from outside: to drain, and to be cancelled."""

    def __init__(self, assignment: Assignment, *, zmq_context: Any = None) -> None:
        self._assignment = assignment
        self._weights = WeightStore(assignment.shared_dir / "weights")
        self._zmq_context = zmq_context
        self._replica: Replica | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self._trace = Trace(trace_file(assignment.run_dir, assignment.replica))
        self._pulse = Pulse(trace=self._trace)
        self._faults = Faults()
        self._leading: Loop | None = None

    async def run(self) -> None:
        """Returns when the service's work is over or it was stopped; raises ReplicaFailed otherwise, NoWayOn
        where starting it again would not help."""
        if self._stopped:
            return
        self._task = asyncio.ensure_future(self._run())
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            if not self._task.cancelled():
                await self.stop()
                raise

    async def stop(self) -> None:
        """Cancels the service, once: it hands back what it holds and closes."""
        first, self._stopped = not self._stopped, True
        if self._task is not None:
            if first:
                self._task.cancel()
            await asyncio.wait({self._task})

    def look(self) -> Beat:
        """What it does now, and since when nothing has come of it."""
        return self._pulse.look()

    def inject(self, fault: Fault | None) -> None:
        """None: what was asked for before is lifted."""
        if fault is None:
            self._faults.lift()
        else:
            self._faults.arm(fault)

    async def rewrite_weights(self) -> None:
        """Of a trainer: the newest version of its weights is written once more."""
        if isinstance(self._leading, Publisher):
            await self._leading.rewrite_weights()

    def drain(self) -> None:
        if self._replica is not None:
            self._replica.drain()

    async def _run(self) -> None:
        a = self._assignment
        with _log(a) as log, closing(self._trace):
            try:
                client = await Client.connect(
                    a.queue_address,
                    holder=a.replica,
                    timeout_s=a.queue_timeout_s,
                    context=self._zmq_context,
                    node=a.site.node,
                    keys=a.site.keys,
                )
                with _peers(a.site, self._weights) as peers:
                    async with client, QueueReport(client, a.replica) as report:
                        client.on_damage = partial(_damaged, report)
                        await self._serve(
                            _context(a, client, report, peers, self._pulse, self._trace, self._faults)
                        )
            except Exception as error:
                cause = first_error(error)
                log.error("%s gave up", a.replica, exc_info=cause)
                raise _kind(cause)(f"{a.replica}: {describe(cause)}") from cause

    async def _serve(self, context: Context) -> None:
        service = find(kind_of(self._assignment.kind).serves, key="kind", what="Class")()
        if hasattr(service, "process"):
            self._replica = Replica(cast(Service, service), context, self._weights)
            await self._replica.run()
        else:
            self._leading = cast(Loop, service)
            await _lead(self._leading, context)


def _kind(cause: Exception) -> type[ReplicaFailed]:
    if isinstance(cause, WeightsError) or isinstance(cause.__cause__, WeightsError):
        return WeightsRefused
    return NoWayOn if isinstance(cause, FINAL) else ReplicaFailed


async def _lead(service: Loop, context: Context) -> None:
    """Runs a service that leads its own loop."""
    lifecycle = Lifecycle(context.changed_state)
    try:
        with lifecycle.failing():
            lifecycle.to(State.LOADING)
            with context.pulse.working(LOADING):
                await service.setup(context)
            lifecycle.to(State.READY)
            context.pulse.ready = True
            await service.run()
    finally:
        await service.close()
    lifecycle.to(State.STOPPED)


def _damaged(report: QueueReport, table: str, reason: str) -> None:
    report.event("cells_damaged", table=table, reason=reason)


@contextmanager
def _peers(site: Site, store: WeightStore) -> Iterator[Peers | None]:
    """Those that a machine of several gets versions from."""
    if site.peers is None:
        yield None
        return
    with closing(Peers(store, site.peers, keys=site.keys)) as peers:
        yield peers


def _context(
    a: Assignment,
    client: Client,
    report: QueueReport,
    peers: Peers | None,
    pulse: Pulse,
    trace: Trace,
    faults: Faults,
) -> Context:
    return Context(
        run=a.run,
        run_dir=a.run_dir,
        node=a.node,
        replica=a.replica,
        seed=a.seed,
        client=client,
        options=a.options,
        shared_dir=a.shared_dir,
        resume=a.resume,
        policy_name=a.policy_name,
        policy=a.policy,
        policy_is_trained=a.policy_is_trained,
        flow=a.flow,
        checkpoints=a.checkpoints,
        bridge=a.bridge,
        transforms=a.transforms,
        report=report,
        pulse=pulse,
        trace=trace,
        faults=faults,
        peers=peers,
    )


@contextmanager
def _log(a: Assignment) -> Iterator[logging.Logger]:
    """A logger of the replica's own, into its own file."""
    log = logging.getLogger(f"headrace.{a.replica}")
    handler = logging.FileHandler(a.log_file)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield log
    finally:
        log.removeHandler(handler)
        handler.close()
