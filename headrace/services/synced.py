"""Files and folders on disk for good."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """What a file holds, or which files a folder has, survives a power cut once this returns."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
