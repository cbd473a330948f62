from pathlib import Path

import pytest

from headrace.services.eval.exam import exam
from headrace.services.models import load_tokenizer
from headrace.services.options import CopyData, CopyVerifier, EvalOptions, JsonlData
from headrace.services.source.datasets import open_dataset
from headrace.services.source.datasets.base import DatasetError

TOKENIZER = load_tokenizer("tiny-copier")


def options(*, samples_per_prompt: int = 1) -> EvalOptions:
    return EvalOptions(
        dataset=CopyData(letters=8),
        verifier=CopyVerifier(),
        prompts=5,
        samples_per_prompt=samples_per_prompt,
    )


def test_the_prompts_are_the_same_whenever_they_are_asked_for() -> None:
    first, again = (exam(options(samples_per_prompt=2), TOKENIZER, run_seed=3, node="held") for _ in range(2))
    assert [r.prompt_ids.tolist() for r in first.requests] == [r.prompt_ids.tolist() for r in again.requests]
    assert [r.seed for r in first.requests] == [r.seed for r in again.requests]
    assert [(r.uid, r.group) for r in first.requests] == [(i, i // 2) for i in range(10)]
    assert len({r.seed for r in first.requests}) == 10
    assert first.examples == again.examples and first.examples[0] == first.examples[1]


def test_no_seed_of_the_training_gives_them() -> None:
    answers = {entry["answer"] for entry in exam(options(), TOKENIZER, run_seed=3, node="held").examples}
    trained = open_dataset(CopyData(letters=8), 3)
    assert answers.isdisjoint(trained[index].example["answer"] for index in range(1000))
    other = exam(options(), TOKENIZER, run_seed=3, node="other")
    assert answers.isdisjoint(entry["answer"] for entry in other.examples)


def test_a_data_set_of_fewer_prompts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "four.jsonl").write_text('{"prompt": "ab>"}\n' * 4)
    asked = EvalOptions(
        dataset=JsonlData(path=str(tmp_path / "four.jsonl")), verifier=CopyVerifier(), prompts=5
    )
    with pytest.raises(DatasetError, match="held asks 5 prompts of a data set that holds 4; set prompts to"):
        exam(asked, TOKENIZER, run_seed=0, node="held")
