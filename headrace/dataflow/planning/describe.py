"""What a node does, in a few words."""

from headrace.dataflow.language.spec import NodeSpec
from headrace.services.options import (
    BranchOptions,
    EvalOptions,
    JoinOptions,
    RewardOptions,
    RolloutOptions,
    RowFilterOptions,
    SinkOptions,
    SourceOptions,
    TrainerOptions,
    TransformOptions,
)


def describe(node: NodeSpec) -> str:
    """One line, beginning with the kind."""
    options = node.options
    match options:
        case SourceOptions():
            what = f"source {options.dataset.kind}, {options.samples_per_prompt} samples per prompt"
            if not options.is_fixed_order():
                what += f", drawn by {options.sampler.kind}, budget {options.budget.kind}"
        case RolloutOptions():
            what = f"rollout {node.policy}, {options.engine} engine"
        case RewardOptions():
            what = f"reward {options.verifier.kind}"
        case TrainerOptions():
            batch = f"{options.prompts_per_step} prompts per step"
            what = f"trainer {node.policy}, {options.algorithm.kind}, {batch}"
        case BranchOptions(function=None):
            what = "branch, rows as they are"
        case BranchOptions():
            by = last_part(str(options.function))
            what = f"branch by {by}, {options.samples_per_prompt} samples per prompt"
        case JoinOptions():
            what = f"join, {options.reduce} of {options.of} as {options.column}"
        case RowFilterOptions():
            what = f"filter by {last_part(options.function)}"
        case TransformOptions():
            return f"transform by {last_part(options.function)}"
        case EvalOptions():
            what = f"eval {node.policy}, {options.prompts} prompts every {options.every} versions"
        case SinkOptions():
            what = f"sink, {options.format} files"
        case _:
            kind = last_part(node.kind)
            what = f"{kind} {node.policy}" if node.policy else kind
    return what if options.replicas == 1 else f"{what}, {options.replicas} replicas"


def last_part(path: str) -> str:
    """Of the path of a function or class: the file's name and its own."""
    return path.rpartition("/")[2]
