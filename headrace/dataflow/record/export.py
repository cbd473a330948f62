"""A policy of a run as a model folder: the checkpoint that is asked for, or its newest complete one."""

from dataclasses import dataclass
from pathlib import Path

from headrace.dataflow.language.parse import load
from headrace.dataflow.language.problems import listing, suggestion
from headrace.dataflow.record.rundir import RunDir
from headrace.services.trainer.checkpoint import Checkpoint, Skipped, newest, read, steps
from headrace.services.trainer.exported import write_model


class ExportError(Exception):
    """What is asked for is not there, or cannot be put where it should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    folder: Path
    policy: str
    step: int
    skipped: tuple[Skipped, ...]
    """Newer checkpoints that do not verify."""


def export(run: Path, folder: Path, *, policy: str | None = None, step: int | None = None) -> Exported:
    """Writes the model, its tokenizer and chat template into `folder`, every file checked by its hash.

    `policy` None: the only one that is trained; `step` None: the newest complete. Raises RunDirError where
    `run` is no run directory, ExportError for all else that is missing or in the way.
    """
    directory = RunDir.open(run)
    trained = [str(node.policy) for node in load(str(directory.path)).spec.of_kind("trainer").values()]
    named = _policy(policy, trained)
    checkpoints = directory.checkpoints_of(named, alone=len(trained) == 1)
    checkpoint, skipped = _checkpoint(checkpoints, step)
    try:
        write_model(checkpoint, folder)
    except (OSError, ValueError) as error:
        raise ExportError(str(error)) from error
    return Exported(folder=folder, policy=named, step=checkpoint.step, skipped=skipped)


def _policy(policy: str | None, trained: list[str]) -> str:
    if policy is None and len(trained) == 1:
        return trained[0]
    if policy is None:
        raise ExportError(f"the run trains {listing(trained)}; say which by --policy")
    if policy not in trained:
        way_out = suggestion(policy, trained, otherwise="name one of these")
        raise ExportError(f"the run trains no policy '{policy}' (allowed: {listing(trained)}); {way_out}")
    return policy


def _checkpoint(directory: Path, step: int | None) -> tuple[Checkpoint, tuple[Skipped, ...]]:
    there = steps(directory)
    if step is not None:
        if step not in there:
            raise ExportError(
                f"{directory} has no checkpoint of step {step} (allowed: {listing(map(str, there))}); "
                "name another"
            )
        try:
            return read(there[step]), ()
        except ValueError as error:
            raise ExportError(str(error)) from error
    found = newest(directory)
    if found.checkpoint is None:
        reasons = "; ".join(f"{each.path.name}: {each.reason}" for each in found.skipped)
        told = f" ({reasons})" if reasons else ""
        raise ExportError(
            f"{directory} has no complete checkpoint{told}; run on until there is one, or lower the "
            "trainer's checkpoint_every"
        )
    return found.checkpoint, found.skipped
