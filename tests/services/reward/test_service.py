import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from headrace.services.base import Context, Flow, Output
from headrace.services.columns import PROMPT, RESPONSE
from headrace.services.errors import ReplicaFailed
from headrace.services.options import CopyVerifier, PolicyOptions, PythonVerifier, RewardOptions
from headrace.services.reward.service import Reward
from headrace.services.verdicts.errors import RewardError, VerifierRaised, VerifierUnusable
from headrace.transferqueue import Client, Rows, TableSpec, Task

LETTERS = "#$abcdefghij"
"""'#' is a special token, '$' ends an answer."""
SPEC = TableSpec(
    name="rows",
    columns=(*PROMPT, *RESPONSE),
    tasks=(Task(name="scores", reads=("response_ids", "example")),),
)


class Letters:
    eos_token_id = LETTERS.index("$")

    def decode(self, ids: np.ndarray, *, skip_special_tokens: bool) -> str:
        text = "".join(LETTERS[i] for i in ids.tolist())
        return text.replace("#", "") if skip_special_tokens else text


class Spoken:
    def __init__(self) -> None:
        self.last: Mapping[str, float] = {}

    def metrics(self, values: Mapping[str, float], *, step: int | None = None) -> None:
        self.last = values

    def event(self, kind: str, **detail: Any) -> None: ...


def rows(responses: list[str], answers: list[str]) -> Rows:
    ids = [[LETTERS.index(letter) for letter in response] for response in responses]
    count = len(responses)
    return Rows(
        uids=np.arange(count, dtype=np.int64),
        groups=np.zeros(count, dtype=np.int64),
        attempts=np.ones(count, dtype=np.int32),
        versions=np.zeros(count, dtype=np.int64),
        carries=(None,) * count,
        columns={
            "response_ids": pa.array(ids, pa.list_(pa.int32())),
            "example": pa.array([json.dumps({"answer": answer}) for answer in answers], pa.string()),
        },
        spec=SPEC,
    )


async def started(options: RewardOptions, tmp_path: Path) -> tuple[Reward, Spoken]:
    report = Spoken()
    flow = Flow(
        table="rows",
        steps=1,
        first_step=0,
        samples_per_prompt=8,
        prompts_per_step=1,
        staleness=0.0,
        temperature=1.0,
        max_new_tokens=16,
        model="tiny-copier",
        no_progress_timeout_s=60.0,
    )
    context = Context(
        run="copy",
        run_dir=tmp_path,
        node="scores",
        replica="scores/0",
        seed=0,
        client=cast(Client, None),
        options=options,
        shared_dir=tmp_path,
        resume=None,
        policy_name="actor",
        policy=PolicyOptions(model="tiny-copier"),
        flow=flow,
        report=report,
    )
    reward = Reward(load_tokenizer=lambda _: Letters())
    await reward.setup(context)
    return reward, report


async def scored(reward: Reward, leased: Rows) -> tuple[dict[int, tuple[Any, ...]], Exception | None]:
    """(reward, why invalid, parts) by uid of all outputs, and the error that ended them."""
    outputs: list[Output] = []
    error = None
    try:
        async for output in reward.process(leased):
            outputs.append(output)
    except (RewardError, ReplicaFailed) as raised:
        error = raised
    names = ("reward", "reward_invalid", "reward_parts")
    cells = {
        uid: tuple(output.columns[name][i] for name in names)
        for output in outputs
        for i, uid in enumerate(output.uids.tolist())
    }
    return cells, error


def mine(tmp_path: Path, body: str) -> RewardOptions:
    (tmp_path / "mine.py").write_text(f"def score(response, example):\n{body}")
    return RewardOptions(verifier=PythonVerifier(function=f"{tmp_path}/mine.py:score"))


async def test_the_stop_token_and_special_tokens_are_no_part_of_the_answer(tmp_path: Path) -> None:
    reward, report = await started(RewardOptions(verifier=CopyVerifier()), tmp_path)
    cells, error = await scored(reward, rows(["abca$", "a#bca", "abc", "$", "abc$a"], ["abca"] * 5))
    assert error is None
    assert cells[0] == (1.0, "", {"exact": 1.0, "share": 1.0})
    assert cells[1] == (1.0, "", {"exact": 1.0, "share": 1.0})
    assert cells[2] == (0.375, "", {"exact": 0.0, "share": 0.75})
    assert cells[3] == (0.0, "", {"exact": 0.0, "share": 0.0})
    assert cells[4][0] == pytest.approx(0.5 * 3 / 5)
    assert report.last == {"reward/error_rate": 0.0, "reward/invalid_rate": 0.0}


async def test_a_single_error_hands_back_its_row_alone(tmp_path: Path) -> None:
    """A25: one of eight raises."""
    options = mine(tmp_path, "    return 1 / len(response)\n")
    reward, report = await started(options, tmp_path)
    responses = ["a", "ab", "", "ab", "a", "a", "a", "abcd"]
    cells, error = await scored(reward, rows(responses, ["a"] * 8))
    assert {uid: cell[0] for uid, cell in cells.items()} == {0: 1, 1: 0.5, 3: 0.5, 4: 1, 5: 1, 6: 1, 7: 0.25}
    assert isinstance(error, VerifierRaised)
    assert str(error).startswith("1 of 8 answers could not be scored; uid 2: ZeroDivisionError")
    assert report.last["reward/error_rate"] == 0.125
    await reward.close()


async def test_invalid_is_nan_with_a_reason_and_no_error(tmp_path: Path) -> None:
    options = mine(tmp_path, "    return None if response == 'b' else 0.5\n")
    reward, report = await started(options, tmp_path)
    cells, error = await scored(reward, rows(["a", "b"], ["a", "a"]))
    assert error is None and cells[0] == (0.5, "", {})
    assert math.isnan(cells[1][0]) and cells[1][1:] == ("the verifier returned None", {})
    assert report.last == {"reward/error_rate": 0.0, "reward/invalid_rate": 0.5}
    await reward.close()


@pytest.mark.parametrize("returned", ["float('nan')", "'1.0'"])
async def test_what_is_no_number_is_an_error_and_never_zero(tmp_path: Path, returned: str) -> None:
    reward, _ = await started(mine(tmp_path, f"    return {returned}\n"), tmp_path)
    cells, error = await scored(reward, rows(["a"], ["a"]))
    assert cells == {} and "allowed are a finite number" in str(error)
    await reward.close()


async def test_too_many_errors_end_the_service_with_the_last_cause(tmp_path: Path) -> None:
    options = mine(tmp_path, "    raise KeyError('gold')\n")
    reward, _ = await started(options, tmp_path)
    few, many = rows(["a"] * 31, ["a"] * 31), rows(["a"], ["a"])
    _, error = await scored(reward, few)
    assert isinstance(error, VerifierRaised)
    _, error = await scored(reward, many)
    assert isinstance(error, ReplicaFailed) and isinstance(error.__cause__, VerifierRaised)
    assert str(error).startswith(
        "100% of the last 32 scorings raised, max_error_rate allows 50%; the last: KeyError"
    )
    await reward.close()


async def test_old_errors_leave_the_window(tmp_path: Path) -> None:
    options = RewardOptions(verifier=CopyVerifier(), max_error_rate=0.25)
    reward, report = await started(options, tmp_path)
    broken = rows(["a"] * 8, ["a"] * 8)
    broken.columns["example"] = pa.array(["{}"] * 8, pa.string())
    await scored(reward, broken)
    await scored(reward, rows(["a"] * 248, ["a"] * 248))
    assert report.last["reward/error_rate"] == 8 / 256
    await scored(reward, rows(["a"] * 8, ["a"] * 8))
    assert report.last["reward/error_rate"] == 0.0


async def test_a_verifier_that_cannot_be_made_fails_the_setup(tmp_path: Path) -> None:
    options = RewardOptions(verifier=PythonVerifier(function="operator:nothing_like_it"))
    with pytest.raises(VerifierUnusable, match="operator has no function"):
        await started(options, tmp_path)
