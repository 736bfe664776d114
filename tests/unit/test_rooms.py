# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may import what: the rule that makes a file's path say what it may do."""

from __future__ import annotations

import ast
import pathlib
import sys
import typing as t

import pytest

UTILS = pathlib.Path(__file__).resolve().parents[2] / "plugins" / "module_utils"
_BASE = ("_values", "_plan")
_NETLINK = ("_values", "_linux", "_linux/netlink")
#: Every room and the rooms with files that it may import besides its own: there are no circles, and no exceptions.
PURE_ROOMS: dict[str, tuple[str, ...]] = {
    "_values": (),
    "_plan": ("_values",),
    "_dataplane": _BASE,
    "_mesh/semaphore": _BASE,
    "_mesh/kubespan": (*_BASE, "_dataplane"),
    "_mesh/fabric": (*_BASE, "_dataplane", "_mesh/semaphore"),
    "_mesh/kilo": (*_BASE, "_mesh/fabric"),
    "_mesh/topology": (*_BASE, "_dataplane", "_mesh/kilo", "_mesh/fabric", "_mesh/kubespan", "_mesh/semaphore"),
    "_services": _BASE,
    "_loadbalancers": _BASE,
    "_tenants": _BASE,
    "_status": (*_BASE, "_dataplane"),
    "_upstream": (*_BASE, "_loadbalancers", "_mesh/kubespan"),
    "_trace": (*_BASE, "_dataplane", "_mesh/kubespan", "_mesh/semaphore", "_services", "_loadbalancers", "_status"),
}
EDGE_ROOMS: dict[str, tuple[str, ...]] = {
    "_kubernetes": (*_BASE, "_module", "_module_variables", "_io"),
    "_io": (*_BASE, "_module"),
    "_linux": ("_values",),
    "_linux/netlink": ("_values", "_linux"),
    "_linux/wireguard": (*_NETLINK, "_plan", "_dataplane"),
    "_linux/nftables": _NETLINK,
    "_linux/host": (*_NETLINK, "_dataplane", "_linux/wireguard", "_linux/nftables"),
    "_linux/daemons": ("_values", "_linux"),
}
_LINUX = tuple(room for room in EDGE_ROOMS if room.startswith("_linux"))
_API = (*PURE_ROOMS, "_module", "_kubernetes", "_io", "_linux", "_linux/host")
FLOW_ROOMS: dict[str, tuple[str, ...]] = {
    "_flows/speakers": (*_BASE, "_loadbalancers", *_LINUX),
    "_flows/node": (*_BASE, "_dataplane", "_mesh/kubespan", "_flows/speakers", *_LINUX),
    "_flows/runs": _API,
    "_flows/access": (*_API, "_flows/runs"),
    "_flows/mesh": (*_API, "_flows/runs"),
    "_flows/reports": (*_API, "_flows/runs"),
    "_flows/services": (*_API, "_flows/access", "_flows/runs"),
    "_flows/load_balancers": (*_API, "_flows/mesh"),
    "_flows/tenants": _API,
    "_flows/clustermesh": (*_API, "_flows/access", "_flows/mesh"),
    "_flows/upstream": _API,
    "_flows/reconciler": (*_API, "_flows/mesh", "_flows/runs", "_flows/services", "_flows/load_balancers"),
}
ROOMS = {**PURE_ROOMS, **EDGE_ROOMS, **FLOW_ROOMS}
PURE = tuple(sorted({room.split("/")[0] for room in PURE_ROOMS}))
EDGES = tuple(sorted({room.split("/")[0] for room in EDGE_ROOMS}))
#: Rooms that also run on nodes, where there is no Ansible.
ON_NODES = (
    "_values",
    "_plan",
    "_dataplane",
    "_mesh/kubespan",
    "_linux",
    "_loadbalancers",
    "_flows/node",
    "_flows/speakers",
)
#: Files side by side that a reader still takes in.
MOST_FILES = 30
#: Libraries of pure rooms, only inside functions.
PURE_LAZY_LIBRARIES = ("yaml", "netaddr", "cryptography", "google")
#: What does input and output. Pure rooms and flows have none of it.
IO_MODULES = frozenset(
    [
        "socket",
        "subprocess",
        "urllib",
        "http",
        "ssl",
        "select",
        "selectors",
        "asyncio",
        "fcntl",
        "shutil",
        "tempfile",
        "glob",
        "pathlib",
        "socketserver",
        "ftplib",
        "smtplib",
        "telnetlib",
        "multiprocessing",
        "requests",
        "kubernetes",
        "pyroute2",
        "paramiko",
        "dns",
    ]
)
#: Further modules that a pure function has no use for: clocks, chance, the environment.
IMPURE_MODULES = IO_MODULES | {"os", "time", "random", "secrets", "threading", "signal", "pickle", "sys"}


class Import(t.NamedTuple):
    """One import: ``target`` as a path of names from module_utils on (relative) or from the top (absolute)."""

    relative: bool
    target: str
    line: int
    lazy: bool


def files(*rooms: str) -> list[pathlib.Path]:
    return sorted(path for room in rooms for path in (UTILS / room).rglob("*.py"))


def imports_of(path: pathlib.Path) -> list[Import]:
    tree = ast.parse(path.read_text("utf-8"))
    lazy = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for inner in ast.walk(node)
    }
    checking = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    found = []
    package = path.relative_to(UTILS).parts[:-1]
    for node in ast.walk(tree):
        is_lazy = id(node) in lazy or id(node) in checking
        if isinstance(node, ast.Import):
            found.extend(Import(False, name.name, node.lineno, is_lazy) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            assert node.level <= len(package) + 1, f"{path}:{node.lineno} leaves module_utils"
            base = list(package[: len(package) - node.level + 1])
            for name in node.names:
                parts = base + (node.module.split(".") if node.module else [name.name])
                found.append(Import(True, ".".join(parts), node.lineno, is_lazy))
        elif isinstance(node, ast.ImportFrom):
            found.append(Import(False, node.module or "", node.lineno, is_lazy))
    return found


def top(item: Import) -> str:
    return item.target.split(".")[0]


def show(path: pathlib.Path, item: Import) -> str:
    return f"{path.relative_to(UTILS)}:{item.line} imports {item.target}"


def is_standard(name: str) -> bool:
    names = getattr(sys, "stdlib_module_names", None)
    return name == "__future__" or (name in names if names is not None else name not in ("ansible", "yaml"))


def room_of(name: str) -> str:
    """The room of a path below module_utils, as text with slashes."""
    parts = name.split("/")
    for length in range(len(parts), 0, -1):
        if "/".join(parts[:length]) in ROOMS:
            return "/".join(parts[:length])
    return parts[0]


@pytest.mark.parametrize("path", files(*PURE, *EDGES, "_flows"), ids=lambda path: str(path.relative_to(UTILS)))
def test_a_room_imports_only_what_is_below_it(path: pathlib.Path) -> None:
    own = room_of(str(path.relative_to(UTILS).parent))
    assert own in ROOMS, "a new room: this test has to list what it may import"
    wrong = []
    for item in imports_of(path):
        if (
            item.relative
            and room_of(item.target.replace(".", "/")) not in (own, *ROOMS[own])
            or not item.relative
            and top(item) == "ansible_collections"
        ):
            wrong.append(show(path, item))
    assert not wrong


def test_rooms_have_no_circles() -> None:
    done: set[str] = set()
    todo = dict(ROOMS)
    while todo:
        ready = [
            room for room, below in todo.items() if all(other in done or other.startswith("_module") for other in below)
        ]
        assert ready, f"these rooms are above each other: {', '.join(sorted(todo))}"
        done.update(ready)
        todo = {room: below for room, below in todo.items() if room not in done}


@pytest.mark.parametrize(
    "folder",
    sorted({path.parent for path in files(*PURE, *EDGES, "_flows")}),
    ids=lambda folder: str(folder.relative_to(UTILS)),
)
def test_a_folder_can_be_read_at_a_glance(folder: pathlib.Path) -> None:
    assert len(list(folder.glob("*.py"))) <= MOST_FILES


@pytest.mark.parametrize("path", files(*PURE), ids=lambda path: str(path.relative_to(UTILS)))
def test_pure_rooms_know_no_library_of_io(path: pathlib.Path) -> None:
    wrong = []
    for item in imports_of(path):
        if item.relative:
            continue
        allowed = (
            top(item) not in IMPURE_MODULES
            if is_standard(top(item))
            else item.lazy and top(item) in PURE_LAZY_LIBRARIES
        )
        if not allowed:
            wrong.append(show(path, item))
    assert not wrong


@pytest.mark.parametrize("path", files("_flows"), ids=lambda path: str(path.relative_to(UTILS)))
def test_flows_do_no_io_of_their_own(path: pathlib.Path) -> None:
    assert not [show(path, item) for item in imports_of(path) if not item.relative and top(item) in IO_MODULES]
    calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    opens = [node.lineno for node in calls if isinstance(node.func, ast.Name) and node.func.id in ("open", "input")]
    assert not opens, f"open() at line {opens}"


@pytest.mark.parametrize("path", files(*PURE), ids=lambda path: str(path.relative_to(UTILS)))
def test_pure_rooms_open_nothing(path: pathlib.Path) -> None:
    calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    names = ("open", "input", "print", "exec", "eval", "__import__")
    assert not [node.lineno for node in calls if isinstance(node.func, ast.Name) and node.func.id in names]


@pytest.mark.parametrize("path", files(*ON_NODES), ids=lambda path: str(path.relative_to(UTILS)))
def test_rooms_on_nodes_need_no_ansible(path: pathlib.Path) -> None:
    assert not [show(path, item) for item in imports_of(path) if not item.relative and top(item).startswith("ansible")]


@pytest.mark.parametrize("path", files(*PURE, *EDGES, "_flows"), ids=lambda path: str(path.relative_to(UTILS)))
def test_every_file_has_its_head(path: pathlib.Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    assert lines[0].startswith("# Copyright") and lines[1] == "# SPDX-License-Identifier: GPL-3.0-or-later"
    assert lines[2].startswith('"""')
    assert "from __future__ import annotations" in lines
