"""What a hostile function tries, and what it meets: each limit by itself, by a process that has it."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.services.isolation.confined import Confinement, environment, missing
from headrace.services.isolation.errors import Raised
from headrace.services.isolation.process import Isolated
from headrace.services.options import Limits, PythonVerifier
from headrace.services.reward.isolated import IsolatedVerifier
from headrace.services.verdicts.errors import VerifierRaised
from headrace.services.verdicts.verdict import Score

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

HOSTILE = """
import ctypes, fcntl, json, mmap, os, resource, signal, socket, subprocess, sys, tempfile, threading
from pathlib import Path

def memory(size):
    return len(bytearray(size))

def shared_memory(size):
    return len(mmap.mmap(-1, size))

def growing_memory(size):
    return len(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x0100))

def private_memory(size):
    return len(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))

def file_in_memory(_):
    os.memfd_create("mine")

def segment(size):
    if ctypes.CDLL(None, use_errno=True).shmget(0, size, 0o1600) < 0:
        raise OSError(ctypes.get_errno(), "shmget")

def opened_to_all(path):
    os.chmod(path, 0o777)

def given_away(path):
    os.chown(path, -1, -1)

def dated(path):
    os.utime(path, (1, 1))

def emptied(path):
    os.truncate(path, 0)

def marked(path):
    os.setxattr(path, "user.mine", b"1")

def made_slower(pid):
    os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid))

def kept_to_a_core(pid):
    os.sched_setaffinity(pid, os.sched_getaffinity(0))

def kept_itself_to_its_cores(_):
    os.sched_setaffinity(0, os.sched_getaffinity(0))

def signalled_by_a_pipe(pid):
    fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, pid)

def connect(port):
    socket.create_connection(("127.0.0.1", port), timeout=5)

def unix(path):
    socket.socket(socket.AF_UNIX).connect(path)

def forked(_):
    if os.fork() == 0:
        os._exit(0)

def started(_):
    return subprocess.run([sys.executable, "-c", "print(2)"], capture_output=True, text=True).stdout

def threads(_):
    made = []
    thread = threading.Thread(target=lambda: made.append(1))
    thread.start()
    thread.join()
    return made

def in_a_thread(path):
    met = []
    def read():
        try:
            met.append(Path(path).read_text())
        except OSError as error:
            met.append(type(error).__name__)
    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    return met

def read(path):
    return Path(path).read_text()

def write(path):
    Path(path).write_text("mine")

def removed(path):
    Path(path).unlink()

def scratch(_):
    with tempfile.NamedTemporaryFile("w+", suffix=".py", delete=False) as file:
        file.write("print(2)")
    return file.name

def shot(pid):
    os.kill(pid, signal.SIGTERM)

def looked(pid):
    return Path(f"/proc/{pid}/environ").read_bytes().decode()

def traced(pid):
    if ctypes.CDLL(None, use_errno=True).ptrace(16, pid, None, None) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")

def raised_limit(_):
    resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

def others_limit(pid):
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (8, 8))

def another_namespace(_):
    if ctypes.CDLL(None, use_errno=True).unshare(0x10000000) < 0:
        raise OSError(ctypes.get_errno(), "unshare")

def variables(_):
    return dict(os.environ)

def own(_):
    os.kill(os.getpid(), 0)
    return "alive"

def made():
    def answer(question):
        (name, argument), = question.items()
        return {"found": globals()[name](argument)}
    return answer
"""


@asynccontextmanager
async def hostile(tmp_path: Path, *, hidden: tuple[Path, ...] = (), **limits: Any) -> AsyncIterator[Isolated]:
    (folder := tmp_path / "code").mkdir(exist_ok=True)
    (folder / "hostile.py").write_text(HOSTILE)
    isolated = Isolated(
        f"{folder}/hostile.py:made",
        {},
        noun="verifier",
        timeout_s=60.0,
        confinement=Confinement(limits=Limits(**limits), read=(folder,), hidden=hidden),
    )
    try:
        yield isolated
    finally:
        await isolated.close()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "control.json"
    path.write_text("the token")
    return path


async def test_memory_beyond_the_limit_is_an_error_that_names_it(tmp_path: Path) -> None:
    async with hostile(tmp_path, memory_mib=256) as isolated:
        assert await isolated.ask({"memory": 1 << 20}) == {"found": 1 << 20}
        with pytest.raises(Raised, match=r"^MemoryError: .*limits\.memory_mib is what it may take$"):
            await isolated.ask({"memory": 1 << 30})
        with pytest.raises(Raised, match=r"^ValueError: not allowed to raise maximum limit"):
            await isolated.ask({"raised_limit": None})
        assert await isolated.ask({"memory": 1 << 20}) == {"found": 1 << 20}


async def test_memory_that_no_limit_counts_is_not_to_be_had(tmp_path: Path) -> None:
    async with hostile(tmp_path, memory_mib=256) as isolated:
        assert await isolated.ask({"private_memory": 1 << 20}) == {"found": 1 << 20}
        for name in ("shared_memory", "growing_memory"):
            with pytest.raises(Raised, match=r"^OSError: \[Errno 12\]"):
                await isolated.ask({name: 1 << 20})
        for attempt in ({"file_in_memory": None}, {"segment": 1 << 20}):
            with pytest.raises(Raised, match=r"^PermissionError: \[Errno 1\]"):
                await isolated.ask(attempt)


async def test_what_is_not_its_own_keeps_its_mode_owner_time_and_length(tmp_path: Path, secret: Path) -> None:
    secret.chmod(0o600)
    before = secret.stat()
    async with hostile(tmp_path) as isolated:
        for name in ("opened_to_all", "given_away", "dated", "emptied", "marked"):
            with pytest.raises(Raised, match=r"^PermissionError: \[Errno 1\]"):
                await isolated.ask({name: str(secret)})
    assert secret.stat() == before


async def test_no_socket_is_opened_and_no_process_started_but_threads_are(tmp_path: Path) -> None:
    async with hostile(tmp_path) as isolated:
        for attempt in ({"connect": 9}, {"unix": "/run/x"}, {"forked": None}, {"started": None}):
            with pytest.raises(Raised, match=r"^PermissionError: .*limits say what it may open, start and"):
                await isolated.ask(attempt)
        assert await isolated.ask({"threads": None}) == {"found": [1]}


async def test_files_beyond_its_own_are_neither_read_nor_written_nor_removed(
    tmp_path: Path, secret: Path
) -> None:
    async with hostile(tmp_path) as isolated:
        for name in ("read", "write", "removed"):
            with pytest.raises(Raised, match=r"^PermissionError: \[Errno 13\]"):
                await isolated.ask({name: str(secret)})
        assert await isolated.ask({"in_a_thread": str(secret)}) == {"found": ["PermissionError"]}
        with pytest.raises(Raised, match="PermissionError"):
            await isolated.ask({"write": str(tmp_path / "code" / "hostile.py")})
        assert await isolated.ask({"write": "/dev/null"}) == {"found": None}
    assert secret.read_text() == "the token"


async def test_what_is_hidden_is_not_read_though_it_lies_in_a_folder_that_is(
    tmp_path: Path, secret: Path
) -> None:
    (run := tmp_path / "runs" / "mine").mkdir(parents=True)
    (run / "control.json").write_text("the token")
    (tmp_path / "latest").symlink_to(run)
    async with hostile(tmp_path, hidden=(run,), reads=(str(tmp_path),)) as isolated:
        assert await isolated.ask({"read": str(secret)}) == {"found": "the token"}
        for path in (run / "control.json", tmp_path / "latest" / "control.json"):
            with pytest.raises(Raised, match="PermissionError"):
                await isolated.ask({"read": str(path)})
    named = (str(tmp_path), str(run / "mine.json"))
    (run / "mine.json").write_text("for it")
    async with hostile(tmp_path, hidden=(run,), reads=named) as isolated:
        assert await isolated.ask({"read": named[1]}) == {"found": "for it"}
        with pytest.raises(Raised, match="PermissionError"):
            await isolated.ask({"read": str(run / "control.json")})


async def test_other_processes_are_neither_signalled_nor_looked_into_nor_limited(tmp_path: Path) -> None:
    async with hostile(tmp_path) as isolated:
        others = ("made_slower", "kept_to_a_core", "signalled_by_a_pipe")
        for name in ("shot", "looked", "traced", "others_limit", *others):
            with pytest.raises(Raised, match="PermissionError"):
                await isolated.ask({name: os.getpid()})
        with pytest.raises(Raised, match="PermissionError"):
            await isolated.ask({"another_namespace": None})
        assert await isolated.ask({"own": None}) == {"found": "alive"}
        assert await isolated.ask({"kept_itself_to_its_cores": None}) == {"found": None}


async def test_what_is_allowed_works_and_its_folder_goes_with_its_process(
    tmp_path: Path, secret: Path
) -> None:
    async with hostile(tmp_path, processes=True, writes=True, network=True) as isolated:
        assert await isolated.ask({"started": None}) == {"found": "2\n"}
        found = Path((await isolated.ask({"scratch": None}))["found"])
        assert found.read_text() == "print(2)" and found.parent.name.startswith("headrace-scratch-")
        with pytest.raises(Raised, match="ConnectionRefusedError"):
            await isolated.ask({"connect": 9})
        for attempt in ({"shot": os.getpid()}, {"read": str(secret)}):
            with pytest.raises(Raised, match="PermissionError"):
                await isolated.ask(attempt)
    assert not found.parent.exists()


async def test_its_environment_has_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "HF_TOKEN", "WANDB_API_KEY"):
        monkeypatch.setenv(name, "secret-of-mine")
    async with hostile(tmp_path) as isolated:
        found = (await isolated.ask({"variables": None}))["found"]
    assert "secret-of-mine" not in json.dumps(found)
    assert {"PATH"} <= found.keys() <= environment(os.environ, None).keys()


async def test_a_verifier_has_these_limits_unless_they_are_null(tmp_path: Path, secret: Path) -> None:
    (code := tmp_path / "code").mkdir()
    (code / "mine.py").write_text("def score(r, e): return float(len(open(r).read()))")
    limited = IsolatedVerifier(
        PythonVerifier(function=f"{code}/mine.py:score", timeout_s=60.0), run_dir=tmp_path / "run"
    )
    free = IsolatedVerifier(PythonVerifier(function=f"{code}/mine.py:score", timeout_s=60.0, limits=None))
    try:
        with pytest.raises(VerifierRaised, match="PermissionError"):
            await limited.score(str(secret), {})
        assert await free.score(str(secret), {}) == Score(value=9.0)
    finally:
        await limited.close()
        await free.close()
