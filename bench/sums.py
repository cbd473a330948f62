"""The SmolLM2 work: sums of two numbers from 0 to 10, asked and scored as in the recorded learning run.

Questions are drawn from a seed; what surrounds them, two solved sums as earlier turns, is the recorded run's.
Imports nothing heavy: the verifier's process loads this file for `score`.
"""

import random
import re
from collections.abc import Iterator
from typing import Any

TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
SOLVED = ((9, 4), (2, 5))
LARGEST = 10


def prompts(count: int, seed: int, tokenizer: Any) -> Iterator[dict[str, str]]:
    """Each with `prompt`, the chat in the template of `tokenizer` up to the opened answer, and `answer`."""
    rng = random.Random(seed)
    for _ in range(count):
        first, second = rng.randint(0, LARGEST), rng.randint(0, LARGEST)
        text = tokenizer.apply_chat_template(chat(first, second), add_generation_prompt=True, tokenize=False)
        yield {"prompt": text, "answer": str(first + second)}


def chat(first: int, second: int) -> list[dict[str, str]]:
    turns = [("system", "You calculate.")]
    for a, b in SOLVED:
        turns += [("user", f"Calculate {a} + {b}."), ("assistant", f"{a} + {b} = <answer>{a + b}</answer>")]
    turns.append(("user", f"Calculate {first} + {second}."))
    return [{"role": role, "content": content} for role, content in turns]


def score(response: str, example: dict[str, Any]) -> dict[str, float]:
    """1 for the sum alone in the last pair of tags, or as the whole answer; where it stands among other
    characters, its share of them."""
    tagged = TAGGED.findall(response)
    given, right = (tagged[-1] if tagged else response).strip(), example["answer"]
    reward = 1.0 if given == right else len(right) / len(given) if right in given else 0.0
    return {"reward": reward, "exact": float(given == right)}
