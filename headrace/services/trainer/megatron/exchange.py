"""What the ranks tell each other: small values, as JSON."""

import json
from typing import Any

import torch
from torch import distributed


def gathered(value: Any, device: torch.device) -> list[Any]:
    """What every rank gave, by rank, on every rank; `value` must be JSON, of which floats come back exact."""
    own = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8).to(device)
    world = distributed.get_world_size()
    sizes = torch.zeros(world, dtype=torch.int64, device=device)
    sizes[distributed.get_rank()] = len(own)
    distributed.all_reduce(sizes)
    padded = torch.zeros(int(sizes.max()), dtype=torch.uint8, device=device)
    padded[: len(own)] = own
    parts = [torch.empty_like(padded) for _ in range(world)]
    distributed.all_gather(parts, padded)
    return [json.loads(bytes(part[:size].tolist())) for part, size in zip(parts, sizes.tolist(), strict=True)]
