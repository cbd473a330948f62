"""Weights between a trainer and its readers: versioned files in the node's shared memory.

    write: copy and digest ─► rename        take: map ─► verify each bucket ─► views

Invariant: a version's file is complete or absent (written aside, then renamed), and what is read of it has
the checksum that was published. Readers pull; a version's name in the queue is what makes it known.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headrace.services.errors import WeightsError, WeightsGone
from headrace.services.weights.copies import copy_digested
from headrace.services.weights.folder import Folder, Gone, Writing
from headrace.services.weights.layout import (
    Header,
    Layout,
    arrange,
    checksum_of,
    first_bytes,
    header_size,
    parse,
)
from headrace.services.weights.tensors import form, gathered
from headrace.services.weights.version import Version

if TYPE_CHECKING:
    import torch

KEPT_VERSIONS = 2
"""A reader that is mid-file keeps its mapping when the version is retired; two spare it the retry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A version's file while it is locked against being written again."""

    file: int
    header: Header
    data_start: int


class WeightStore:
    """The weights that live on one node, under `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._folders: dict[str, Folder] = {}

    def write(self, policy: str, version: int, weights: Mapping[str, "torch.Tensor"]) -> str:
        """Writes a version and returns the checksum to publish (xxh3-128, hex); old ones are retired, and
        later ones, which a trainer that went back has yet to make again.

        Raises WeightsError where memory has no room, or where another process writes there.
        """
        layout = arrange({name: form(tensor) for name, tensor in weights.items()})
        with self.receiving(policy, layout) as writing:
            first = len(writing.array) - layout.size
            found = _fill(writing.array[first:], layout, weights)
            header = Header(layout=layout, digests=tuple(found)).to_bytes()
            writing.array[:first] = np.frombuffer(header, np.uint8)
            writing.publish(version)
        self.retire(policy, newest=version)
        return checksum_of(header)

    def take(self, policy: str, version: int, checksum: str) -> Version:
        """Maps a version, which is verified by what is done with it.

        Raises WeightsGone when it was retired, WeightsError when its header is not the one published.
        """
        with self.opened(policy, version, checksum) as opened:
            return Version(self.folder(policy), version, opened.file, opened.header, opened.data_start)

    def read(self, policy: str, version: int, checksum: str) -> dict[str, "torch.Tensor"]:
        """A verified version: tensors are views of the file, by Hugging Face name, to be looked at only.

        Raises as `take`, and WeightsError when its bytes are not those published.
        """
        return dict(self.take(policy, version, checksum))

    def has(self, policy: str, version: int, checksum: str) -> bool:
        """Whether the version of that checksum is here; its bytes are not looked at."""
        try:
            with self.opened(policy, version, checksum):
                return True
        except WeightsError:
            return False

    @contextmanager
    def opened(self, policy: str, version: int, checksum: str | None = None) -> Iterator[Opened]:
        """A version whose header is the one published, or None: whatever was; its data are to be verified.
        Raises as `take`."""
        folder = self.folder(policy)
        try:
            with folder.open(version) as file:
                header = first_bytes(file)
                found = checksum_of(header)
                if checksum not in (found, None):
                    raise WeightsError(
                        f"{folder.path(version)}: xxh3 {found[:12]}, but {str(checksum)[:12]} was published"
                    )
                yield Opened(file=file, header=parse(header), data_start=len(header))
        except Gone:
            raise self._gone(policy, version) from None

    def keep(self, policy: str, version: int, aside: "WeightStore") -> None:
        """Has another store hold a version too, at once and without its bytes being read or doubled; there it
        stays until it is dropped. Raises WeightsGone when it was retired."""
        kept = aside.folder(policy).path(version)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.unlink(missing_ok=True)
        try:
            kept.hardlink_to(self.folder(policy).path(version))
        except FileNotFoundError:
            raise self._gone(policy, version) from None

    def drop(self, policy: str, version: int) -> None:
        """Lets a version go; who mapped it keeps its bytes."""
        self.folder(policy).path(version).unlink(missing_ok=True)

    def folder(self, policy: str) -> Folder:
        return self._folders.setdefault(policy, Folder(self._directory / policy))

    @contextmanager
    def receiving(self, policy: str, layout: Layout, *, wait: bool = False) -> Iterator[Writing]:
        """A file to be filled, header included; `wait`: once another process is done with the folder."""
        folder = self.folder(policy)
        with folder.alone(wait=wait), folder.writing(header_size(layout) + layout.size) as writing:
            yield writing

    def retire(self, policy: str, *, newest: int) -> None:
        """Keeps a version and those right before it; takes the others, later ones too, from their readers."""
        folder = self.folder(policy)
        known = folder.versions()
        kept = [each for each in known if each <= newest][-KEPT_VERSIONS:]
        for each in set(known) - set(kept):
            folder.retire(each)

    def _gone(self, policy: str, version: int) -> WeightsGone:
        return WeightsGone(
            f"version {version} of {policy!r} was pruned; have {self.folder(policy).versions()}"
        )


def _fill(data: np.ndarray, layout: Layout, weights: Mapping[str, "torch.Tensor"]) -> list[str]:
    """Copies tensors to their places in `data`, uint8 [its size]; the digests of its buckets."""
    from headrace.services.weights.landing import copy_landed, gpu_of, pinned

    if (gpu := gpu_of(weights)) is not None:
        return copy_landed(weights, layout, data, pinned(gpu))
    sources = [gathered(weights[placed.name], data, placed) for placed in layout.tensors]
    targets = [data[placed.start : placed.end] for placed in layout.tensors]
    return copy_digested(sources, targets, [placed.start for placed in layout.tensors], layout.buckets())
