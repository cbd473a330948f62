"""The hub by hand, without sockets: what is answered when, and when it must be looked at again."""

from pathlib import Path
from typing import Any

from headrace.transferqueue import Column, TableSpec, Task
from headrace.transferqueue.link.wire import Arguments, Request, pack_ints, read_reply
from headrace.transferqueue.payload.segments import segment_name
from headrace.transferqueue.server.hub import Hub
from headrace.transferqueue.server.nodes import Unit, addresses
from headrace.transferqueue.server.operations import OPERATIONS

CLIENT = b"c0000000"
SPEC = TableSpec(
    name="t",
    columns=(Column(name="x", dtype="int32"),),
    tasks=(Task(name="work", reads=("x",)),),
    lease_s=10.0,
)


class Desk:
    """A hub with one client; `replies` are the bodies and errors by request id."""

    def __init__(self, directory: Path) -> None:
        self.replies: dict[int, Any] = {}
        self.hub = Hub(directory, OPERATIONS, self.deliver)
        self.numbers = 0
        (directory / segment_name(CLIENT.hex(), 0)).write_bytes(bytes(4096))
        self.ask(0.0, "hello", {"holder": "me"})
        self.ask(0.0, "create", {"spec": SPEC.to_wire()})

    def deliver(self, client: bytes, reply: bytes) -> None:
        number, body = read_reply(reply)
        self.replies[number] = body

    def ask(self, now: float, operation: str, fields: dict[str, Any]) -> int:
        self.numbers += 1
        self.hub.handle(CLIENT, Request(self.numbers, 1, operation, Arguments(fields)), now)
        return self.numbers

    def lease(self, now: float, timeout_s: float) -> int:
        return self.ask(now, "lease", {"task": "work", "want": 1, "timeout_s": timeout_s})

    def put(self, now: float, uid: int) -> int:
        ids = pack_ints([uid])
        where = {"segment": segment_name(CLIENT.hex(), 0), "offset": 64 * uid, "length": 64, "checksum": 0}
        fields = {"table": "t", "uids": ids, "groups": ids, "columns": ["x"], "lengths": {}}
        return self.ask(now, "put", {**fields, **where, "known_same": False})


def test_a_put_that_nobody_waits_for_makes_nothing_due(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    due = desk.hub.due
    desk.put(1.0, 0)
    assert desk.hub.due == due


def test_the_earliest_deadline_is_due_and_the_next_one_is_found_by_a_tick(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    patient = desk.lease(1.0, 5.0)
    assert desk.hub.due == 6.0
    hasty = desk.lease(2.0, 2.0)
    assert desk.hub.due == 4.0
    desk.hub.tick(4.0)
    assert "no row of table 't'" in str(desk.replies[hasty])
    assert patient not in desk.replies
    assert desk.hub.due == 6.0
    desk.put(5.0, 0)
    assert desk.replies[patient]["uids"] == pack_ints([0])
    desk.hub.tick(6.0)
    assert desk.hub.due == 15.0, "the lease that was granted at 5 ends after 10 s"


def test_one_put_answers_all_who_wait_for_its_rows_in_their_order(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    first, second, third = (desk.lease(1.0, 5.0) for _ in range(3))
    desk.put(2.0, 0)
    desk.put(2.0, 1)
    assert [desk.replies[number]["uids"] for number in (first, second)] == [pack_ints([0]), pack_ints([1])]
    assert third not in desk.replies


def test_an_answer_that_is_given_again_by_another_process_names_nodes_in_the_same_order(
    tmp_path: Path,
) -> None:
    """A set of names has another order in each process: the answer would have other bytes."""
    desk = Desk(tmp_path)
    nodes = [f"node {number}" for number in range(20)]
    for node in nodes:
        desk.hub.units[node] = Unit(
            node=node, address=f"at {node}", directory="", incarnation="", attended_s=0.0
        )
    order = [*nodes[10:], *nodes[:10]]
    blocks = [["segment", 0, 1, b"", b"", node] for node in (*order, *nodes, "")]
    assert list(addresses(desk.hub, blocks).items()) == [(node, f"at {node}") for node in order]


def test_who_waits_is_told_what_for_since_when_and_until_when(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.ask(1.0, "lease", {"task": "work", "want": 1, "timeout_s": 30.0})
    desk.ask(2.0, "published", {"policy": "actor", "after": 3, "timeout_s": 60.0})
    told = desk.replies[desk.ask(5.0, "waits", {})]
    why = "no row of table 't' for task 'work': no row is in the table; its producer owes them"
    never = "no version of policy 'actor' after 3: it was never published; its trainer owes it"
    assert told["waits"] == [
        {"holder": "me", "why": why, "since_s": 4.0, "left_s": 26.0},
        {"holder": "me", "why": never, "since_s": 3.0, "left_s": 57.0},
    ]


def test_a_table_that_is_paused_gives_no_row_and_no_wait_for_one_ends(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    before = desk.lease(1.0, 5.0)
    desk.ask(2.0, "pause", {"tables": ["t"], "reason": "by ann: a look"})
    desk.put(3.0, 0)
    meanwhile = desk.lease(10.0, 5.0)
    desk.hub.tick(100.0)
    waits = desk.ask(100.0, "waits", {})
    found = [(each["why"], each["left_s"]) for each in desk.replies[waits]["waits"]]
    assert found == [("table 't' is paused by ann: a look", 4.0), ("table 't' is paused by ann: a look", 5.0)]
    assert not {before, meanwhile} & desk.replies.keys()
    desk.ask(200.0, "pause", {"tables": [], "reason": ""})
    assert desk.replies[before]["uids"] == pack_ints([0])
    desk.hub.tick(204.9)
    assert meanwhile not in desk.replies
    desk.hub.tick(205.0)
    assert "(waited 5 s)" in str(desk.replies[meanwhile])


def test_a_lease_that_does_not_wait_is_told_that_the_table_is_paused(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.put(1.0, 0)
    desk.ask(1.0, "pause", {"tables": ["t"], "reason": "by ann"})
    asked = desk.lease(2.0, 0.0)
    assert "table 't' is paused by ann" in str(desk.replies[asked])


def test_a_storage_unit_shows_that_it_is_there_while_the_queue_stands(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    card = {"node": "b", "incarnation": "one", "address": "tcp://b", "directory": "/b", "holds": []}
    desk.ask(0.0, "unit", {**card, "torn": []})
    desk.ask(0.0, "pause", {"tables": ["t"], "reason": "by ann"})
    waiting = desk.lease(0.0, 5.0)
    for second in range(40):
        attend = {"node": "b", "incarnation": "one", "done": [], "timeout_s": 1.0}
        attending = desk.ask(float(second), "attend", attend)
        assert desk.hub.due <= second + 1.0
        desk.hub.tick(second + 1.0)
        assert "no segment of node 'b'" in str(desk.replies[attending])
    assert not desk.hub.units["b"].away
    assert waiting not in desk.replies
    desk.ask(40.0, "pause", {"tables": [], "reason": ""})
    desk.hub.tick(44.9)
    assert waiting not in desk.replies
    desk.hub.tick(45.0)
    assert "(waited 5 s)" in str(desk.replies[waiting])
