"""Overrides: where a dotted key leads, what null does, and what is said of a key that leads nowhere."""

import math

import pytest

from headrace.algorithms.options import GrpoOptions, PpoOptions
from headrace.dataflow.language.parse import load, parse
from headrace.dataflow.language.problems import GraphError
from headrace.dataflow.language.spec import GraphSpec
from headrace.services.options import CopyData, SourceOptions, TrainerOptions

TEXT = """\
name: copy
staleness: 2
steps: 10
policies:
  actor: {model: tiny-copier, optimizer: {lr: 1e-4}}
nodes:
  prompts: {kind: source, dataset: copy}
  answers: {kind: rollout, inputs: [prompts], policy: actor}
  scores: {kind: reward, inputs: [answers], verifier: copy}
  learn:
    kind: trainer
    inputs: [answers, scores]
    policy: actor
    algorithm: {kind: grpo, clip_low: 0.1}
    prompts_per_step: 16
"""
TWO = TEXT + "  more: {kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo}\n"


def with_(*overrides: str, text: str = TEXT) -> GraphSpec:
    return parse(text, file="g.yaml", overrides=overrides).spec


def trainer(spec: GraphSpec) -> TrainerOptions:
    options = spec.nodes["learn"].options
    assert isinstance(options, TrainerOptions)
    return options


def refusal(*overrides: str, text: str = TEXT) -> str:
    with pytest.raises(GraphError) as refused:
        with_(*overrides, text=text)
    return str(refused.value)


def test_overrides_reach_top_level_keys_nodes_and_policies() -> None:
    spec = with_(
        "staleness=inf", "nodes.learn.algorithm.kl_coef=0.1", "actor.optimizer.lr=1e-5", "actor.dtype=float64"
    )
    assert spec.staleness == math.inf
    assert spec.policies["actor"].optimizer.lr == 0.00001
    assert spec.policies["actor"].dtype == "float64"
    assert trainer(spec).algorithm == GrpoOptions(clip_low=0.1, kl_coef=0.1)


def test_a_kind_stands_for_the_only_node_of_it() -> None:
    spec = with_("trainer.prompts_per_step=4", "source.dataset.letters=3")
    assert trainer(spec).prompts_per_step == 4
    options = spec.nodes["prompts"].options
    assert isinstance(options, SourceOptions)
    assert options.dataset == CopyData(letters=3)


@pytest.mark.parametrize("first", ["trainer", "learn", "answers", "rollout", "actor", "policies.actor"])
def test_a_key_that_a_node_does_not_have_is_its_policys(first: str) -> None:
    assert with_(f"{first}.optimizer.lr=0.5").policies["actor"].optimizer.lr == 0.5


def test_the_full_spelling_of_a_node_never_means_its_policy() -> None:
    assert refusal("nodes.learn.optimizer.lr=0.5").startswith(
        "override nodes.learn.optimizer.lr=0.5: nodes.learn.optimizer: a trainer has no key 'optimizer'"
    )


def test_null_unsets_a_key_and_is_a_value_where_a_key_takes_it() -> None:
    options = trainer(with_("learn.prompts_per_step=null", "learn.algorithm.clip_low=null"))
    assert (options.prompts_per_step, options.algorithm) == (32, GrpoOptions())
    assert trainer(with_("trainer.checkpoint_every=null")).checkpoint_every == 50
    assert trainer(with_("learn.algorithm={kind: ppo, value_clip: null}")).algorithm == PpoOptions(
        value_clip=None
    )
    assert list(with_("scores=null", "learn.inputs=[answers]").nodes) == ["prompts", "answers", "learn"]


def test_a_later_override_goes_before_an_earlier_one() -> None:
    assert with_("steps=3", "steps=4").steps == 4


def test_what_an_override_replaces_whole_is_no_longer_the_files() -> None:
    override = "learn.algorithm={kind: grpo, clip_low: -1}"
    assert refusal(override).startswith(f"override {override}: nodes.learn.algorithm.clip_low: got -1")


@pytest.mark.parametrize(
    ("text", "override", "message"),
    [
        (
            TWO,
            "trainer.threads=1",
            "'trainer' is the kind of learn, more; write nodes.learn.threads or nodes.more.threads",
        ),
        (
            TEXT.replace("actor", "learn"),
            "learn.threads=1",
            "'learn' is a node and a policy; write nodes.learn.threads or policies.learn.threads",
        ),
        (
            TEXT.replace("actor", "reward"),
            "reward.threads=1",
            "'reward' is a policy and the kind of scores; write nodes.scores.threads or "
            "policies.reward.threads",
        ),
    ],
)
def test_what_may_mean_two_things_is_refused_with_both_spellings(
    text: str, override: str, message: str
) -> None:
    assert refusal(override, text=text) == f"override {override}: {message}"


def test_a_name_goes_before_the_kind_that_it_is() -> None:
    text = TWO.replace("learn:", "trainer:")
    options = parse(text, overrides=["trainer.threads=1"]).spec.nodes["trainer"].options
    assert isinstance(options, TrainerOptions)
    assert options.threads == 1


@pytest.mark.parametrize(
    ("override", "end"),
    [
        ("trainr.threads=1", "did you mean 'trainer'?"),
        ("trainer.optimzer.lr=1", "did you mean 'optimizer'?"),
        ("trainer.optimizer.l=1", "did you mean 'lr'?"),
        ("trainer.thraeds=null", "did you mean 'threads'?"),
        ("learn.algorithm.clip_lwo=1", "did you mean 'clip_low'?"),
        ("queue.archiv=true", "did you mean 'archive'?"),
    ],
)
def test_a_misspelt_override_names_what_was_meant(override: str, end: str) -> None:
    assert refusal(override).startswith(f"override {override}: ")
    assert refusal(override).endswith(end)


def test_a_shipped_dataflow_takes_the_overrides_of_the_manual() -> None:
    spec = load("grpo_copy_cpu", ["staleness=2", "trainer.optimizer.lr=1e-4"]).spec
    assert (spec.staleness, spec.policies["actor"].optimizer.lr) == (2.0, 0.0001)
