"""What replicas are at, over a supervisor and a queue that say what a test tells them to."""

from typing import Any, cast

from headrace.dataflow.running.supervisor import Supervisor
from headrace.dataflow.running.waiting import at
from headrace.services.pulse import Beat
from headrace.transferqueue import Client, Waited


class Looks:
    async def looks(self) -> dict[str, Beat | None]:
        works = Beat(doing="process 8 rows", still_s=0.5, ready=True)
        return {"answers/0": works, "answers/1": None, "learn/0": Beat(doing="", still_s=0.0, ready=True)}


class Queue:
    async def waits(self) -> list[Waited]:
        told = (("learn/0", 3.0), ("answers/0", 1.0), ("answers/0", 2.0), ("launch", 9.0))
        return [Waited(holder=name, why=f"rows, {age:g}", since_s=age, left_s=60.0) for name, age in told]


def wait(age_s: float) -> dict[str, Any]:
    return {"why": f"rows, {age_s:g}", "since_s": age_s, "left_s": 60.0}


async def test_each_replica_has_what_it_does_and_its_waits_the_longest_first() -> None:
    assert await at(cast(Supervisor, Looks()), cast(Client, Queue())) == {
        "answers/0": {"doing": "process 8 rows", "still_s": 0.5, "waits": [wait(2.0), wait(1.0)]},
        "answers/1": {"doing": "does not answer", "still_s": 0.0, "waits": []},
        "learn/0": {"doing": "", "still_s": 0.0, "waits": [wait(3.0)]},
    }
