"""Checkpoints kept elsewhere too: a copy of each under an address that fsspec knows, as s3://bucket/run.

Invariant: a copy is complete once its manifest is there, which goes last and is removed first; what is
fetched is a checkpoint once every file of it matches that manifest.
"""

import importlib
from pathlib import Path
from typing import Any

from headrace.services.trainer import checkpoint
from headrace.services.trainer.checkpoint import MANIFEST, STEP, Checkpoint


def missing(address: str) -> str | None:
    """Why an address cannot be used here; None where it can. Nothing is connected to."""
    fsspec: Any = importlib.import_module("fsspec")
    protocol = fsspec.utils.get_protocol(address)
    try:
        fsspec.get_filesystem_class(protocol)
    except (ImportError, ValueError) as error:
        return " ".join(str(error).split())
    return None


class Store:
    """Of one policy's checkpoints. Every call blocks, and raises what the file system raises."""

    def __init__(self, address: str) -> None:
        fsspec: Any = importlib.import_module("fsspec")
        self._files, root = fsspec.core.url_to_fs(address, use_listings_cache=False)
        self._root = root.rstrip("/")

    def put(self, path: Path) -> None:
        """Copies a checkpoint, in the place of one of the same step."""
        there = f"{self._root}/{path.name}"
        self._remove(there)
        names = list(checkpoint.digests(path))
        for name in [*names, MANIFEST]:
            target = f"{there}/{name}"
            self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
            self._files.put_file(str(path / name), target)

    def steps(self) -> dict[int, str]:
        """The complete copies, by their steps, ascending."""
        return {
            step: folder
            for step, folder in self._begun().items()
            if self._files.exists(f"{folder}/{MANIFEST}")
        }

    def fetch(self, step: int, directory: Path) -> Checkpoint:
        """Makes `directory/step-<step>` of the copy. Raises ValueError where it does not verify."""
        aside, there = checkpoint.begin(directory, step), f"{self._root}/{STEP.format(step)}"
        try:
            self._files.get_file(f"{there}/{MANIFEST}", str(aside / MANIFEST))
            for name in checkpoint.digests(aside):
                target = (aside / name).resolve()
                if not target.is_relative_to(aside.resolve()):
                    raise ValueError(f"{there}/{MANIFEST} names {name!r}, which lies outside of a checkpoint")
                target.parent.mkdir(parents=True, exist_ok=True)
                self._files.get_file(f"{there}/{name}", str(target))
            return checkpoint.adopt(aside)
        except BaseException:
            checkpoint.abandon(aside)
            raise

    def prune(self, *, keep: int, keep_every: int) -> None:
        """As `checkpoint.prune`, of the complete copies; of others what came before the newest goes."""
        begun, there = self._begun(), self.steps()
        unfinished = [step for step in begun if there and step < max(there) and step not in there]
        for step in (*unfinished, *checkpoint.superseded(there, keep=keep, keep_every=keep_every)):
            self._remove(begun[step])

    def _begun(self) -> dict[int, str]:
        """All copies, whole or not, by their steps, ascending."""
        if not self._files.exists(self._root):
            return {}
        paths = self._files.ls(self._root, detail=False)
        found = sorted(str(path).rstrip("/").rpartition("/")[2] for path in paths)
        return {
            int(name.removeprefix("step-")): f"{self._root}/{name}"
            for name in found
            if name.startswith("step-")
        }

    def _remove(self, folder: str) -> None:
        if self._files.exists(f"{folder}/{MANIFEST}"):
            self._files.rm_file(f"{folder}/{MANIFEST}")
        if self._files.exists(folder):
            self._files.rm(folder, recursive=True)
