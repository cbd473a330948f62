"""An eval's prompts, and what is asked of each: the same for every version, and none of the training's.

Invariant: prompts, their order and every answer's random stream depend on the run's seed and the node's name
alone, so that two versions differ in their weights only.
"""

from dataclasses import dataclass, field
from typing import Any

from headrace.algorithms.seeds import sample_seed
from headrace.services.options import EvalOptions
from headrace.services.prompts import encode
from headrace.services.rollout.engines import Request
from headrace.services.source.datasets import open_dataset
from headrace.services.source.datasets.base import DatasetError
from headrace.services.source.order import DataOrder

DATA_SEED_BITS = (1 << 31) - 1
"""Of a seed, those that every generator of a data set takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exam:
    requests: tuple[Request, ...] = field(repr=False)
    """Their uids count from 0; a group for each prompt."""
    examples: tuple[dict[str, Any], ...] = field(repr=False)
    """What the verifier needs, one for each request."""


def exam(options: EvalOptions, tokenizer: Any, *, run_seed: int, node: str) -> Exam:
    """Raises DatasetError where the data cannot be opened or holds too few prompts, PromptError."""
    seed = sample_seed(run_seed, *node.encode())
    dataset = open_dataset(options.dataset, seed & DATA_SEED_BITS)
    if len(dataset) < options.prompts:
        raise DatasetError(
            f"{node} asks {options.prompts} prompts of a data set that holds {len(dataset)};"
            " set prompts to that or less"
        )
    order = DataOrder(size=len(dataset), seed=seed)
    entries = [dataset[order.at(place)[1]] for place in range(options.prompts)]
    asked = [(group, encode(entry.prompt, tokenizer)) for group, entry in enumerate(entries)]
    samples = options.samples_per_prompt
    return Exam(
        requests=tuple(
            Request(
                uid=(uid := group * samples + sample),
                group=group,
                prompt_ids=ids,
                seed=sample_seed(seed, uid),
            )
            for group, ids in asked
            for sample in range(samples)
        ),
        examples=tuple(entry.example for entry in entries for _ in range(samples)),
    )
