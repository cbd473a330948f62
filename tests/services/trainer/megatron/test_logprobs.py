from pathlib import Path

import pytest
import torch
from torch import distributed

from headrace.services.scoring import outputs
from headrace.services.trainer.megatron.logprobs import check_names, token_outputs


@pytest.mark.parametrize("padding", [0, 5])
def test_outputs_and_their_gradients_are_those_of_the_whole_vocabulary(padding: int, tmp_path: Path) -> None:
    names = ("entropy", "mean_logprobs")
    generator = torch.Generator().manual_seed(3)
    logits_TV = torch.randn(6, 7 + padding, generator=generator, dtype=torch.float64)
    targets_T = torch.tensor([0, 6, 3, 3, 1, 5])
    weights_3T = torch.randn(3, 6, generator=generator, dtype=torch.float64)
    store = f"file://{tmp_path / 'store'}"
    distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        ours, theirs = (logits_TV.clone().requires_grad_() for _ in range(2))
        group = distributed.group.WORLD
        assert group is not None
        found = token_outputs(
            ours, targets_T, first=0, vocabulary=7, group=group, temperature=0.7, names=names
        )
        want = outputs.token_outputs(theirs[:, :7], targets_T, temperature=0.7, names=names)
        for name, weights_T in zip(("logprobs", *names), weights_3T, strict=True):
            torch.testing.assert_close(getattr(found, name), getattr(want, name), rtol=0, atol=1e-14)
            for each in (found, want):
                (getattr(each, name) * weights_T).sum().backward(retain_graph=True)
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-14)
    finally:
        distributed.destroy_process_group()


def test_what_logits_do_not_tell_is_refused() -> None:
    with pytest.raises(ValueError, match="the loss asks for 'values'"):
        check_names(("entropy", "values"))
