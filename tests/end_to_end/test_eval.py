"""A run with an eval beside the training: it scores the versions that are due, each under its own weights."""

from pathlib import Path

import pytest
from safetensors.torch import load_file

from headrace.dataflow.record.history import History
from headrace.dataflow.record.summary import summary
from headrace.services.errors import ReplicaFailed
from headrace.services.eval.service import Eval
from headrace.services.models import load
from headrace.services.weights import WeightStore
from tests.end_to_end.copying import GRAPH, copying

WITH_EVAL = (
    GRAPH
    + """\
  held_out: {kind: eval, policy: actor, dataset: {kind: copy, letters: 2}, verifier: copy, every: 16,
             prompts: 64, max_new_tokens: 2, threads: 1}
"""
)


@pytest.mark.slow
def test_an_eval_scores_the_versions_that_are_due_and_sees_the_policy_learn(tmp_path: Path) -> None:
    course = copying(tmp_path / "run", "steps=40", text=WITH_EVAL)
    assert [step["step"] for step in course.steps] == list(range(40))
    assert {step["policy"] for step in course.steps} == {"actor"}
    history = History.read(tmp_path / "run")
    exact = dict(history.evals["held_out"].values("eval/held_out/exact"))
    assert list(exact) == stood_in_for(history, 0, 16, 32, 40)
    assert exact[40] > exact[0] + 0.1
    told = {e["version"]: e["checksum"] for e in history.events if e["event"] == "evaluated"}
    weights = load_file(course.checkpoint() / "model.safetensors")
    assert told[40] == WeightStore(tmp_path / "again").write("actor", 40, weights)
    first = load("tiny-copier", dtype="float32", seed=0).model.state_dict()
    assert told[0] == WeightStore(tmp_path / "first").write("actor", 0, {n: first[n] for n in weights})
    figures = summary(tmp_path / "run")["evals"]["held_out"]
    assert figures["versions"] == list(exact)
    assert figures["last"]["exact"] == exact[40]


def stood_in_for(history: History, *due: int) -> list[int]:
    """What was scored: versions that are due, or those that stand in for them where others came too soon."""
    skipped = {e["version"]: e["scored_instead"] for e in history.events if e["event"] == "eval_skipped"}
    return list(dict.fromkeys(skipped.get(version, version) for version in due))


@pytest.mark.slow
def test_an_eval_that_died_goes_on_after_what_it_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate, died = Eval._evaluate, []

    async def once_fatal(self: Eval, *, checksum: str) -> None:
        if died or len(checksums) < 1:
            checksums.append(checksum)
            return await evaluate(self, checksum=checksum)
        died.append(checksum)
        raise ReplicaFailed("killed by the test")

    checksums: list[str] = []
    monkeypatch.setattr(Eval, "_evaluate", once_fatal)
    copying(tmp_path / "run", "steps=40", text=WITH_EVAL)
    history = History.read(tmp_path / "run")
    versions = [version for version, _ in history.evals["held_out"].values("eval/held_out/exact")]
    assert len(died) == 1 and versions[0] == 0 and versions[-1] == 40
    said = [event["version"] for event in history.events if event["event"] == "evaluated"]
    assert said == versions
    assert all(event["version"] > 0 for event in history.events if event["event"] == "eval_skipped")
