"""Steps of the torch back end on a card, against the CPU's and against each other."""

import torch

from bench.gpu_check import material
from bench.gpu_check.path import Figures, at_most
from headrace.services.devices import CPU, take
from headrace.services.options.policy import Dtype
from headrace.services.trainer.masters import PREFIX
from headrace.services.trainer.scores import open_scores
from headrace.services.trainer.torch_backend import TorchBackend

STEPS = 3


def steps(gpus: float) -> Figures:
    """In float64, where nothing but a fault is larger than rounding; AdamW makes float32's visible."""
    one, other = backend("float64", CPU), backend("float64", take(gpus))
    losses = [abs(a - b) for a, b in zip(trained(one), trained(other), strict=True)]
    return {
        "loss_difference": at_most("difference of losses and norms", max(losses), 1e-9),
        "weight_difference": at_most(
            "difference of weights", material.difference(one.weights(), other.weights()), 1e-9
        ),
    }


def bfloat16_copies(gpus: float) -> Figures:
    """Steps too small for bfloat16 are kept in float32 copies, of which the model is the rounding."""
    one, other = backend("bfloat16", CPU), backend("bfloat16", take(gpus))
    before = copies(other)
    losses = [abs(a - b) for a, b in zip(trained(one), trained(other), strict=True)]
    after = copies(other)
    rounded = {name: tensor.bfloat16() for name, tensor in after.items()}
    moved = material.difference(before, after)
    if not moved > 0:
        raise AssertionError("the float32 copies did not move")
    held = {name: tensor for name, tensor in other.weights().items() if name in rounded}
    at_most("distance of the model from its rounded copies", material.difference(held, rounded), 0.0)
    return {"loss_difference": at_most("difference of losses and norms", max(losses), 0.05), "moved": moved}


def same_bits(gpus: float) -> Figures:
    device = take(gpus)
    first, second = backend("float32", device), backend("float32", device)
    trained(first)
    trained(second)
    off = material.difference(first.weights(), second.weights())
    return {"difference": at_most("difference of the weights of two runs of the same steps", off, 0.0)}


def checkpoint(gpus: float) -> Figures:
    """A trainer that went back goes on as the first time, its optimizer's state where it has to lie."""
    device = take(gpus)
    first, second = backend("float64", device), backend("float64", device)
    trained(first)
    kept = [
        {name: tensor.detach().cpu().clone() for name, tensor in held.items()}
        for held in (first.weights(), first.state())
    ]
    second.load_state(kept[0], kept[1])
    trained(first)
    trained(second)
    off = material.difference(first.weights(), second.weights())
    return {"difference": at_most("difference of weights after going on", off, 1e-9)}


def backend(dtype: Dtype, device: torch.device) -> TorchBackend:
    policy = material.policy(dtype)
    opened = open_scores(
        policy, material.algorithm(), temperature=material.TEMPERATURE, seed=material.SEED, device=device
    )
    return TorchBackend(opened.scores, policy.optimizer, micro_batch_tokens=60, total_steps=None)


def trained(backend: TorchBackend) -> list[float]:
    """Losses and gradient norms of some steps."""
    batch, algorithm, found = material.samples(), material.algorithm(), []
    for step in range(STEPS):
        backend.accumulate(batch, algorithm)
        result = backend.step(step)
        found += [result.loss, result.grad_norm]
    return found


def copies(backend: TorchBackend) -> dict[str, torch.Tensor]:
    held = {name: tensor for name, tensor in backend.state().items() if name.startswith(PREFIX)}
    return {name.removeprefix(PREFIX): tensor.detach().clone() for name, tensor in held.items()}
