"""What becomes of a service's replicas when they are changed, and when a change goes wrong."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace.dataflow.running import supervisor as supervision
from headrace.dataflow.running.asks import Asker, Refusal
from tests.dataflow.running.launched import Launched, graph
from tests.dataflow.running.lives import FAILED, GOES_ON

ANN, BOB = Asker(who="ann"), Asker(who="bob", why="enough")
TWO = "{kind: reward, inputs: [answers], verifier: copy, replicas: 2}"
LENIENT = "{kind: reward, inputs: [answers], verifier: copy, replicas: 2, max_error_rate: 0.9}"


@pytest.fixture(autouse=True)
async def in_time(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    monkeypatch.setattr(supervision, "BACKOFF_FIRST_S", 0.0)
    async with asyncio.timeout(60):
        yield


async def test_an_upgrade_has_the_new_one_ready_before_the_old_one_drains() -> None:
    always = [GOES_ON, GOES_ON, GOES_ON]
    launched = await Launched(graph(scores=TWO), scores_0=always, scores_1=always, scores_2=always).up()
    assert await launched.services.upgrade("scores", graph(scores=LENIENT), ANN) == ["scores/2", "scores/0"]
    assert launched.diary == [
        *("start scores/0", "start scores/1"),
        *("start scores/2", "drain scores/0", "start scores/0", "drain scores/1"),
    ]
    assert [each.options.max_error_rate for each in launched.told] == [0.5, 0.5, 0.9, 0.9]
    assert launched.current.spec == graph(scores=LENIENT)
    await launched.services.restart("scores", ANN)
    assert launched.told[-1].options.max_error_rate == 0.9
    await launched.supervisor.stop()


async def test_an_upgrade_that_does_not_come_up_is_taken_back_and_costs_no_replica() -> None:
    launched = await Launched(
        graph(scores=TWO),
        loading=("scores/0 start 2",),
        scores_0=[GOES_ON, FAILED, GOES_ON],
        scores_1=[GOES_ON],
        scores_2=[GOES_ON],
    ).up()
    with pytest.raises(Refusal, match=r"scores/0 has ended before it was ready: .*boom; its log: /run/logs"):
        await launched.services.upgrade("scores", graph(scores=LENIENT), ANN)
    assert launched.supervisor.replicas("scores") == ["scores/0", "scores/1"]
    assert [each.options.max_error_rate for each in launched.told] == [0.5, 0.5, 0.9, 0.9, 0.5]
    assert launched.current.spec == graph(scores=TWO)
    assert launched.changes.under_way() == []
    await launched.supervisor.stop()


async def test_a_change_that_is_cancelled_is_taken_back() -> None:
    launched = await Launched(
        graph(scores=TWO),
        loading=("scores/2 start 1",),
        scores_0=[GOES_ON],
        scores_1=[GOES_ON],
        scores_2=[GOES_ON],
    ).up()
    scaling = asyncio.create_task(launched.services.scale("scores", 3, ANN))
    await launched.up()
    with pytest.raises(Refusal, match="scores is being changed: scale, asked by ann; wait for that to end"):
        await launched.services.restart("scores", BOB)
    assert launched.changes.cancel("scores", BOB).action == "scale"
    with pytest.raises(Refusal, match="scale of scores was cancelled by bob"):
        await scaling
    assert launched.supervisor.replicas("scores") == ["scores/0", "scores/1"]
    with pytest.raises(Refusal, match="no change of 'scores' is under way"):
        launched.changes.cancel("scores", BOB)
    said = [(each["action"], each["who"], each["why"]) for each in launched.report.of("asked")]
    assert said == [("scale", "ann", ""), ("cancel", "bob", "enough")]
    await launched.supervisor.stop()


async def test_one_replica_drains_and_never_the_last() -> None:
    launched = await Launched(graph(scores=TWO), scores_0=[GOES_ON], scores_1=[GOES_ON]).up()
    with pytest.raises(Refusal, match="no replica 'scores/7' runs; there are scores/0, scores/1"):
        await launched.services.drain("scores/7", ANN)
    drained = await launched.services.drain("scores/0", ANN)
    assert (drained.before, drained.after, drained.drained) == (2, 1, ["scores/0"])
    with pytest.raises(Refusal, match="scores/1 is the last of scores, which the run needs; add one first"):
        await launched.services.drain("scores/1", ANN)
    with pytest.raises(Refusal, match="learn is a trainer, of which there is one"):
        await launched.services.drain("learn/0", ANN)
    await launched.supervisor.stop()


async def test_replicas_that_drain_are_not_called_back() -> None:
    launched = await Launched(graph(scores=TWO), scores_0=[GOES_ON], scores_1=[GOES_ON]).up()
    with (
        launched.changes.making("scores", "drain", ANN, is_final=True),
        pytest.raises(Refusal, match="scores drains replicas, which cannot be taken back"),
    ):
        launched.changes.cancel("scores", BOB)
    await launched.supervisor.stop()


async def test_a_trainer_is_scaled_in_ranks_and_goes_on_from_its_checkpoint() -> None:
    launched = await Launched(graph(), node="learn", learn_0=[GOES_ON, GOES_ON]).up()
    would = await launched.services.scale("learn", 2, ANN, dry_run=True)
    assert (would.before, would.after, would.renewed, would.done) == (1, 2, ["learn/0"], False)
    assert (await launched.services.scale("learn", 2, ANN)).done
    assert launched.diary == ["start learn/0", "stop learn/0", "evict learn/0", "start learn/0"]
    assert [each.options.parallel.dp for each in launched.runtime.started] == [1, 2]
    assert launched.current.spec.nodes["learn"].options.parallel.dp == 2
    assert (await launched.services.scale("learn", 2, ANN)).renewed == []
    with pytest.raises(Refusal, match="learn is a trainer, of which there is one"):
        await launched.services.restart("learn", ANN)
    with pytest.raises(Refusal, match="learn: got 0 replicas; 1 to 256 are allowed"):
        await launched.services.scale("learn", 0, ANN)
    assert [each["action"] for each in launched.report.of("asked")] == ["scale"]
    await launched.supervisor.stop()


async def test_a_trainer_that_does_not_come_up_in_other_ranks_goes_on_in_those_it_had() -> None:
    lives = [GOES_ON, FAILED, GOES_ON, GOES_ON]
    launched = await Launched(graph(), node="learn", loading=("learn/0 start 2",), learn_0=lives).up()
    with pytest.raises(
        Refusal, match=r"learn/0 did not come up in 2 ranks, and goes on in those it had: .*boom"
    ):
        await launched.services.scale("learn", 2, ANN)
    assert [each.options.parallel.dp for each in launched.runtime.started] == [1, 2, 1]
    assert launched.current.spec == graph()
    assert (await launched.services.scale("learn", 4, ANN)).before == 1
    await launched.supervisor.stop()
