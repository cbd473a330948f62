"""What a plan makes of tables that come of tables: who made a token travels on, and there is room below."""

from headrace.dataflow import Graph
from headrace.dataflow.graph import Node
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.arithmetic import groups_from, groups_made, step_plan
from headrace.dataflow.planning.roles import leased_columns

ASK = "mine.py:ask"


def chain() -> GraphSpec:
    """Rows of p, answered again by q, and by r; each is trained but q."""
    graph = Graph("chain", steps=10)
    p, q, r = (graph.policy(name, model="tiny-copier") for name in "pqr")
    prompts = graph.source(dataset="copy", samples_per_prompt=4)

    def trained(rows: Node, policy: str, prompts: int) -> None:
        marks = graph.reward(rows, name=f"marks_{policy}", verifier="copy")
        handle = {"p": p, "r": r}[policy]
        graph.trainer(
            handle, inputs=[rows, marks], name=f"learn_{policy}", algorithm="grpo", prompts_per_step=prompts
        )

    first = graph.rollout(prompts, policy=p, name="first")
    trained(first, "p", 3)
    asked = graph.branch(first, name="asked", function=ASK, samples_per_prompt=2)
    second = graph.rollout(asked, policy=q, name="second")
    again = graph.branch(second, name="again", function=ASK, samples_per_prompt=5, prompts_per_row=2)
    trained(graph.rollout(again, policy=r, name="third"), "r", 7)
    return graph.spec()


def test_a_second_branch_is_told_who_made_the_tokens_of_the_first_one_s_prompts() -> None:
    provenance = {"prompt_policies", "prompt_versions"}
    assert provenance <= set(leased_columns(chain(), "again"))
    assert not provenance & set(leased_columns(chain(), "asked"))


def test_a_step_of_one_table_is_followed_down_to_every_table_below_it() -> None:
    """3 prompts of 4 rows make 12 prompts of 2 rows; each of these rows makes 2."""
    spec = chain()
    assert groups_from(spec, "prompts", "asked") == 12
    assert groups_from(spec, "prompts", "again") == 48
    assert groups_from(spec, "again", "prompts") is None
    assert step_plan(spec, "asked").prompts_per_step == 12


def test_a_source_that_nobody_trains_on_has_room_for_the_branch_that_asks_for_most() -> None:
    graph = Graph("fed", steps=10)
    policies = [graph.policy(name, model="tiny-copier") for name in ("asker", "small", "large", "copied")]
    prompts = graph.source(dataset="copy", samples_per_prompt=4)
    answers = graph.rollout(prompts, policy=policies[0])
    scores = graph.reward(answers, verifier="copy")
    for policy, size in zip(policies[1:3], (8, 40), strict=True):
        table = graph.branch(answers, name=f"to_{policy.name}", function=ASK, samples_per_prompt=2)
        rows = graph.rollout(table, policy=policy, name=f"by_{policy.name}")
        marks = graph.reward(rows, name=f"of_{policy.name}", verifier="copy")
        graph.trainer(
            policy, inputs=[rows, marks], name=f"learn_{policy.name}", algorithm="grpo", prompts_per_step=size
        )
    assert groups_made(graph.spec(), "prompts") == 10
    copies = graph.branch([answers, scores], name="copies")
    graph.trainer(policies[3], inputs=copies, name="learn_copies", algorithm="sft", prompts_per_step=16)
    assert groups_made(graph.spec(), "prompts") == 16
