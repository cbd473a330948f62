"""Who may import whom, read from the source, and what a dataflow's check may load."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "headrace"

MAY_IMPORT: dict[str, set[str]] = {
    "transferqueue": set(),
    "algorithms": set(),
    "services": {"transferqueue", "algorithms"},
    "dataflow": {"transferqueue", "algorithms", "services"},
}

QUEUE_ROOMS: dict[str, set[str]] = {
    "state": set(),
    "link": set(),
    "payload": {"state", "link"},
    "server": {"state", "link", "payload"},
    "disk": {"state", "link", "payload", "server"},
}
"""Who may import whom within the transfer queue."""

OF_THE_WORLD = ("asyncio", "os", "pathlib", "pyarrow", "socket", "threading", "time", "zmq")

ROLES = (
    "source",
    "rollout",
    "reward",
    "judge",
    "reference",
    "teacher",
    "critic",
    "trainer",
    "filter",
    "sink",
    "branch",
    "join",
)


def imported_modules(path: Path) -> set[str]:
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            modules.add(node.module or "")
    return modules


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_a_folder_imports_only_those_it_may(folder: str) -> None:
    allowed = {folder, *MAY_IMPORT[folder]}
    for path in (PACKAGE / folder).rglob("*.py"):
        for module in imported_modules(path):
            root, _, rest = module.partition(".")
            if root == "headrace" and rest:
                assert rest.partition(".")[0] in allowed, f"{path} imports {module}"
            assert root not in MAY_IMPORT, f"{path} imports {module} under a bare name"


@pytest.mark.parametrize("room", QUEUE_ROOMS)
def test_rooms_of_the_queue_lean_on_those_below(room: str) -> None:
    others = QUEUE_ROOMS.keys() - {room} - QUEUE_ROOMS[room]
    for path in (PACKAGE / "transferqueue" / room).rglob("*.py"):
        for module in imported_modules(path):
            for other in others:
                assert not module.startswith(f"headrace.transferqueue.{other}"), f"{path} imports {module}"


def test_the_state_machine_touches_nothing_of_the_world() -> None:
    for path in (PACKAGE / "transferqueue" / "state").rglob("*.py"):
        for module in imported_modules(path):
            assert module.partition(".")[0] not in OF_THE_WORLD, f"{path} imports {module}"


@pytest.mark.parametrize("role", ROLES)
def test_roles_never_import_each_other(role: str) -> None:
    folder = PACKAGE / "services" / role
    files = list(folder.rglob("*.py")) or [folder.with_suffix(".py")]
    for path in files:
        for module in imported_modules(path):
            for other in set(ROLES) - {role}:
                assert not module.startswith(f"headrace.services.{other}"), f"{path} imports {module}"


def test_nothing_pickles() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert not imported_modules(path) & {"pickle", "cloudpickle", "dill", "marshal"}, f"{path} pickles"


def test_the_links_at_the_root_lead_to_the_folders_of_the_package() -> None:
    for folder in MAY_IMPORT:
        link = PACKAGE.parent / folder
        assert link.is_symlink() and link.resolve() == PACKAGE / folder
