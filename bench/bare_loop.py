"""GRPO in one process without an engine: one prefill per prompt, cached decoding, one padded backward.

The yardstick of an engine's own overhead: same model, prompts per step, samples, optimizer and loss as the
other sides of `loop.py`, written as directly as the work allows. Prompts of a step have one length.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import countdown
import torch
from models import LETTERS
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, PreTrainedModel

Score = Callable[[str, str], tuple[float, float]]
END, PAD = 1, 0


def copy_prompts(letters: int, seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    while True:
        yield "".join(rng.choice(LETTERS) for _ in range(letters)) + ">"


def copy_score(answer: str, prompt: str) -> tuple[float, float]:
    """(reward, exact): half for the whole word, half for the share of right positions."""
    right, got = prompt[:-1], answer.split("$")[0].replace(" ", "")
    exact = float(got == right)
    share = sum(a == b for a, b in zip(got, right, strict=False)) / max(len(got), len(right), 1)
    return 0.5 * exact + 0.5 * share, exact


def count_score(answer: str, prompt: str) -> tuple[float, float]:
    found = countdown.score(answer, {"prompt": prompt})
    return found["reward"], found["exact"]


@torch.inference_mode()
def generate(
    model: PreTrainedModel, prompts_PT: torch.Tensor, samples: int, longest: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Answers, log-probabilities of their tokens, and 1.0 up to the end token: all [B, T]."""
    cache = DynamicCache()
    logits = model(prompts_PT, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]
    cache.batch_repeat_interleave(samples)
    logits = logits.repeat_interleave(samples, 0)
    running = torch.ones(len(logits), dtype=torch.bool)
    tokens, logprobs, masks = [], [], []
    while True:
        scores = logits.log_softmax(-1)
        drawn = torch.multinomial(scores.exp(), 1)
        tokens.append(torch.where(running, drawn[:, 0], PAD))
        logprobs.append(scores.gather(1, drawn)[:, 0])
        masks.append(running.float())
        running = running & (drawn[:, 0] != END)
        if len(tokens) == longest or not running.any():
            return torch.stack(tokens, 1), torch.stack(logprobs, 1), torch.stack(masks, 1)
        logits = model(drawn, past_key_values=cache, use_cache=True).logits[:, -1]


def learn(
    model: PreTrainedModel,
    optimizer: torch.optim.Optimizer,
    prompts: torch.Tensor,
    sampled: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    rewards_PG: torch.Tensor,
) -> None:
    """One GRPO update on prompts [B, P] and what `generate` returned for them."""
    answers, behaviour, mask = (tensor.clone() for tensor in sampled)
    advantages = (rewards_PG - rewards_PG.mean(1, keepdim=True)) / (rewards_PG.std(1, keepdim=True) + 1e-4)
    ids, keep = torch.cat([prompts, answers], 1), answers.shape[1] + 1
    logits = model(ids, logits_to_keep=keep, use_cache=False).logits[:, :-1]
    current = -torch.nn.functional.cross_entropy(logits.flatten(0, 1), answers.flatten(), reduction="none")
    ratio = (current.view_as(behaviour) - behaviour).exp()
    credit = advantages.view(-1, 1)
    surrogate = torch.minimum(ratio * credit, ratio.clamp(0.8, 1.28) * credit)
    (-(surrogate * mask).sum() / mask.sum()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", choices=["copy", "lognormal"], default="copy")
    parser.add_argument("--model", type=Path, required=True, help="folder made by models.py")
    for name, kind, default in [
        ("steps", int, 100), ("prompts", int, 32), ("samples", int, 8), ("seed", int, 0), ("threads", int, 2),
        ("lr", float, 1e-3), ("longest", int, 5), ("letters", int, 4),
    ]:  # fmt: skip
        parser.add_argument(f"--{name}", type=kind, default=default)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.0)
    copy = args.work == "copy"
    count = args.steps * args.prompts
    texts = copy_prompts(args.letters, args.seed) if copy else countdown.prompts(count, args.seed)
    score: Score = copy_score if copy else count_score
    marks, spent, generated, exact = [], [], [], []
    for _ in range(args.steps):
        begun = time.perf_counter()
        prompts = [next(texts) for _ in range(args.prompts)]
        ids = torch.tensor(tokenizer(prompts, add_special_tokens=False)["input_ids"])
        sampled = generate(model, ids, args.samples, args.longest)
        spent.append(time.perf_counter() - begun)
        asked = [prompt for prompt in prompts for _ in range(args.samples)]
        scored = [score(a, p) for a, p in zip(tokenizer.batch_decode(sampled[0]), asked, strict=True)]
        rewards = torch.tensor([reward for reward, _ in scored]).view(args.prompts, args.samples)
        learn(model, optimizer, ids.repeat_interleave(args.samples, 0), sampled, rewards)
        marks.append(time.perf_counter())
        generated.append(int(sampled[2].sum()))
        exact.append(statistics.fmean(e for _, e in scored))
    result = {"marks": marks, "tokens": generated, "generation_s": spent, "exact": exact}
    args.out.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
