"""The memory of one replica, by its parts: what its process takes before any work, and what its model needs.

Estimates. What is measured is private memory: pages of libraries that processes share count once, in
`memory.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.dataflow.language.spec import NodeOptions, NodeSpec
from headrace.dataflow.planning.arithmetic import StepPlan
from headrace.dataflow.planning.lengths import data_tokens
from headrace.services.eval.following import WAITING
from headrace.services.kinds import kind_of
from headrace.services.models.base import ModelSize
from headrace.services.options import (
    CriticOptions,
    EvalOptions,
    LoraOptions,
    PolicyOptions,
    RolloutOptions,
    ScorerOptions,
    TeacherOptions,
    TrainerOptions,
)

MIB: Final = 1 << 20
GIB: Final = 1 << 30
PROCESS, MODEL_PROCESS = 115 * MIB, 325 * MIB
"""Private memory (USS) of a replica, without torch and with it: the largest in runs of
grpo_solver_verifier_cpu and grpo_smollm2_arithmetic_cpu, looked at every 2 s for 90 s, on x86-64 with torch
for CPUs, less what their models take."""
VLLM_PROCESS = 730 * MIB
"""The same of one that serves tiny-copier through vLLM 0.32 for CPUs."""
WITHOUT_TORCH = ("tiny-copier", "tiny-value")
"""Models whose tokenizer does not import it."""
PREFILL_TOKENS = 4096
"""Prompt tokens that a rollout reads at once."""
MOMENTS = 2
"""Running averages that AdamW keeps of each gradient, in the type of the gradients."""
KEPT_WIDTHS = 8, 4
"""Vectors of the width between layers, and of that within one, that a layer keeps of a token for its
gradient."""
LOGITS = 3
"""Copies of a token's logits, in float32: as they are, their logarithms of probabilities, a gradient."""
BYTES: Final = {"float32": 4, "float64": 8, "bfloat16": 2}

Parts = Mapping[str, int]
"""Bytes by what they are for."""

MODELLESS = ("fake", "openai")
"""Engines of which no model is in the replica's own process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a table gives its readers to do."""

    batch: StepPlan
    prompt_tokens: int

    @property
    def answer_tokens(self) -> int:
        """Of a step, were every answer as long as it may be."""
        return self.batch.samples_per_step * self.batch.max_new_tokens

    @property
    def step_tokens(self) -> int:
        """With the prompts, which count once to a group."""
        return self.batch.prompts_per_step * self.prompt_tokens + self.answer_tokens


def footprint(
    node: NodeSpec, policy: PolicyOptions, size: ModelSize | None, load: Load | None
) -> dict[str, int]:
    """Of a replica of a service. `size` None: not known, and then nothing that follows from it is counted;
    `load`: of the table that it leases from."""
    if runs_model(node.kind, node.options):
        base = {"process": VLLM_PROCESS if runs_vllm(node.options) else MODEL_PROCESS}
        return base if size is None else base | model_parts(node.options, policy, size, load)
    is_light = node.kind == "join" or policy.model in WITHOUT_TORCH
    return {"process": PROCESS if is_light else MODEL_PROCESS}


def ranks(options: NodeOptions) -> int:
    """Processes that one replica's model is trained in, or runs in."""
    return options.parallel.processes if isinstance(options, TrainerOptions) else 1


def runs_model(kind: str, options: NodeOptions) -> bool:
    return kind_of(kind).computes and getattr(options, "engine", "torch") not in MODELLESS


def runs_vllm(options: NodeOptions) -> bool:
    return getattr(options, "engine", "torch") == "vllm"


def holds_a_version(options: NodeOptions) -> bool:
    """Whether a model that follows a trained policy reads its weights where they were published: then it has
    none of its own, and keeps a version from being let go."""
    match options:
        case RolloutOptions() | EvalOptions():
            return options.engine == "torch" and not options.gpus
        case TeacherOptions() | CriticOptions():
            return not options.gpus
        case _:
            return False


def version_size(policy: PolicyOptions, size: ModelSize) -> int:
    """Bytes of a version as its trainer publishes it: of a policy with adapters, of those alone."""
    return _trained(policy, size) * BYTES[policy.precision]


def kept_aside(options: NodeOptions, steps: int) -> int:
    """Versions that an eval keeps of a trained policy, at most: those that wait, one that is to join them,
    and one that is loaded."""
    if not isinstance(options, EvalOptions):
        return 0
    due = len(range(0, steps, options.every)) + 1
    return min(WAITING + 2, due)


def on_gpu(options: NodeOptions, parts: Parts) -> Parts:
    """What of a model's parts lies on the card that it runs on; its weights are in the host's memory too, as
    they are loaded or gathered. None of it for vLLM, which takes its share of a card whatever it needs."""
    if not options.gpus or runs_vllm(options):
        return {}
    return {name: size for name, size in parts.items() if name not in ("process", "snapshot")}


def model_parts(
    options: NodeOptions, policy: PolicyOptions, size: ModelSize, load: Load | None
) -> dict[str, int]:
    """At their height: a trainer's copy that is published takes the place of its gradients."""
    width = BYTES[policy.precision]
    weights = size.parameters * width
    match options:
        case TrainerOptions() if load is not None:
            return {"weights": weights} | _training(options, policy, size, load)
        case ScorerOptions() if load is not None:
            return {
                "weights": weights,
                "activations": _passing(size, options.micro_batch_tokens, load, width, 1),
            }
        case RolloutOptions() | EvalOptions() if runs_vllm(options):
            base = {} if policy.lora is None else {"copies": weights}
            held = {"weights": weights, "cache": int(options.vllm.cpu_cache_gib * GIB)}
            return base if options.gpus else base | held
        case RolloutOptions() if load is not None:
            rows = min(options.max_concurrent, load.batch.rows_in_flight)
            prompts = -(-rows // load.batch.smallest_group) * load.prompt_tokens
            return {"weights": weights} | _decoding(size, rows, options.max_new_tokens, prompts, width)
        case EvalOptions():
            rows = min(options.max_concurrent, options.prompts * options.samples_per_prompt)
            prompts = -(-rows // options.samples_per_prompt) * data_tokens(options.dataset)
            return {"weights": weights} | _decoding(size, rows, options.max_new_tokens, prompts, width)
        case _:
            return {"weights": weights}


def _training(options: TrainerOptions, policy: PolicyOptions, size: ModelSize, load: Load) -> dict[str, int]:
    """Beside the weights. Those in bfloat16 are trained as float32 copies, and so are their gradients."""
    width, precise = BYTES[policy.precision], max(BYTES[policy.precision], BYTES["float32"])
    trained = _trained(policy, size)
    layers = 1 if policy.gradient_checkpointing else size.layers
    activations = _passing(size, options.micro_batch_tokens, load, width, layers)
    if policy.gradient_checkpointing:
        tokens = min(options.micro_batch_tokens, load.step_tokens)
        activations += tokens * size.hidden * width * size.layers
    copies = {"copies": trained * precise} if precise > width else {}
    snapshot = trained * width + sum(copies.values()) + MOMENTS * trained * precise
    saved = {"snapshot": snapshot} if options.checkpoint_async else {}
    return (
        copies
        | saved
        | {
            "gradients": trained * precise,
            "moments": MOMENTS * trained * precise,
            "activations": activations,
        }
    )


def _trained(policy: PolicyOptions, size: ModelSize) -> int:
    """Numbers that its trainer changes, and publishes."""
    return size.parameters if policy.lora is None else _adapted(size, policy.lora)


def _adapted(size: ModelSize, lora: LoraOptions) -> int:
    """Numbers in the adapters, with one on each linear layer: of queries and outputs, keys and values, and
    the three of the feed-forward part."""
    keys = size.kv_heads * size.head_size
    widths = 4 * size.hidden + 2 * (size.hidden + keys) + 3 * (size.hidden + size.intermediate)
    return size.layers * lora.rank * widths


def _passing(size: ModelSize, limit: int, load: Load, width: int, layers: int) -> int:
    """Of the largest pass through the model, where that many layers' activations are held at once."""
    tokens = min(limit, load.step_tokens)
    return _kept(size, tokens, width) * layers + _logits(size, min(tokens, load.answer_tokens))


def _decoding(size: ModelSize, rows: int, longest: int, prompts: int, width: int) -> dict[str, int]:
    """Of rows that are decoded at once; `prompts` are the tokens that they begin with."""
    return {
        "cache": (rows * longest + prompts) * size.cached_per_token * width,
        "activations": _kept(size, min(PREFILL_TOKENS, prompts), width) + _logits(size, rows),
    }


def _kept(size: ModelSize, tokens: int, width: int) -> int:
    """What a layer has of tokens while it works, or keeps of them for the gradient."""
    outer, inner = KEPT_WIDTHS
    return tokens * (outer * size.hidden + inner * size.intermediate) * width


def _logits(size: ModelSize, tokens: int) -> int:
    return LOGITS * tokens * size.vocabulary * BYTES["float32"]
