"""The type of numbers of policies that leave it open, by where their models run.

Invariant: a policy has one type in all of a run, since what its trainer publishes is read as it is.
"""

from dataclasses import replace

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.footprint import runs_model
from headrace.dataflow.planning.topology import policy_of, services
from headrace.services.options.policy import Dtype


def settled(spec: GraphSpec) -> GraphSpec:
    """A graph without errors, each policy's dtype written out; again is the same."""
    return replace(
        spec,
        policies={
            name: replace(options, dtype=options.dtype or _by_device(spec, name))
            for name, options in spec.policies.items()
        },
    )


def _by_device(spec: GraphSpec, policy: str) -> Dtype:
    """bfloat16 where all that runs the policy's model does so on GPUs."""
    gpus = [
        node.options.gpus
        for name, node in services(spec).items()
        if runs_model(node.kind, node.options) and policy_of(spec, name) == policy
    ]
    return "bfloat16" if gpus and all(gpus) else "float32"
