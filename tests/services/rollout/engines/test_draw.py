import pytest
import torch

from headrace.services.rollout.engines.decoding.draw import draw


def drawn(logits: list[float], temperature: float, uniform: float) -> tuple[int, float]:
    ids, logprobs = draw(torch.tensor([logits]), temperature, torch.tensor([uniform], dtype=torch.float64))
    return int(ids[0]), float(logprobs[0])


def test_logprobs_are_taken_under_the_temperature() -> None:
    # log softmax([4, 0])[0] = -log(1 + exp(-4)); at T = 1 it is -log(1 + exp(-2)).
    assert drawn([2.0, 0.0], 0.5, 0.0) == (0, pytest.approx(-0.0181499, abs=1e-6))
    assert drawn([2.0, 0.0], 1.0, 0.0) == (0, pytest.approx(-0.1269280, abs=1e-6))


def test_a_draw_inverts_the_cumulative_distribution() -> None:
    logits = [0.0, 0.0, 0.0, 0.0]
    assert [drawn(logits, 1.0, u)[0] for u in (0.0, 0.2, 0.3, 0.6, 0.8)] == [0, 0, 1, 2, 3]


def test_a_token_of_no_probability_is_never_drawn() -> None:
    nothing = float("-inf")
    largest = 1.0 - 2.0**-52
    assert drawn([nothing, 0.0, nothing], 1.0, 0.0)[0] == 1
    assert drawn([nothing, 0.0, nothing], 1.0, largest)[0] == 1


def test_double_precision_stays_double() -> None:
    zero = torch.zeros(1, dtype=torch.float64)
    assert draw(torch.zeros(1, 3, dtype=torch.float64), 1.0, zero)[1].dtype == torch.float64
    assert draw(torch.zeros(1, 3, dtype=torch.bfloat16), 1.0, zero)[1].dtype == torch.float32
