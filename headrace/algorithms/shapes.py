"""Shapes asserted at the door of each pure function: a wrong one would broadcast in silence."""

import torch


def assert_tokens(**tensors: torch.Tensor) -> None:
    """Refuses tensors that are not all [T] of one length. Raises ValueError naming the shapes got."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
        got = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"token tensors must be [T] of one length, got {got}; flatten over samples first")
