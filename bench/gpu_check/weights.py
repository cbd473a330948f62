"""Weights of 500 MB from a trainer's device into the node's shared memory, and into an engine's model."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from bench.gpu_check.path import Figures
from headrace.services.devices import take
from headrace.services.models.in_place import replace_weights
from headrace.services.weights import WeightStore

MB, WIDTH, ROUNDS = 500, 1024, 3
SHARED = Path("/dev/shm")


def rates(gpus: float) -> Figures:
    """Millions of bytes a second, the best of some rounds; over the rate of a copy in the host's memory."""
    device = take(gpus)
    trained, served = model(device, 1), model(device, 2)
    with tempfile.TemporaryDirectory(dir=SHARED if SHARED.is_dir() else None, prefix="headrace-") as folder:
        store = WeightStore(Path(folder))
        publish, pull = [], []
        for version in range(ROUNDS):
            checksum = ""

            def write(version: int = version) -> None:
                nonlocal checksum
                checksum = store.write("actor", version, trained.state_dict())

            publish.append(timed(write, device))
            taken = store.take("actor", version, checksum)
            pull.append(timed(lambda taken=taken: replace_weights(served, taken), device))
            del taken
    for name, tensor in trained.state_dict().items():
        if not torch.equal(tensor, served.state_dict()[name]):
            raise AssertionError(f"{name} came out other than it was published")
    plain = copied()
    found = {"publish_mb_s": MB / min(publish), "pull_mb_s": MB / min(pull), "copy_mb_s": plain}
    over = {f"{name}_rate_over_copy": found[f"{name}_mb_s"] / plain for name in ("publish", "pull")}
    return found | over


def model(device: torch.device, seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    layers = MB * 10**6 // (WIDTH * WIDTH * 2)
    made = [torch.nn.Linear(WIDTH, WIDTH, bias=False, dtype=torch.bfloat16) for _ in range(layers)]
    return torch.nn.Sequential(*made).to(device)


def copied() -> float:
    source = np.ones(MB * 10**6, np.uint8)
    target = np.zeros_like(source)
    return MB / min(timed(lambda: np.copyto(target, source), torch.device("cpu")) for _ in range(ROUNDS))


def timed(call: Callable[[], object], device: torch.device) -> float:
    """Seconds, what was launched on the card included."""
    began = time.perf_counter()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began
