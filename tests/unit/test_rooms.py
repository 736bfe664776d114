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
PURE = ("_values", "_plan", "_mesh", "_services", "_policy", "_loadbalancers", "_tenants", "_status")
EDGES = ("_kubernetes", "_linux", "_io")
#: Rooms that also run on nodes, where there is no Ansible.
ON_NODES = ("_values", "_plan", "_mesh", "_linux")
#: Libraries of pure rooms; those of the second line only inside functions.
PURE_LIBRARIES = ("netaddr",)
PURE_LAZY_LIBRARIES = ("yaml", "netaddr")
#: What does input and output. Pure rooms and flows have none of it.
IO_MODULES = frozenset(
    "socket subprocess urllib http ssl select selectors asyncio fcntl shutil tempfile glob pathlib socketserver ftplib "
    "smtplib telnetlib multiprocessing requests kubernetes pyroute2 paramiko dns".split()
)
#: Further modules that a pure function has no use for: clocks, chance, the environment.
IMPURE_MODULES = IO_MODULES | {"os", "time", "random", "secrets", "threading", "signal", "pickle", "sys"}


class Import(t.NamedTuple):
    """One import: ``target`` as a path of names from module_utils on (relative) or from the top (absolute)."""

    relative: bool
    target: str
    line: int
    lazy: bool


def files(*rooms: str) -> t.List[pathlib.Path]:
    return sorted(path for room in rooms for path in (UTILS / room).rglob("*.py"))


def imports_of(path: pathlib.Path) -> t.List[Import]:
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
            assert node.level <= len(package) + 1, "{0}:{1} leaves module_utils".format(path, node.lineno)
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
    return "{0}:{1} imports {2}".format(path.relative_to(UTILS), item.line, item.target)


def is_standard(name: str) -> bool:
    names = getattr(sys, "stdlib_module_names", None)
    return name == "__future__" or (name in names if names is not None else name not in ("ansible", "netaddr", "yaml"))


@pytest.mark.parametrize("path", files(*PURE), ids=lambda path: str(path.relative_to(UTILS)))
def test_pure_rooms(path: pathlib.Path) -> None:
    own = path.relative_to(UTILS).parts[0]
    wrong = []
    for item in imports_of(path):
        if item.relative:
            allowed = top(item) in ("_values", "_plan", own)
        elif is_standard(top(item)):
            allowed = top(item) not in IMPURE_MODULES
        else:
            allowed = top(item) in PURE_LIBRARIES or (item.lazy and top(item) in PURE_LAZY_LIBRARIES)
        if not allowed:
            wrong.append(show(path, item))
    assert not wrong


@pytest.mark.parametrize("path", files("_values"), ids=lambda path: str(path.relative_to(UTILS)))
def test_values_know_nobody(path: pathlib.Path) -> None:
    assert not [show(path, item) for item in imports_of(path) if item.relative and top(item) != "_values"]


@pytest.mark.parametrize("path", files(*EDGES), ids=lambda path: str(path.relative_to(UTILS)))
def test_edges_know_no_domain(path: pathlib.Path) -> None:
    own = path.relative_to(UTILS).parts[0]
    allowed = {"_values", "_plan", own}
    if own not in ON_NODES:
        allowed.add("_module")  # how a module ends knows no domain either
    wrong = []
    for item in imports_of(path):
        if not item.relative:
            if top(item) == "ansible_collections":
                wrong.append(show(path, item))
        elif top(item) not in allowed and not (own == "_linux" and item.target.startswith("_mesh.")):
            wrong.append(show(path, item))
    assert not wrong


@pytest.mark.parametrize("path", files("_linux"), ids=lambda path: str(path.relative_to(UTILS)))
def test_linux_takes_only_pure_rules_of_the_mesh(path: pathlib.Path) -> None:
    """_linux may use constants and pure rules of _mesh, never what knows the fabric."""
    fabric = ("fabric", "claims", "semaphore", "calico", "node_listing")
    names = [item for item in imports_of(path) if item.relative and item.target.startswith("_mesh.")]
    assert not [show(path, item) for item in names if item.target.split(".")[1].startswith(fabric)]


@pytest.mark.parametrize("path", files("_flows"), ids=lambda path: str(path.relative_to(UTILS)))
def test_flows_do_no_io_of_their_own(path: pathlib.Path) -> None:
    assert not [show(path, item) for item in imports_of(path) if not item.relative and top(item) in IO_MODULES]
    calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    opens = [node.lineno for node in calls if isinstance(node.func, ast.Name) and node.func.id in ("open", "input")]
    assert not opens, "open() at line {0}".format(opens)


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
    assert lines[0].startswith("# Copyright") and "GNU General Public License v3.0+" in lines[1]
    assert lines[2] == "# SPDX-License-Identifier: GPL-3.0-or-later"
    assert "from __future__ import annotations" in lines
