import math

import pytest
import torch

from headrace.algorithms.base import PolicyOutput
from headrace.services.scoring import outputs
from headrace.services.scoring.outputs import Entropy, join, token_outputs

TARGETS = torch.tensor([0, 1])


def logits() -> torch.Tensor:
    return torch.log(torch.tensor([[0.5, 0.5], [0.2, 0.8]], dtype=torch.float64)).requires_grad_()


def test_outputs_by_hand() -> None:
    got = token_outputs(logits(), TARGETS, temperature=1.0, names=("mean_logprobs",))
    assert got.entropy is not None and got.mean_logprobs is not None and got.values is None
    assert got.logprobs.tolist() == pytest.approx([math.log(0.5), math.log(0.8)], abs=1e-12)
    second = -0.2 * math.log(0.2) - 0.8 * math.log(0.8)
    assert got.entropy.tolist() == pytest.approx([math.log(2), second], abs=1e-12)
    assert got.mean_logprobs.tolist() == pytest.approx([math.log(0.5), 0.5 * math.log(0.16)], abs=1e-12)


def test_the_temperature_divides_logits_before_anything_else() -> None:
    """At 0.5 the odds are squared: 0.2 and 0.8 become 1/17 and 16/17."""
    got = token_outputs(logits(), TARGETS, temperature=0.5, names=("mean_logprobs",))
    assert got.entropy is not None and got.mean_logprobs is not None
    low, high = 1 / 17, 16 / 17
    assert got.logprobs[1].item() == pytest.approx(math.log(high), abs=1e-12)
    assert got.entropy[1].item() == pytest.approx(-low * math.log(low) - high * math.log(high), abs=1e-12)
    assert got.mean_logprobs[1].item() == pytest.approx(0.5 * math.log(low * high), abs=1e-12)


def test_only_what_is_named_carries_a_gradient() -> None:
    bare = token_outputs(logits(), TARGETS, temperature=1.0, names=())
    assert bare.logprobs.requires_grad and bare.mean_logprobs is None
    assert bare.entropy is not None and not bare.entropy.requires_grad
    named = token_outputs(logits(), TARGETS, temperature=1.0, names=("entropy", "mean_logprobs"))
    assert named.entropy is not None and named.mean_logprobs is not None
    assert named.entropy.requires_grad and named.mean_logprobs.requires_grad


@pytest.mark.parametrize("slice_elements", [1, 7, 1 << 22])
def test_gradients_are_those_of_the_plain_formulas_in_any_slices(
    monkeypatch: pytest.MonkeyPatch, slice_elements: int
) -> None:
    monkeypatch.setattr(outputs, "SLICE_ELEMENTS", slice_elements)
    torch.manual_seed(0)
    leaf = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0, 2, 1, 1, 0])
    got = token_outputs(leaf, targets, temperature=0.7, names=("entropy", "mean_logprobs"))
    assert got.entropy is not None and got.mean_logprobs is not None
    plain = torch.log_softmax(leaf / 0.7, dim=-1)
    wanted = plain.gather(1, targets[:, None])[:, 0], -(plain.exp() * plain).sum(-1), plain.mean(-1)
    for ours, want in zip((got.logprobs, got.entropy, got.mean_logprobs), wanted, strict=True):
        torch.testing.assert_close(ours, want, rtol=1e-12, atol=1e-12)
        weights = torch.arange(1.0, 6.0, dtype=torch.float64)
        gradient, expected = (
            torch.autograd.grad((weights * value).sum(), leaf, retain_graph=True)[0] for value in (ours, want)
        )
        torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-12)


def test_an_impossible_token_adds_no_entropy() -> None:
    logprobs = torch.tensor([[0.0, -math.inf]], dtype=torch.float64, requires_grad=True)
    entropy = Entropy.apply(logprobs)
    assert isinstance(entropy, torch.Tensor)
    assert entropy.tolist() == [0.0]
    entropy.sum().backward()
    assert logprobs.grad is not None and logprobs.grad.tolist() == [[-1.0, 0.0]]


def test_half_precision_logits_are_scored_in_float32() -> None:
    got = token_outputs(torch.zeros(1, 2, dtype=torch.bfloat16), TARGETS[:1], temperature=1.0, names=())
    assert got.logprobs.dtype == torch.float32


@pytest.mark.parametrize(
    ("name", "message"),
    [("values", "values need a value head"), ("moods", "the loss asks for 'moods'")],
)
def test_what_logits_do_not_tell_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        token_outputs(logits(), TARGETS, temperature=1.0, names=(name,))


def test_parts_are_joined_in_order() -> None:
    one, two = (torch.tensor([value]) for value in (1.0, 2.0))
    got = join([PolicyOutput(logprobs=one, entropy=two), PolicyOutput(logprobs=two, entropy=one)])
    assert got.logprobs.tolist() == [1.0, 2.0] and got.mean_logprobs is None
    assert got.entropy is not None and got.entropy.tolist() == [2.0, 1.0]
