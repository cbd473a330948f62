"""Whether what scores answers can: a judge's question, reply and key, an eval's prompts and verifier."""

from collections.abc import Iterator

from headrace.dataflow.checks.data import size_of
from headrace.dataflow.checks.figures import check_script
from headrace.dataflow.checks.servers import check_endpoint
from headrace.dataflow.language.problems import Path, Problem, nearest
from headrace.dataflow.language.spec import GraphSpec
from headrace.services.isolation.confined import missing
from headrace.services.judge.template import KNOWN, fault_of, unknown_fields
from headrace.services.options import EvalOptions, JudgeOptions, PythonVerifier, Verifier


def check_scorers(spec: GraphSpec) -> Iterator[Problem]:
    for name, node in spec.nodes.items():
        if isinstance(node.options, JudgeOptions):
            yield from _judge(node.options, ("nodes", name))
        elif isinstance(node.options, EvalOptions):
            yield from _eval(node.options, ("nodes", name))
            yield from check_script(node.options, ("nodes", name))
        yield from _limits(spec, getattr(node.options, "verifier", None), ("nodes", name))


def _limits(spec: GraphSpec, verifier: Verifier | None, path: Path) -> Iterator[Problem]:
    """What this machine cannot keep, another of a cluster may."""
    if getattr(verifier, "limits", None) is None or (reason := missing()) is None:
        return
    yield Problem(
        path=(*path, "verifier", "limits"),
        wrong=f"they cannot be kept here: {reason}",
        way_out="set limits: null to run it with all that this user may do, or run on Linux 5.13 or later",
        severity="error" if spec.ray_address is None else "warning",
    )


def _judge(options: JudgeOptions, path: Path) -> Iterator[Problem]:
    for field in unknown_fields(options.template):
        near = nearest(field, ("prompt", "response"))
        yield Problem(
            path=(*path, "template"),
            wrong=f"{{{field}}} stands for nothing",
            allowed=KNOWN,
            way_out=f"did you mean {{{near}}}?" if near else "remove it, or write it without braces",
        )
    if fault := fault_of(options.pattern):
        yield Problem(path=(*path, "pattern"), wrong=fault, way_out="write what is the score in parentheses")
    yield from check_endpoint(options.base_url, options.api_key_env, path)


def _eval(options: EvalOptions, path: Path) -> Iterator[Problem]:
    size = size_of(options.dataset)
    if size and options.prompts > size:
        yield Problem(
            path=(*path, "prompts"),
            wrong=f"got {options.prompts}, and the data set holds {size}",
            allowed=f"at most {size}",
            way_out="ask for fewer, or give it more data",
        )
    if isinstance(options.verifier, PythonVerifier) and options.verifier.columns:
        yield Problem(
            path=(*path, "verifier", "columns"),
            wrong="an eval's answers stand in no table, so there are no columns to read",
            way_out="remove it; the function gets the answer and the data's entry",
        )
