from headrace.algorithms.updates import Accumulate, MiniBatches
from headrace.dataflow import Graph
from headrace.dataflow.planning.arithmetic import StepPlan
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.planning.learning import BranchPlan, MicroBatches, PolicyPlan, micro_batches
from headrace.dataflow.planning.plan import plan

STEP = StepPlan(
    samples_per_prompt=4,
    smallest_group=4,
    largest_group=4,
    prompts_per_step=10,
    samples_per_step=40,
    rows_in_flight=40,
    max_rows=80,
    temperature=1.0,
    max_new_tokens=11,
)


def passes(max_tokens: int, update: Accumulate | MiniBatches | None = None) -> tuple[int, int, int]:
    """Of groups whose prompt has 20 tokens and whose answers feed 10 each: 60 tokens."""
    found = micro_batches(STEP, 20, max_tokens, update or Accumulate())
    return found.least, found.full, found.most


def test_a_step_that_fits_one_pass_takes_one_or_one_for_each_group_that_comes_by_itself() -> None:
    assert passes(1000) == (1, 1, 10)


def test_whole_groups_share_a_pass_while_they_fit() -> None:
    assert passes(180) == (2, 4, 10)


def test_a_group_beyond_a_pass_is_divided_with_its_prompt_in_each_part() -> None:
    """50 tokens hold the prompt and 3 of 4 answers: two parts each."""
    assert passes(50) == (4, 20, 20)


def test_mini_batches_and_epochs_are_gone_through_one_by_one() -> None:
    assert passes(1000, MiniBatches(number=5, epochs=2)) == (10, 10, 20)


def test_a_plan_tells_of_each_policy_by_itself() -> None:
    built = Graph("two", staleness=1, steps=10, barrier=[["asker", "judge"]])
    asker = built.policy("asker", model="tiny-copier", freeze=[[0, 4]])
    judge = built.policy("judge", model="tiny-copier", staleness=0)
    prompts = built.source("prompts", dataset={"kind": "copy", "letters": 1}, samples_per_prompt=2)
    answers = built.rollout(prompts, policy=asker, max_new_tokens=3)
    asked = built.branch(answers, name="asked", function="a.b:ask", samples_per_prompt=4, prompts_per_row=3)
    told = built.rollout(asked, policy=judge, name="told", max_new_tokens=2)
    scored = built.reward(answers, verifier="copy")
    judged = built.reward(told, name="judged", verifier="copy")
    built.trainer(asker, inputs=[answers, scored], algorithm="grpo", prompts_per_step=5)
    built.trainer(judge, inputs=[told, judged], name="teach", algorithm="grpo", prompts_per_step=6, steps=7)
    found = plan(built.spec(), Cluster(cpus=2.0, gpus=0.0, cores=2))
    assert found.branches == {"asked": BranchPlan(parent="prompts", groups_per_step=5 * 2 * 3)}
    assert list(found.policies) == ["asker", "judge"]
    assert found.policies["asker"] == PolicyPlan(
        table="prompts",
        trainer="learn",
        steps=10,
        staleness=1.0,
        mode="asynchronous: generation runs up to 1 batch ahead, no sample is staler than 1",
        freeze=((0, 4),),
        barriers=(("asker", "judge"),),
        micro_batches=MicroBatches(least=1, full=1, most=5, max_tokens=8192),
    )
    assert (found.policies["judge"].steps, found.policies["judge"].staleness) == (7, 0)
