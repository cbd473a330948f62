"""What of a node may change on a live run."""

from dataclasses import replace

import pytest

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.running.asks import Refusal
from headrace.dataflow.running.upgrade import upgraded
from tests.dataflow.running.launched import current, graph

BEGAN = graph()


def reward(**keys: str) -> GraphSpec:
    own = "".join(f", {key}: {value}" for key, value in keys.items())
    return graph(scores=f"{{kind: reward, inputs: [answers], verifier: copy{own}}}")


def rollout(**keys: str) -> GraphSpec:
    own = "".join(f", {key}: {value}" for key, value in keys.items())
    return graph(answers=f"{{kind: rollout, inputs: [prompts], policy: actor{own}}}")


def test_what_only_its_own_replicas_are_told_may_change() -> None:
    assert upgraded(current(BEGAN), reward(max_error_rate="0.9"), "scores") == reward(max_error_rate="0.9")
    assert upgraded(current(BEGAN), rollout(max_concurrent="8"), "answers") == rollout(max_concurrent="8")
    assert upgraded(current(BEGAN), BEGAN, "scores") == BEGAN


@pytest.mark.parametrize(
    ("node", "given", "says"),
    [
        (
            "scores",
            reward(column="points"),
            "nodes.learn.inputs: a trainer reads reward, which none of answers,",
        ),
        ("answers", rollout(temperature="2"), "nodes.answers.temperature: other services or the tables"),
        (
            "answers",
            rollout(temperature="2", max_concurrent="8"),
            "nodes.answers.temperature: other services or the tables",
        ),
        ("answers", rollout(max_new_tokens="8"), "nodes.answers.max_new_tokens: other services"),
        ("answers", rollout(gpus="1"), "nodes.answers.gpus: reserved when the run is launched"),
        (
            "scores",
            reward(replicas="2"),
            "nodes.scores.replicas: an upgrade keeps their number; use `headrace",
        ),
        ("scores", rollout(max_concurrent="8"), "nodes.answers.max_concurrent: the graph given is another"),
        (
            "scores",
            replace(BEGAN, steps=30, seed=1),
            "seed, steps: the graph given is another there than the",
        ),
        ("grades", BEGAN, "no node 'grades'; there are prompts, answers, scores, learn"),
    ],
)
def test_what_more_hear_of_is_refused_by_its_key(node: str, given: GraphSpec, says: str) -> None:
    now = current(BEGAN)
    with pytest.raises(Refusal) as refused:
        upgraded(now, given, node)
    assert says in str(refused.value)
    assert now.spec == BEGAN


def test_a_run_that_was_scaled_and_set_keeps_that_whatever_its_file_says() -> None:
    now = current(BEGAN)
    now.spec = replace(now.with_options("scores", replicas=3), staleness=2.0)
    made = upgraded(now, reward(max_error_rate="0.9"), "scores")
    assert (made.nodes["scores"].options.replicas, made.staleness) == (3, 2.0)
    assert made.nodes["scores"].options.max_error_rate == 0.9
