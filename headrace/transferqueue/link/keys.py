"""Keys of one run, for addresses that others than this machine can reach: CURVE, in files of the owner alone.

A run has one server key pair. `server.key` holds its secret half and stays with the controller; `client.key`
holds the public half, which is never sent: a handshake begins with a box that only its holder can make, so
whoever lacks the file is refused before a byte of a message is read. Clients make a pair of their own for
each connection.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import zmq

from headrace.transferqueue.errors import Refused

_SERVER, _CLIENT = "server.key", "client.key"
_KEY_BYTES = 40


def make_keys(directory: Path) -> None:
    """Makes the pair of a run where there is none; both files are readable by the owner alone."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (directory / _SERVER).exists():
        return
    public, secret = zmq.curve_keypair()
    _write(directory / _CLIENT, public)
    _write(directory / _SERVER, secret)


def read_keys(directory: Path) -> dict[str, bytes]:
    """Both, by the names of their files, for `copy_keys` on another node. Raises as `server_options`."""
    return {name: _read(directory / name) for name in (_SERVER, _CLIENT)}


def copy_keys(keys: Mapping[str, bytes], directory: Path) -> None:
    """Leaves a run's keys in a folder of this node, where they are not there yet."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in (_CLIENT, _SERVER):
        if not (directory / name).exists():
            _write(directory / name, keys[name])


def server_options(directory: Path) -> dict[int, int | bytes]:
    """Options to set before `bind`: only holders of the run's client key are let in."""
    return {zmq.CURVE_SERVER: 1, zmq.CURVE_SECRETKEY: _read(directory / _SERVER)}


def client_options(directory: Path) -> dict[int, int | bytes]:
    """Options to set before `connect`: they prove knowledge of the run's client key, to its server alone."""
    public, secret = zmq.curve_keypair()
    server = _read(directory / _CLIENT)
    return {zmq.CURVE_SERVERKEY: server, zmq.CURVE_PUBLICKEY: public, zmq.CURVE_SECRETKEY: secret}


def _write(path: Path, key: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as stream:
        os.fchmod(stream.fileno(), 0o600)
        stream.write(key)


def _read(path: Path) -> bytes:
    """Refused where there is no key, or where others than the owner can get at it."""
    try:
        state = path.stat()
        key = path.read_bytes()
    except OSError as error:
        raise Refused(
            f"no key of the run can be read at {path}: {error}; copy the run's keys there"
        ) from error
    if state.st_uid != os.geteuid() or stat.S_IMODE(state.st_mode) & 0o077:
        raise Refused(
            f"{path} has mode {stat.S_IMODE(state.st_mode):o} and owner {state.st_uid}; a key is its owner's "
            f"alone: chmod 600 {path}"
        )
    if len(key) != _KEY_BYTES:
        raise Refused(f"{path} holds {len(key)} bytes; a key has {_KEY_BYTES}: make the run's keys anew")
    return key
