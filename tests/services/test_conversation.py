"""Conversations that go on by ids, under a tokenizer in which one text has two encodings."""

from typing import Any

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from headrace.services.conversation import Extension, extended
from headrace.services.models import exists, load_tokenizer
from headrace.services.prompts import PromptError, encode

LETTERS = ["a", "b", "c", "!", "?", "\n", " "]
SPECIAL = ["<u>", "<m>", "<end>", "<think>", "</think>"]
MERGED = "ab"
"""One token, or two: a, b."""
VOCABULARY = {token: number for number, token in enumerate([*LETTERS, MERGED, *SPECIAL])}
PLAIN = (
    "{% for m in messages %}{{ '<u>' if m.role != 'assistant' else '<m>' }}{{ m.content }}<end>\n"
    "{% endfor %}{% if add_generation_prompt %}<m>{% endif %}"
)
THOUGHTLESS = PLAIN.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1] }}")
"""Drops the thinking of earlier turns."""
TRIMMED = PLAIN.replace("{{ m.content }}", "{{ m.content | trim }}")

USER = [{"role": "user", "content": "c?"}]
NEXT = [{"role": "tool", "content": "b"}, {"role": "user", "content": "ab!"}]


def tokenizer(template: str | None = PLAIN) -> PreTrainedTokenizerFast:
    core = Tokenizer(models.BPE(vocab={t: VOCABULARY[t] for t in [*LETTERS, MERGED]}, merges=[("a", "b")]))
    core.decoder = decoders.Fuse()
    core.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL])
    made = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<end>")
    made.chat_template = template
    return made


def ids(*tokens: str) -> np.ndarray:
    return np.array([VOCABULARY[token] for token in tokens], dtype=np.int32)


def after(answer: np.ndarray, template: str | None = PLAIN, **other: Any) -> Extension:
    own = tokenizer(template)
    given = {"said": USER, "asked": NEXT, **other}
    return extended(encode(USER, own), answer, tokenizer=own, **given)


FIRST = ("<u>", "c", "?", "<end>", "\n", "<m>")
GLUE = ("<end>", "\n", "<u>", "b", "<end>", "\n", "<u>", "ab", "!", "<end>", "\n", "<m>")
"""What the template writes after an answer, the newline behind its stop token included."""


def test_the_text_has_two_encodings_of_which_the_tokenizer_knows_one() -> None:
    own = tokenizer()
    assert own.decode(ids("a", "b")) == own.decode(ids("ab")) == "ab"
    assert own.encode("ab", add_special_tokens=False) == ids("ab").tolist()


@pytest.mark.parametrize("answer", [("ab", "!"), ("a", "b", "!"), ("c",), ()])
def test_sampled_ids_stay_and_only_what_is_new_is_tokenised(answer: tuple[str, ...]) -> None:
    made = after(ids(*answer))
    assert made.ids.tolist() == ids(*FIRST, *answer, *GLUE).tolist()
    assert (made.kept, made.is_fork, made.ids.dtype) == (6 + len(answer), False, np.int32)


def test_a_conversation_of_several_turns_begins_with_all_that_was_before() -> None:
    own, said, prompt = tokenizer(), USER, encode(USER, tokenizer())
    for answer in (ids("a", "b"), ids("ab"), ids("b", "a", "b")):
        turn = extended(prompt, answer, said=said, asked=NEXT, tokenizer=own)
        assert turn.ids[: turn.kept].tolist() == [*prompt.tolist(), *answer.tolist()]
        said = [*said, {"role": "assistant", "content": own.decode(answer)}, *NEXT]
        prompt = turn.ids
    assert prompt.tolist() != encode(said, own).tolist()
    assert own.decode(prompt) == own.decode(encode(said, own))


def test_a_template_that_drops_the_thinking_forks() -> None:
    thinking = ids("<think>", "c", "</think>", "a", "b")
    made = after(thinking, THOUGHTLESS)
    assert (made.is_fork, made.kept) == (True, 0)
    assert made.ids.tolist() == ids(*FIRST, "ab", *GLUE).tolist()
    assert not after(thinking, PLAIN).is_fork
    assert not after(ids("a", "b"), THOUGHTLESS).is_fork


def test_a_template_that_trims_an_answer_forks() -> None:
    assert after(ids(" ", "c"), TRIMMED).is_fork
    assert not after(ids("c"), TRIMMED).is_fork


def test_a_conversation_goes_on_after_a_fork() -> None:
    own = tokenizer(THOUGHTLESS)
    first = ids("<think>", "c", "</think>", "a", "b")
    forked = after(first, THOUGHTLESS)
    said = [*USER, {"role": "assistant", "content": own.decode(first)}, *NEXT]
    again = extended(forked.ids, ids("a", "b"), said=said, asked=USER, tokenizer=own)
    assert not again.is_fork
    assert again.ids[: again.kept].tolist() == [*forked.ids.tolist(), *ids("a", "b").tolist()]


def test_messages_that_the_prompt_does_not_say_are_refused() -> None:
    with pytest.raises(PromptError, match=r"it has 'c\?<end>.* where they give 'b\?<end>"):
        after(ids("a"), said=[{"role": "user", "content": "b?"}])


def test_what_no_turn_can_be_made_of_is_refused() -> None:
    with pytest.raises(PromptError, match="no message follows the answer"):
        after(ids("a"), asked=[])
    with pytest.raises(PromptError, match="the model's tokenizer has none"):
        extended(ids("a"), ids("b"), said=USER, asked=NEXT, tokenizer=tokenizer(None))


def test_a_template_as_it_was_shipped_is_extended() -> None:
    if problem := exists("smollm2-135m-instruct"):
        pytest.skip(problem)
    own = load_tokenizer("smollm2-135m-instruct")
    prompt = encode(USER, own)
    letters = [each for letter in "Hello!" for each in own.encode(letter, add_special_tokens=False)]
    assert len(letters) == 6 and len(own.encode("Hello!", add_special_tokens=False)) == 2
    made = extended(prompt, np.array(letters), said=USER, asked=NEXT[1:], tokenizer=own)
    assert (made.is_fork, made.kept) == (False, len(prompt) + 6)
    assert own.decode(made.ids[made.kept :]) == (
        "<|im_end|>\n<|im_start|>user\nab!<|im_end|>\n<|im_start|>assistant\n"
    )
