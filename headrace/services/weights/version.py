"""The tensors of a version, all verified before the first of them is handed out.

Invariant: no tensor is handed out whose bytes are not those that were published, and none changes for as long
as somebody has it.
"""

import os
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headrace.services.errors import WeightsError
from headrace.services.weights.copies import digests
from headrace.services.weights.folder import Folder
from headrace.services.weights.layout import Form, Header
from headrace.services.weights.tensors import form, view

if TYPE_CHECKING:
    import torch


class Version(Mapping[str, "torch.Tensor"]):
    """By Hugging Face name, to be looked at only; of one thread at a time. While it is there nobody writes to
    its file."""

    def __init__(self, folder: Folder, version: int, file: int, header: Header, data_start: int) -> None:
        """`file`: open, and locked."""
        self._folder = folder
        self._path = folder.path(version)
        self._file = os.dup(file)
        weakref.finalize(self, os.close, self._file)
        self._header = header
        self._start = data_start
        self._placed = {placed.name: placed for placed in header.layout.tensors}
        self._data = folder.view(self._file)[data_start:]
        self._is_verified = False

    @property
    def forms(self) -> dict[str, Form]:
        """What is known of the tensors before their bytes are."""
        return {name: placed.form for name, placed in self._placed.items()}

    def __getitem__(self, name: str) -> "torch.Tensor":
        """Raises WeightsError where any bytes of the version are not those published."""
        placed = self._placed[name]
        self.verify()
        return view(self._data, placed)

    def __iter__(self) -> Iterator[str]:
        return iter(self._placed)

    def __len__(self) -> int:
        return len(self._placed)

    def verify(self) -> None:
        """Raises WeightsError where bytes are not those published. What was verified is not read again.

        Looks once more where somebody of this process may have written to its pages.
        """
        if self._is_verified:
            return
        damage = self._damage()
        if damage is not None:
            self._data = self._folder.renew(self._file)[self._start :]
            damage = self._damage()
        if damage is not None:
            raise WeightsError(f"{self._path}: {damage}")
        self._is_verified = True

    def _damage(self) -> str | None:
        """What of the data is not as it was published."""
        layout = self._header.layout
        if len(self._data) != layout.size:
            return f"{len(self._data)} bytes of data, but {layout.size} were published"
        found_here = digests(self._data, layout.buckets())
        for bucket, due, found in zip(layout.buckets(), self._header.digests, found_here, strict=True):
            if found != due:
                names = layout.of(bucket)
                return f"xxh3 {found[:12]} of {names[0]} to {names[-1]}, but {due[:12]} was published"
        return None


def forms_of(weights: Mapping[str, "torch.Tensor"]) -> dict[str, Form]:
    """Types and shapes, of a version before it is verified too. Raises WeightsError for a type that no file
    of weights holds."""
    if isinstance(weights, Version):
        return weights.forms
    return {name: form(tensor) for name, tensor in weights.items()}
