"""What a checkpoint costs the steps of a trainer: written while they wait, and from a copy beside them.

    python bench/checkpoint.py --mb 100 --rounds 5

`waits`: the next step waits until the checkpoint is written, hashed, synced and renamed. `beside`: it waits
for the copy alone, and the rest goes on beside a step; `whole` is until that is done. In turn, on one model.

Prints a table, and as the last line one JSON object; `ratios` holds medians over those of `waits`.
"""

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from transformers import LlamaConfig, LlamaForCausalLM

from headrace.algorithms.options import GrpoOptions
from headrace.algorithms.registry import Recipe
from headrace.services.options import OptimizerOptions
from headrace.services.scoring.model import PackedModel
from headrace.services.trainer import checkpoint
from headrace.services.trainer.samples import Samples
from headrace.services.trainer.torch_backend import TorchBackend

HIDDEN, TOKENS = 512, 16


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Steps that wait for a checkpoint, and steps beside it.")
    parser.add_argument("--mb", type=int, default=100, help="of float32 weights, in millions of bytes")
    parser.add_argument("--rounds", type=int, default=5, help="of each side; the first is not counted")
    return parser.parse_args()


def backend(mb: int) -> TorchBackend:
    layer = 4 * HIDDEN * HIDDEN + 3 * HIDDEN * 4 * HIDDEN
    config = LlamaConfig(
        vocab_size=1024,
        hidden_size=HIDDEN,
        intermediate_size=4 * HIDDEN,
        num_hidden_layers=max(1, mb * 10**6 // 4 // layer),
        num_attention_heads=8,
        num_key_value_heads=8,
        tie_word_embeddings=True,
    )
    model = PackedModel(LlamaForCausalLM(config), temperature=1.0)
    return TorchBackend(model, OptimizerOptions(), micro_batch_tokens=4096, total_steps=None)


def samples() -> Samples:
    """A group of two."""
    drawn = np.random.default_rng(0)
    return Samples(
        uids=np.arange(2),
        groups=np.zeros(2, dtype=np.int64),
        prompt_ids=[np.arange(4, dtype=np.int32)] * 2,
        response_ids=[drawn.integers(0, 1024, TOKENS).astype(np.int32) for _ in range(2)],
        behaviour_logprobs=[np.full(TOKENS, -7.0, dtype=np.float32)] * 2,
        loss_mask=[np.ones(TOKENS, dtype=np.int8)] * 2,
        advantages=np.array([1.0, -1.0]),
        rewards=np.array([1.0, 0.0]),
    )


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def rounds(ours: TorchBackend, folder: Path, number: int) -> dict[str, list[float]]:
    """Seconds, by side."""
    algorithm = Recipe(options=GrpoOptions(), max_new_tokens=TOKENS, step=0).build()
    batch, found = samples(), {"step": [], "waits": [], "beside": [], "whole": []}

    def step() -> None:
        ours.accumulate(batch, algorithm)
        ours.step(0)

    step()
    for step_number in range(number):
        found["step"].append(timed(step))
        found["waits"].append(
            timed(lambda at=step_number: checkpoint.write(folder, at, save=ours.save, values={}))
        )
        began = time.perf_counter()
        found["beside"].append(timed(ours.snapshot))
        aside = checkpoint.begin(folder, step_number)
        writing = ours.write(aside)
        step()
        writing.result()
        ours.written()
        checkpoint.finish(aside, step_number, {})
        found["whole"].append(time.perf_counter() - began)
        checkpoint.prune(folder, keep=1)
    return {name: seconds[1:] for name, seconds in found.items()}


def main() -> int:
    args = arguments()
    ours = backend(args.mb)
    with tempfile.TemporaryDirectory(prefix="bench-checkpoint-") as folder:
        seconds = rounds(ours, Path(folder), args.rounds)
        written = checkpoint.newest_size(Path(folder))
    middle = {name: statistics.median(found) for name, found in seconds.items()}
    ratios = {f"{name}_over_waits": middle[name] / middle["waits"] for name in ("beside", "whole")}
    print(f"{written / 1e6:.0f} MB written\n{'side':<8}{'median ms':>12}{'least ms':>12}")
    for name, found in seconds.items():
        print(f"{name:<8}{middle[name] * 1e3:>12.1f}{min(found) * 1e3:>12.1f}")
    print(
        json.dumps({"machine": platform.platform(), "bytes": written, "seconds": seconds, "ratios": ratios})
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
