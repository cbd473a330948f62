"""AdamW on the parameters that a rank holds; its state by the names of Hugging Face tensors.

AdamW moves each number by itself, so that shards are moved as the whole would be, and a state that was saved
from one layout of ranks goes on in any other.
"""

from collections.abc import Iterator, Mapping, Sequence

import torch

from headrace.services.options import OptimizerOptions
from headrace.services.trainer import masters, optimizer_state
from headrace.services.trainer.masters import Masters
from headrace.services.trainer.megatron.grid import Grid
from headrace.services.trainer.megatron.mapping import Entry
from headrace.services.trainer.megatron.shards import Held, set_weights, shard_of, streamed

MOMENTS = ("exp_avg", "exp_avg_sq")
COUNT = "step"


class ShardedAdamW:
    """Moves the parameters of `held` by their gradients, those in bfloat16 through float32 copies."""

    def __init__(self, held: Sequence[Held], options: OptimizerOptions) -> None:
        self._masters = Masters({each.entry.local: each.parameter for each in held})
        self._masters.follow()
        self.stepped = [
            Held(entry=each.entry, parameter=self._masters.stepped[each.entry.local]) for each in held
        ]
        """What holds the gradients: the parameters, or their copies."""
        self._adamw = torch.optim.AdamW(
            [each.parameter for each in self.stepped],
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
        self._masters.publish()

    def zero_grad(self) -> None:
        self._adamw.zero_grad(set_to_none=True)

    def state(self, entries: Sequence[Entry], grid: Grid) -> Iterator[tuple[str, torch.Tensor]]:
        """`optimizer/<tensor>/<moment>` and `master/<tensor>` at rank 0; every rank goes through it to its
        end."""
        copies = self._masters.state()
        if copies:
            own = {name.removeprefix(masters.PREFIX): copy for name, copy in copies.items()}
            for name, tensor in streamed(entries, own, grid):
                yield f"{masters.PREFIX}{name}", tensor
        states = {each.entry.local: self._adamw.state.get(each.parameter) for each in self.stepped}
        moved = {local: found for local, found in states.items() if found}
        if not moved:
            return
        for moment in MOMENTS:
            own = {local: found[moment] for local, found in moved.items()}
            for name, tensor in streamed(entries, own, grid):
                yield _key(name, moment), tensor
        if grid.is_first:
            count = next(iter(moved.values()))[COUNT]
            for entry in entries:
                yield from ((_key(name, COUNT), count) for name in entry.names)

    def load_state(self, tensors: Mapping[str, torch.Tensor], grid: Grid) -> None:
        """Replaces all moments and copies; other tensors are ignored.

        Raises ValueError where there should be copies and are none.
        """
        if self._masters.state():
            start = len(masters.PREFIX)
            copies = {name[start:]: each for name, each in tensors.items() if name.startswith(masters.PREFIX)}
            if not copies:
                raise ValueError(
                    "the checkpoint has no float32 copies of the weights: it was saved under another dtype; "
                    "go on with that one"
                )
            set_weights(self.stepped, copies, grid)
        self._adamw.state.clear()
        for each in self.stepped:
            names = each.entry.names
            if _key(names[0], COUNT) not in tensors:
                continue
            state = self._adamw.state[each.parameter]
            state[COUNT] = tensors[_key(names[0], COUNT)].clone()
            for moment in MOMENTS:
                shard = shard_of(each.entry, {name: tensors[_key(name, moment)] for name in names}, grid)
                state[moment] = torch.empty_like(each.parameter, requires_grad=False).copy_(shard)


def _key(name: str, moment: str) -> str:
    return f"{optimizer_state.PREFIX}{name}/{moment}"
