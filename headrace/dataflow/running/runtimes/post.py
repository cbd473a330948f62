"""The post of a node: what a run on several nodes has once on each.

Invariant: its folder, with the node's weights, rows and keys, is there for as long as the post is, and goes
with it; what a killed post left is removed by the next on that node.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from headrace.dataflow.running.runtimes.actors import Process, own_address
from headrace.dataflow.running.shared_memory import owned_folder, root
from headrace.services.weights import WeightStore
from headrace.services.weights.peers import list_peers
from headrace.services.weights.server import WeightServer
from headrace.transferqueue.link.keys import copy_keys
from headrace.transferqueue.storage import StorageUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class PostPlace:
    """What the post of a node is told."""

    name: str
    """The node's in the queue; "": the controller's own."""
    queue_address: str
    shared: Path | None
    """The launcher's folder, on its own node; None: the post makes one."""
    cells: Path | None
    """Where the node's rows lie; None: in its own folder."""
    keys: dict[str, bytes] = field(repr=False)
    """The run's, by the names of their files."""
    log_file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What others need to know of a post."""

    shared: Path
    weights_address: str


class PostActor(Process):
    """What a node has once: its folder in shared memory, its storage unit and its weight server."""

    _unit: StorageUnit
    _shared: Path

    def __init__(self, place: PostPlace) -> None:
        super().__init__(place.log_file)
        self._place = place
        self._stack = AsyncExitStack()

    async def open(self) -> Opened:
        try:
            return await self._open()
        except BaseException:
            await self._stack.aclose()
            raise

    async def _open(self) -> Opened:
        place = self._place
        self._shared = place.shared or self._stack.enter_context(owned_folder(root()))
        copy_keys(place.keys, keys_in(self._shared))
        await self.meet([])
        store = WeightStore(self._shared / "weights")
        server = WeightServer(store, address=own_address(), keys=keys_in(self._shared))
        await self._stack.enter_async_context(server)
        self._unit = self._storage(place.name, place.cells or self._shared / "queue")
        await self._stack.enter_async_context(self._unit)
        return Opened(shared=self._shared, weights_address=server.address)

    async def meet(self, addresses: list[str]) -> None:
        """These are the weight servers of the other nodes now."""
        list_peers(peers_in(self._shared), addresses)

    async def stand_in(self, name: str, cells: Path) -> None:
        """Serves the rows of a node that is gone from where they lie; in memory they are gone too, and the
        queue is told so."""
        unit = self._storage(name, cells)
        await unit.start()
        self._stack.push_async_callback(unit.close)

    def _storage(self, name: str, cells: Path) -> StorageUnit:
        place = self._place
        return StorageUnit(
            cells,
            place.queue_address,
            node=name,
            address=own_address(),
            keys=keys_in(self._shared),
        )

    async def run(self) -> None:
        """Raises what made the storage unit stop."""
        await self._unit.closed()

    async def stop(self) -> None:
        await self._stack.aclose()


def keys_in(shared: Path) -> Path:
    return shared / "keys"


def peers_in(shared: Path) -> Path:
    return shared / "peers.json"
