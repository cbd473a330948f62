import json

import pytest
import torch

from headrace.algorithms.parameter_noise import NoiseScale, perturbed


def test_noise_is_that_of_the_seed_and_the_name_and_leaves_the_weights_alone() -> None:
    weights = {"a": torch.zeros(3), "b": torch.zeros(2, 2, dtype=torch.bfloat16)}
    first = dict(perturbed(weights.items(), sigma=0.5, seed=7))
    again = dict(perturbed(reversed(weights.items()), sigma=0.5, seed=7))
    other = dict(perturbed(weights.items(), sigma=0.5, seed=8))
    assert all(torch.equal(first[name], again[name]) for name in weights)
    assert not torch.equal(first["a"], other["a"])
    assert not torch.equal(first["a"][:2], first["b"][0].float())
    assert first["b"].dtype == torch.bfloat16
    assert weights["a"].tolist() == [0.0, 0.0, 0.0]


def test_noise_has_the_size_asked_for() -> None:
    (_, noisy), *_ = perturbed([("a", torch.ones(100_000))], sigma=0.5, seed=0)
    assert noisy.mean().item() == pytest.approx(1.0, abs=0.01)
    assert noisy.std().item() == pytest.approx(0.5, abs=0.01)


def test_the_scale_moves_against_the_error_within_its_largest_move() -> None:
    scale = NoiseScale(target=0.5, sigma=0.1, gain=1.0)
    assert [scale.observe(diversity) for diversity in (0.4, 0.0, 5.0)] == [0.125, 0.25, 0.125]


def test_a_restored_scale_goes_on_alike() -> None:
    scale, restored = (NoiseScale(target=0.5, smoothing=0.5) for _ in range(2))
    scale.observe(0.2)
    restored.load_state(json.loads(json.dumps(scale.state())))
    assert restored.observe(0.6) == scale.observe(0.6)


def test_a_largest_move_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"largest_move is 0\.5"):
        NoiseScale(target=0.5, largest_move=0.5)
