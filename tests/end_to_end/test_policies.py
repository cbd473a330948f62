"""Several policies in one run, in this process: each learns from its own rows, within its own bound."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headrace.dataflow.language.shipped import shipped
from headrace.transferqueue.disk.archive import read_archive
from tests.end_to_end.judging import COUNT
from tests.end_to_end.poisoned import RAISES
from tests.end_to_end.two_policies import (
    APART,
    JUDGING,
    ROWS,
    TABLES,
    TRAINERS,
    Run,
    ran,
    read_recorded,
    recorded,
)

PROMPT = ("prompt_ids", "prompt_policies", "prompt_versions")
STOP, ASKS = 1, 2
"""Ids of the stop token and of '>'."""


def assert_whole(run: Run, steps: dict[str, int]) -> None:
    """Every policy took its steps, of rows that were each trained on once."""
    assert run.code == 0, run.events("run_ended")
    for policy, number in steps.items():
        assert [step["step"] for step in run.steps(policy)] == list(range(number))
        table = run.table(policy)
        assert (table["steps"], table["trained"]) == (number, number * ROWS[policy])
        assert (table["lost"], table["duplicated"], table["violations"]) == (0, 0, 0)


def rows_of(lines: list[dict[str, Any]]) -> dict[int, dict[str, list[Any]]]:
    """What a trainer was given, by group; fails where a group was given twice."""
    found: dict[int, dict[str, list[Any]]] = {}
    for line in lines:
        groups = line.pop("groups")
        starts = [i for i in range(len(groups)) if i == 0 or groups[i] != groups[i - 1]]
        for start, end in zip(starts, [*starts[1:], len(groups)], strict=True):
            assert groups[start] not in found
            found[groups[start]] = {name: values[start:end] for name, values in line.items()}
    return found


@pytest.mark.slow
def test_each_row_reaches_its_own_policy_s_loss_once_and_each_token_keeps_who_made_it(tmp_path: Path) -> None:
    files = {policy: tmp_path / f"{policy}.jsonl" for policy in TABLES}
    run = ran(
        tmp_path / "run",
        "queue={durability: disk, archive: true}",
        recorded("learn", files["solver"]),
        recorded("learn_judging", files["verifier"], *PROMPT),
    )
    assert_whole(run, {"solver": 6, "verifier": 6})
    given = {policy: rows_of(read_recorded(file)) for policy, file in files.items()}
    for policy, table in TABLES.items():
        left = read_archive(run.directory / "queue", table).to_pylist()
        trained = [row for row in left if row["step"] >= 0]
        assert Counter(row["step"] for row in trained) == dict.fromkeys(range(6), ROWS[policy])
        assert {row["group"] for row in trained} == given[policy].keys()
        for name in ("response_ids", "versions"):
            cells = sorted((row["group"], *row[name]) for row in trained)
            assert cells == sorted((g, *each) for g, row in given[policy].items() for each in row[name])
    assert_made_of(given["verifier"], read_archive(run.directory / "queue", "prompts").to_pylist())


def assert_made_of(verified: dict[int, dict[str, list[Any]]], solved: list[dict[str, Any]]) -> None:
    """Every prompt of the verifier is a solver's prompt and answer, whose tokens are the solver's of their
    version."""
    by_uid = {row["uid"]: row for row in solved}
    known = 0
    for group, rows in verified.items():
        parent = by_uid.get((group // 2) << 16 | group % 2)
        if parent is None:
            continue
        known += 1
        asked, answer = parent["prompt_ids"], parent["response_ids"]
        kept = answer[:-1] if answer[-1] == STOP else answer
        nobody = [-1] * len(asked)
        assert rows["prompt_ids"] == [[*asked, *kept, ASKS]] * 2
        assert rows["prompt_policies"] == [[*nobody, *[0] * len(kept), -1]] * 2
        assert rows["prompt_versions"] == [[*nobody, *parent["versions"][: len(kept)], -1]] * 2
    assert known >= 12, "the solver's rows beyond its last step need not be in the archive"


BEGUN = {"solver": 3 * 4 * 2, "verifier": 3 * 2 * 2}
"""Answers of the verifier to what either policy begins at version 0 under a bound of 2."""


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [{"solver": 0, "verifier": 2}, {"solver": 2, "verifier": 0}])
def test_each_policy_has_a_bound_of_its_own_and_comes_up_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounds: dict[str, int]
) -> None:
    """Nothing is learned before as many rows were begun at version 0 as the bound allows."""
    judged = tmp_path / "judged"
    monkeypatch.setenv(COUNT, str(judged))
    (ahead,) = (policy for policy, bound in bounds.items() if bound)
    waits: dict[str, Any] = {"waits_for": str(judged), "lines": BEGUN[ahead]}
    run = ran(
        tmp_path / "run",
        *(f"policies.{policy}.staleness={bound}" for policy, bound in bounds.items()),
        *(["learn_judging.prompts_per_step=2", "learn_judging.steps=12"] if bounds["verifier"] else []),
        *(f"judging.verifier.function={JUDGING}:counted", "judging.verifier.limits=null"),
        recorded(TRAINERS[ahead], tmp_path / "ahead.jsonl", **waits),
    )
    assert run.code == 0
    for policy, bound in bounds.items():
        reached = [step["staleness/max"] for step in run.steps(policy)]
        assert max(reached) == bound
        assert run.table(policy)["violations"] == 0
        assert max(map(int, run.table(policy)["staleness_trained"])) == bound


@pytest.mark.slow
@pytest.mark.parametrize("steps", [{"solver": 8, "verifier": 2}, {"solver": 2, "verifier": 8}])
def test_a_trainer_that_is_through_holds_up_nobody(tmp_path: Path, steps: dict[str, int]) -> None:
    run = ran(tmp_path / "run", *(f"{TRAINERS[policy]}.steps={number}" for policy, number in steps.items()))
    assert_whole(run, steps)


def begun(file: Path, rows: int) -> list[tuple[str, int]]:
    """Policies and steps in the order in which leases were learned from."""
    seen: Counter[str] = Counter()
    order = []
    for line in read_recorded(file):
        order.append((line["policy"], seen[line["policy"]] // rows))
        seen[line["policy"]] += len(line["groups"])
    return order


def ahead(order: list[tuple[str, int]]) -> int:
    """The most steps that one of two policies had begun beyond those of the other."""
    at = {policy: -1 for policy, _ in order}
    most = 0
    for policy, step in order:
        at[policy] = step
        most = max(most, max(at.values()) - min(at.values()))
    return most


@pytest.mark.slow
def test_a_barrier_keeps_policies_within_a_step_of_each_other(tmp_path: Path) -> None:
    file = tmp_path / "both.jsonl"
    trainers = [recorded(f"learn_{policy}", file, policy=policy) for policy in ("slow", "quick")]
    run = ran(tmp_path / "run", "barrier=[[slow, quick]]", *trainers, text=APART)
    assert run.code == 0
    assert ahead(begun(file, 4)) <= 1


@pytest.mark.slow
def test_without_a_barrier_a_policy_waits_for_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow one learns nothing before what the quick one begins at its version 4 is judged."""
    file, judged = tmp_path / "both.jsonl", tmp_path / "judged"
    monkeypatch.setenv(COUNT, str(judged))
    run = ran(
        tmp_path / "run",
        f"m.verifier={{kind: python, function: '{JUDGING}:counted', limits: null}}",
        recorded("learn_quick", file, policy="quick"),
        recorded("learn_slow", file, policy="slow", waits_for=str(judged), lines=4 * 6),
        text=APART,
    )
    assert run.code == 0
    assert ahead(begun(file, 4)) >= 3


@pytest.mark.slow
def test_a_frozen_policy_stays_bit_for_bit_while_the_other_learns(tmp_path: Path) -> None:
    every = [f"{t}.{key}" for t in TRAINERS.values() for key in ("checkpoint_every=1", "keep_checkpoints=9")]
    run = ran(tmp_path / "run", "policies.verifier.freeze=[[1, 4]]", *every)
    assert_whole(run, {"solver": 6, "verifier": 6})
    frozen = [run.weights("verifier", step) for step in range(1, 7)]
    assert frozen[0] == frozen[1] == frozen[2] == frozen[3]
    assert len(set(frozen)) == 3
    assert [step["actor/frozen"] for step in run.steps("verifier")] == [0.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    assert len({run.weights("solver", step) for step in range(1, 7)}) == 6


@pytest.mark.slow
def test_in_memory_a_trainer_that_fails_between_commits_comes_again_where_it_was(tmp_path: Path) -> None:
    """It leaves a checkpoint of its last step, which no other has followed."""
    file = tmp_path / "solver.jsonl"
    run = ran(tmp_path / "run", recorded("learn", file, fails_at=5))
    assert_whole(run, {"solver": 6, "verifier": 6})
    (failed,) = run.events("failed")
    assert failed["replica"] == "learn/0" and "RuntimeError: line 5 fails, as asked" in failed["reason"]
    (rewound,) = run.events("rewound")
    assert 0 < rewound["step"] < 6
    lines = [set(line["groups"]) for line in read_recorded(file)]
    assert lines[4] <= set().union(*lines[5:])


@pytest.mark.slow
def test_rows_that_cannot_be_asked_about_or_judged_leave_with_their_reason_and_cost_no_other(
    tmp_path: Path,
) -> None:
    functions = {"judged": "judged.function", "judgement": "judging.verifier.function"}
    functions["solution"] = "scores.verifier.function"
    poisoned = [f"{key}={Path(__file__).with_name('poisoned.py')}:{name}" for name, key in functions.items()]
    run = ran(tmp_path / "run", *poisoned)
    assert run.code == 0
    for policy in TABLES:
        assert [step["step"] for step in run.steps(policy)] == list(range(6))
        assert (run.table(policy)["lost"], run.table(policy)["violations"]) == (0, 0)
    solver, verifier = run.table("solver"), run.table("verifier")
    assert (solver["quarantined"], verifier["quarantined"]) == (1, 2)
    (asked,) = solver["quarantine"].items()
    assert asked[0] == str(RAISES) and "ArithmeticError: cannot be asked" in asked[1]
    assert all("ArithmeticError: cannot be judged" in reason for reason in verifier["quarantine"].values())
    assert solver["dropped"] == {"its group in 'judged' was lost: quarantined by task 'judging'": 1}
    assert (solver["trained"], verifier["trained"]) == (6 * 4 - 2, 6 * 8)
    assert sum(step["reward/trusted"] < 0.5 for step in run.steps("solver")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["memory", "disk"])
def test_a_run_goes_on_where_each_of_its_policies_stood(tmp_path: Path, durability: str) -> None:
    """First one of them is through at once, then both learn on."""
    queue = f"queue.durability={durability}"
    for solver, verifier in ((2, 4), (2, 7), (5, 8)):
        steps = (f"learn.steps={solver}", f"learn_judging.steps={verifier}")
        run = ran(tmp_path / "run", queue, *steps, resume=(tmp_path / "run").exists())
        assert run.code == 0, run.events("run_ended")
        assert [step["step"] for step in run.steps("solver")] == list(range(solver))
        assert [step["step"] for step in run.steps("verifier")] == list(range(verifier))
    started = [event["first_step"] for event in run.events("run_started")]
    assert started == [{"prompts": p, "judged": j} for p, j in ((0, 0), (2, 4), (2, 7))]
    for told in run.events("queue"):
        assert (told["lost"], told["duplicated"], told["violations"]) == (0, 0, 0)


@pytest.mark.slow
def test_data_that_end_with_the_last_step_reach_the_last_table_through_several_replicas(
    tmp_path: Path,
) -> None:
    several = (f"{node}.replicas=2" for node in ("judged", "judgements", "judging", "trust", "scores"))
    run = ran(tmp_path / "run", "prompts.epochs=1", "prompts.dataset.size=12", *several)
    assert_whole(run, {"solver": 6, "verifier": 6})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("solver", "timeline: made by a lost version, 3 or later"),
        ("verifier", "its group in 'judged' was lost: timeline: made by a lost version, 3 or later"),
    ],
)
def test_a_policy_whose_steps_come_out_otherwise_goes_on_without_what_came_of_them(
    tmp_path: Path, policy: str, reason: str
) -> None:
    """Its newest checkpoint is lost, and its rate another when the steps since are taken again.

    Either run may end while answers for a next step are on their way: those are passed over. A group of the
    solver's goes on without a row of which the verdict was lost.
    """
    disk = ["queue.durability=disk"]
    for trainer in TRAINERS.values():
        disk += [f"{trainer}.checkpoint_every=2", f"{trainer}.keep_checkpoints=3"]
    run = ran(tmp_path / "run", *disk, "steps=4")
    assert_whole(run, {"solver": 4, "verifier": 4})
    shutil.rmtree(run.checkpoints(policy) / "step-00000004")
    rate = f"policies.{policy}.optimizer.lr=5.0e-2"
    run = ran(tmp_path / "run", *disk, "steps=8", rate, resume=True)
    assert run.code == 0
    (moved,) = run.events("new_timeline")
    assert (moved["source"], moved["version"]) == (f"{TRAINERS[policy]}/0", 3)
    dropped = run.table("solver")["dropped"]
    assert {why for why in dropped if not why.startswith("passed over while task")} <= {reason}
    for each in TABLES:
        table = run.table(each)
        lacking = 8 * ROWS[each] - table["trained"]
        assert table["steps"] == 8
        assert 0 <= lacking <= (dropped.get(reason, 0) if each == "solver" else 0)
        assert (table["lost"], table["duplicated"], table["violations"]) == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["actor", "critic"])
def test_an_actor_and_its_critic_go_back_each_by_itself(tmp_path: Path, policy: str) -> None:
    """No policy's versions gate the rows that the critic learns from."""
    trainers = {"actor": "learn", "critic": "learn_values"}
    overrides = ["runtime=local", "steps=4", "queue.durability=disk", "prompts.samples_per_prompt=2"]
    overrides += ["answers.engine=fake", "answers.fake={answer: random, mean_tokens: 3}"]
    for trainer in trainers.values():
        overrides += [f"{trainer}.{key}" for key in ("prompts_per_step=4", "threads=1")]
        overrides += [f"{trainer}.{key}" for key in ("checkpoint_every=2", "keep_checkpoints=3")]
    text = shipped()["ppo_copy_cpu"].read_text()
    run = ran(tmp_path / "run", *overrides, text=text)
    assert run.code == 0
    weights = run.weights(policy, 4)
    shutil.rmtree(run.checkpoints(policy) / "step-00000004")
    again = ran(tmp_path / "run", *overrides, text=text, resume=True)
    assert again.code == 0, again.events("run_ended")
    assert again.weights(policy, 4) == weights
    assert again.events("new_timeline") == []
    for each in trainers:
        assert [step["step"] for step in again.steps(each)] == ([0, 1, 2, 3] + [2, 3] * (each == policy))
