"""Weights from a trainer's process to a replica's, against a plain memory copy of the same bytes.

    python bench/weights.py --rounds 9

`sync`: from the trainer's tensors until the replica's model is of them, verified, as an engine on a CPU loads
them; both ends and what they say to each other included. `copy`: the replica copies the same bytes once, from
the memory that both have mapped to its own, in one thread. `file`: what a sync costs by safetensors alone, a
new file each time, read again for its digest at both ends. `delta`: what moves to another node's folder after
a change of 1 %. One side at a time, in turn.

Prints a table, and as the last line one JSON object; `ratios` holds rates over the copy's.
"""

import argparse
import asyncio
import json
import multiprocessing as mp
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xxhash
from safetensors.torch import load_file, save_file

from headrace.services.models.in_place import replace_weights
from headrace.services.weights import WeightStore
from headrace.services.weights.mirror import WeightMirror
from headrace.services.weights.server import WeightServer

MIB = 1 << 20
WIDTH = 1024
TARGETS = {"sync_rate_over_copy": 0.5, "delta_share_float32": 0.03, "delta_share_bfloat16": 0.03}
"""The first is to be reached, the others not to be passed."""
Weights = dict[str, torch.Tensor]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Weights between two processes, against a memory copy.")
    parser.add_argument("--mb", type=int, default=500, help="of weights, in millions of bytes")
    parser.add_argument("--rounds", type=int, default=9, help="of each side; the first three are not counted")
    parser.add_argument("--no-file", action="store_true", help="leave out the side that is the slowest")
    return parser.parse_args()


def model(mb: int, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """An embedding of an eighth of the bytes, and square layers."""
    squares = mb * 10**6 // (WIDTH * WIDTH * dtype.itemsize)
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False, dtype=dtype) for _ in range(squares - squares // 8)]
    return torch.nn.Sequential(torch.nn.Embedding(WIDTH * (squares // 8), WIDTH, dtype=dtype), *layers)


def digest_of(weights: Weights) -> str:
    """Of names and bytes, in the order of names."""
    found = xxhash.xxh3_128()
    for name in sorted(weights):
        found.update(name.encode())
        found.update(weights[name].contiguous().view(torch.uint8).numpy().data)
    return found.hexdigest()


def digest(path: Path) -> str:
    return xxhash.xxh3_128_hexdigest(np.memmap(path, np.uint8, "r").data)


class Replica:
    """What the other process does, by the name that it is asked under."""

    def __init__(self, folder: Path, mb: int) -> None:
        self._store = WeightStore(folder)
        self._file = folder / "plain.safetensors"
        self._model, self._copying = model(mb), model(mb)
        self._own = np.empty(0, np.uint8)
        self._shared = np.empty(0, np.uint8)

    def prepare(self, path: str) -> None:
        self._shared = np.memmap(path, np.uint8, "r")
        self._own = np.ones_like(self._shared)
        np.copyto(self._own, self._shared)

    def copy(self) -> None:
        np.copyto(self._own, self._shared)

    def sync(self, version: int, checksum: str) -> None:
        replace_weights(self._model, self._store.take("actor", version, checksum))

    def file(self, checksum: str) -> None:
        if digest(self._file) != checksum:
            raise ValueError("other bytes than were written")
        replace_weights(self._copying, load_file(self._file))

    def checked(self) -> str:
        return digest_of(self._model.state_dict())


def replica(folder: Path, mb: int, line: Connection) -> None:
    torch.set_num_threads(1)
    serving = Replica(folder, mb)
    line.send(None)
    while asked := line.recv():
        name, *words = asked
        line.send(getattr(serving, name)(*words))


def ask(line: Connection, name: str, *words: Any) -> Any:
    line.send([name, *words])
    return line.recv()


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def between_processes(folder: Path, mb: int, rounds: int, *, by_file: bool) -> dict[str, list[float]]:
    """Seconds of each round, by side."""
    line, theirs = mp.Pipe()
    other = mp.get_context("spawn").Process(target=replica, args=(folder, mb, theirs), daemon=True)
    other.start()
    line.recv()
    store, trained = WeightStore(folder), model(mb)
    weights: Weights = trained.state_dict()
    plain = folder / "plain.safetensors"
    seconds: dict[str, list[float]] = {"copy": [], "sync": []} | ({"file": []} if by_file else {})

    def sync(version: int) -> None:
        ask(line, "sync", version, store.write("actor", version, weights))

    def as_file() -> None:
        plain.unlink(missing_ok=True)
        save_file(weights, plain)
        ask(line, "file", digest(plain))

    try:
        save_file(weights, folder / "copied.safetensors")
        ask(line, "prepare", str(folder / "copied.safetensors"))
        for number in range(rounds):
            next(iter(weights.values()))[0] += 1
            seconds["copy"].append(timed(lambda: ask(line, "copy")))
            seconds["sync"].append(timed(lambda number=number: sync(number)))
            if by_file:
                seconds["file"].append(timed(as_file))
        if ask(line, "checked") != digest_of(weights):
            raise ValueError("the replica's weights are not the trainer's")
    finally:
        line.send(None)
        other.join()
    return {name: found[3:] for name, found in seconds.items()}


async def to_another_node(folder: Path, mb: int, dtype: torch.dtype) -> dict[str, float]:
    """Bytes and seconds of a whole version, and of the next one with 1 % of its elements changed."""
    there, here = WeightStore(folder / "there"), WeightStore(folder / "here")
    weights: Weights = model(mb, dtype).state_dict()
    async with WeightServer(there) as server:
        mirror = WeightMirror(here, server.address)
        try:
            began = time.perf_counter()
            first = await mirror.pull("actor", 0, there.write("actor", 0, weights))
            whole_s = time.perf_counter() - began
            change(weights)
            checksum = there.write("actor", 1, weights)
            began = time.perf_counter()
            second = await mirror.pull("actor", 1, checksum)
            delta_s = time.perf_counter() - began
        finally:
            mirror.close()
    read = here.read("actor", 1, checksum)
    if not all(torch.equal(read[name], tensor) for name, tensor in weights.items()):
        raise ValueError("the other node has other weights")
    total = sum(tensor.nbytes for tensor in weights.values())
    return {
        "bytes": total,
        "whole_share": first.moved_bytes / total,
        "delta_share": second.moved_bytes / total,
        "whole_s": whole_s,
        "delta_s": delta_s,
    }


def change(weights: Weights) -> None:
    """One element in a hundred, wherever they are."""
    drawn = torch.Generator().manual_seed(0)
    for tensor in weights.values():
        places = torch.randperm(tensor.numel(), generator=drawn)[: tensor.numel() // 100]
        flat = tensor.view(-1)
        flat[places] = flat[places] * 1.5 + 1


def main() -> int:
    args = arguments()
    root = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="bench-weights-", dir=root))
    try:
        seconds = between_processes(folder, args.mb, args.rounds, by_file=not args.no_file)
        nodes = {
            name: asyncio.run(to_another_node(folder / name, args.mb // 5, getattr(torch, name)))
            for name in ("float32", "bfloat16")
        }
    finally:
        shutil.rmtree(folder)
    middle = {name: statistics.median(found) for name, found in seconds.items()}
    ratios = {
        "sync_rate_over_copy": statistics.median(
            copy / sync for copy, sync in zip(seconds["copy"], seconds["sync"], strict=True)
        ),
        **({} if args.no_file else {"sync_rate_over_file": middle["file"] / middle["sync"]}),
        **{f"delta_share_{name}": found["delta_share"] for name, found in nodes.items()},
    }
    print(f"{'side':<8}{'median ms':>12}{'least ms':>12}{'GB/s':>8}")
    for name, found in seconds.items():
        rate = args.mb / 1000 / middle[name]
        print(f"{name:<8}{middle[name] * 1e3:>12.1f}{min(found) * 1e3:>12.1f}{rate:>8.1f}")
    for name, ratio in ratios.items():
        print(f"{name:<24}{ratio:>8.3f}  {TARGETS.get(name, '')}")
    figures = {"machine": platform.platform(), "seconds": seconds, "nodes": nodes, "ratios": ratios}
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
