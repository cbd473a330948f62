"""Whether this machine can carry a run: what is installed, room, limits, loopback, GPUs."""

import os
import resource
import shutil
import socket
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from headrace.dataflow.doctor.findings import Finding, bad, poor, well
from headrace.dataflow.planning.cluster import Cluster, this_machine
from headrace.dataflow.planning.memory import in_words
from headrace.dataflow.running.shared_memory import root

PACKAGES = ("torch", "ray", "transformers", "pyarrow", "pyzmq")
EXTRAS = ("vllm", "megatron-core")
SHARED_LEAST = 1 << 30
"""Bytes of shared memory below which rows and weights of a small model do not fit."""
DISK_LEAST = 5 << 30
FILES_LEAST = 4096
"""Open files: each connection of each replica is one, and so is each segment."""
PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


def examined(runs: Path, environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """`runs`: where run directories are to lie."""
    yield installed()
    yield shared_memory(shutil.disk_usage(root()).free, root())
    yield disk(shutil.disk_usage(runs if runs.is_dir() else Path.cwd()).free, runs)
    yield open_files(*resource.getrlimit(resource.RLIMIT_NOFILE))
    yield loopback()
    yield gpus(this_machine())
    yield from proxies(environment)


def installed() -> Finding:
    found = {name: _version(name) for name in (*PACKAGES, *EXTRAS)}
    says = ", ".join(f"{name} {number}" for name, number in found.items() if number)
    if absent := [name for name in PACKAGES if not found[name]]:
        return bad("packages", f"{says}; not installed: {', '.join(absent)}", "pip install headrace")
    return well("packages", says)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def shared_memory(free: int, where: Path) -> Finding:
    says = f"{in_words(free)} free in {where}"
    if free < SHARED_LEAST:
        return bad("shared memory", says, "mount -o remount,size=8G /dev/shm; of a container --shm-size=8g")
    return well("shared memory", says)


def disk(free: int, runs: Path) -> Finding:
    says = f"{in_words(free)} free where {runs} lies"
    if free < DISK_LEAST:
        return poor("disk", says, "make room, or give the run a directory elsewhere by --output")
    return well("disk", says)


def open_files(soft: int, hard: int) -> Finding:
    says = f"a process may have {soft} open"
    if soft != resource.RLIM_INFINITY and soft < FILES_LEAST:
        most = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
        return poor("files", says, f"ulimit -n {most}")
    return well("files", says)


def loopback() -> Finding:
    """Whether what the control API and an embedded cluster need can be had."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            socket.create_connection(listening.getsockname(), timeout=5.0).close()
    except OSError as error:
        return bad("ports", f"127.0.0.1 cannot be listened on: {error}", "ip link set lo up")
    return well("ports", "127.0.0.1 can be listened on")


def gpus(machine: Cluster) -> Finding:
    if not machine.gpus:
        return well("GPUs", f"none can be seen; {machine.cores} cores")
    if not _version("vllm"):
        way_out = "pip install headrace[vllm], for rollouts by engine: vllm"
        return poor("GPUs", f"{machine.gpus:g}, and vllm is not installed", way_out)
    return well("GPUs", f"{machine.gpus:g}; {machine.cores} cores")


def proxies(environment: Mapping[str, str]) -> Iterator[Finding]:
    """A proxy that is asked for loopback answers that there is nobody; a browser and curl go by it."""
    named = [name for name in PROXIES if environment.get(name)]
    spared = environment.get("no_proxy", environment.get("NO_PROXY", ""))
    if named and not {"127.0.0.1", "*"} & {each.strip() for each in spared.split(",")}:
        yield poor(
            "proxy",
            f"{', '.join(named)} is set, and no_proxy does not have 127.0.0.1",
            "export no_proxy=127.0.0.1,localhost",
        )
