"""What a filter leaves out leaves the samples, and the update, as if it had never been drawn."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from headrace.algorithms.filters import Overlong, RowFilter, ZeroVariance
from headrace.algorithms.options import GrpoOptions, RoverOptions
from headrace.algorithms.registry import build
from headrace.algorithms.rover import PROXIMAL_MEAN
from headrace.services.columns import PROMPT, RESPONSE, REWARD
from headrace.services.options import OptimizerOptions
from headrace.services.scoring.model import PackedModel
from headrace.services.trainer.credited import credited, ordered
from headrace.services.trainer.intake import Intake, Judged
from headrace.services.trainer.samples import Samples
from headrace.services.trainer.torch_backend import TorchBackend
from headrace.transferqueue import Rows, TableSpec, Task
from tests.services.scoring.models import VOCABULARY, llama

SPEC = TableSpec(
    name="rows", columns=(*PROMPT, *RESPONSE, *REWARD), tasks=(Task(name="learn", reads=("reward",)),)
)
GRPO = build(GrpoOptions(), max_new_tokens=8)


def rows(rewards: list[list[float]], finish: str = "stop") -> Rows:
    """A group for each list, an answer of 1 to 6 tokens for each reward; the last ends as `finish` says."""
    random = np.random.default_rng(2)
    flat = [reward for group in rewards for reward in group]
    groups = np.repeat(np.arange(len(rewards)), [len(group) for group in rewards])
    prompts = random.integers(0, VOCABULARY, (len(rewards), 4))
    answers = [random.integers(0, VOCABULARY, random.integers(1, 7)) for _ in flat]
    ints, floats = pa.list_(pa.int32()), pa.list_(pa.float32())
    return Rows(
        uids=np.arange(len(flat)),
        groups=groups,
        attempts=np.ones(len(flat), dtype=np.int32),
        versions=np.zeros(len(flat), dtype=np.int64),
        carries=(None,) * len(flat),
        columns={
            "prompt_ids": pa.array([prompts[group] for group in groups], ints),
            "response_ids": pa.array(answers, ints),
            "logprobs": pa.array([np.full(len(ids), -3.0) for ids in answers], floats),
            "loss_mask": pa.array([np.ones(len(ids)) for ids in answers], pa.list_(pa.int8())),
            "reward": pa.array(flat, pa.float64()),
            "finish_reason": pa.array(["stop"] * (len(flat) - 1) + [finish], pa.string()),
            "retokenises": pa.array([True] * len(flat), pa.bool_()),
            "example": pa.array([json.dumps({})] * len(flat), pa.string()),
        },
        spec=SPEC,
    )


def judged(row_filter: RowFilter, leased: Rows) -> Judged:
    intake = Intake(row_filter, groups_per_step=9, max_attempts=9, when_used_up="stop")
    return intake.take(leased, again=False)


def samples(leased: Rows, masked: frozenset[int] = frozenset()) -> Samples:
    return credited([leased], GRPO, needs=(), progress=0.0, masked=masked)


def updated(batch: Samples) -> dict[str, torch.Tensor]:
    ours = TorchBackend(
        PackedModel(llama(), temperature=1.0),
        OptimizerOptions(lr=1e-2),
        micro_batch_tokens=64,
        total_steps=None,
    )
    ours.accumulate(batch, GRPO)
    ours.step(0)
    return ours.weights()


def test_dropped_groups_leave_the_update_that_of_the_others() -> None:
    leased = rows([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    made = judged(ZeroVariance(), leased)
    assert {reason: uids.tolist() for reason, uids in made.dropped.items()} == {"equal_rewards": [2, 3, 6, 7]}
    assert made.kept.uids.tolist() == [0, 1, 4, 5]
    without = updated(samples(leased.select(np.array([0, 1, 4, 5]))))
    for name, tensor in updated(samples(made.kept)).items():
        assert torch.equal(tensor, without[name]), name


def test_a_masked_row_keeps_its_part_in_the_credit_and_has_none_in_the_gradient() -> None:
    leased = rows([[1.0, 0.0], [0.0, 0.0, 1.0]], finish="length")
    made = judged(Overlong(), leased)
    assert (made.masked, dict(made.dropped)) == (frozenset({4}), {})
    got, whole = samples(made.kept, made.masked), samples(leased)
    assert np.array_equal(got.advantages, whole.advantages)
    assert [int(np.sum(mask)) for mask in got.loss_mask][4] == 0
    others = updated(replace(whole, loss_mask=[*whole.loss_mask[:4], 0 * whole.loss_mask[4]]))
    for name, tensor in updated(got).items():
        assert torch.equal(tensor, others[name]), name


def test_what_the_policy_said_before_the_update_is_the_proximal_policy() -> None:
    leased = rows([[1.0, 0.0]])
    said = {
        name: [np.full(len(ids), value) for ids in leased["response_ids"]]
        for name, value in (("logprobs", -1.0), ("mean_logprobs", -2.0))
    }
    rover = build(RoverOptions(), max_new_tokens=8)
    got = credited([leased], rover, needs=(), progress=0.0, before=said, anchored=True)
    assert got.proximal_logprobs == said["logprobs"]
    assert got.columns[PROXIMAL_MEAN] == said["mean_logprobs"]
    streamed = credited([leased], rover, needs=(), progress=0.0)
    assert (streamed.proximal_logprobs, dict(streamed.columns)) == (None, {})


def test_values_are_credited_and_give_the_head_its_returns() -> None:
    options = GrpoOptions(advantage="gae", gae_lambda=1.0)
    leased = rows([[1.0]])
    values = [np.full(len(ids), 0.25) for ids in leased["response_ids"]]
    got = credited(
        [leased], build(options, max_new_tokens=8), needs=(), progress=0.0, before={"values": values}
    )
    assert isinstance(got.advantages, list)
    assert got.advantages[0] == pytest.approx(0.75, abs=1e-12)
    assert got.columns["returns"][0] == pytest.approx(1.0, abs=1e-12)


def test_rows_are_ordered_by_group_and_uid_in_whichever_leases_they_came() -> None:
    leased = rows([[1.0, 0.0], [0.5, 0.0, 1.0], [0.25]])
    late, early = leased.select(np.array([5, 3, 4, 2])), leased.select(np.array([1, 0]))
    found = ordered([late, early])
    assert [each.uids.tolist() for each in found] == [[0, 1], [2, 3, 4], [5]]
    assert [list(each["reward"]) for each in found] == [[1.0, 0.0], [0.5, 0.0, 1.0], [0.25]]
