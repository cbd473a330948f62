"""Files of a run directory that its owner alone may read, each there at once and whole or not at all."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def write_owned(file: Path, text: str) -> None:
    aside = file.with_name(f"{file.name}.writing")
    aside.unlink(missing_ok=True)
    with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    aside.rename(file)


@contextmanager
def owned(directory: Path, texts: Mapping[str, str]) -> Iterator[None]:
    """Files by their names, gone at the end."""
    for name, text in texts.items():
        write_owned(directory / name, text)
    try:
        yield
    finally:
        for name in texts:
            (directory / name).unlink(missing_ok=True)
