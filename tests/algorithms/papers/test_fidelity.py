"""Fidelity of tokens: what is trained on is what the engine made, whatever its text would be tokenised to.

That a token the policy did not make (`loss_mask` 0) has a gradient of exactly 0 is
`tests/algorithms/test_splits.py::test_masked_tokens_have_no_gradient`, for every loss.
"""

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
import torch
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from headrace.algorithms.filters import Retokenised, RowFilter
from headrace.algorithms.options import GrpoOptions
from headrace.algorithms.registry import build
from headrace.services.columns import PROMPT, RESPONSE, REWARD
from headrace.services.options import OptimizerOptions, RolloutOptions
from headrace.services.rollout import service
from headrace.services.rollout.engines import Carry, Completion, Request
from headrace.services.rollout.service import Rollout
from headrace.services.scoring.model import PackedModel
from headrace.services.trainer.credited import credited
from headrace.services.trainer.intake import Intake, Judged
from headrace.services.trainer.ledger import Ledger
from headrace.services.trainer.samples import Samples
from headrace.services.trainer.torch_backend import TorchBackend
from headrace.transferqueue import Client, Rows, TableSpec, Task
from tests.services.bench import Remembered, context
from tests.services.scoring.models import llama, naive_logprobs

END, A, B, C, AB, BC = range(1, 7)
MADE = ([AB, C, END], [A, BC, END])
"""Of one text, `abc$`; a tokenizer whose first merge is that of b and c makes the second of it."""
SPEC = TableSpec(
    name="rows", columns=(*PROMPT, *RESPONSE, *REWARD), tasks=(Task(name="learn", reads=("reward",)),)
)
GRPO = build(GrpoOptions(), max_new_tokens=3)


def merging() -> PreTrainedTokenizerFast:
    vocabulary = {"<pad>": 0, "$": END, "a": A, "b": B, "c": C, "ab": AB, "bc": BC}
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[("b", "c"), ("a", "b")]))
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="$")


class Ambiguous:
    """An engine that answers with `MADE`."""

    async def generate(
        self, requests: Sequence[Request], left: dict[int, Carry] | None = None
    ) -> AsyncGenerator[list[Completion], None]:
        yield [
            Completion(
                uid=request.uid,
                token_ids=np.array(ids, dtype=np.int32),
                logprobs=np.full(3, -1.5, dtype=np.float32),
                versions=np.zeros(3, dtype=np.int32),
                finish_reason="stop",
            )
            for request, ids in zip(requests, MADE, strict=True)
        ]


def rows(columns: dict[str, Any]) -> Rows:
    types = {column.name: column for column in SPEC.columns}
    lists = {"list<int32>": pa.int32(), "list<float32>": pa.float32(), "list<int8>": pa.int8()}
    scalars = {"string": pa.string(), "bool": pa.bool_(), "float64": pa.float64(), "json": pa.string()}
    return Rows(
        uids=np.arange(2),
        groups=np.zeros(2, dtype=np.int64),
        attempts=np.ones(2, dtype=np.int32),
        versions=np.zeros(2, dtype=np.int64),
        carries=(None,) * 2,
        columns={
            name: pa.array(list(values), scalars.get(types[name].dtype) or pa.list_(lists[types[name].dtype]))
            for name, values in columns.items()
        },
        spec=SPEC,
    )


@pytest.fixture
async def answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rows:
    """What the rollout service writes of `MADE`, with rewards."""

    async def engine(*_: Any, **__: Any) -> Ambiguous:
        return Ambiguous()

    async def tokenizer(*_: Any) -> PreTrainedTokenizerFast:
        return merging()

    monkeypatch.setattr(service, "build", engine)
    monkeypatch.setattr(service, "tokenizer", tokenizer)
    rollout, prompts = Rollout(), {"prompt_ids": [[A, C]] * 2}
    await rollout.setup(context(cast(Client, None), Remembered(), tmp_path, options=RolloutOptions()))
    (output,) = [output async for output in rollout.process(rows(prompts))]
    scores = {"reward": [1.0, 0.0], "reward_invalid": [""] * 2, "reward_parts": ["{}"] * 2}
    return rows({**prompts, **output.columns, **scores})


def judged(leased: Rows, row_filter: RowFilter | None) -> Judged:
    return Intake(row_filter, groups_per_step=1, max_attempts=1, when_used_up="stop").take(
        leased, again=False
    )


def samples(made: Judged) -> Samples:
    return credited([made.kept], GRPO, needs=(), progress=0.0, masked=made.masked)


def backend() -> TorchBackend:
    return TorchBackend(
        PackedModel(llama(), temperature=1.0),
        OptimizerOptions(lr=1e-2),
        micro_batch_tokens=64,
        total_steps=None,
    )


def test_one_text_has_two_encodings() -> None:
    assert [merging().decode(ids) for ids in MADE] == ["abc$", "abc$"]
    assert merging()("abc$")["input_ids"] == MADE[1]


async def test_a_merge_ambiguous_answer_keeps_the_engine_s_ids_and_is_flagged(answered: Rows) -> None:
    assert [ids.tolist() for ids in answered["response_ids"]] == list(MADE)
    assert list(answered["retokenises"]) == [False, True]


async def test_the_trainer_s_log_probabilities_are_of_the_ids_that_the_engine_made(answered: Rows) -> None:
    batch = samples(judged(answered, None))
    said = backend().before(batch.prompt_ids, batch.response_ids, batch.groups)["logprobs"]
    prompts, made = [np.array([A, C])] * 2, [np.array(ids) for ids in MADE]
    with torch.no_grad():
        first, second = naive_logprobs(llama(), prompts, made, 1.0)
    assert said[0] == pytest.approx(first.numpy(), abs=1e-12)
    assert (first - second).abs().min() > 1e-3


async def test_a_mismatch_is_counted_once_and_the_filter_masks_its_row_alone(answered: Rows) -> None:
    made = judged(answered, Retokenised())
    assert (made.masked, made.kept.uids.tolist(), dict(made.dropped)) == (frozenset({0}), [0, 1], {})
    ledger = Ledger(step=0)
    ledger.add(made)
    metrics = ledger.metrics(0.0)
    assert (metrics["data/retokenisation_mismatches"], metrics["samples/trained"]) == (1.0, 2.0)
    batch = samples(made)
    assert [mask.tolist() for mask in batch.loss_mask] == [[0, 0, 0], [1, 1, 1]]
    assert np.asarray(batch.advantages) == pytest.approx([0.5**0.5, -(0.5**0.5)], abs=2e-4)


async def test_without_the_filter_the_row_is_counted_and_trained_on(answered: Rows) -> None:
    made = judged(answered, None)
    ledger = Ledger(step=0)
    ledger.add(made)
    assert ledger.metrics(0.0)["data/retokenisation_mismatches"] == 1.0
    ours = backend()
    ours.accumulate(samples(made), GRPO)
    assert ours.step(0).count == 6.0
    masking = backend()
    masking.accumulate(samples(judged(answered, Retokenised())), GRPO)
    assert masking.step(0).count == 3.0
