import numpy as np
import pytest

from headrace.services.models import load_tokenizer
from headrace.services.prompts import PromptError, encode, is_ids


def test_token_ids_are_asked_as_they_are() -> None:
    made = encode([5, 3, 2], load_tokenizer("tiny-copier"))
    assert (made.tolist(), made.dtype) == ([5, 3, 2], np.int32)


def test_an_id_that_the_tokenizer_lacks_is_refused() -> None:
    with pytest.raises(
        PromptError, match=r"has the token id 13, and the model's tokenizer has 13; write ids"
    ):
        encode([5, 13], load_tokenizer("tiny-copier"))


@pytest.mark.parametrize("prompt", [[], [True], [-1], [1.0], "12", [{"role": "user", "content": "a"}]])
def test_only_whole_numbers_from_0_are_token_ids(prompt: object) -> None:
    assert not is_ids(prompt)
