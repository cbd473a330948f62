"""The newest samples of a run."""

from typing import Any

from headrace.dataflow.record.gallery import Gallery
from headrace.dataflow.record.rundir import RunDir, read_jsonl
from headrace.dataflow.record.telemetry import SAMPLES, Record, Speakers, Telemetry


def shows(step: int, *rewards: float | None, policy: str = "actor", at: float | None = None) -> Record:
    samples = [{"uid": f"{step}-{n}", "reward": reward} for n, reward in enumerate(rewards)]
    body = {"step": step, "samples": samples}
    at = float(step) if at is None else at
    return Record(source="learn/0", kind=SAMPLES, at=at, step=None, body=body, policy=policy)


def uids(gallery: Gallery, **bounds: Any) -> list[str]:
    return [sample["uid"] for sample in gallery.found(most=10, **bounds)]


def test_the_newest_come_first_and_the_oldest_are_forgotten() -> None:
    gallery = Gallery(most=3)
    for step in range(3):
        gallery.take(shows(step, 0.0, 1.0))
    assert uids(gallery) == ["2-0", "2-1", "1-1"]
    assert [s["uid"] for s in gallery.found(most=1)] == ["2-0"]
    assert gallery.found(most=1) == [{"uid": "2-0", "reward": 0.0, "step": 2, "policy": "actor", "at": 2.0}]


def test_they_are_found_by_policy_step_and_reward() -> None:
    gallery = Gallery()
    gallery.take(shows(0, 0.0, 0.5, None))
    gallery.take(shows(1, 1.0))
    gallery.take(shows(1, 0.5, policy="judge", at=3.0))
    assert uids(gallery) == ["1-0", "1-0", "0-0", "0-1", "0-2"]
    assert uids(gallery, policy="judge") == ["1-0"]
    assert uids(gallery, policy="nobody") == []
    assert uids(gallery, policy="actor", step=0) == ["0-0", "0-1", "0-2"]
    assert uids(gallery, policy="actor", reward_min=0.5) == ["1-0", "0-1"]
    assert uids(gallery, policy="actor", reward_max=0.5) == ["0-0", "0-1"]


def test_a_step_that_comes_again_takes_the_place_of_those_that_were_lost() -> None:
    gallery = Gallery()
    for step in range(3):
        gallery.take(shows(step, 0.0))
    gallery.take(shows(1, 1.0, at=9.0))
    assert [(s["uid"], s["reward"]) for s in gallery.found(most=9)] == [("1-0", 1.0), ("0-0", 0.0)]


def test_samples_are_of_their_trainers_policy_and_in_no_file(tmp_path: Any) -> None:
    run, gallery = RunDir.create("sort", tmp_path / "out"), Gallery()
    speakers = Speakers(trainers={"learn": "judge"})
    with Telemetry(run, speakers, watch=[gallery.take]) as telemetry:
        telemetry.take(shows(0, 1.0, policy=""))
    assert [s["policy"] for s in gallery.found(most=9)] == ["judge"]
    assert read_jsonl(run.metrics).records == read_jsonl(run.events).records == []
