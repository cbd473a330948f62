from pathlib import Path

import numpy as np
import pytest

from headrace.algorithms.budgets import BudgetError, Capability, Fixed
from headrace.algorithms.budgets.options import CobaRlOptions, FixedOptions
from headrace.algorithms.curricula import DataSampler, Dump, Profiled
from headrace.algorithms.curricula.options import DumpOptions, ProfiledOptions
from headrace.algorithms.prompt_data import PromptData
from headrace.services.data_position import DataPosition
from headrace.services.source import adaptive
from headrace.services.source.adaptive import AdaptiveStream, Share
from headrace.services.source.datasets.base import Labels, in_turn
from headrace.services.source.domains import DomainFigures
from headrace.services.source.journal import Journal, JournalError
from headrace.services.source.order import DataOrder
from headrace.services.source.stream import Pick
from tests.services.source.samplers import ByIndex, Following

DATA = PromptData(size=40, domains=np.arange(40) % 2, prompts_per_step=4)
NONE_USED = DataPosition()
UNLABELLED = Labels()


def stream(
    tmp_path: Path,
    sampler: DataSampler,
    *,
    allocator: object = None,
    used: DataPosition = NONE_USED,
    labels: Labels = UNLABELLED,
    prompts: int = 4,
) -> AdaptiveStream:
    return AdaptiveStream(
        sampler,
        allocator or Fixed(DATA, FixedOptions()),  # type: ignore[arg-type]
        Journal(tmp_path),
        share=Share(prompts=prompts, samples_per_prompt=2, most=8, size=DATA.size),
        figures=DomainFigures(labels),
        order=DataOrder(size=DATA.size, seed=0, shuffle=False),
        used=used,
    )


def placed(picks: list[Pick]) -> list[tuple[int, int, int]]:
    return [(pick.position, pick.index, pick.samples) for pick in picks]


def hear(source: AdaptiveStream, *positions: int, rewards: tuple[float, float] = (0.0, 1.0)) -> None:
    source.hear(np.repeat(np.array(positions), 2), np.array(rewards * len(positions)))


def test_a_step_is_drawn_at_once_and_told_of_once_all_its_groups_are_heard(tmp_path: Path) -> None:
    sampler = Following(DATA)
    source = stream(tmp_path, sampler)
    assert placed(source.next()) == [(0, 0, 2), (1, 1, 2), (2, 2, 2), (3, 3, 2)]
    hear(source, 2)
    hear(source, 0, 3)
    assert sampler.told == []
    hear(source, 1)
    assert sampler.told == [[2, 2, 0, 0, 3, 3, 1, 1]]
    assert placed(source.next()) == [(4, 10, 2), (5, 11, 2), (6, 12, 2), (7, 13, 2)]


def test_a_position_counts_once_and_only_if_it_was_drawn(tmp_path: Path) -> None:
    sampler = Following(DATA)
    source = stream(tmp_path, sampler)
    source.next()
    hear(source, 0, 99)
    hear(source, 0, 1, 2)
    assert sampler.told == []
    hear(source, 3)
    assert sampler.told == [[0, 0, 1, 1, 2, 2, 3, 3]]


@pytest.mark.parametrize("every", [1, 2, 1024])
def test_a_source_that_was_killed_stands_where_it_stood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """Whatever the last snapshot covers, also when the groups of a step were heard in part."""
    monkeypatch.setattr(adaptive, "SNAPSHOT_EVERY_LINES", every)
    whole, first = Dump(DATA, DumpOptions()), Dump(DATA, DumpOptions())
    uninterrupted = stream(tmp_path / "whole", whole)
    killed = stream(tmp_path / "killed", first)
    for source in (uninterrupted, killed):
        source.next()
        hear(source, 0, 1, 2, 3)
        source.next()
        hear(source, 4, 5, 6, rewards=(0.0, np.nan))
    second = Dump(DATA, DumpOptions())
    again = stream(tmp_path / "killed", second, used=DataPosition(next=2, done=frozenset({4})))
    assert second.state() == first.state()
    assert [pick.position for _ in range(2) for pick in again.next()] == [2, 3, 5, 6, 7]
    for source in (uninterrupted, again):
        hear(source, 7)
    assert second.state() == whole.state()
    assert placed(again.next()) == placed(uninterrupted.next())


def test_a_source_that_was_closed_needs_no_replay_and_may_go_on_with_other_options(tmp_path: Path) -> None:
    first = stream(tmp_path, Dump(DATA, DumpOptions()))
    drawn = placed(first.next())
    hear(first, 0, 1, 2, 3)
    first.close()
    again = stream(tmp_path, Dump(DATA, DumpOptions(temperature=0.5)))
    assert placed(again.next()) == drawn
    assert [pick.position for pick in again.next()] == [4, 5, 6, 7]


def test_a_run_that_goes_on_with_smaller_steps_is_told_of_what_was_pending_at_once(tmp_path: Path) -> None:
    first = stream(tmp_path, Following(DATA))
    first.next()
    hear(first, 0, 1, 2)
    first.close()
    sampler = Following(DATA)
    again = stream(tmp_path, sampler, prompts=2)
    hear(again, 3)
    assert sampler.told == [[0, 0, 1, 1, 2, 2, 3, 3]]


def test_a_replay_that_comes_out_other_is_refused(tmp_path: Path) -> None:
    stream(tmp_path, Following(DATA)).next()
    with pytest.raises(JournalError, match=r"line 1 of the source's log says .* the sampler now draws"):
        stream(tmp_path, Dump(DATA, DumpOptions()))


def test_groups_have_the_sizes_that_the_budget_gives_and_one_of_0_has_no_position(tmp_path: Path) -> None:
    source = stream(tmp_path, Following(DATA), allocator=ByIndex(DATA))
    assert placed(source.next()) == [(0, 1, 1), (1, 2, 2)]
    assert placed(source.next()) == [(2, 4, 1), (3, 5, 2), (4, 7, 1)]
    again = stream(tmp_path, Following(DATA), allocator=ByIndex(DATA), used=DataPosition(next=1))
    assert placed(again.next()) == [(1, 2, 2), (2, 4, 1), (3, 5, 2), (4, 7, 1)]


def test_a_budget_is_spent_in_every_step_and_goes_by_what_was_heard(tmp_path: Path) -> None:
    capability = Capability(DATA, CobaRlOptions(low=1, high=8))
    source = stream(tmp_path, Following(DATA), allocator=capability)
    assert [pick.samples for pick in source.next()] == [2, 2, 2, 2]
    hear(source, 0, 1, 2, 3)
    assert capability.failure_rate == 0.5
    picks = source.next()
    assert sum(pick.samples for pick in picks) == 8
    figures = source.metrics()
    assert figures["data/group_size/mean"] == 2.0
    assert figures["data/group_size/max"] == max(pick.samples for pick in picks)


def test_an_allocator_beyond_its_bounds_is_refused(tmp_path: Path) -> None:
    class Lavish(ByIndex):
        def allocate(self, prompts: np.ndarray, budget: int) -> np.ndarray:
            return prompts + 6

    class Mean(ByIndex):
        def allocate(self, prompts: np.ndarray, budget: int) -> np.ndarray:
            return prompts * 0

    for allocator in (Lavish(DATA), Mean(DATA)):
        with pytest.raises(BudgetError, match="each may get 0 to 8, not all 0"):
            stream(tmp_path, Following(DATA), allocator=allocator).next()


def test_a_sampler_beyond_the_data_is_refused(tmp_path: Path) -> None:
    class Lost(Following):
        def draw(self, count: int) -> np.ndarray:
            return np.full(count, 40)

    with pytest.raises(IndexError, match="the sampler drew 40 to 40 of 40 prompts"):
        stream(tmp_path, Lost(DATA)).next()


def test_data_that_ends_within_a_step_is_drawn_to_its_last_prompt(tmp_path: Path) -> None:
    data = PromptData(size=40, pass_rates=np.where(np.arange(40) < 6, 0.5, 1.0))
    source = stream(tmp_path, Profiled(data, ProfiledOptions(epochs=1)))
    assert [pick.index for pick in source.next()] == [0, 1, 2, 3]
    assert [pick.index for pick in source.next()] == [4, 5]
    assert source.next() == [] and source.next() == []


def test_a_sampler_takes_over_from_the_order_that_a_run_began_with(tmp_path: Path) -> None:
    """What was drawn by the order and not used is put again as it was."""
    source = stream(tmp_path, Following(DATA), used=DataPosition(next=3, done=frozenset({5})))
    assert placed(source.next()) == [(3, 3, 2), (4, 4, 2)]
    assert placed(source.next()) == [(6, 0, 2), (7, 1, 2), (8, 2, 2), (9, 3, 2)]
    again = stream(tmp_path, Following(DATA), used=DataPosition(next=4, done=frozenset({5, 6})))
    assert placed(again.next()) == [(4, 4, 2), (7, 1, 2), (8, 2, 2), (9, 3, 2)]


def test_a_large_step_is_put_in_parts(tmp_path: Path) -> None:
    source = stream(tmp_path, Following(DATA), prompts=100)
    assert [len(source.next()) for _ in range(3)] == [64, 36, 64]


def test_metrics_tell_what_was_drawn_of_each_domain_and_how_it_did(tmp_path: Path) -> None:
    source = stream(tmp_path, Dump(DATA, DumpOptions()), labels=in_turn(("2", "4"), 40))
    indices = [pick.index for pick in source.next()]
    hear(source, 0, 1, 2, 3, rewards=(0.25, np.nan))
    figures = source.metrics()
    odd = sum(index % 2 for index in indices)
    assert (figures["data/domain/2/drawn"], figures["data/domain/4/drawn"]) == (4 - odd, odd)
    assert {
        figures[f"data/domain/{name}/reward"] for name in "24" if f"data/domain/{name}/reward" in figures
    } == {0.25}
    assert sum(figures[f"data/domain/{name}/probability"] for name in "24") == pytest.approx(1.0)
    assert figures["data/prompts_heard"] == 4.0
