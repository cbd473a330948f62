"""A checkpoint's tensors on their way to disk beside the next steps: copies, and a thread that writes them.

    HostCopies.of ─► Beside.begin ─► (steps) ─► Beside.settle       in every rank; begun anew where it failed

Invariant: what is written is what the tensors held when they were copied, whatever becomes of them.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import torch

from headrace.services.trainer.ranks.group import Ranks
from headrace.services.trainer.ranks.saving import Saving


class HostCopies:
    """Copies in the host's memory, which the next ones are copied into again; of a GPU's tensors in pages
    that it can reach by itself."""

    def __init__(self) -> None:
        self._kept: dict[str, torch.Tensor] = {}

    def of(self, tensors: Iterable[tuple[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        """Valid until the next call; `tensors` need be so until the next of them alone."""
        self._kept = {name: self._copied(name, tensor.detach()) for name, tensor in tensors}
        return self._kept

    def _copied(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        place = self._kept.get(name)
        if place is None or (place.shape, place.dtype) != (tensor.shape, tensor.dtype):
            place = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        return place.copy_(tensor)


class Beside:
    """One piece of work of this rank in a thread of its own: `begin -> settle`, then the next."""

    def __init__(self) -> None:
        self._going: Future[None] | None = None
        self._saving = Saving()

    def begin(self, write: Callable[[], None]) -> Future[None]:
        """Done when `write` has returned or raised in this rank."""
        assert self._going is None, "what was begun is settled first"
        saving = self._saving = Saving()

        def written() -> None:
            with saving.here():
                write()

        pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._going = pool.submit(written)
        pool.shutdown(wait=False)
        return self._going

    def settle(self, ranks: Ranks) -> None:
        """Waits until it is done in every rank. Raises NotSaved in all where one could not write."""
        assert self._going is not None, "nothing was begun"
        going, self._going = self._going, None
        going.result()
        self._saving.settle(ranks)
