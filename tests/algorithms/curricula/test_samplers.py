import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from headrace.algorithms.curricula import (
    SAMPLERS,
    DataSampler,
    Dump,
    HardFocus,
    Mixture,
    Paced,
    Profiled,
    SamplerOptions,
    Stage,
    UnderOptimised,
    Uniform,
    build_sampler,
    online_accuracy,
    reference_accuracy,
)
from headrace.algorithms.curricula.options import (
    DumpOptions,
    E2hCosineOptions,
    E2hGaussianOptions,
    HardFocusOptions,
    MixtureOptions,
    PacedRlOptions,
    ProfiledOptions,
    PythonSamplerOptions,
    RuleReasonerOptions,
    UniformOptions,
)
from headrace.algorithms.feedback import Feedback, pass_rates
from headrace.algorithms.outcomes import Outcomes
from headrace.algorithms.prompt_data import PromptData

NAN = float("nan")
DOMAINS = np.array([0, 1, 1, 0, 2, 2, 2])
DATA = PromptData(
    size=7,
    seed=3,
    domains=DOMAINS,
    pass_rates=np.array([0, 0.5, 1, 0.25, 0, 0.75, 0.5]),
    prompts_per_step=2,
    steps=6,
)
TWO = PromptData(size=2, domains=np.array([0, 1]))

OPTIONS: list[SamplerOptions] = [
    UniformOptions(),
    MixtureOptions(proportions=(1, 2, 1)),
    DumpOptions(window=4),
    E2hCosineOptions(),
    E2hGaussianOptions(),
    RuleReasonerOptions(),
    PacedRlOptions(),
    HardFocusOptions(stages=(Stage(prompts=5), Stage(prompts=9, keep=3))),
    ProfiledOptions(),
]


def kind_of(options: SamplerOptions) -> str:
    return options.kind


every_kind = pytest.mark.parametrize("options", OPTIONS, ids=kind_of)


def heard(prompts: np.ndarray, step: int) -> Feedback:
    rewards = np.array([float((prompt + step) % 3 == 0) for prompt in prompts.tolist()])
    return Feedback(prompts=prompts, rewards=rewards, advantages=rewards - 0.25)


def run(sampler: DataSampler, steps: range) -> list[int]:
    drawn: list[int] = []
    for step in steps:
        prompts = sampler.draw(2)
        sampler.update(heard(prompts, step))
        drawn += prompts.tolist()
    return drawn


def test_every_kind_is_tried_here() -> None:
    assert [options.kind for options in OPTIONS] == list(SAMPLERS)


@every_kind
def test_a_restored_sampler_draws_what_the_saved_one_would_have(options: SamplerOptions) -> None:
    whole = run(build_sampler(options, DATA), range(12))
    first, second = build_sampler(options, DATA), build_sampler(options, DATA)
    half = run(first, range(5))
    second.load_state(json.loads(json.dumps(first.state())))
    assert half + run(second, range(5, 12)) == whole


@pytest.mark.parametrize("options", [each for each in OPTIONS if each.kind != "paced_rl"], ids=kind_of)
def test_the_order_does_not_depend_on_how_draws_are_batched(options: SamplerOptions) -> None:
    pieces, sampler = [], build_sampler(options, DATA)
    for size in (1, 4, 3, 1):
        pieces += sampler.draw(size).tolist()
    assert pieces == build_sampler(options, DATA).draw(9).tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (MixtureOptions(), "mixture chooses between domains, and the data set names none"),
        (DumpOptions(), "dump chooses between domains"),
        (RuleReasonerOptions(), "rule_reasoner chooses between domains"),
        (ProfiledOptions(), "profiled needs pass rates, and no profile was made"),
    ],
)
def test_data_that_lacks_what_a_sampler_goes_by_is_refused(options: SamplerOptions, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build_sampler(options, PromptData(size=4))
    with pytest.raises(ValueError, match="e2h_cosine moves over the run's steps, and the run has no end"):
        build_sampler(E2hCosineOptions(), TWO)


def test_a_floor_that_the_domains_cannot_all_keep_is_refused() -> None:
    for options in (RuleReasonerOptions(floor=0.4), E2hGaussianOptions(floor=0.4)):
        with pytest.raises(ValueError, match=r"floor is 0\.4 for 3 domains; it must lie between 0 and 1/3"):
            build_sampler(options, DATA)


def test_a_sampler_of_ones_own_is_built_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Last:\n"
        "    def __init__(self, data, *, skip):\n"
        "        self.index = data.size - 1 - skip\n"
        "    def draw(self, count):\n"
        "        return [self.index] * count\n"
    )
    options = PythonSamplerOptions(path=f"{tmp_path / 'mine.py'}:Last", options={"skip": 2})
    assert list(build_sampler(options, DATA).draw(2)) == [4, 4]


def test_a_uniform_epoch_has_every_prompt_once_and_the_next_another_order() -> None:
    first, second = np.split(Uniform(PromptData(size=50, seed=1), UniformOptions()).draw(100), 2)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first.tolist() != second.tolist()
    assert Uniform(PromptData(size=50, seed=2), UniformOptions()).draw(50).tolist() != first.tolist()


def test_a_mixture_keeps_its_proportions_and_repeats_no_prompt_before_its_domain_is_through() -> None:
    counts = Counter(
        DOMAINS[
            Mixture(
                DATA,
                MixtureOptions(proportions=(1, 0, 3)),
            ).draw(4000)
        ].tolist()
    )
    assert counts[1] == 0
    assert counts[2] / 4000 == pytest.approx(0.75, abs=0.02)
    drawn = Mixture(
        DATA,
        MixtureOptions(proportions=(0, 0, 1)),
    ).draw(6)
    assert sorted(drawn[:3]) == sorted(drawn[3:]) == [4, 5, 6]


def test_domains_with_a_gap_and_proportions_for_other_domains_are_refused() -> None:
    with pytest.raises(ValueError, match=r"domains \[1\] have no prompt"):
        Mixture(PromptData(size=2, domains=np.array([0, 2])), MixtureOptions())
    with pytest.raises(ValueError, match="for 3 domains"):
        Mixture(
            DATA,
            MixtureOptions(
                proportions=(
                    1,
                    2,
                )
            ),
        )


def test_dump_by_hand() -> None:
    sampler = Dump(
        TWO,
        DumpOptions(window=3, temperature=1.0),
    )
    assert sampler.weights(0).tolist() == [0.5, 0.5]
    sampler.update(
        Feedback(
            prompts=np.array([0, 0, 0, 0, 1]),
            rewards=np.array([0.0, 1.0, 0.0, 1.0, NAN]),
            advantages=np.array([-9.0, 1.0, -0.5, 0.0, 5.0]),
        )
    )
    learnt, untried = 0.5 + (2 * np.log(5) / 5) ** 0.5, (2 * np.log(5)) ** 0.5
    assert sampler.weights(0)[0] == pytest.approx(1 / (1 + np.exp(untried - learnt)), abs=1e-12)
    with pytest.raises(ValueError, match="the feedback has none"):
        sampler.update(Feedback(prompts=np.array([0]), rewards=np.array([1.0])))


def test_a_domain_below_the_target_is_drawn_more() -> None:
    sampler = UnderOptimised(
        TWO,
        RuleReasonerOptions(temperature=0.5, smoothing=0.5),
    )
    assert sampler.weights(0).tolist() == [0.5, 0.5]
    sampler.update(Feedback(prompts=np.array([0, 0, 1, 1]), rewards=np.array([1.0, 0.0, 1.0, NAN])))
    sampler.update(Feedback(prompts=np.array([0, 0]), rewards=np.array([1.0, 1.0])))
    assert sampler.weights(0)[0] == pytest.approx(1 / (1 + np.exp(-0.25 / 0.5)), abs=1e-12)
    kept = UnderOptimised(
        TWO,
        RuleReasonerOptions(temperature=1e-3, floor=0.1),
    )
    kept.update(Feedback(prompts=np.array([0, 1]), rewards=np.array([1.0, 0.0])))
    assert kept.weights(0).tolist() == pytest.approx([0.1, 0.9], abs=1e-12)


def test_accuracies_follow_from_the_partition_function() -> None:
    beta, accuracy = 2.0, 0.25
    partitions = np.array([np.log(1 - accuracy + accuracy * np.exp(beta)), -1.0])
    assert reference_accuracy(partitions, beta=beta).tolist() == pytest.approx([0.25, 0.0])
    assert online_accuracy(np.array([1.0, 5.0]), np.array([0.2, 0.0]), beta=beta).tolist() == [0.6, 1.0]


def test_paced_believes_the_partition_function_and_ranks_replays_by_its_error() -> None:
    sampler = Paced(PromptData(size=3), PacedRlOptions(beta=2.0))
    feedback = Feedback(
        prompts=np.array([0, 0, 1, 1]),
        rewards=np.array([1.0, 0.0, 1.0, NAN]),
        log_partitions=np.array([1.0, 1.0, 0.2, 9.0]),
        divergences=np.array([0.3, 0.1, 0.0, 9.0]),
    )
    sampler.update(feedback)
    assert sampler.accuracies.tolist() == pytest.approx([0.6, 0.1, 0.5], abs=1e-12)
    assert sampler.errors.tolist() == pytest.approx([0.1, 0.9, 0.0], abs=1e-12)


def test_paced_without_a_partition_function_averages_what_it_observes() -> None:
    sampler = Paced(PromptData(size=2), PacedRlOptions(smoothing=0.5))
    sampler.update(Feedback(prompts=np.array([0, 0]), rewards=np.array([1.0, 1.0])))
    assert sampler.accuracies.tolist() == [0.75, 0.5]


def test_paced_draws_uncertain_prompts_and_none_twice_at_once() -> None:
    sampler = Paced(PromptData(size=3), PacedRlOptions(smoothing=0.0, floor=1e-6))
    sampler.update(Feedback(prompts=np.array([0, 1]), rewards=np.array([1.0, 0.0])))
    assert [int(sampler.draw(1)[0]) for _ in range(20)] == [2] * 20
    assert sorted(sampler.draw(3).tolist()) == [0, 1, 2]
    with pytest.raises(IndexError, match="4 prompts were asked for at once, the data has 3"):
        sampler.draw(4)


def test_a_stage_keeps_the_hardest_prompts_that_were_observed() -> None:
    sampler = HardFocus(
        PromptData(size=5),
        HardFocusOptions(
            stages=(
                Stage(prompts=5),
                Stage(prompts=4, keep=2),
                Stage(prompts=1),
            )
        ),
    )
    assert sorted(sampler.draw(5).tolist()) == [0, 1, 2, 3, 4]
    rewards = np.array([0.5, 0.0, 0.25, 1.0, NAN])
    sampler.update(Feedback(prompts=np.arange(5), rewards=rewards))
    assert sampler.stage == 0
    assert sorted(sampler.draw(2).tolist()) == [1, 2]
    assert (sampler.stage, sampler.kept.tolist()) == (1, [1, 2])
    sampler.draw(3)
    assert (sampler.stage, sampler.kept.tolist()) == (2, [1, 2])
    with pytest.raises(ValueError, match="no keep for the first"):
        HardFocus(PromptData(size=5), HardFocusOptions(stages=(Stage(prompts=1, keep=3),)))


def test_a_profile_drops_trivial_prompts_samples_unsolved_ones_and_sorts_easy_to_hard() -> None:
    assert Profiled(DATA, ProfiledOptions(unsolved_share=0.0)).order.tolist() == [5, 1, 6, 3]
    assert Profiled(DATA, ProfiledOptions(unsolved_share=1.0)).order.tolist() == [5, 1, 6, 3, 0, 4]
    half = Profiled(DATA, ProfiledOptions(trivial=0.75, epochs=1))
    assert half.order.tolist()[:3] == [1, 6, 3]
    assert len(half.draw(4)) == 4
    with pytest.raises(IndexError, match="prompt 5 is beyond the data: 4 prompts x 1 epochs"):
        half.draw(1)
    sure = PromptData(size=2, pass_rates=np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match="of 2 prompts none is left"):
        Profiled(sure, ProfiledOptions(unsolved_share=0.0))


def test_a_state_of_other_data_is_refused() -> None:
    with pytest.raises(ValueError, match="the saved state has 3 domains, this run has 2"):
        Mixture(TWO, MixtureOptions()).load_state(Mixture(DATA, MixtureOptions()).state())
    with pytest.raises(ValueError, match="the saved state has 7 prompts, this run has 8"):
        Paced(PromptData(size=8), PacedRlOptions()).load_state(Paced(DATA, PacedRlOptions()).state())
    with pytest.raises(ValueError, match=r"domains has shape \(2,\) for 3 prompts"):
        PromptData(size=3, domains=np.array([0, 1]))


def test_pass_rates_leave_invalid_rewards_out() -> None:
    sums, counts = pass_rates(Feedback(prompts=np.array([2, 0, 2]), rewards=np.array([1.0, NAN, 0.5])), 3)
    assert (sums.tolist(), counts.tolist()) == ([0.0, 0.0, 1.5], [0, 0, 2])


def test_outcomes_are_saved_of_answered_prompts_alone() -> None:
    outcomes, restored = Outcomes(10**6), Outcomes(10**6)
    outcomes.add(Feedback(prompts=np.array([7, 7, 9]), rewards=np.array([1.0, 0.5, NAN])))
    restored.add(Feedback(prompts=np.array([3]), rewards=np.array([1.0])))
    restored.load_state(json.loads(json.dumps(outcomes.state())))
    assert outcomes.state()["prompts"] == [7]
    assert restored.means(np.array([7]))[0] == 0.75
    assert np.isnan(restored.means(np.array([3, 9]))).all()
    with pytest.raises(ValueError, match="the saved state has 1000000 prompts, this run has 2"):
        Outcomes(2).load_state(outcomes.state())
