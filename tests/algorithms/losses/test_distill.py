import math

import pytest
import torch

from headrace.algorithms.losses import forward_kl, reverse_kl
from tests.algorithms.batches import vector


def test_reverse_kl_of_a_sampled_token_by_hand() -> None:
    logprobs = vector(math.log(0.5)).requires_grad_()
    losses = reverse_kl(logprobs, vector(math.log(0.25)), vector(2.0))
    assert losses.tolist() == pytest.approx([2.0 * math.log(2)], abs=1e-12)
    losses.sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx([2.0 * math.log(2)], abs=1e-12)


def test_over_the_students_own_tokens_its_gradient_is_that_of_the_divergence() -> None:
    logits = vector(0.3, -0.2, 0.9).requires_grad_()
    teacher = torch.log_softmax(vector(0.0, 1.0, 0.5), dim=0)
    student = torch.log_softmax(logits, dim=0)
    (want,) = torch.autograd.grad((student.exp() * (student - teacher)).sum(), logits, retain_graph=True)
    sampled = (student.detach().exp() * reverse_kl(student, teacher, torch.ones(3).double())).sum()
    (got,) = torch.autograd.grad(sampled, logits)
    assert got.tolist() == pytest.approx(want.tolist(), abs=1e-12)


def test_forward_kl_over_the_whole_vocabulary_by_hand() -> None:
    student = torch.log(torch.tensor([[0.25, 0.75]], dtype=torch.float64)).requires_grad_()
    teacher = torch.log(torch.tensor([[0.5, 0.5]], dtype=torch.float64))
    losses = forward_kl(student, teacher, whole=True)
    assert losses.tolist() == pytest.approx([0.5 * math.log(2) + 0.5 * math.log(2 / 3)], abs=1e-12)
    losses.sum().backward()
    assert student.grad is not None
    assert student.grad.tolist() == [[-0.5, -0.5]]


def test_over_the_teachers_likeliest_tokens_the_rest_is_one_more_outcome() -> None:
    student = torch.log(torch.tensor([[0.25], [0.2]], dtype=torch.float64))
    teacher = torch.log(torch.tensor([[0.5], [0.2]], dtype=torch.float64))
    losses = forward_kl(student, teacher, whole=False)
    assert losses.tolist() == pytest.approx([0.5 * math.log(2) + 0.5 * math.log(2 / 3), 0.0], abs=1e-12)


def test_the_likeliest_tokens_bound_the_whole_divergence_from_below() -> None:
    torch.manual_seed(0)
    student, teacher = torch.log_softmax(torch.randn(2, 50, 7, dtype=torch.float64), dim=-1)
    top = teacher.topk(3, dim=1).indices
    part = forward_kl(student.gather(1, top), teacher.gather(1, top), whole=False)
    assert bool((part >= 0).all()) and bool((part <= forward_kl(student, teacher, whole=True)).all())


def test_distributions_of_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"of one shape, got \(2, 3\) and \(2, 4\)"):
        forward_kl(torch.zeros(2, 3), torch.zeros(2, 4), whole=True)
