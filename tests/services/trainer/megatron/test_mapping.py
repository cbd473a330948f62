from collections.abc import Callable

import pytest
import torch
from transformers import PreTrainedModel

from headrace.services.models import load
from headrace.services.trainer.megatron.geometry import Geometry
from headrace.services.trainer.megatron.mapping import entries
from tests.services.scoring.models import qwen2
from tests.services.trainer.megatron.models import qwen3


def tiny_copier() -> PreTrainedModel:
    return load("tiny-copier", dtype="float32", seed=3).model


@pytest.mark.parametrize("make", [tiny_copier, qwen2, qwen3])
@pytest.mark.parametrize(("tp", "pp"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_to_megatron_and_back_is_the_identity_bit_for_bit(
    make: Callable[[], PreTrainedModel], tp: int, pp: int
) -> None:
    model = make()
    geometry = Geometry.of(model.config.to_dict())
    published = {name: parameter.detach() for name, parameter in model.named_parameters()}
    found: dict[str, torch.Tensor] = {}
    for entry in entries(geometry, tp=tp, pp=pp):
        tensors = [published[name] for name in entry.names]
        assert tuple(tuple(tensor.shape) for tensor in tensors) == entry.shapes
        shards = [entry.form.split(tensors, tp, rank) for rank in range(tp)]
        assert {tuple(shard.shape) for shard in shards} == {entry.shard_shape(tp)}
        if not entry.is_copy:
            assert not found.keys() & set(entry.names)
            found |= dict(zip(entry.names, entry.form.join(shards), strict=True))
    assert found.keys() == published.keys()
    for name, tensor in published.items():
        assert torch.equal(found[name], tensor), name
