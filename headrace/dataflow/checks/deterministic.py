"""Whether a graph that is to be deterministic can be: nothing in it may depend on what comes first."""

from collections.abc import Iterator

from headrace.dataflow.language.problems import Problem
from headrace.dataflow.language.spec import GraphSpec
from headrace.services.options import BranchOptions, RolloutOptions, SourceOptions

ENGINES = ("torch", "fake")
"""Those whose numbers can be made a function of one group and the weights."""


def check_deterministic(spec: GraphSpec) -> Iterator[Problem]:
    if not spec.deterministic:
        return
    for policy in dict.fromkeys(str(node.policy) for node in spec.of_kind("trainer").values()):
        if (staleness := spec.staleness_of(policy)) > 0:
            own = spec.policies[policy].staleness is not None
            yield Problem(
                path=("policies", policy, "staleness") if own else ("staleness",),
                wrong=f"got {staleness:g} in a deterministic graph: which version makes an answer depends on "
                "when it is begun",
                allowed="0",
                way_out="set it to 0, or remove deterministic",
            )
    for name, node in spec.nodes.items():
        options = node.options
        if isinstance(options, RolloutOptions) and options.engine not in ENGINES:
            yield Problem(
                path=("nodes", name, "engine"),
                wrong=f"got '{options.engine}' in a deterministic graph: it batches answers as they come, "
                "which changes their last bits",
                allowed=" or ".join(ENGINES),
                way_out="use engine: torch, or remove deterministic",
            )
        if isinstance(options, SourceOptions) and options.hears:
            heard = "sampler" if options.sampler.hears else "budget"
            yield Problem(
                path=("nodes", name, heard),
                wrong="it hears of answers in a deterministic graph: what it draws depends on when it hears",
                way_out=f"leave {heard} out, or remove deterministic",
            )
        if isinstance(options, BranchOptions):
            yield Problem(
                path=("nodes", name),
                wrong="a branch in a deterministic graph: its prompts come in the order in which answers do",
                way_out="remove deterministic",
            )
