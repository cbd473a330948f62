"""The contract between a service and the runtime that drives it.

A service declares what it reads and writes and works on leased rows; the runtime (`replica.py`) leases,
writes, acknowledges, hands back and reports. Services never call each other: they meet in the queue.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from headrace.services.faults import Faults
from headrace.services.options import PolicyOptions, TransformOptions
from headrace.services.pulse import Pulse
from headrace.services.trace import Trace
from headrace.transferqueue import Client, Rows
from headrace.transferqueue.schema import Origin

if TYPE_CHECKING:
    from headrace.services.weights.peers import Peers


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Figures of the run that more than one service needs."""

    table: str
    steps: int
    first_step: int
    samples_per_prompt: int
    """The most that a prompt gets: rows of the largest group."""
    prompts_per_step: int
    staleness: float
    temperature: float
    """Of the rollouts that feed the trainer: both sides take log-probabilities under it."""
    max_new_tokens: int
    """Longest answer of those rollouts."""
    model: str
    """Of the policy that answers: prompts and answers are tokens of it."""
    no_progress_timeout_s: float
    deterministic: bool = False
    """Whether what a service makes of a group may depend on nothing but the group and the weights."""
    from_source: bool = True
    """Whether the table begins at a source, so that the numbers of its groups are places in the data."""
    own_rows: bool = True
    """Whether the policy that is trained on the rows made them; else they say nothing of its versions."""
    barrier: tuple[str, ...] = ()
    """Other policies that a trainer keeps pace with: it begins step s once each has reached version s."""
    trainers: int = 1
    """Of the run; one of several that has taken its last step says so, and its table holds nobody back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """What a branch or a join knows of the table that it writes to, beside the one that it leases from."""

    table: str
    origin: Origin | None
    """How the branch numbers its groups; None: rows are copied under their own numbers."""
    columns: tuple[str, ...] = ()
    """Those that the branch writes there."""
    owed: tuple[str, ...] = ()
    """Of a branch: columns of the parent's rows that joins write once its prompts are answered."""
    policies: tuple[str, ...] = ()
    """Of the graph, in its order: the numbers of `prompt_policies`."""
    answered_by: str = ""
    """The policy whose answers a branch reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a replica knows of its run."""

    run: str
    run_dir: Path
    node: str
    """Name of the graph's node, which is also the task's name in the queue."""
    replica: str
    """Name of this copy, e.g. "answers/0"; the holder of its leases."""
    seed: int
    client: Client
    options: Any
    """The node's dataclass of `options.py`, as resolved by the planner."""
    shared_dir: Path
    """Folder of the run in this node's shared memory."""
    resume: Path | None
    """The checkpoint that the run goes on from; None at the start."""
    policy_name: str
    policy: PolicyOptions
    """The policy that the node serves, trains, or whose tokens it reads; of a branch, the new table's."""
    policy_is_trained: bool = False
    """Whether a trainer of the run publishes the policy's versions."""
    flow: Flow
    """The run's figures that more than one service needs."""
    report: "Report"
    checkpoints: Path | None = None
    """Folder of the policy's checkpoints; None: the run's own."""
    bridge: Bridge | None = None
    """Of a branch or a join."""
    transforms: tuple[TransformOptions, ...] = ()
    """Pure functions that give columns which the node reads, in the order in which they run."""
    pulse: Pulse = field(default_factory=Pulse, repr=False)
    """Where the service says what it is at, for whoever watches over it."""
    trace: Trace = field(default_factory=Trace, repr=False)
    """When the replica had each row."""
    faults: Faults = field(default_factory=Faults, repr=False)
    """What is to go wrong, as a drill."""
    peers: "Peers | None" = None
    """Where versions come from that are made on other machines; None: all are made on this one."""

    async def bring(self, policy: str, version: int, checksum: str) -> int:
        """Has this machine's store hold a published version; returns the bytes that came over the line.

        Raises WeightsGone where it was retired, WeightsError where who has it is silent.
        """
        if self.peers is None:
            return 0
        return (await self.peers.bring(policy, version, checksum)).moved_bytes

    @property
    def log_file(self) -> Path:
        return log_file(self.run_dir, self.replica)

    def changed_state(self, old: str, new: str, reason: str) -> None:
        """Told of each step of a replica's life."""
        self.report.event("state", old=old, new=new, reason=reason)

    @property
    def checkpoint_folder(self) -> Path:
        return self.checkpoints or self.run_dir / "checkpoints"

    @property
    def weights_seed(self) -> int:
        """Seed of the policy's initial weights, where they are drawn."""
        return self.seed if self.policy.seed is None else self.policy.seed


def log_file(run_dir: Path, replica: str) -> Path:
    """Where a replica's log lies: "answers/0" writes logs/answers-0.log."""
    return run_dir / "logs" / f"{replica.replace('/', '-')}.log"


class Report(Protocol):
    """Telemetry: fire and forget; a dead collector never disturbs the service."""

    def metrics(self, values: Mapping[str, float], *, step: int | None = None) -> None: ...
    def event(self, kind: str, **detail: Any) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What becomes of some of the leased rows: columns written, nothing written, or dropped.

    `columns[c]` has one value per uid; without columns the rows are acknowledged as they are.
    """

    uids: np.ndarray
    columns: Mapping[str, Sequence[Any] | np.ndarray] = field(default_factory=dict, repr=False)
    dropped: str = ""
    """Why the rows leave the table, for every task; "": they stay in it."""

    def at(self, index: np.ndarray) -> "Output":
        """The part for the rows at `index` (int [k], ascending)."""
        if len(index) == len(self.uids):
            return self
        return replace(
            self,
            uids=self.uids[index],
            columns={name: _pick(values, index) for name, values in self.columns.items()},
        )


def _pick(values: Sequence[Any] | np.ndarray, index: np.ndarray) -> Sequence[Any] | np.ndarray:
    return values[index] if isinstance(values, np.ndarray) else [values[i] for i in index.tolist()]


class Service(Protocol):
    """Works on leased rows: rollout, reward, reference."""

    capacity: int
    """Rows that may be in flight at once; the runtime leases up to it."""

    async def setup(self, context: Context) -> None: ...

    def process(self, rows: Rows) -> AsyncGenerator[Output, None]:
        """Yields outputs as they finish, every row in one of them; an output is written at once.

        A raised error hands the unwritten rows of this lease back with the error as the reason;
        ReplicaFailed ends the replica besides. Closed early, it lets go of what it was making.
        """
        ...

    async def close(self) -> None: ...


class Weighted(Protocol):
    """A service that serves a policy's weights: the runtime pulls, it loads and confirms.

    One that may score under weights of its own says by `follows: bool`, once it is set up, whether it does.
    """

    version: int
    """The version that new rows would be begun with: loaded and confirmed, never merely sent."""

    async def load(self, version: int, weights: Mapping[str, Any]) -> None: ...


class Proving(Protocol):
    """A service that shows that it works before it is ready, by real output that nobody uses."""

    async def prove(self) -> None:
        """Makes a first output with the weights that it serves; raises where none comes."""
        ...


class Long(Protocol):
    """A service whose work on a row may take long, and shows before it is done."""

    def progress(self) -> float:
        """Grows while it works, such as the tokens that it has made."""
        ...


class Resumable(Protocol):
    """A service whose work on a row can be gone on with by another replica."""

    def begun(self, uids: Iterable[int]) -> Mapping[int, Mapping[str, Any]]:
        """By uid, what it has of rows whose `process` was closed early or raised, and forgets: the row's next
        lease carries it."""
        ...


class Producer(Protocol):
    """A service that makes rows of another table from those that it leases."""

    async def end(self) -> None:
        """No further row will be leased: nor will there be one to make of it."""
        ...


@runtime_checkable
class Publisher(Protocol):
    """A service that writes a policy's weights."""

    async def rewrite_weights(self) -> None:
        """Writes the newest version once more, unless the next is about to be: a reader found it damaged."""
        ...


class Loop(Protocol):
    """A service that leads its own loop on the queue: source, trainer."""

    async def setup(self, context: Context) -> None: ...
    async def run(self) -> None: ...
    async def close(self) -> None: ...
