"""Shapes asserted at the door of each pure function: a wrong one would broadcast in silence."""

import torch


def assert_tokens(**tensors: torch.Tensor) -> None:
    """Refuses tensors that are not all [T] of one length. Raises ValueError naming the shapes got."""
    _assert_flat("token tensors must be [T] of one length", "flatten over samples first", tensors)


def assert_samples(**tensors: torch.Tensor) -> None:
    """Refuses tensors that are not all [S] of one length. Raises ValueError naming the shapes got."""
    _assert_flat("sample tensors must be [S] of one length", "give one value per sample", tensors)


def _assert_flat(rule: str, way_out: str, tensors: dict[str, torch.Tensor]) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
        got = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"{rule}, got {got}; {way_out}")
