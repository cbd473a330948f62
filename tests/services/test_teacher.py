"""The teacher against a forward pass of the model that it names, which is not the policy's."""

from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from headrace.services.base import Context
from headrace.services.models import check_same_tokens, load
from headrace.services.options import PolicyOptions, TeacherOptions
from headrace.services.teacher import Teacher
from headrace.transferqueue import Client
from tests.services.bench import Remembered, context
from tests.services.scored_rows import ANSWERS, PROMPTS, scored


def saved_copier(folder: Path, *, seed: int) -> Path:
    loaded = load("tiny-copier", dtype="float32", seed=seed)
    loaded.model.save_pretrained(folder)
    loaded.tokenizer.save_pretrained(folder)
    return folder


def over(model: Path, run_dir: Path) -> Context:
    """Of a teacher `model` over answers of tiny-copier."""
    return context(
        cast(Client, None),
        Remembered(),
        run_dir,
        options=TeacherOptions(),
        temperature=2.0,
        policy=PolicyOptions(model=str(model)),
    )


async def test_each_answer_is_scored_under_the_teacher_s_weights_at_the_rollout_s_temperature(
    tmp_path: Path,
) -> None:
    teacher = Teacher()
    await teacher.setup(over(saved_copier(tmp_path / "teacher", seed=7), tmp_path))
    column = await scored(teacher, "teacher_logprobs")
    model = load("tiny-copier", dtype="float32", seed=7).model
    for prompt, answer, got in zip(PROMPTS, ANSWERS, column, strict=True):
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
        expected = torch.log_softmax(logits / 2.0, -1).gather(1, torch.tensor(answer)[:, None])[:, 0]
        assert np.abs(got - expected.numpy()).max() < 1e-5
    await teacher.close()


async def test_a_teacher_of_other_tokens_is_refused(tmp_path: Path) -> None:
    folder = saved_copier(tmp_path / "teacher", seed=7)
    words = Tokenizer(WordLevel({"<pad>": 0, "$": 1, "b": 2, "a": 3}, unk_token="<pad>"))
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="$").save_pretrained(folder)
    teacher = Teacher()
    with pytest.raises(ValueError, match="10 of the 13 tokens of 'tiny-copier' have another id or none in"):
        await teacher.setup(over(folder, tmp_path))
    await teacher.close()


def test_a_model_has_its_own_tokens(tmp_path: Path) -> None:
    check_same_tokens("tiny-copier", "tiny-copier")
    check_same_tokens(str(saved_copier(tmp_path, seed=1)), "tiny-copier")
