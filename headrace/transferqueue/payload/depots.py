"""The segments of all nodes: those beside the controller by their files, the others' by counting alone.

Invariant: a node's segment is named for removal once its writer has moved on or left and none of its blocks
is needed; it is named again until the node's unit says that it is gone.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.transferqueue.errors import PayloadError
from headrace.transferqueue.payload.custody import Custody
from headrace.transferqueue.state.records import Block


class Depots:
    """Custody of every node's segments; "" is the controller's own."""

    def __init__(self, custody: Custody) -> None:
        self.local = custody
        self._nodes: dict[str, _Depot] = {}

    def __len__(self) -> int:
        return len(self.local) + sum(len(depot.live) for depot in self._nodes.values())

    @property
    def size(self) -> int:
        """Bytes of the segments beside the controller, as files."""
        return self.local.size

    @property
    def rehearsing(self) -> bool:
        """See `Custody.rehearsing`."""
        return self.local.rehearsing

    @rehearsing.setter
    def rehearsing(self, now: bool) -> None:
        self.local.rehearsing = now

    def admit(
        self, owner: str, node: str, segment: str, offset: int, length: int, checksum: int = 0
    ) -> Block:
        """Takes a block of `owner` into custody; PayloadError if it is not one of its own."""
        if not node:
            return self.local.admit(owner, segment, offset, length, checksum)
        if not segment.startswith(f"{owner}-") or "/" in segment or offset < 0 or length < 1:
            raise PayloadError(f"block [{offset}, {offset + length}) of {segment!r} is none of {owner!r}")
        self._depot(node).admit(owner, segment)
        return Block(segment=segment, offset=offset, length=length, checksum=checksum, node=node)

    def free(self, block: Block) -> None:
        if not block.node:
            self.local.free(block)
        elif block.node in self._nodes:
            self._nodes[block.node].free(block.segment)

    def adopt(self, blocks: Iterable[Block]) -> None:
        """Blocks of a snapshot; see `Custody.adopt`."""
        blocks = list(blocks)
        self.local.adopt(block for block in blocks if not block.node)
        for block in blocks:
            if block.node:
                self._depot(block.node).admit(block.segment.rpartition("-")[0], block.segment)

    def hand(self, reader: str, places: Iterable[list[Any]]) -> None:
        """An answer to `reader` says where blocks are; see `Custody.hand`."""
        self.local.hand(reader, {segment for segment, *_, node in places if not node})

    def let_go(self, reader: str, counts: Mapping[Any, Any]) -> None:
        """See `Custody.let_go`; other nodes' segments are written once."""
        self.local.let_go(reader, counts)

    def leave(self, owner: str) -> None:
        """The client has gone; see `Custody.leave`."""
        self.local.leave(owner)
        for depot in self._nodes.values():
            depot.leave(owner)

    def settle(self, owners: Iterable[str]) -> None:
        """After a replay; see `Custody.settle`. A node's unit names what it holds when it registers."""
        self.local.settle(owners)

    def sync(self) -> None:
        """See `Custody.sync`; the blocks of other nodes are as safe as their writers made them."""
        self.local.sync()

    def sweep(self) -> None:
        """See `Custody.sweep`; units hear of theirs when they attend."""
        self.local.sweep()

    def close(self) -> None:
        """Removes the controller's own segments."""
        self.local.close()

    def open(self, node: str, holds: list[str], present: set[str]) -> None:
        """A unit serves the node again; what it holds of nobody is named for removal."""
        if node:
            depot = self._depot(node)
            for name in holds:
                if name not in depot.live and name.rpartition("-")[0] not in present:
                    depot.retired[name] = None

    def drop(self, node: str) -> None:
        """The node's bytes are gone."""
        self._nodes.pop(node, None)

    def retired(self, node: str) -> list[str]:
        """Segments that the node's unit shall remove."""
        return list(self._nodes[node].retired) if node in self._nodes else []

    def removed(self, node: str, names: list[str]) -> None:
        if node in self._nodes:
            for name in names:
                self._nodes[node].retired.pop(name, None)

    def nodes_to_wake(self) -> list[str]:
        """Nodes whose unit has something to remove."""
        return [node for node, depot in self._nodes.items() if depot.retired]

    def _depot(self, node: str) -> "_Depot":
        return self._nodes.setdefault(node, _Depot())


class _Depot:
    """Segments of one node: how many blocks of each are needed."""

    def __init__(self) -> None:
        self.live: dict[str, int] = {}
        self.retired: dict[str, None] = {}
        self._current: dict[str, str] = {}

    def admit(self, owner: str, segment: str) -> None:
        previous = self._current.get(owner)
        self._current[owner] = segment
        self.live[segment] = self.live.get(segment, 0) + 1
        if previous is not None and previous != segment:
            self._retire_if_done(previous)

    def free(self, segment: str) -> None:
        if segment in self.live:
            self.live[segment] -= 1
            self._retire_if_done(segment)

    def leave(self, owner: str) -> None:
        current = self._current.pop(owner, None)
        if current is not None:
            self._retire_if_done(current)

    def _retire_if_done(self, segment: str) -> None:
        if not self.live.get(segment) and self._current.get(segment.rpartition("-")[0]) != segment:
            self.live.pop(segment, None)
            self.retired[segment] = None
