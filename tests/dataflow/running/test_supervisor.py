"""What the supervisor decides, over a runtime whose replicas end as a list says."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from headrace.dataflow.running import supervisor as supervision
from headrace.dataflow.running import watch
from headrace.dataflow.running.supervisor import NotAgain, Renewal, RoleLost, backoff_s
from headrace.services.errors import NoWayOn, WeightsRefused
from headrace.services.host import Assignment
from headrace.transferqueue import ControllerUnreachable
from tests.dataflow.running.lives import (
    DIED,
    FAILED,
    GOES_ON,
    NEVER_STARTS,
    Busy,
    FailsWhenStopped,
    Life,
    Still,
    Stubborn,
    Wedged,
    assignment,
    supervisor,
)


@pytest.fixture(autouse=True)
def without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "BACKOFF_FIRST_S", 0.0)


@pytest.fixture
async def diary() -> AsyncIterator[list[str]]:
    async with asyncio.timeout(60):
        yield []


def test_the_back_off_doubles_from_a_tenth_of_a_second_to_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "BACKOFF_FIRST_S", 0.1)
    assert [backoff_s(n) for n in (1, 2, 3, 4, 7, 8, 9)] == [0.1, 0.2, 0.4, 0.8, 6.4, 10.0, 10.0]


async def test_a_dead_replica_s_leases_are_back_before_its_replacement_starts(diary: list[str]) -> None:
    kept, report = supervisor(diary, answers_0=[DIED, FAILED, None])
    await kept.keep(assignment())
    assert diary == [
        *("start answers/0", "evict answers/0"),
        *("start answers/0", "evict answers/0"),
        "start answers/0",
    ]
    assert [detail["restarts"] for detail in report.of("started")] == [0, 1, 2]
    assert report.of("died") == [{"replica": "answers/0", "reason": str(DIED), "rows_returned": 5}]
    assert report.of("failed") == [{"replica": "answers/0", "reason": str(FAILED), "rows_returned": 5}]


async def test_a_role_that_lost_its_last_replica_says_which_and_why(diary: list[str]) -> None:
    kept, report = supervisor(diary, answers_0=[FAILED] * 4)
    with pytest.raises(RoleLost) as lost:
        await kept.keep(assignment())
    assert str(lost.value) == (
        "service 'answers' (rollout) has no replica left: answers/0 failed 4 time(s) in a row, last with: "
        "answers/0: RuntimeError: boom\n  not started again: max_restarts is 3\n"
        "  its log: /run/logs/answers-0.log"
    )
    assert lost.value.__cause__ is FAILED
    assert diary.count("start answers/0") == diary.count("evict answers/0") == 4
    (given_up,) = report.of("given_up")
    assert given_up == {"replica": "answers/0", "reason": str(FAILED), "not_again": "max_restarts is 3"}


async def test_a_replica_that_lived_long_starts_its_count_anew(
    diary: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "STEADY_AFTER_S", 0.0)
    kept, _ = supervisor(diary, answers_0=[DIED] * 9 + [None])
    await kept.keep(assignment())
    assert diary.count("start answers/0") == 10


async def test_one_replica_of_two_that_is_lost_leaves_the_run_going(diary: list[str]) -> None:
    kept, report = supervisor(diary, answers_0=[FAILED] * 4, answers_1=[GOES_ON])
    lost, other = kept.keep(assignment(0)), kept.keep(assignment(1))
    await lost
    assert len(report.of("given_up")) == 1
    assert not other.done()
    await kept.stop()
    assert other.exception() is None


async def nobody(died: Assignment) -> Assignment:
    raise NotAgain("its rows are gone")


async def test_a_replica_that_would_fail_again_is_not_restarted(diary: list[str]) -> None:
    kept, _ = supervisor(diary, answers_0=[NoWayOn("answers/0: WaitTimeout: nobody published")])
    with pytest.raises(
        RoleLost, match=r"answers/0 failed 1 time.*nobody published\n  not started again: another"
    ):
        await kept.keep(assignment())
    assert diary == ["start answers/0", "evict answers/0"]


async def test_a_service_that_cannot_come_again_is_not_restarted(diary: list[str]) -> None:
    kept, _ = supervisor(diary, learn_0=[DIED])
    with pytest.raises(RoleLost, match=r"learn/0 failed 1 time[\s\S]*not started again: its rows are gone"):
        await kept.keep(assignment(kind="trainer", node="learn"), again=nobody)
    assert diary == ["start learn/0", "evict learn/0"]


async def test_a_replacement_is_told_what_was_found_after_the_leases_came_back(diary: list[str]) -> None:
    kept, _ = supervisor(diary, learn_0=[DIED], learn_7=[None])

    async def again(died: Assignment) -> Assignment:
        diary.append("ask")
        return replace(died, index=7)

    await kept.keep(assignment(kind="trainer", node="learn"), again=again)
    assert diary == ["start learn/0", "evict learn/0", "ask", "start learn/7"]


WIDER = Renewal(
    change=lambda told: replace(told, threads=2), back=lambda told: replace(told, threads=1), reason="wider"
)


@pytest.mark.parametrize(
    ("ends", "settled"), [([GOES_ON, GOES_ON], True), ([GOES_ON, FAILED, GOES_ON], False)]
)
async def test_a_replica_that_is_renewed_goes_on_changed_from_what_it_kept_or_as_it_was_where_it_fails(
    diary: list[str], ends: list[Any], settled: bool
) -> None:
    kept, report = supervisor(diary, learn_0=ends)
    told: list[Assignment] = []

    async def again(died: Assignment) -> Assignment:
        told.append(died)
        return replace(died, seed=died.seed + 1)

    keeping = kept.keep(assignment(kind="trainer", node="learn"), again=again)
    await asyncio.sleep(0)
    await kept.renew("learn/0", replace(WIDER, begun=asyncio.Event()), timeout_s=60.0)
    while diary.count("start learn/0") < len(ends):
        await asyncio.sleep(0)
    assert kept.settled("learn/0") is settled and not kept.settled("learn/0")
    assert diary[:4] == ["start learn/0", "stop learn/0", "evict learn/0", "start learn/0"]
    assert [(each.threads, each.seed) for each in told] == [(1, 0), (2, 1)][: len(ends) - 1]
    assert report.of("renewed") == [{"replica": "learn/0", "reason": "wider"}]
    assert len(report.of("taken_back")) == (not settled)
    await kept.stop()
    assert keeping.exception() is None


async def test_a_replica_that_cannot_go_on_from_what_it_kept_is_lost_when_it_is_renewed(
    diary: list[str],
) -> None:
    kept, _ = supervisor(diary, learn_0=[GOES_ON])
    keeping = kept.keep(assignment(kind="trainer", node="learn"), again=nobody)
    await asyncio.sleep(0)
    await kept.renew("learn/0", replace(WIDER, begun=asyncio.Event()), timeout_s=60.0)
    with pytest.raises(RoleLost, match=r"it was ended: wider\n  not started again: its rows are gone"):
        await keeping


async def test_one_that_has_no_process_and_does_not_end_is_renewed_once_it_does(diary: list[str]) -> None:
    kept, _ = supervisor(diary, learn_0=[Stubborn, GOES_ON])
    keeping = kept.keep(assignment(kind="trainer", node="learn"))
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await kept.renew("learn/0", replace(WIDER, begun=asyncio.Event()), timeout_s=60.0)
    life: Any = kept.handle("learn/0")
    life.stopped.set()
    while diary.count("start learn/0") < 2:
        await asyncio.sleep(0)
    assert kept.settled("learn/0")
    await kept.stop()
    assert keeping.exception() is None


async def test_stopping_stops_what_runs_and_cancels_what_is_being_started(diary: list[str]) -> None:
    kept, report = supervisor(diary, answers_0=[GOES_ON], answers_1=[NEVER_STARTS])
    running, starting = kept.keep(assignment(0)), kept.keep(assignment(1))
    await asyncio.sleep(0)
    await kept.stop()
    assert running.exception() is None
    assert starting.cancelled()
    assert diary == ["start answers/0", "start answers/1", "killed answers/1", "stop answers/0"]
    assert report.of("died") == []


async def test_a_role_that_is_retired_ends_and_the_others_go_on(diary: list[str]) -> None:
    kept, report = supervisor(
        diary, answers_0=[GOES_ON], answers_1=[NEVER_STARTS], answers_2=[None], scores_0=[GOES_ON]
    )
    running, starting, over = (kept.keep(assignment(index)) for index in range(3))
    other = kept.keep(assignment(kind="reward", node="scores"))
    await over
    await kept.retire("answers", "nobody asks for it")
    assert (running.exception(), starting.cancelled(), other.done()) == (None, True, False)
    assert diary[4:] == ["killed answers/1", "stop answers/0"]
    reason = "nobody asks for it"
    assert report.of("retired") == [{"replica": f"answers/{index}", "reason": reason} for index in (0, 1)]
    await kept.stop()
    assert other.exception() is None
    assert diary[6:] == ["stop scores/0"]


@pytest.mark.parametrize(
    ("way", "stops"), [(GOES_ON, []), (Busy, ["stop answers/1"]), (Wedged, ["stop answers/1"])]
)
async def test_a_drained_replica_ends_and_the_rest_of_its_role_goes_on(
    diary: list[str], way: Any, stops: list[str]
) -> None:
    kept, report = supervisor(diary, answers_0=[GOES_ON], answers_1=[way], scores_0=[GOES_ON])
    first, second = kept.keep(assignment()), kept.keep(assignment(index=1))
    kept.keep(assignment(node="scores"))
    await asyncio.sleep(0)
    assert kept.replicas("answers") == ["answers/0", "answers/1"]
    await kept.drain("answers/1", "scaled to 1", timeout_s=0.0 if stops else 60.0)
    assert (first.done(), second.done(), second.exception()) == (False, True, None)
    assert kept.replicas("answers") == ["answers/0"]
    assert diary[3:] == ["drain answers/1", *stops]
    assert report.of("drained") == [{"replica": "answers/1", "reason": "scaled to 1"}]
    await kept.stop()


async def test_a_replica_that_dies_while_it_drains_is_not_started_again(diary: list[str]) -> None:
    kept, report = supervisor(diary, answers_0=[FailsWhenStopped])
    task = kept.keep(assignment())
    await asyncio.sleep(0)
    await kept.drain("answers/0", "restarted", timeout_s=60.0)
    assert task.exception() is None
    assert diary == ["start answers/0", "drain answers/0", "evict answers/0"]
    assert [detail["reason"] for detail in report.of("failed")] == [str(FAILED)]


async def test_a_replica_that_has_ended_is_not_drained(diary: list[str]) -> None:
    kept, report = supervisor(diary, answers_0=[GOES_ON], answers_1=[NoWayOn("the same again")])
    kept.keep(assignment())
    await kept.keep(assignment(index=1))
    await kept.drain("answers/1", "restarted", timeout_s=60.0)
    assert report.of("drained") == []
    assert kept.replicas("answers") == ["answers/0"]
    await kept.stop()


async def test_a_role_is_lost_with_the_last_of_those_that_are_left(diary: list[str]) -> None:
    kept, _ = supervisor(diary, answers_0=[NoWayOn("the same again")], answers_1=[GOES_ON])
    kept.keep(assignment(index=1))
    await asyncio.sleep(0)
    await kept.drain("answers/1", "scaled to 1", timeout_s=60.0)
    with pytest.raises(RoleLost):
        await kept.keep(assignment())


async def test_a_replica_that_waits_for_its_restart_is_not_restarted_once_retired(
    diary: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "BACKOFF_FIRST_S", 100.0)
    kept, report = supervisor(diary, answers_0=[DIED])
    task = kept.keep(assignment())
    while not report.of("died"):
        await asyncio.sleep(0)
    await kept.retire("answers", "nobody asks for it")
    assert task.cancelled()
    assert diary == ["start answers/0", "evict answers/0"]


async def test_a_replica_that_fails_while_it_is_retired_is_no_loss(diary: list[str]) -> None:
    kept, report = supervisor(diary, answers_0=[FailsWhenStopped])
    task = kept.keep(assignment())
    await asyncio.sleep(0)
    await kept.retire("answers", "nobody asks for it")
    assert task.exception() is None
    assert [detail["reason"] for detail in report.of("failed")] == [str(FAILED)]
    assert diary == ["start answers/0", "stop answers/0", "evict answers/0"]


async def test_a_replica_that_fails_while_it_is_stopped_is_said_and_not_restarted(diary: list[str]) -> None:
    kept, report = supervisor(diary, answers_0=[FailsWhenStopped])
    task = kept.keep(assignment())
    await asyncio.sleep(0)
    await kept.stop()
    assert task.exception() is None
    assert [detail["reason"] for detail in report.of("failed")] == [str(FAILED)]
    assert diary == ["start answers/0", "stop answers/0", "evict answers/0"]


async def test_a_replica_that_will_not_stop_is_said_and_left(diary: list[str]) -> None:
    kept, report = supervisor(diary, answers_0=[Stubborn])
    task = kept.keep(assignment())
    await asyncio.sleep(0)
    await kept.stop()
    assert task.cancelled()
    (said,) = report.of("not_stopped")
    assert said["replica"] == "answers/0" and "not stopped within 30 s" in said["reason"]


async def test_a_queue_that_is_gone_ends_the_keeping(diary: list[str]) -> None:
    kept, _ = supervisor(diary, gone=True, answers_0=[DIED])
    with pytest.raises(ControllerUnreachable):
        await kept.keep(assignment())


async def test_a_wedged_replica_is_killed_and_its_leases_are_back_before_its_replacement_starts(
    diary: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "EVERY_S", 0.0)
    kept, report = supervisor(diary, answers_0=[Still, None])
    await kept.keep(assignment(stalled_after_s=2.5))
    assert diary == ["start answers/0", "kill answers/0", "evict answers/0", "start answers/0"]
    reason = "answers/0 is wedged: nothing has come of its work for 2.6 s (allowed: 2.5): process 8 rows"
    assert report.of("wedged") == [{"replica": "answers/0", "reason": reason, "rows_returned": 5}]


async def test_of_a_role_that_degrades_the_last_replica_alone_is_started_again(diary: list[str]) -> None:
    fails = asyncio.Event()

    class FailsLater(Life):
        async def wait(self) -> None:
            await fails.wait()
            raise FAILED

    kept, report = supervisor(diary, answers_0=[DIED], answers_1=[FailsLater, None])
    first, second = (kept.keep(assignment(index, on_failure="degrade")) for index in (0, 1))
    await first
    (given_up,) = report.of("given_up")
    assert given_up["not_again"] == "on_failure is degrade, and 1 of its role go on"
    fails.set()
    await second
    assert diary.count("start answers/0") == 1
    assert diary.count("start answers/1") == 2


async def test_a_role_that_is_to_stop_the_run_does_so_though_others_of_it_are_left(diary: list[str]) -> None:
    kept, _ = supervisor(diary, answers_0=[DIED], answers_1=[GOES_ON])
    other = kept.keep(assignment(1, on_failure="stop"))
    with pytest.raises(
        RoleLost, match=r"has 1 replica left: answers/0 failed 1 time[\s\S]*on_failure is stop"
    ):
        await kept.keep(assignment(on_failure="stop"))
    assert not other.done()
    await kept.stop()


@pytest.mark.parametrize(("policy", "avoid"), [("replace", "node-a"), ("restart", "")])
async def test_a_replica_that_is_replaced_avoids_the_node_where_it_was(
    diary: list[str], policy: Any, avoid: str
) -> None:
    kept, _ = supervisor(diary, answers_0=[DIED, None])
    told: list[str] = []

    async def again(died: Assignment) -> Assignment:
        told.append(died.avoid)
        return died

    await kept.keep(assignment(on_failure=policy), again=again)
    assert told == [avoid]


async def test_weights_that_a_replica_refused_are_written_once_more_before_it_starts_again(
    diary: list[str],
) -> None:
    kept, report = supervisor(diary, answers_0=[WeightsRefused("xxh3"), None], learn_0=[GOES_ON])
    kept.keep(assignment(kind="trainer", node="learn"))
    await asyncio.sleep(0)
    await kept.keep(assignment())
    assert diary == [
        *("start learn/0", "start answers/0", "evict answers/0"),
        *("rewrite learn/0", "start answers/0"),
    ]
    assert report.of("weights_rewritten") == [{"replica": "learn/0"}]
    await kept.stop()
