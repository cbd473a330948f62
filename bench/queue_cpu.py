"""CPU that the queue's controller spends on rows and on messages, without sockets and processes.

    python bench/queue_cpu.py

Requests go through the hub as bytes, as from a socket; what is counted is this process's CPU time within.
Unlike wall time it says the same on a busy machine, within what shared caches do.
"""

import json
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from queue_ours import bytes_table, relay_table

from headrace.transferqueue.link.wire import pack_ints, read_reply, read_request, write_request
from headrace.transferqueue.payload.segments import segment_name
from headrace.transferqueue.schema import TableSpec
from headrace.transferqueue.server.hub import Hub
from headrace.transferqueue.server.operations import OPERATIONS
from headrace.transferqueue.solitude import quiet_collector

CLIENT = b"c0000000"
SEGMENT = segment_name(CLIENT.hex(), 0)
CHUNKS = {1: 6000, 64: 400, 1024: 60}
"""Rows in a message, and how often each is measured."""
WARM = 20


class Meter:
    """A hub and one client; `ns` are the nanoseconds of CPU of every request, by what it was for."""

    def __init__(self, directory: Path) -> None:
        self.ns: dict[str, list[int]] = defaultdict(list)
        self.replies: list[bytes] = []
        self.numbers = 0
        self.offset = 0
        self.hub = Hub(directory, OPERATIONS, lambda client, reply: self.replies.append(reply))
        with (directory / SEGMENT).open("wb") as file:
            file.truncate(1 << 34)
        self.ask("hello", "hello", {"holder": "meter"})

    def ask(self, what: str, operation: str, fields: dict[str, Any]) -> Any:
        self.numbers += 1
        data = write_request(self.numbers, self.numbers, operation, fields)
        start = time.process_time_ns()
        self.hub.handle(CLIENT, read_request(data), self.numbers * 1e-3)
        self.hub.custody.sweep()
        self.ns[what].append(time.process_time_ns() - start)
        return read_reply(self.replies.pop())[1]

    def create(self, spec: TableSpec) -> None:
        self.ask("create", "create", {"spec": spec.to_wire()})

    def put(self, what: str, table: str, columns: list[str], uids: bytes, lease: int | None = None) -> None:
        self.offset += 64
        where = {"segment": SEGMENT, "offset": self.offset, "length": 64, "checksum": 0}
        whose = {"groups": uids if lease is None else None, "lease": lease, "ack": lease is not None}
        told = {"lengths": {}, "floors": None, "figures": {}, "timeout_s": 60.0, "known_same": False}
        self.ask(what, "put", {"table": table, "uids": uids, "columns": columns, **where, **whose, **told})

    def lease(self, what: str, task: str, want: int) -> Any:
        fields = {"task": task, "want": want, "version": None, "rank": None, "timeout_s": 60.0}
        return self.ask(what, "lease", fields)

    def ack(self, what: str, table: str, lease: int) -> None:
        self.ask(what, "ack", {"table": table, "lease": lease, "uids": None})


def stream(meter: Meter, rows: int, times: int) -> None:
    """One consumer: put, lease, ack."""
    name = f"stream_{rows}"
    meter.create(bytes_table(name))
    for first in range(0, rows * times, rows):
        meter.put("put", name, ["x"], pack_ints(np.arange(first, first + rows)))
        meter.ack("ack", name, meter.lease("lease", name, rows)["lease"])


def relay(meter: Meter, rows: int, times: int) -> None:
    """Two tasks that write a column each, and a third that reads all three."""
    name = f"relay_{rows}"
    meter.create(relay_table(name))
    for first in range(0, rows * times, rows):
        meter.put("relay put", name, ["x"], pack_ints(np.arange(first, first + rows)))
        for column in ("reward", "ref"):
            held = meter.lease("relay lease", f"{name}_{column}", rows)
            meter.put("relay write and ack", name, [column], held["uids"], held["lease"])
        held = meter.lease("relay lease of all", f"{name}_train", rows)
        meter.ack("relay ack", name, held["lease"])


def main() -> int:
    quiet_collector()
    found: dict[str, dict[str, float]] = {}
    print(f"{'rows in a message':<22}{'us a message':>30}{'us a row':>12}")
    for rows, times in CHUNKS.items():
        with tempfile.TemporaryDirectory(prefix="headrace-bench-", dir="/dev/shm") as directory:
            meter = Meter(Path(directory))
            stream(meter, rows, times)
            relay(meter, rows, times)
        for what in [what for what in meter.ns if what not in ("hello", "create")]:
            us = float(np.mean(meter.ns[what][WARM:])) / 1e3
            found.setdefault(what, {})[str(rows)] = us
            print(f"{rows:>5}  {what:<30}{us:>15.1f}{us / rows:>12.2f}")
    print(json.dumps({"us_per_message": found, "ratios": {}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
