"""What of a graph is needed while some of its policies still learn."""

from pathlib import Path

import pytest

from headrace.dataflow.language.parse import load, parse
from headrace.dataflow.language.shipped import shipped
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.needed import needed, to_start

ROUTER = {"prompts", "choices", "scores", "learn"}
SHORT = {f"short_{name}" for name in ("questions", "answers", "marks", "success")}
LONG = {f"long_{name}" for name in ("questions", "answers", "marks", "success")}

COPY = """\
name: copy
steps: 3
policies:
  actor: {{model: tiny-copier}}
  held: {{model: tiny-copier}}
nodes:
  prompts: {{kind: source, dataset: copy, samples_per_prompt: 2, {source}}}
  answers: {{kind: rollout, inputs: [prompts], policy: actor}}
  kept: {{kind: filter, inputs: [answers], function: mine:kept, columns: [response]}}
  scores: {{kind: reward, inputs: [answers], verifier: copy}}
  extra: {{kind: reward, inputs: [answers], verifier: copy, column: extra}}
  shaped: {{kind: transform, inputs: [kept, answers], function: mine:shaped, columns: [response_ids],
           writes: {{bonus: float64}}}}
  learn: {{kind: trainer, inputs: [answers, scores], policy: actor, algorithm: grpo, prompts_per_step: 2}}
  all: {{kind: sink, inputs: [answers, extra]}}
  exam: {{kind: eval, policy: actor, dataset: copy, verifier: copy, prompts: 2}}
"""


def routing() -> GraphSpec:
    return load(str(shipped()["grpo_routing_cpu"])).spec


def copying(source: str = "shuffle: false") -> GraphSpec:
    return parse(COPY.format(source=source)).spec


def test_a_policy_needs_what_answers_for_it_whoever_trains_that() -> None:
    """The join of its own table is needed too: the trainer's rows wait for its mark."""
    spec = routing()
    assert needed(spec, ["long_learn"]) == {"prompts", "choices", "long_learn"} | LONG
    assert needed(spec, ["short_learn"]) == {"prompts", "choices", "short_learn"} | SHORT


def test_what_comes_back_through_a_join_needs_all_that_makes_it() -> None:
    assert needed(routing(), ["learn"]) == ROUTER | SHORT | LONG


def test_nothing_is_needed_once_all_are_through() -> None:
    assert needed(routing(), []) == to_start(routing(), []) == set()


def test_trainers_that_are_through_start_where_their_weights_are_asked_for() -> None:
    spec = routing()
    assert to_start(spec, ["long_learn"]) - needed(spec, ["long_learn"]) == {"learn"}
    assert to_start(spec, ["learn"]) - needed(spec, ["learn"]) == {"short_learn", "long_learn"}


def test_sinks_of_a_table_that_flows_go_on_with_all_that_they_keep() -> None:
    """A filter and a reward that nobody reads do not."""
    found = needed(copying(), ["learn"])
    assert found == {"prompts", "answers", "scores", "extra", "learn", "all"}


def test_an_eval_needs_its_policy_s_weights_and_no_rows() -> None:
    assert needed(copying(), ["exam"]) == {"exam"}
    assert to_start(copying(), ["exam"]) == {"exam", "learn"}


def test_a_node_of_one_s_own_that_writes_nothing_goes_on_with_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("watch.py").write_text(
        "class Watch:\n    reads = {'extra': 'float64'}\n"
        "    async def setup(self, context): ...\n    async def process(self, rows):\n        yield\n"
        "    async def close(self): ...\n"
    )
    text = COPY.format(source="shuffle: false").replace("kind: sink", "kind: 'watch.py:Watch'")
    assert {"all", "extra"} <= needed(parse(text).spec, ["learn"])


def test_a_filter_whose_mark_rows_wait_for_is_needed() -> None:
    text = COPY.format(source="shuffle: false").replace("[answers, extra]", "[shaped, extra]")
    assert "kept" in needed(parse(text).spec, ["learn"])


def test_a_source_that_hears_needs_what_it_hears_of() -> None:
    """Another trainer than the one that reads the rewards goes on with its rows."""
    spec = copying("sampler: dump")
    assert {"scores"} <= needed(spec, ["learn"])
    text = COPY.format(source="sampler: dump").replace("inputs: [answers, scores]", "inputs: [answers]")
    assert "scores" in needed(parse(text.replace("algorithm: grpo", "algorithm: sft")).spec, ["all"])


def test_who_is_at_a_barrier_with_a_policy_that_learns_starts_to_say_its_version() -> None:
    text = """\
name: apart
steps: 6
barrier: [[slow, quick]]
policies: {slow: {model: tiny-copier}, quick: {model: tiny-copier}}
nodes:
  a: {kind: source, dataset: copy}
  b: {kind: rollout, inputs: [a], policy: slow}
  c: {kind: reward, inputs: [b], verifier: copy}
  learn_slow: {kind: trainer, inputs: [b, c], policy: slow, algorithm: grpo, prompts_per_step: 2}
  k: {kind: source, dataset: copy}
  l: {kind: rollout, inputs: [k], policy: quick}
  m: {kind: reward, inputs: [l], verifier: copy}
  learn_quick: {kind: trainer, inputs: [l, m], policy: quick, algorithm: grpo, prompts_per_step: 2}
"""
    assert to_start(parse(text).spec, ["learn_slow"]) == {"a", "b", "c", "learn_slow", "learn_quick"}
    apart = parse(text.replace("[[slow, quick]]", "[]")).spec
    assert to_start(apart, ["learn_slow"]) == {"a", "b", "c", "learn_slow"}
