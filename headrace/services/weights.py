"""Weights between a trainer and its readers: versioned files in the node's shared memory.

Invariant: a version's file is complete or absent (written aside, then renamed), and what `read` returns
has the checksum that was published. Readers pull; a version's name in the queue is what makes it known.
"""

import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.services.errors import WeightsError, WeightsGone

if TYPE_CHECKING:
    import torch

KEPT_VERSIONS = 2
"""A reader that is mid-file keeps its mapping when the file is unlinked; two spare it the retry."""


class WeightStore:
    """The weights that live on one node, under `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, policy: str, version: int, weights: Mapping[str, "torch.Tensor"]) -> str:
        """Writes a version and returns the checksum to publish (xxh3-128, hex); old ones are pruned, and
        later ones, which a trainer that went back has yet to make again."""
        from safetensors.torch import save_file

        path = self._path(policy, version)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".writing")
        save_file({name: tensor.contiguous() for name, tensor in weights.items()}, aside)
        checksum = _digest(aside)
        aside.rename(path)
        known = self._versions(policy)
        kept = [each for each in known if each <= version][-KEPT_VERSIONS:]
        for each in set(known) - set(kept):
            self._path(policy, each).unlink(missing_ok=True)
        return checksum

    def read(self, policy: str, version: int, checksum: str) -> dict[str, "torch.Tensor"]:
        """Maps a version: tensors are views of the file, by Hugging Face name.

        Raises WeightsGone when it was pruned, WeightsError when its bytes are not those published.
        """
        from safetensors.torch import load_file

        path = self._path(policy, version)
        try:
            found = _digest(path)
            if found != checksum:
                raise WeightsError(f"{path}: xxh3 {found[:12]}, but {checksum[:12]} was published")
            return load_file(path)
        except FileNotFoundError:
            raise self._gone(policy, version) from None

    def keep(self, policy: str, version: int, aside: "WeightStore") -> None:
        """Has another store hold a version too, at once and without its bytes being read or doubled; there it
        stays until it is dropped. Raises WeightsGone when it was pruned."""
        kept = aside._path(policy, version)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.unlink(missing_ok=True)
        try:
            kept.hardlink_to(self._path(policy, version))
        except FileNotFoundError:
            raise self._gone(policy, version) from None

    def drop(self, policy: str, version: int) -> None:
        """Lets a version go; who mapped it keeps its bytes."""
        self._path(policy, version).unlink(missing_ok=True)

    def _gone(self, policy: str, version: int) -> WeightsGone:
        return WeightsGone(f"version {version} of {policy!r} was pruned; have {self._versions(policy)}")

    def _path(self, policy: str, version: int) -> Path:
        return self._directory / policy / f"{version:08d}.safetensors"

    def _versions(self, policy: str) -> list[int]:
        return sorted(int(path.stem) for path in (self._directory / policy).glob("*.safetensors"))


def _digest(path: Path) -> str:
    import xxhash

    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        return xxhash.xxh3_128_hexdigest(view)
