"""A checkpoint's model as a folder of its own: what `from_pretrained` opens, without the trainer's files.

Invariant: the folder is there once every file of it matches the checkpoint's manifest, and not before.
"""

import shutil
from pathlib import Path

from headrace.services.synced import sync
from headrace.services.trainer.checkpoint import STATE, Checkpoint, digests, is_state, sha256


def write_model(checkpoint: Checkpoint, folder: Path) -> None:
    """Copies weights, configuration, tokenizer and chat template into `folder`, made here.

    Raises FileExistsError where it holds anything, ValueError where a file changed since it was saved.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is there and holds something; name a folder that does not exist")
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = folder.with_name(f".{folder.name}.exporting")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    try:
        for name, digest in digests(checkpoint.path).items():
            if name != STATE and not is_state(name):
                _copy(checkpoint.path / name, aside / name, digest)
        aside.replace(folder)
    except BaseException:
        shutil.rmtree(aside)
        raise
    sync(folder.parent)


def _copy(source: Path, target: Path, digest: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    if sha256(target) != digest:
        raise ValueError(f"{source} does not match its sha256 in the manifest; export another step")
    sync(target)
