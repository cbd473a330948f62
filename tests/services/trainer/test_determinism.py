import torch

from headrace.services.trainer.determinism import deterministic


def gradient(values: torch.Tensor, index: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    values.grad = None
    (values[index] * weights).sum().backward()
    assert values.grad is not None
    return values.grad


def test_rows_that_are_read_many_times_add_their_gradients_in_one_order() -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(8, 256, generator=generator).requires_grad_()
    index = torch.randint(0, 8, (4096,), generator=generator)
    weights = torch.randn(4096, 256, generator=generator)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = gradient(values, index, weights)
        torch.set_num_threads(2)
        with deterministic():
            together = [gradient(values, index, weights) for _ in range(10)]
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(alone, each) for each in together)
    assert not torch.are_deterministic_algorithms_enabled()


def test_trainers_that_overlap_leave_it_as_it_was() -> None:
    first, second = deterministic(), deterministic()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert torch.are_deterministic_algorithms_enabled()
    second.__exit__(None, None, None)
    assert not torch.are_deterministic_algorithms_enabled()
