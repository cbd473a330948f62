"""TRL's GRPOTrainer on the prompts of a work, in their order, with the settings of the peer's script; run by
the peer's own Python. Says on its standard output when a step has ended.
"""

import argparse
import importlib
import json
import time
from pathlib import Path
from statistics import fmean

import torch
from datasets import Dataset  # pyright: ignore[reportMissingImports]
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer  # pyright: ignore[reportMissingImports]


class Clock(TrainerCallback):
    """Notes when each step ended."""

    def __init__(self) -> None:
        self.marks: list[float] = []

    def on_step_end(self, *_: object, **__: object) -> None:
        self.marks.append(time.perf_counter())
        print(f"step {len(self.marks)}", flush=True)


def settings(args: argparse.Namespace) -> GRPOConfig:
    return GRPOConfig(
        output_dir=str(args.out.parent / "trl-out"),
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=args.rows,
        gradient_accumulation_steps=args.prompts * args.samples // args.rows,
        num_generations=args.samples,
        max_completion_length=args.longest,
        learning_rate=args.lr,
        adam_beta1=0.9,
        adam_beta2=0.95,
        lr_scheduler_type="constant",
        warmup_steps=0,
        weight_decay=0.0,
        beta=0.0,
        epsilon=0.2,
        epsilon_high=0.28,
        max_grad_norm=1.0,
        max_steps=args.steps,
        seed=args.seed,
        shuffle_dataset=False,
        temperature=1.0,
        logging_steps=1000,
        save_strategy="no",
        report_to=[],
        gradient_checkpointing=False,
        disable_tqdm=True,
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--model", type=Path, required=True, help="folder with prompts.jsonl beside the model"
    )
    parser.add_argument("--scored-by", required=True, help="module of this folder with the work's `score`")
    for name, kind in [("steps", int), ("prompts", int), ("samples", int), ("seed", int), ("threads", int),
                       ("lr", float), ("longest", int), ("rows", int)]:  # fmt: skip
        parser.add_argument(f"--{name}", type=kind, required=True)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    judge = importlib.import_module(args.scored_by).score
    tokens: list[int] = []
    exact: list[float] = []

    def score(completions: list[str], completion_ids: list[list[int]], **columns: list[str]) -> list[float]:
        examples = [{name: values[i] for name, values in columns.items() if name == "answer"}
                    for i in range(len(completions))]  # fmt: skip
        scores = [judge(text, example) for text, example in zip(completions, examples, strict=True)]
        tokens.append(sum(map(len, completion_ids)))
        exact.append(fmean(one["exact"] for one in scores))
        return [one["reward"] for one in scores]

    clock = Clock()
    with (args.model / "prompts.jsonl").open() as lines:
        entries = list(map(json.loads, lines))
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(args.model, padding_side="left"),
        reward_funcs=score,
        args=settings(args),
        train_dataset=Dataset.from_list(entries),
        callbacks=[clock],
    )
    trainer.train()
    args.out.write_text(json.dumps({"marks": clock.marks, "tokens": tokens, "exact": exact}))


if __name__ == "__main__":
    main()
