"""Where controllers and units may be reached: only on this machine, and after a restart where they were."""

import ipaddress
import os
from pathlib import Path
from urllib.parse import urlsplit

from headrace.transferqueue.errors import Refused

_FILE = "address"
UNIT = "unit-address"
"""That of a storage unit, in its own directory."""


def require_local(address: str) -> None:
    """Raises Refused on an address that others than this machine could reach."""
    parts = urlsplit(address.replace(":*", ""))
    if parts.scheme in ("inproc", "ipc"):
        return
    try:
        local = parts.hostname == "localhost" or ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        local = False
    if parts.scheme != "tcp" or not local:
        raise Refused(
            f"address {address!r} is not local; allowed are tcp on 127.0.0.1, localhost or [::1], ipc://PATH "
            "and inproc://NAME"
        )


def write_address(directory: Path, address: str, *, name: str = _FILE) -> None:
    """Leaves a server's address in its directory, whole or not at all; one that is there takes no room."""
    if read_address(directory, name=name) == address:
        return
    aside = directory / f".{name}"
    aside.write_text(address)
    os.replace(aside, directory / name)


def read_address(directory: Path, *, name: str = _FILE) -> str | None:
    """Where the directory's controller serves, or last did; None where there was none."""
    path = directory / name
    return path.read_text() if path.is_file() else None


def newest_address(directory: Path, wanted: str, *, name: str = _FILE) -> str:
    """`wanted`, with any free port replaced by the one that the last server had."""
    last = read_address(directory, name=name)
    free = wanted.removesuffix("*")
    return last if last is not None and free != wanted and last.startswith(free) else wanted
