from pathlib import Path

import msgpack
import numpy as np
import pytest

from headrace.algorithms.options import GrpoOptions, PythonOptions
from headrace.algorithms.registry import Recipe, build
from headrace.services.options import LoraOptions, PolicyOptions
from headrace.services.trainer.ranks.wire import KIND, LENGTH, pack, unpack
from tests.services.trainer.batches import ragged_samples


def sent(value: object) -> object:
    frame = pack({"value": value})
    assert LENGTH.unpack(frame[: LENGTH.size]) == (len(frame) - LENGTH.size,)
    return unpack(frame[LENGTH.size :])["value"]


@pytest.mark.parametrize(
    "value",
    [
        None,
        1.5,
        float("inf"),
        (1, "two", (3.0,)),
        [],
        {"a": [1, (2,)], 3: b"x"},
        Path("/tmp/model"),
        PolicyOptions(model="m", lora=LoraOptions(target_modules=("q_proj",)), freeze=((1, 2),)),
        Recipe(options=GrpoOptions(kl_coef=0.1), max_new_tokens=8, step=3),
        Recipe(options=PythonOptions(path="a.py:B", options={"x": [1]}), max_new_tokens=8, step=0),
    ],
)
def test_what_is_sent_comes_back_equal(value: object) -> None:
    assert sent(value) == value


def test_a_batch_comes_back_with_its_columns_bit_for_bit() -> None:
    samples = ragged_samples(2, 3, empty=(1,))
    got = sent(samples)
    assert type(got) is type(samples)
    for name in ("uids", "groups", "rewards", "advantages"):
        np.testing.assert_array_equal(getattr(got, name), getattr(samples, name))
    for name in ("prompt_ids", "response_ids", "behaviour_logprobs", "loss_mask", "reference_logprobs"):
        for mine, theirs in zip(getattr(got, name), getattr(samples, name), strict=True):
            assert mine.dtype == theirs.dtype
            np.testing.assert_array_equal(mine, theirs)
    assert got.proximal_logprobs is None


def test_objects_and_arrays_of_objects_are_refused_by_type() -> None:
    with pytest.raises(TypeError, match=r"a builtins\.object cannot be sent to another rank; allowed are"):
        pack({"value": object()})
    with pytest.raises(TypeError, match="an array of object cannot be sent"):
        pack({"value": np.array([{}])})


def test_a_message_makes_no_object_but_dataclasses() -> None:
    forged = {KIND: "data", "class": "subprocess:Popen", "fields": {"args": "true"}}
    with pytest.raises(TypeError, match="subprocess:Popen is no dataclass"):
        unpack(msgpack.packb(forged))  # pyright: ignore[reportArgumentType]


def test_an_algorithm_knows_what_it_was_built_of() -> None:
    algorithm = build(GrpoOptions(), max_new_tokens=9, step=2)
    assert algorithm.recipe == Recipe(options=GrpoOptions(), max_new_tokens=9, step=2)
    assert algorithm.recipe is not None
    assert type(algorithm.recipe.build()) is type(algorithm)
