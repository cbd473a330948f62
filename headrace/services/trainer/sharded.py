"""A model whose weights lie in shards, one for each rank: FSDP2 around its layers, and tensors in and out.

Invariant: gradients come out as sums over ranks, not means, as the trainer divides them once itself. `whole`
and what calls it are asked for in every rank alike, tensor by tensor: no rank holds more than one beside its
shards.
"""

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer


def shard(model: PreTrainedModel, ranks: int) -> None:
    """Lays each layer's weights, and then the rest, over all ranks; in place."""
    mesh = init_device_mesh(model.device.type, (ranks,))
    policy = MixedPrecisionPolicy(reduce_dtype=torch.promote_types(model.dtype, torch.float32))
    for part in model.modules():
        if isinstance(part, GradientCheckpointingLayer):
            fully_shard(part, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
    for part in model.modules():
        if isinstance(part, FSDPModule):
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)


def is_sharded(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, DTensor)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor; itself, where it is in no shards."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def in_turn(tensors: Mapping[str, torch.Tensor], *, kept: bool) -> Iterator[tuple[str, torch.Tensor]]:
    """All of each, valid until the next; none where they are not `kept`, of a rank that only gives its
    shards."""
    for name, tensor in tensors.items():
        full = whole(tensor)
        if kept:
            yield name, full


def wholes(tensors: Mapping[str, torch.Tensor], *, kept: bool) -> dict[str, torch.Tensor]:
    """All of them. What was in shards is in the host's memory then: no GPU holds a second model."""
    return {
        name: full.cpu() if is_sharded(tensors[name]) else full for name, full in in_turn(tensors, kept=kept)
    }


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's shard; a view."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


@torch.no_grad()
def put(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copies all of a tensor into `target`, or into its shard of this rank."""
    target.copy_(laid_out(target, source))


def laid_out(like: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """`tensor`, which every rank has, in the shards of `like` where that is in some and has its shape."""
    if isinstance(like, DTensor) and like.shape == tensor.shape:
        on_device = tensor.to(like.device)
        return distribute_tensor(on_device, like.device_mesh, like.placements, src_data_rank=None)
    return tensor


def total_norm(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Root of the sum of all squares, over the shards of every rank."""
    parts = [
        whole(torch.nn.utils.get_total_norm(part))
        for part in (
            [tensor for tensor in tensors if not isinstance(tensor, DTensor)],
            [tensor for tensor in tensors if isinstance(tensor, DTensor)],
        )
        if part
    ]
    return parts[0] if len(parts) == 1 else torch.linalg.vector_norm(torch.stack(parts))
