"""AdamW on the parameters that a rank holds; its state by the names of Hugging Face tensors.

AdamW moves each number by itself, so that shards are moved as the whole would be, and a state that was saved
from one layout of ranks goes on in any other.
"""

from collections.abc import Iterator, Mapping, Sequence

import torch

from headrace.services.options import OptimizerOptions
from headrace.services.trainer.megatron.grid import Grid
from headrace.services.trainer.megatron.mapping import Entry
from headrace.services.trainer.megatron.shards import Held, shard_of, streamed
from headrace.services.trainer.optimizer_state import PREFIX

MOMENTS = ("exp_avg", "exp_avg_sq")
COUNT = "step"


class ShardedAdamW:
    """Moves the parameters of `held` by their gradients."""

    def __init__(self, held: Sequence[Held], options: OptimizerOptions) -> None:
        self._held = held
        self._adamw = torch.optim.AdamW(
            [each.parameter for each in held],
            lr=options.lr,
            betas=options.betas,
            eps=options.eps,
            weight_decay=options.weight_decay,
            fused=True,
        )

    def step(self, lr: float) -> None:
        for group in self._adamw.param_groups:
            group["lr"] = lr
        self._adamw.step()

    def zero_grad(self) -> None:
        self._adamw.zero_grad(set_to_none=True)

    def state(
        self, entries: Sequence[Entry], grid: Grid, *, dtype: torch.dtype, device: torch.device
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """`optimizer/<tensor>/<moment>` and tensor at rank 0; every rank goes through it to its end."""
        states = {each.entry.local: self._adamw.state.get(each.parameter) for each in self._held}
        counts = [found[COUNT] for found in states.values() if found]
        if not counts:
            return
        for moment in MOMENTS:
            own = {local: found[moment] for local, found in states.items() if found}
            for name, tensor in streamed(entries, own, grid, dtype=dtype, device=device):
                yield f"{PREFIX}{name}/{moment}", tensor
                if moment == MOMENTS[0]:
                    yield f"{PREFIX}{name}/{COUNT}", counts[0]

    def load_state(self, tensors: Mapping[str, torch.Tensor], grid: Grid) -> None:
        """Replaces all moments; tensors outside of `optimizer/` are ignored."""
        self._adamw.state.clear()
        for each in self._held:
            names = each.entry.names
            if f"{PREFIX}{names[0]}/{COUNT}" not in tensors:
                continue
            state = self._adamw.state[each.parameter]
            state[COUNT] = tensors[f"{PREFIX}{names[0]}/{COUNT}"].clone()
            for moment in MOMENTS:
                given = {name: tensors[f"{PREFIX}{name}/{moment}"] for name in names}
                shard = shard_of(each.entry, given, grid)
                state[moment] = torch.empty_like(each.parameter).copy_(shard)
