"""Checkpoints that are whole or not there: written aside, hashed, synced, renamed.

Invariant: a folder `step-<n>` with a manifest that verifies holds all that was saved at step n; anything else
is skipped by `newest`, which says why. No pickle: weights and tensors are safetensors, the rest is JSON.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from headrace.services.room import size_of
from headrace.services.synced import sync

ASIDE = ".tmp"
MANIFEST = "manifest.json"
STATE = "state.json"
TENSORS = "trainer*.safetensors"
"""The trainer's state: a file, or one for each of its ranks."""
WEIGHTS = "model.safetensors"
STEP = "step-{:08d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A verified checkpoint."""

    path: Path
    """A Hugging Face model folder, with the trainer's files beside: `from_pretrained` opens it."""
    step: int
    values: Mapping[str, Any] = field(repr=False)
    """What was saved as JSON: data position, version, metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    path: Path
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """`checkpoint` is None where no complete one exists; `skipped` are newer than it, newest first."""

    checkpoint: Checkpoint | None
    skipped: tuple[Skipped, ...]


def write(
    directory: Path,
    step: int,
    *,
    save: Callable[[Path], None],
    values: Mapping[str, Any],
) -> Checkpoint:
    """Writes `directory/step-<step>`; `save` puts model, tokenizer and state into the folder it is given,
    from as many processes as it has.

    `values` must be JSON. An older checkpoint of the same step is replaced. Once this returns, the checkpoint
    survives a power cut. Raises ValueError where `save` left no `model.safetensors`.
    """
    aside = begin(directory, step)
    try:
        save(aside)
        return finish(aside, step, values)
    except BaseException:
        abandon(aside)
        raise


def begin(directory: Path, step: int) -> Path:
    """An empty folder for what `write`'s `save` would write: `begin -> finish | abandon`."""
    aside = directory / ASIDE / STEP.format(step)
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    return aside


def finish(aside: Path, step: int, values: Mapping[str, Any]) -> Checkpoint:
    """Makes a checkpoint of what `begin` gave, filled; the rest as `write`."""
    if not (aside / WEIGHTS).is_file():
        raise ValueError(f"save wrote no {WEIGHTS} into {aside}; a model must be saved in one file")
    (aside / STATE).write_text(json.dumps({"step": step, "values": dict(values)}, indent=1))
    _write_manifest(aside)
    _sync_tree(aside)
    path = aside.parent.parent / STEP.format(step)
    _replace(aside, path)
    return Checkpoint(path=path, step=step, values=values)


def adopt(aside: Path) -> Checkpoint:
    """Makes a checkpoint of what `begin` gave, filled from a copy of one, manifest and all. Raises ValueError
    where it does not verify."""
    if (reason := _fault(aside)) is not None:
        raise ValueError(f"the copy of {aside.name} is not a complete checkpoint: {reason}")
    _sync_tree(aside)
    path = aside.parent.parent / aside.name
    _replace(aside, path)
    return _open(path)


def abandon(aside: Path) -> None:
    """Gives up what `begin` gave."""
    shutil.rmtree(aside.parent, ignore_errors=True)


def newest(directory: Path) -> Found:
    """The newest checkpoint whose manifest verifies; hashes every file of those it looks at."""
    skipped: list[Skipped] = []
    for path in reversed(_complete(directory)):
        reason = _fault(path)
        if reason is None:
            return Found(checkpoint=_open(path), skipped=tuple(skipped))
        skipped.append(Skipped(path=path, reason=reason))
    return Found(checkpoint=None, skipped=tuple(skipped))


def read(path: Path) -> Checkpoint:
    """The checkpoint at `path`. Raises ValueError with the reason where it does not verify."""
    reason = _fault(path)
    if reason is not None:
        raise ValueError(f"{path} is not a complete checkpoint: {reason}; resume from another")
    return _open(path)


def prune(directory: Path, *, keep: int, keep_every: int = 0, spared: Collection[str] = ()) -> list[Path]:
    """Removes all but the `keep` newest, those of steps that `keep_every` divides (0: of none) and those of
    the names that are `spared`, and what unfinished writes left; returns the checkpoints removed."""
    if keep < 1:
        raise ValueError(f"keep is {keep}; a run keeps at least its newest checkpoint")
    shutil.rmtree(directory / ASIDE, ignore_errors=True)
    there = steps(directory)
    old = superseded(there, keep=keep, keep_every=keep_every)
    removed = [step for step in old if there[step].name not in spared]
    for step in removed:
        shutil.rmtree(there[step])
    return [there[step] for step in removed]


def superseded(steps: Iterable[int], *, keep: int, keep_every: int) -> list[int]:
    """Which of the steps, ascending, `prune` removes."""
    older = sorted(steps)[:-keep]
    return [step for step in older if not keep_every or step % keep_every]


def set_aside_after(directory: Path, step: int) -> list[Path]:
    """What a run that goes on from `step` has passed over, for it does not verify, is renamed to
    `unverified-<step>`: it would count as the newest. Returns the new paths."""
    aside = []
    for number, path in steps(directory).items():
        if number > step:
            aside.append(path.with_name(path.name.replace("step-", "unverified-")))
            shutil.rmtree(aside[-1], ignore_errors=True)
            path.rename(aside[-1])
    return aside


def oldest_step(directory: Path, *, keep: int) -> int:
    """Of the `keep` newest checkpoints the earliest step; ValueError where there is none."""
    return min(sorted(steps(directory))[-keep:])


def newest_size(directory: Path) -> int:
    """Bytes of the newest one that is kept; 0 where there is none."""
    kept = _complete(directory)
    return size_of(kept[-1]) if kept else 0


def steps(directory: Path) -> dict[int, Path]:
    """The checkpoints that are kept by their steps, ascending; whether they verify is not looked at."""
    return {int(path.name.removeprefix("step-")): path for path in _complete(directory)}


def digests(path: Path) -> dict[str, str]:
    """SHA-256 of each file of a verified checkpoint by its name, as the manifest has them."""
    return json.loads((path / MANIFEST).read_text())["sha256"]


def is_state(name: str) -> bool:
    """Whether a file of a checkpoint, by its name, holds the trainer's state."""
    return fnmatch(name, TENSORS)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _complete(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("step-*") if path.is_dir())


def _open(path: Path) -> Checkpoint:
    state = json.loads((path / STATE).read_text())
    return Checkpoint(path=path, step=state["step"], values=state["values"])


def _fault(path: Path) -> str | None:
    """Why the checkpoint cannot be trusted; None where it can."""
    try:
        manifest = digests(path)
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except (ValueError, KeyError, TypeError):
        return f"{MANIFEST} is not readable"
    for name in (STATE, WEIGHTS):
        if name not in manifest:
            return f"{MANIFEST} does not list {name}"
    if not any(map(is_state, manifest)):
        return f"{MANIFEST} lists no {TENSORS}"
    for name, expected in manifest.items():
        if not (path / name).is_file():
            return f"{name} is missing"
        if sha256(path / name) != expected:
            return f"{name} does not match its sha256"
    return None


def _write_manifest(folder: Path) -> None:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    digests = {path.relative_to(folder).as_posix(): sha256(path) for path in files}
    (folder / MANIFEST).write_text(json.dumps({"sha256": digests}, indent=1))


def _replace(aside: Path, path: Path) -> None:
    if path.exists():
        lost = aside.with_name(aside.name + ".replaced")
        shutil.rmtree(lost, ignore_errors=True)
        path.rename(lost)
    aside.rename(path)
    sync(path.parent)
    shutil.rmtree(aside.parent)


def _sync_tree(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        sync(path)
