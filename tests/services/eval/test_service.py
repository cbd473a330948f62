"""Evals over a real queue and real files of weights."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.services.errors import ReplicaFailed, WeightsError, first_error
from headrace.services.eval.service import Eval
from headrace.services.models import load
from headrace.services.options import CopyData, CopyVerifier, EvalOptions, PythonVerifier
from headrace.services.weights import WeightStore
from headrace.transferqueue import Client
from tests.services.bench import NUMBERS, Remembered, context, queue
from tests.services.eval.policy import Heard, Published

ECHO = EvalOptions(
    dataset=CopyData(letters=3), verifier=CopyVerifier(), engine="fake", every=2, prompts=4, max_new_tokens=8
)


@asynccontextmanager
async def evaluating(
    tmp_path: Path, options: EvalOptions, **changes: Any
) -> AsyncIterator[tuple[Eval, Heard, Published]]:
    """An eval that is set up, what it says, and the trainer's side of its policy."""
    report = Heard()
    async with queue(tmp_path, NUMBERS) as (address, client):
        publish = Published(client, WeightStore(tmp_path / "weights"))
        async with await Client.connect(address, holder="held/0") as own:
            changes = {"policy_is_trained": True, "node": "held", "steps": 6, **changes}
            made = Eval()
            try:
                await made.setup(context(own, report, tmp_path, options=options, **changes))
                yield made, report, publish
            finally:
                await made.close()


def scores(report: Remembered) -> dict[int, dict[str, float]]:
    """Figures by version; seconds left out."""
    return {
        step: {name: value for name, value in line.items() if name != "eval/held/seconds"}
        for step, line in report.lines
        if step is not None
    }


async def test_the_due_versions_are_scored_with_the_checksums_that_were_published(tmp_path: Path) -> None:
    async with evaluating(tmp_path, ECHO) as (made, report, publish):
        running = asyncio.create_task(made.run())
        for version in range(7):
            await publish(version)
            await report.said("evaluated", version // 2 + 1)
        await running
        assert [(e["version"], e["checksum"]) for e in report.of("evaluated")] == [
            (version, publish.checksums[version]) for version in (0, 2, 4, 6)
        ]
    assert report.of("eval_skipped") == []
    assert scores(report)[4] == {
        "eval/held/exact": 1.0,
        "eval/held/share": 1.0,
        "eval/held/reward": 1.0,
        "eval/held/invalid_rate": 0.0,
        "eval/held/error_rate": 0.0,
        "eval/held/response_length": 4.0,
        "eval/held/truncated_frac": 0.0,
    }


async def test_a_version_s_figures_follow_from_its_weights_alone(tmp_path: Path) -> None:
    options = EvalOptions(dataset=CopyData(letters=3), verifier=CopyVerifier(), every=1, prompts=8)
    first, second = (load("tiny-copier", dtype="float32", seed=s).model.state_dict() for s in (5, 6))
    async with evaluating(tmp_path, options, steps=2) as (made, report, publish):
        running = asyncio.create_task(made.run())
        for version, weights in enumerate((first, second, first)):
            await publish(version, {name: w.clone() for name, w in weights.items()})
            await report.said("evaluated", version + 1)
        await running
    assert scores(report)[0] == scores(report)[2] != scores(report)[1]


async def test_bytes_other_than_those_published_end_the_eval(tmp_path: Path) -> None:
    async with evaluating(tmp_path, ECHO) as (made, _, publish):
        await publish(0, checksum="0" * 32)
        with pytest.raises(ExceptionGroup) as raised:
            await made.run()
        assert isinstance(first_error(raised.value), WeightsError)


async def test_the_weights_of_a_policy_that_nobody_trains_are_scored_once(tmp_path: Path) -> None:
    async with evaluating(tmp_path, ECHO, policy_is_trained=False) as (made, report, _):
        await made.run()
    assert list(scores(report)) == [0]
    assert [(e["version"], e["checksum"]) for e in report.of("evaluated")] == [(0, "")]


def raising(tmp_path: Path, body: str) -> EvalOptions:
    (tmp_path / "mine.py").write_text(f"def score(response, example):\n{body}")
    return EvalOptions(
        dataset=CopyData(letters=3),
        verifier=PythonVerifier(function=f"{tmp_path}/mine.py:score", limits=None),
        engine="fake",
        prompts=4,
    )


async def test_scorings_that_fail_twice_are_said_and_counted(tmp_path: Path) -> None:
    body = (
        "    import pathlib\n"
        "    asked = pathlib.Path(__file__).with_name('asked')\n"
        "    count = len(asked.read_text()) if asked.exists() else 0\n"
        "    asked.write_text('x' * (count + 1))\n"
        "    return 1 / (0 if count in (0, 2, 3) else 2)\n"
    )
    async with evaluating(tmp_path, raising(tmp_path, body), policy_is_trained=False) as (made, report, _):
        await made.run()
    assert scores(report)[0]["eval/held/error_rate"] == 0.25
    assert scores(report)[0]["eval/held/reward"] == 0.5
    assert [e["answers"] for e in report.of("scoring_failed")] == [1]


async def test_an_eval_that_can_score_nothing_fails(tmp_path: Path) -> None:
    options = raising(tmp_path, "    raise KeyError('gold')\n")
    async with evaluating(tmp_path, options, policy_is_trained=False) as (made, report, _):
        with pytest.raises(ReplicaFailed, match="none of the 4 answers could be scored; the last: KeyError"):
            await made.run()
    assert scores(report) == {}
