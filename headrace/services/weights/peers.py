"""Versions from whichever other node has them, for the replicas of this one.

    announced ─► here? ─► else each node's server is asked, the one that had the last version first

Invariant: what was brought is in the node's store under the checksum that was published, whoever sent it: a
node that was given a version is as good a source as the one where it was made.
"""

import json
from pathlib import Path
from typing import Any

import zmq

from headrace.services.errors import WeightsError, WeightsGone
from headrace.services.weights.mirror import WeightMirror
from headrace.services.weights.store import WeightStore
from headrace.services.weights.transfer import NOTHING_MOVED, Pulled


def list_peers(file: Path, addresses: list[str]) -> None:
    """Leaves the addresses of the other nodes' servers in `file`, whole or not at all."""
    aside = file.with_name(f".{file.name}")
    aside.write_text(json.dumps(addresses))
    aside.replace(file)


class Peers:
    """Fills `store` from the servers that the file `listed` names at the time, see `list_peers`."""

    def __init__(
        self,
        store: WeightStore,
        listed: Path,
        *,
        keys: Path | None = None,
        timeout_s: float = 30.0,
        context: "zmq.Context[Any] | None" = None,
    ) -> None:
        """`timeout_s`: how long a server may be silent."""
        self._store = store
        self._listed = listed
        self._keys = keys
        self._timeout_s = timeout_s
        self._context = context
        self._mirrors: dict[str, WeightMirror] = {}

    async def bring(self, policy: str, version: int, checksum: str) -> Pulled:
        """Has the store hold a version. Raises WeightsGone where no node has it, WeightsError where one that
        may have it is silent or sends something else."""
        if self._store.has(policy, version, checksum):
            return NOTHING_MOVED
        failed: WeightsError | None = None
        for mirror in self._known():
            try:
                pulled = await mirror.pull(policy, version, checksum)
            except WeightsGone:
                continue
            except WeightsError as error:
                failed = error
                continue
            self._mirrors = {mirror.address: mirror, **self._mirrors}
            return pulled
        asked = ", ".join(self._mirrors) or "none"
        raise failed or WeightsGone(f"no other node has version {version} of {policy!r}; asked were {asked}")

    def close(self) -> None:
        for mirror in self._mirrors.values():
            mirror.close()

    def _known(self) -> list[WeightMirror]:
        """One for each server that is listed, in the order in which they are asked."""
        listed = json.loads(self._listed.read_text())
        for address in self._mirrors.keys() - set(listed):
            self._mirrors.pop(address).close()
        for address in listed:
            if address not in self._mirrors:
                self._mirrors[address] = WeightMirror(
                    self._store, address, timeout_s=self._timeout_s, keys=self._keys, context=self._context
                )
        return list(self._mirrors.values())
