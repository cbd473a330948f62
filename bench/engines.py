"""Tokens per second of the engines torch and vllm on one model, by how many samples they decode at once.

    .venv-vllm/bin/python bench/engines.py                          SmolLM2-135M-Instruct, float32
    .venv-vllm/bin/python bench/engines.py --model tiny-copier --tokens 64

Each side runs alone, in a process of its own with the environment of a replica, in turns of one run. Prompts
are drawn ids, shared by groups of 8; answers end by length or at the model's own stop tokens. Beside the rate
stands the CPU time of a token, which says the same on a busy machine.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from statistics import median
from typing import Any

import numpy as np
from sides import confine

ENGINES = ("torch", "vllm")
GROUP = 8
MIB = 1 << 20


def parse() -> argparse.Namespace:
    """The command line of both the whole run and of one side of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--prompt", type=int, default=64, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=32, help="most tokens of an answer")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--side", choices=ENGINES, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if arguments.side:
        print(json.dumps(asyncio.run(side(arguments))))
        return
    confine()
    turns = [{engine: child(engine, arguments.threads) for engine in ENGINES} for _ in range(arguments.turns)]
    figures = {engine: middle([turn[engine] for turn in turns]) for engine in ENGINES}
    by_torch, by_vllm = figures["torch"], figures["vllm"]
    ratios: dict[str, float] = {}
    for batch in arguments.batches:
        rate, cpu = f"tokens_per_s_{batch}", f"cpu_ms_per_token_{batch}"
        ratios[f"vllm_to_torch_{rate}"] = by_vllm[rate] / by_torch[rate]
        ratios[f"torch_to_vllm_{cpu}"] = by_torch[cpu] / by_vllm[cpu]
    print(
        json.dumps(
            {
                "model": arguments.model,
                "turns": arguments.turns,
                "threads": arguments.threads,
                **figures,
                "ratios": ratios,
            }
        )
    )


def child(engine: str, threads: int) -> dict[str, float]:
    """One side in a process of its own, with the arguments of this one."""
    print(f"{engine} ...", file=sys.stderr, flush=True)
    command = [sys.executable, __file__, *sys.argv[1:], "--side", engine]
    replica = {"OMP_NUM_THREADS": str(threads), "GOMP_SPINCOUNT": "20000"}
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
        env={**os.environ, **replica},
    )
    return json.loads(done.stdout.splitlines()[-1])


def middle(turns: list[dict[str, float]]) -> dict[str, float]:
    """The median of each figure."""
    return {name: median(turn[name] for turn in turns) for name in turns[0]}


async def side(arguments: argparse.Namespace) -> dict[str, float]:
    """Figures of one engine: its start, its batches, a load of new weights, and its peak memory."""
    import torch

    from headrace.services.models import load
    from headrace.services.options import PolicyOptions, RolloutOptions
    from headrace.services.rollout.engines import build

    torch.set_num_threads(arguments.threads)
    options = RolloutOptions(
        engine=arguments.side, max_new_tokens=arguments.tokens, max_concurrent=max(arguments.batches)
    )
    started = time.perf_counter()
    engine = await build(options, PolicyOptions(model=arguments.model), seed=0)
    figures = {"start_s": time.perf_counter() - started}
    await batch_of(engine, arguments, min(arguments.batches))
    for batch in arguments.batches:
        figures |= await batch_of(engine, arguments, batch)
    figures["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MIB
    weights = dict(load(arguments.model, dtype="float32", seed=0).model.state_dict())
    loading = time.perf_counter()
    await engine.load(1, weights)
    figures["load_s"] = time.perf_counter() - loading
    await engine.close()
    return figures


async def batch_of(engine: Any, arguments: argparse.Namespace, batch: int) -> dict[str, float]:
    """Rate and CPU time of one batch; its prompts are its own, so that no prefix is cached of another."""
    from headrace.services.rollout.engines import Request

    draws = np.random.default_rng(batch)
    vocabulary = 13 if arguments.model == "tiny-copier" else 40_000
    prompts = [draws.integers(3, vocabulary, arguments.prompt) for _ in range(-(-batch // GROUP))]
    asked = [
        Request(uid=i, group=i // GROUP, prompt_ids=prompts[i // GROUP].astype(np.int32), seed=i)
        for i in range(batch)
    ]
    wall, cpu, tokens = time.perf_counter(), time.process_time(), 0
    async for completions in engine.generate(asked):
        tokens += sum(len(completion.token_ids) for completion in completions)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {f"tokens_per_s_{batch}": tokens / wall, f"cpu_ms_per_token_{batch}": 1e3 * cpu / tokens}


if __name__ == "__main__":
    main()
