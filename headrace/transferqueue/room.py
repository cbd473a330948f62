"""What a full file system looks like, to whoever writes and waits for room."""

import errno

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
LOOK_EVERY_S = 1.0
"""Seconds between two tries: a file system tells nobody of room."""
_SAID = ("No space left on device", "Disk quota exceeded", "database or disk is full")
"""What errors say that have no number, such as those of safetensors and SQLite."""


def is_full(error: BaseException | None) -> bool:
    """Whether an error, or one that it came from, is that of a full disk."""
    while error is not None:
        if (isinstance(error, OSError) and error.errno in FULL) or any(each in str(error) for each in _SAID):
            return True
        error = error.__cause__ or error.__context__
    return False
