"""Whether a trainer's back end can be had, and lays itself over the processes that it asks for."""

from collections.abc import Iterator

from headrace.dataflow.checks.idle import idle
from headrace.dataflow.language.problems import Path, Problem
from headrace.dataflow.language.spec import GraphSpec
from headrace.services.options import ParallelOptions, PolicyOptions, TrainerOptions
from headrace.services.trainer.megatron.fit import fault, missing, policy_fault


def check_parallel(spec: GraphSpec) -> Iterator[Problem]:
    in_ranks: list[str] = []
    for name, node in spec.of_kind("trainer").items():
        trainer = node.options
        if not isinstance(trainer, TrainerOptions):
            continue
        path, policy = ("nodes", name), spec.policies[str(node.policy)]
        if trainer.backend == "megatron" or trainer.parallel.processes > 1:
            in_ranks.append(name)
        if trainer.backend == "megatron":
            yield from _megatron(trainer, policy, path)
        else:
            yield from _torch(trainer.parallel, path)
        prompts, ranks = trainer.prompts_per_step, trainer.parallel.dp
        if ranks > prompts:
            yield Problem(
                path=(*path, "parallel", "dp"),
                wrong=f"{prompts} prompts of a step are no work for {ranks} ranks",
                allowed=f"at most {prompts}",
                way_out="lower it, or raise prompts_per_step",
            )
    if spec.runtime == "local" and len(in_ranks) > 1:
        yield Problem(
            path=("nodes", in_ranks[1], "parallel"),
            wrong=f"'{in_ranks[0]}' trains in ranks already, and the local runtime is one process, which can "
            "be a rank of one trainer",
            way_out="set runtime: ray, or train one of them in a single process with backend: torch",
        )


def _torch(parallel: ParallelOptions, path: Path) -> Iterator[Problem]:
    for key in ("tp", "pp"):
        if getattr(parallel, key) > 1:
            yield Problem(
                path=(*path, "parallel", key),
                wrong=f"got {getattr(parallel, key)}, and the back end torch shares out samples alone",
                allowed="1",
                way_out="use dp and fsdp, or set backend: megatron",
            )
    if parallel.fsdp and parallel.dp == 1:
        yield idle((*path, "parallel", "fsdp"), "there is one rank", "set dp: 2 or more, or remove fsdp")


def _megatron(trainer: TrainerOptions, policy: PolicyOptions, path: Path) -> Iterator[Problem]:
    if trainer.parallel.fsdp:
        yield Problem(
            path=(*path, "parallel", "fsdp"),
            wrong="the back end megatron lays weights out by tp and pp",
            allowed="false",
            way_out="remove it, or set backend: torch",
        )
    if trainer.algorithm.trains_values or trainer.algorithm.values_by_head:
        yield Problem(
            path=(*path, "backend"),
            wrong=f"megatron trains no values, which {trainer.algorithm.kind} asks for",
            allowed="torch",
            way_out="set backend: torch, or leave the values to a critic of another trainer",
        )
    reasons = missing() or fault(policy.model, trainer.parallel), policy_fault(policy)
    for reason in filter(None, reasons):
        wrong, _, way_out = reason.partition("; ")
        yield Problem(path=(*path, "backend"), wrong=wrong, way_out=way_out or "set backend: torch")
