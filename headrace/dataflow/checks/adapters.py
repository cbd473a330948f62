"""Whether what a policy says of how it is trained can be had: adapters, and layers computed again."""

from collections.abc import Iterator

from headrace.dataflow.checks.idle import idle
from headrace.dataflow.language.problems import Path, Problem
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.topology import trainer_of
from headrace.services.models.lora import missing
from headrace.services.models.size import size
from headrace.services.options import LoraOptions, TrainerOptions


def check_adapters(spec: GraphSpec) -> Iterator[Problem]:
    for name, policy in spec.policies.items():
        path, trainer = ("policies", name), trainer_of(spec, name)
        if trainer is None and policy.gradient_checkpointing:
            yield idle(
                (*path, "gradient_checkpointing"),
                "no trainer names the policy",
                "remove it, or train the policy",
            )
        if policy.lora is None:
            continue
        path = (*path, "lora")
        if trainer is None:
            yield idle(path, "no trainer names the policy", "remove it, or train the policy")
            continue
        if reason := missing():
            wrong, _, way_out = reason.partition("; ")
            yield Problem(path=path, wrong=wrong, way_out=way_out)
        yield from _rank(policy.lora, policy.model, path)
        yield from _value_model(spec, name, path)


def _rank(lora: LoraOptions, model: str, path: Path) -> Iterator[Problem]:
    known = size(model)
    if known is not None and lora.rank > known.hidden:
        yield Problem(
            path=(*path, "rank"),
            wrong=f"got {lora.rank}, wider than the layers of {model!r}",
            allowed=f"at most {known.hidden}",
            way_out="lower it, or remove lora to train all weights",
        )


def _value_model(spec: GraphSpec, policy: str, path: Path) -> Iterator[Problem]:
    for node in spec.nodes.values():
        options = node.options
        valued = isinstance(options, TrainerOptions) and options.algorithm.trains_values
        if node.policy == policy and valued:
            yield Problem(
                path=path,
                wrong="a value model is trained whole: its output has to be learned",
                way_out="remove lora",
            )
            return
