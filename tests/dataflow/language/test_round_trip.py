"""A graph survives its writings: YAML -> spec -> YAML, and the builder gives what the YAML gives."""

import math
from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.algorithms.filters import ChainOptions, Overlong, PythonFilterOptions, Retokenised, ZeroVariance
from headrace.algorithms.options import GrpoOptions, GspoOptions, PythonOptions, RoverOptions
from headrace.algorithms.updates import Accumulate, Annealed, MiniBatches
from headrace.dataflow import Graph, GraphSpec, NodeSpec
from headrace.dataflow.graph import Node, Policy
from headrace.dataflow.language.parse import parse, to_yaml
from headrace.dataflow.language.tree import from_tree, to_tree
from headrace.services.options import (
    CopyData,
    CopyVerifier,
    CriticOptions,
    GreedyOptions,
    JsonlData,
    OptimizerOptions,
    PolicyOptions,
    PythonVerifier,
    ReasoningGymData,
    ReferenceOptions,
    RewardOptions,
    RolloutOptions,
    Schedule,
    SourceOptions,
    TeacherOptions,
    TrainerOptions,
)

names = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20).filter(
    lambda t: t != "???"
)
counts = st.integers(1, 10**9)
paths = st.builds(
    "{}:{}".format, st.sampled_from(["a.b", "../x y.py", "C:/d.py"]), st.sampled_from(["f", "Gß"])
)
positives = st.floats(1e-12, 1e12)
shares = st.floats(0, 1)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
mappings = st.dictionaries(names, plain, max_size=3)
placed: dict[str, Any] = {
    "replicas": counts,
    "threads": st.none() | counts,
    "cpus": st.floats(0, 1e6),
    "gpus": st.floats(0, 1e6),
}
datasets = (
    st.builds(CopyData, letters=counts, alphabet=texts, size=counts)
    | st.builds(ReasoningGymData, task=texts, size=counts, config=mappings, system_prompt=st.none() | texts)
    | st.builds(JsonlData, path=texts)
)
verifiers = st.builds(CopyVerifier, exact_weight=shares) | st.builds(
    PythonVerifier, function=paths, timeout_s=positives
)
sources = st.builds(
    SourceOptions, dataset=datasets, epochs=st.none() | counts, shuffle=st.booleans(), **placed
)
rollouts = st.builds(
    RolloutOptions,
    engine=st.sampled_from(["torch", "fake"]),
    temperature=positives,
    over_new_weights=st.sampled_from(["finish", "swap"]),
    fake=mappings,
    **placed,
)
rewards = st.builds(RewardOptions, verifier=verifiers, max_error_rate=shares, **placed)
scorers = {
    "reference": st.builds(ReferenceOptions, micro_batch_tokens=counts, **placed),
    "teacher": st.builds(TeacherOptions, micro_batch_tokens=counts, **placed),
    "critic": st.builds(CriticOptions, micro_batch_tokens=counts, **placed),
}
moving = st.builds(Annealed, start=shares, end=shares, first_step=st.just(0), last_step=counts)
algorithms = (
    st.builds(
        GrpoOptions,
        clip_low=shares,
        kl_coef=st.floats(0, 10) | moving,
        entropy_coef=shares | moving,
        sequence_length=st.none() | counts,
    )
    | st.builds(GspoOptions, advantage=st.sampled_from(["group_mean", "gae"]), gae_whiten=st.booleans())
    | st.builds(PythonOptions, path=paths, options=mappings, reads=st.tuples(names))
    | st.builds(RoverOptions)
)
filters = (
    st.builds(ZeroVariance, min_std=shares)
    | st.builds(Overlong)
    | st.builds(Retokenised)
    | st.builds(PythonFilterOptions, path=paths, options=mappings)
)
trainers = st.builds(
    TrainerOptions,
    algorithm=algorithms,
    prompts_per_step=counts,
    update=st.builds(Accumulate) | st.builds(MiniBatches, number=counts, epochs=counts),
    filter=st.none() | filters | st.builds(ChainOptions, filters=st.lists(filters, max_size=3).map(tuple)),
    when_used_up=st.sampled_from(["stop", "train_smaller"]),
    **placed,
)
optimizers = st.builds(
    OptimizerOptions,
    lr=positives,
    betas=st.tuples(*[st.floats(0, 0.999)] * 2),
    schedule=st.sampled_from(get_args(Schedule)),
    floor=shares,
    greedy=st.builds(GreedyOptions, patience=counts, highest=positives),
)
policies = st.builds(PolicyOptions, model=texts, optimizer=optimizers)


@st.composite
def nodes(draw: st.DrawFn) -> NodeSpec:
    inputs = tuple(draw(st.lists(names, min_size=1, max_size=3)))
    policy, scorer = draw(names), draw(st.sampled_from(sorted(scorers)))
    return draw(
        st.builds(NodeSpec, kind=st.just("source"), options=sources)
        | st.builds(NodeSpec, kind=st.just("reward"), inputs=st.just(inputs), options=rewards)
        | st.builds(
            NodeSpec,
            kind=st.just("rollout"),
            inputs=st.just(inputs),
            policy=st.just(policy),
            options=rollouts,
        )
        | st.builds(
            NodeSpec,
            kind=st.just(scorer),
            inputs=st.just(inputs),
            policy=st.just(policy),
            options=scorers[scorer],
        )
        | st.builds(
            NodeSpec,
            kind=st.just("trainer"),
            inputs=st.just(inputs),
            policy=st.just(policy),
            options=trainers,
        )
    )


graphs = st.builds(
    GraphSpec,
    name=names,
    seed=st.integers(0, 2**63),
    staleness=st.floats(0, 1e6) | st.just(math.inf),
    steps=counts,
    runtime=st.sampled_from(["ray", "local"]),
    no_progress_timeout_s=positives,
    ray_address=st.none() | texts,
    policies=st.dictionaries(names, policies, min_size=1, max_size=3),
    nodes=st.dictionaries(names, nodes(), min_size=1, max_size=4),
)


@settings(max_examples=50, deadline=None)
@given(graphs, st.booleans())
def test_yaml_gives_back_the_graph_that_wrote_it(spec: GraphSpec, resolved: bool) -> None:
    text = to_yaml(spec, resolved=resolved)
    again = parse(text).spec
    assert again == spec
    assert to_yaml(again, resolved=resolved) == text


def rebuild(
    graph: Graph, name: str, *, kind: str, inputs: Any = (), policy: Any = None, **options: Any
) -> None:
    handles = [Node(graph=graph, name=source, kind="source") for source in inputs]
    served = Policy(graph=graph, name=policy)
    match kind:
        case "source":
            graph.source(name, **options)
        case "reward":
            graph.reward(handles, name=name, **options)
        case "rollout":
            graph.rollout(handles, policy=served, name=name, **options)
        case "reference":
            graph.reference(handles, policy=served, name=name, **options)
        case "teacher":
            graph.teacher(handles, policy=served, name=name, **options)
        case "critic":
            graph.critic(handles, policy=served, name=name, **options)
        case _:
            graph.trainer(served, inputs=handles, name=name, **options)


@settings(max_examples=25, deadline=None)
@given(graphs)
def test_the_builder_gives_what_the_yaml_gives(spec: GraphSpec) -> None:
    tree = to_tree(spec)
    policies, nodes = tree.pop("policies"), tree.pop("nodes")
    graph = Graph(tree.pop("name"), **tree)
    for name, options in policies.items():
        graph.policy(name, **options)
    for name, options in nodes.items():
        rebuild(graph, name, **options)
    assert graph.spec() == spec
    assert graph.to_yaml() == to_yaml(spec)


def test_a_tree_is_a_spec_and_back() -> None:
    spec, problems = from_tree(
        {
            "name": "copy",
            "steps": 1,
            "policies": {"actor": {"model": "tiny-copier"}},
            "nodes": {"prompts": {"kind": "source", "dataset": "copy"}},
        }
    )
    assert problems == []
    assert spec is not None
    assert spec.nodes["prompts"].options == SourceOptions(dataset=CopyData())
    assert to_tree(spec) == {
        "name": "copy",
        "steps": 1,
        "policies": {"actor": {"model": "tiny-copier"}},
        "nodes": {"prompts": {"kind": "source", "dataset": "copy"}},
    }
