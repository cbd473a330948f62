"""What a name in a dataflow stands for: published defaults, columns, and a user's own file."""

from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from headrace.algorithms.base import GroupScores, PolicyOutput
from headrace.algorithms.options import AlgorithmOptions, DapoOptions, GrpoOptions, Options, PythonOptions
from headrace.algorithms.registry import ALGORITHMS, build
from tests.algorithms.batches import loss_of, made, token_batch, value_and_gradient, vector

MINE = """
import numpy as np
from headrace.algorithms.base import Algorithm, LossSum

class Mine(Algorithm):
    def __init__(self, *, scale=1.0, columns=()):
        self.scale, self.columns = scale, tuple(columns)
    def needs(self):
        return self.columns
    def advantages(self, scores):
        return np.ones(len(scores.rewards))
    def loss(self, policy, batch):
        total = (-self.scale * policy.logprobs * batch.mask).sum()
        return LossSum(total=total, count=float(batch.mask.sum()))

class NotOne:
    pass
"""


def test_every_kind_of_options_has_an_algorithm_and_no_other() -> None:
    kinds = {options.__dataclass_fields__["kind"].default for options in get_args(AlgorithmOptions)}
    assert kinds == {*ALGORITHMS, "python"}


@pytest.mark.parametrize(
    ("kind", "published"),
    [
        (
            "grpo",
            {"clip_low": 0.2, "clip_high": 0.28, "reduction": "token_mean", "advantage": "group_zscore"},
        ),
        ("dr_grpo", {"clip_high": 0.2, "reduction": "sequence_sum", "advantage": "group_mean"}),
        ("dapo", {"clip_low": 0.2, "clip_high": 0.28, "reduction": "token_mean", "overlong_share": 0.2}),
        ("gspo", {"clip_low": 3e-4, "clip_high": 4e-4, "reduction": "sequence_mean"}),
        ("gspo_token", {"clip_low": 3e-4, "clip_high": 4e-4, "reduction": "sequence_mean"}),
        ("ppo", {"clip_high": 0.2, "advantage": "gae", "gae_lambda": 0.95, "gae_whiten": True}),
        ("tis", {"correction": "truncate", "correction_high": 2.0}),
        ("icepop", {"correction": "mask", "correction_low": 0.5, "correction_high": 5.0}),
        ("decoupled_ppo", {"correction": "mask", "correction_high": 5.0, "clip_high": 0.2}),
        ("reinforce_pp", {"kl_in": "reward", "kl_estimator": "k1", "advantage": "reinforce_pp"}),
        ("rloo", {"advantage": "leave_one_out", "kl_in": "reward"}),
        ("m2po", {"threshold": 0.04}),
    ],
)
def test_defaults_are_the_published_setting(kind: str, published: dict[str, Any]) -> None:
    by_kind = {
        options.__dataclass_fields__["kind"].default: options for options in get_args(AlgorithmOptions)
    }
    options = by_kind[kind]()
    assert {name: getattr(options, name) for name in published} == published


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_an_algorithm_needs_what_its_options_say_before_torch_is_there(kind: str) -> None:
    by_kind = {
        options.__dataclass_fields__["kind"].default: options for options in get_args(AlgorithmOptions)
    }
    assert made(kind).needs() == by_kind[kind]().needs()


def test_the_reference_is_needed_where_a_divergence_counts_and_values_where_a_critic_credits() -> None:
    assert GrpoOptions().needs() == ()
    assert GrpoOptions(kl_coef=0.1).needs() == ("reference_logprobs",)
    by_node = GrpoOptions(kl_coef=0.1, advantage="gae", critic="node")
    assert by_node.needs() == ("reference_logprobs", "values")
    assert GrpoOptions(advantage="gae").needs() == ()


def test_credit_over_the_batch_waits_for_it() -> None:
    waiting = {kind for kind in ALGORITHMS if made(kind).needs_full_batch}
    assert waiting == {"ppo", "reinforce_pp", "m2po"}
    assert made("grpo", advantage="group_mean_batch_std").needs_full_batch
    assert not made("ppo", gae_whiten=False).needs_full_batch


def test_a_lone_answer_teaches_nothing_only_where_answers_are_compared() -> None:
    kinds = {options.__dataclass_fields__["kind"].default: options for options in get_args(AlgorithmOptions)}
    alone = {kind for kind, options in kinds.items() if kind != "python" and not options().compares_group}
    assert alone == {"ppo", "sao", "reinforce_pp", "sft", "opd", "value"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip_low": 1.5}, "clip_low is 1.5; it must be at least 0 and at most 1"),
        ({"clip_high": -0.1}, "clip_high is -0.1; it must be at least 0"),
        ({"kl_coef": float("nan")}, "kl_coef is nan"),
        ({"kl_estimator": "k4"}, "kl_estimator is 'k4'; it must be one of k1, k2, k3"),
        ({"sequence_length": 0}, "sequence_length is 0; it must be at least 1"),
        ({"dual_clip": -3.0}, "dual_clip is -3.0; it must be above 0"),
    ],
)
def test_values_out_of_range_are_refused_where_the_options_are_made(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        GrpoOptions(**options)


def test_a_length_that_is_left_out_is_the_rollouts() -> None:
    batch = token_batch([[1]])
    for options, length in ((GrpoOptions(reduction="sequence_sum"), 5), (DapoOptions(), 5)):
        assert options.sequence_length is None
        assert build(options, max_new_tokens=length) is not None
    given = GrpoOptions(reduction="sequence_sum", sequence_length=4)
    assert value_and_gradient(build(given, max_new_tokens=5), vector(0.0), batch)[1] == [-0.25]


def test_options_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        GrpoOptions().clip_low = 0.1  # pyright: ignore[reportAttributeAccessIssue]


def test_a_file_of_ones_own_is_an_algorithm(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    options = PythonOptions(path=f"{tmp_path}/mine.py:Mine", options={"scale": 2.0})
    algorithm = build(options, max_new_tokens=5)
    scores = GroupScores(groups=np.zeros(2), rewards=np.zeros(2), lengths=np.ones(2))
    assert algorithm.advantages(scores).tolist() == [1.0, 1.0]  # pyright: ignore[reportAttributeAccessIssue]
    loss = loss_of(algorithm, PolicyOutput(logprobs=vector(-1.0, -3.0)), token_batch([[1, 0]]))
    assert (loss.total.item(), loss.count) == (2.0, 1.0)
    assert (algorithm.outputs(), algorithm.prepares, algorithm.needs_full_batch) == ((), False, False)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"path": "mine.py"}, ValueError, "it must be `module:class` or"),
        ({"path": "nowhere.py:Mine"}, ValueError, "algorithm.path: there is no file"),
        ({"path": "no.such.module:Mine"}, ImportError, "algorithm.path: cannot import 'no.such.module'"),
        (
            {"path": "{file}:Yours"},
            ValueError,
            "has no class 'Yours'; it has Algorithm, LossSum, Mine, NotOne",
        ),
        (
            {"path": "{file}:NotOne"},
            ValueError,
            "makes a NotOne; subclass headrace.algorithms.base.Algorithm",
        ),
        (
            {"path": "{file}:Mine", "options": {"columns": ["moods"]}},
            ValueError,
            r"algorithm.reads is \[\], but needs\(\) of .* returns \['moods'\]",
        ),
    ],
)
def test_a_file_that_is_not_what_it_was_declared_to_be_is_refused(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    (tmp_path / "other.py").write_text(MINE)
    path = options["path"].format(file=tmp_path / "other.py")
    with pytest.raises(error, match=message):
        build(PythonOptions(**(options | {"path": path})), max_new_tokens=5)


def test_options_of_ones_own_kind_are_plain() -> None:
    assert Options(kind="any").needs() == ()
