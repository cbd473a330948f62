"""Which answers their text gives back, with a tokenizer of bytes and one of characters."""

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from headrace.services.models import load_tokenizer
from headrace.services.rollout.fidelity import AT_ONCE, Fidelity, retokenise

BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())


def byte_level() -> PreTrainedTokenizerFast:
    """One token a byte, and a merge of `hi`; saved with a limit of four tokens, as some are."""
    vocabulary = {each: i for i, each in enumerate(BYTES)} | {"hi": 256}
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[("h", "i")]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.enable_truncation(max_length=4)
    return PreTrainedTokenizerFast(tokenizer_object=core)


def ids(*answers: list[int]) -> list[np.ndarray]:
    return [np.array(answer, dtype=np.int32) for answer in answers]


async def test_special_tokens_and_empty_answers_come_back() -> None:
    tokenizer = load_tokenizer("tiny-copier")
    answers = ids([3, 4, 1], [0, 0, 2, 1, 3], [])
    assert (await Fidelity(tokenizer).retokenise(answers)).tolist() == [True] * 3


def test_a_character_cut_short_another_merge_and_an_unknown_id_do_not_come_back() -> None:
    tokenizer = byte_level()
    e_acute = tokenizer("é")["input_ids"]
    h, i = (BYTES.index(letter) for letter in "hi")
    answers = ids(e_acute, e_acute[:1], [256], [h, i], [i, h], [256, 999])
    assert retokenise(tokenizer, answers).tolist() == [True, False, True, False, True, False]


@pytest.mark.parametrize("length", [5, AT_ONCE + 1])
async def test_an_answer_longer_than_the_tokenizer_was_saved_for_comes_back(length: int) -> None:
    whole, broken = [256] * length, [256] * (length - 2) + [BYTES.index("h"), BYTES.index("i")]
    got = await Fidelity(byte_level()).retokenise(ids(whole, broken))
    assert got.tolist() == [True, False]


async def test_answers_of_no_tokenizer_all_pass() -> None:
    got = await Fidelity(None).retokenise(ids([5, 6], [7]))
    assert (got.dtype, got.tolist()) == (np.bool_, [True, True])
