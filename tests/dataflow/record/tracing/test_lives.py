from headrace.dataflow.record.tracing.lives import Life, Stage, StageFigures, figures, lives, p95
from headrace.dataflow.record.tracing.read import Traces, Visit

UPSTREAM = {
    "answers": ("prompts",),
    "scores": ("prompts", "answers"),
    "ref": ("prompts", "answers"),
    "learn": ("prompts", "answers", "scores", "ref"),
}
ROW = ("prompts", 7)


def traces(put: float | None = 0.0, **visits: tuple[float, float, float]) -> Traces:
    return Traces(
        puts={} if put is None else {ROW: put},
        visits={ROW: {node: Visit(f"{node}/1", *times) for node, times in visits.items()}},
    )


def stages(found: Traces) -> list[tuple[str, float, float]]:
    (life,) = lives(found, ["learn"], UPSTREAM)
    return [(stage.name, stage.began, stage.ended) for stage in life.stages]


def test_a_life_is_its_stages_one_after_another_and_they_sum_to_its_length() -> None:
    found = traces(answers=(1.0, 3.0, 3.5), scores=(4.0, 4.25, 4.5), learn=(6.0, 7.0, 8.0))
    assert stages(found) == [
        ("waits for answers", 0.0, 1.0),
        ("answers", 1.0, 3.5),
        ("waits for scores", 3.5, 4.0),
        ("scores", 4.0, 4.5),
        ("waits for learn", 4.5, 6.0),
        ("learn", 6.0, 8.0),
    ]
    (life,) = lives(found, ["learn"], UPSTREAM)
    assert [stage.replica for stage in life.stages] == ["", "answers/1", "", "scores/1", "", "learn/1"]
    assert life.seconds == sum(stage.seconds for stage in life.stages) == 8.0


def test_of_nodes_side_by_side_the_way_leads_through_the_one_that_was_done_last() -> None:
    found = traces(
        answers=(0.0, 1.0, 1.0), scores=(1.0, 1.5, 1.5), ref=(1.0, 4.0, 4.0), learn=(5.0, 6.0, 6.0)
    )
    assert [name for name, _, _ in stages(found)] == [
        "waits for answers",
        "answers",
        "waits for ref",
        "ref",
        "waits for learn",
        "learn",
    ]


def test_a_row_leased_before_its_writer_heard_of_it_is_waited_for_no_time() -> None:
    found = traces(answers=(1.0, 2.0, 2.5), learn=(2.25, 3.0, 3.0))
    assert stages(found) == [
        ("waits for answers", 0.0, 1.0),
        ("answers", 1.0, 2.25),
        ("waits for learn", 2.25, 2.25),
        ("learn", 2.25, 3.0),
    ]


def test_a_row_whose_beginning_is_lost_or_that_was_not_trained_on_has_no_life() -> None:
    assert lives(traces(None, learn=(1.0, 2.0, 3.0)), ["learn"], UPSTREAM) == []
    assert lives(traces(answers=(1.0, 2.0, 3.0)), ["learn"], UPSTREAM) == []


def test_figures_are_by_stage_and_their_shares_sum_to_one() -> None:
    def life(uid: int, wait: float) -> Life:
        return Life(row=("p", uid), stages=(Stage("waits for x", 0, wait), Stage("x", wait, wait + 1)))

    assert figures([life(1, 1.0), life(2, 3.0), life(3, 2.0)]) == [
        StageFigures(name="waits for x", samples=3, median_s=2.0, p95_s=2.9, share=6 / 9),
        StageFigures(name="x", samples=3, median_s=1.0, p95_s=1.0, share=3 / 9),
    ]
    assert figures([]) == []


def test_the_95th_percentile_lies_between_neighbours_by_proportion() -> None:
    assert p95([float(n) for n in range(101)]) == 95.0
    assert p95([4.0]) == 4.0
