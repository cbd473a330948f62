"""The rollout service over the fake engine, and what it tells any engine."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from headrace.algorithms.seeds import sample_seed
from headrace.services.columns import PROMPT, RESPONSE
from headrace.services.options import RolloutOptions
from headrace.services.rollout import service
from headrace.services.rollout.engines import NOT_SERVED, Carry, Completion, Request
from headrace.services.rollout.service import Rollout
from headrace.transferqueue import Client, Rows, TableSpec, Task
from tests.services.bench import Remembered, context

SPEC = TableSpec(name="rows", columns=PROMPT, tasks=(Task(name="answers", reads=("prompt_ids",)),))


def rows(*prompts: list[int], carries: Sequence[dict[str, Any] | None] | None = None) -> Rows:
    """Two rows for each prompt, in a group of their own."""
    size = 2 * len(prompts)
    return Rows(
        uids=np.arange(size),
        groups=np.arange(size) // 2,
        attempts=np.ones(size, dtype=np.int32),
        versions=np.zeros(size, dtype=np.int64),
        carries=tuple(carries or [None] * size),
        columns={"prompt_ids": pa.array([p for p in prompts for _ in range(2)], pa.list_(pa.int32()))},
        spec=SPEC,
    )


class Recording:
    """An engine that answers [9] to each request, one group a yield."""

    version = NOT_SERVED

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.let_go = self.closed = 0

    async def generate(
        self, requests: Sequence[Request], left: dict[int, Carry] | None = None
    ) -> AsyncGenerator[list[Completion], None]:
        self.requests += requests
        try:
            for group in dict.fromkeys(request.group for request in requests):
                yield [answer(request) for request in requests if request.group == group]
        except GeneratorExit:
            self.let_go += 1
            if left is not None:
                left[2] = {"token_ids": [8]}
            raise

    async def load(self, version: int, weights: Mapping[str, Any]) -> None:
        self.version = version

    async def close(self) -> None:
        self.closed += 1


def answer(request: Request) -> Completion:
    return Completion(
        uid=request.uid,
        token_ids=np.array([9], dtype=np.int32),
        logprobs=np.array([-0.5], dtype=np.float32),
        versions=np.array([4], dtype=np.int32),
        finish_reason="stop",
    )


async def rollout(tmp_path: Path, options: RolloutOptions, **changes: Any) -> Rollout:
    made = Rollout()
    changes = {"policy_is_trained": True, **changes}
    await made.setup(context(cast(Client, None), Remembered(), tmp_path, options=options, **changes))
    return made


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Recording:
    made = Recording()

    async def build(*_: Any, **__: Any) -> Recording:
        return made

    monkeypatch.setattr(service, "build", build)
    return made


async def test_answers_of_the_scripted_engine_fill_every_column_of_a_response(tmp_path: Path) -> None:
    made = await rollout(tmp_path, RolloutOptions(engine="fake", max_new_tokens=5))
    assert (made.follows, made.version) == (True, NOT_SERVED)
    await made.load(3, {})
    assert made.version == 3
    written = {}
    async for output in made.process(rows([5, 6, 7, 2], [4, 2])):
        assert set(output.columns) == {column.name for column in RESPONSE}
        written |= dict(zip(output.uids.tolist(), output.columns["response_ids"], strict=True))
        assert all(v.tolist() == [3] * len(v) for v in output.columns["versions"])
        assert all(m.tolist() == [1] * len(m) for m in output.columns["loss_mask"])
        assert list(output.columns["retokenises"]) == [True] * len(output.uids)
    assert {uid: ids.tolist() for uid, ids in written.items()} == {
        0: [5, 6, 7, 1],
        1: [5, 6, 7, 1],
        2: [4, 1],
        3: [4, 1],
    }
    await made.close()


async def test_a_policy_that_nobody_trains_is_served_as_its_version_0(tmp_path: Path) -> None:
    made = await rollout(tmp_path, RolloutOptions(engine="fake"), policy_is_trained=False)
    assert (made.follows, made.version) == (False, 0)
    outputs = [output async for output in made.process(rows([5, 6]))]
    assert [v.tolist() for output in outputs for v in output.columns["versions"]] == [[0, 0], [0, 0]]
    await made.close()


async def test_a_sample_is_seeded_by_the_run_and_its_uid_and_keeps_its_carry(
    tmp_path: Path, engine: Recording
) -> None:
    made = await rollout(tmp_path, RolloutOptions(), seed=7)
    carry = {"token_ids": [9]}
    outputs = [output async for output in made.process(rows([1], [2], carries=[None, carry, None, None]))]
    assert [output.uids.tolist() for output in outputs] == [[0, 1], [2, 3]]
    assert [r.seed for r in engine.requests] == [sample_seed(7, uid) for uid in range(4)]
    assert [r.carry for r in engine.requests] == [None, carry, None, None]
    assert [r.prompt_ids.tolist() for r in engine.requests] == [[1], [1], [2], [2]]


async def test_a_process_closed_early_has_the_engine_let_go_of_the_rest(
    tmp_path: Path, engine: Recording
) -> None:
    made = await rollout(tmp_path, RolloutOptions())
    outputs = made.process(rows([1], [2]))
    await anext(outputs)
    await outputs.aclose()
    assert engine.let_go == 1
    assert made.begun([1, 2, 3]) == {2: {"token_ids": [8]}}
    assert made.begun([1, 2, 3]) == {}


async def test_in_a_deterministic_run_an_answer_is_begun_anew(tmp_path: Path, engine: Recording) -> None:
    made = await rollout(tmp_path, RolloutOptions(), deterministic=True)
    outputs = made.process(rows([1], [2], carries=[None, {"token_ids": [9]}, None, None]))
    await anext(outputs)
    await outputs.aclose()
    assert [r.carry for r in engine.requests] == [None] * 4
    assert made.begun([1, 2, 3]) == {}


@pytest.mark.parametrize(("max_concurrent", "capacity"), [(256, 256), (1, 2)])
async def test_it_takes_as_many_rows_as_the_engine_decodes_and_a_group_at_least(
    tmp_path: Path, engine: Recording, max_concurrent: int, capacity: int
) -> None:
    made = await rollout(tmp_path, RolloutOptions(max_concurrent=max_concurrent), samples_per_prompt=2)
    assert made.capacity == capacity


async def test_closing_closes_the_engine_and_comes_before_setup_without_harm(
    tmp_path: Path, engine: Recording
) -> None:
    await Rollout().close()
    made = await rollout(tmp_path, RolloutOptions())
    await made.close()
    assert engine.closed == 1
