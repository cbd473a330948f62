"""What each replica is at: what it does, and what it waits for, owed by whom, since when and until when.

Replicas say what they do, the queue what they wait for; neither is asked more often than somebody looks.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from headrace.dataflow.running.supervisor import Supervisor
from headrace.transferqueue import Client

SILENT = "does not answer"
AT_NOTHING: Mapping[str, Any] = {"doing": "", "still_s": 0.0, "waits": []}
"""Of one that does not run."""


async def at(supervisor: Supervisor, client: Client) -> Mapping[str, Mapping[str, Any]]:
    """By replica: `doing` ("" where it waits), `still_s` without movement, and `waits`, the longest first.

    Raises QueueError where the queue is away.
    """
    beats, waits = await asyncio.gather(supervisor.looks(), client.waits())
    waited: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for wait in sorted(waits, key=lambda wait: -wait.since_s):
        waited[wait.holder].append({name: v for name, v in asdict(wait).items() if name != "holder"})
    return {
        replica: {
            "doing": SILENT if beat is None else beat.doing,
            "still_s": 0.0 if beat is None else beat.still_s,
            "waits": waited[replica],
        }
        for replica, beat in beats.items()
    }
