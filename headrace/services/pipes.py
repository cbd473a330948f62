"""The pipes of a child process that answers frames by frames, taken out of reach of what runs in it."""

import os
from typing import BinaryIO


def take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """What is asked and where answers go, under other descriptors; stdin is empty from then on, and what is
    printed goes to stderr."""
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return asked, answers
