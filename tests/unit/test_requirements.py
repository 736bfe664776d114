# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What users are asked to install is what the collection imports, and the other way round."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import pathlib
import re
import sys
import typing as t

import pytest
import yaml
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers import pools
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.setup import parse_setups
from ansible_collections.multicluster.network.plugins.plugin_utils.load_balancer_settings import load_balancer_settings

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: Rooms that run on nodes; what is imported there is needed there.
ON_NODES = [
    ROOT / "plugins" / "module_utils" / room
    for room in ("_values", "_plan", "_dataplane", "_linux", "_mesh/kubespan", "_flows/node")
]
OWN = ("ansible", "ansible_collections", "ansible_runner")


def is_standard(module: str) -> bool:
    """Whether it comes with Python: nobody installed it."""
    spec = importlib.util.find_spec(module)
    return module == "__future__" or (
        spec is not None and not re.search("(site|dist)-packages", spec.origin or "site-packages")
    )


def imported() -> dict[str, set[pathlib.Path]]:
    """Module -> files: what is neither Python's own, nor Ansible's, nor of this collection."""
    found: dict[str, set[pathlib.Path]] = {}
    for top in ("plugins", "extensions", "roles"):
        for path in (ROOT / top).rglob("*.py"):
            for name in names_in(path):
                module = name.split(".")[0]
                if not is_standard(module) and module not in OWN:
                    found.setdefault(module, set()).add(path)
    return found


def names_in(path: pathlib.Path) -> t.Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module)


def distribution(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement.strip(), maxsplit=1)[0]


def modules_of(name: str) -> set[str]:
    """What one may import once this is installed."""
    files = importlib.metadata.files(name) or ()
    return {
        path.parts[0].split(".")[0]
        for path in files
        if path.suffix in (".py", ".so") and not path.parts[0].startswith(("..", "__"))
    }


def declared() -> list[str]:
    lines = (ROOT / "meta" / "ee-requirements.txt").read_text("utf-8").splitlines()
    return [distribution(line) for line in lines if line.strip() and not line.startswith("#")]


def test_what_the_controller_imports_is_declared() -> None:
    ansibles = [
        distribution(text) for text in importlib.metadata.requires("ansible-core") or () if "extra ==" not in text
    ]
    known = {module for name in declared() + ansibles for module in modules_of(name)}
    # what only nodes with a discovery service import is installed there
    assert set(imported()) - known == {"grpc", "google"}


def test_what_is_declared_is_imported() -> None:
    assert [name for name in declared() if not modules_of(name) & set(imported())] == []


def test_nodes_need_no_package() -> None:
    on_nodes = {
        module: [str(path) for path in paths if set(ON_NODES) & set(path.parents)]
        for module, paths in imported().items()
    }
    # a client of the discovery service alone needs packages, which it names where they are missing
    discovery = {"_linux/host/discovery_service.py", "_mesh/kubespan/sealing.py", "_values/protobuf.py"}
    others = {
        module: [path for path in paths if path.partition("module_utils/")[2] not in discovery]
        for module, paths in on_nodes.items()
    }
    assert {module: paths for module, paths in others.items() if paths} == {}
    assert "requirements" not in (ROOT / "plugins" / "doc_fragments" / "_node.py").read_text("utf-8")
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "nodes need nothing but Python 3.9" in " ".join(readme.split())


def carried_to_nodes() -> set[pathlib.Path]:
    """Every file of module_utils that a task of a node's module, the boot unit or the watcher may come to import, inside functions too."""
    utils = ROOT / "plugins" / "module_utils"
    modules = [
        path
        for path in (ROOT / "plugins" / "modules").glob("*.py")
        if "._flows.node" in (text := path.read_text("utf-8")) or "._flows.speakers" in text
    ]
    assert {"bgp_speaker", "node_dataplane", "node_info", "nft_table", "wireguard_device"} <= {
        path.stem for path in modules
    }
    todo, found = [*modules, *(path for room in ON_NODES for path in room.rglob("*.py"))], set()
    while todo:
        path = todo.pop()
        for place in relative(path, utils) - found:
            found.add(place)
            todo.append(place)
    return found


def relative(path: pathlib.Path, utils: pathlib.Path) -> set[pathlib.Path]:
    """The files of module_utils that one imports."""
    begin, targets = "ansible_collections.multicluster.network.plugins.module_utils", []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            parts = str(node.module or "").split(".") if node.module else []
            if node.level:
                base = path.parents[node.level - 1].joinpath(*parts)
            elif str(node.module).startswith(begin):
                base = utils.joinpath(*parts[len(begin.split(".")) :])
            else:
                continue
            targets += [base, *(base / alias.name for alias in node.names)]
    return {place for place in (target.with_name(target.name + ".py") for target in targets) if place.is_file()}


def test_netaddr_stays_on_the_controller() -> None:
    users = imported()["netaddr"]
    assert users == {ROOT / "plugins" / "module_utils" / "_loadbalancers" / "pools.py"}
    carried = carried_to_nodes()
    assert len(carried) > 80 and not users & carried
    # the walk does see what only one function imports
    assert ROOT / "plugins" / "module_utils" / "_flows" / "node" / "contests.py" in carried


def test_without_netaddr_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "netaddr", None)
    with pytest.raises(pools.LibraryMissing, match="Python library netaddr is missing where this task runs"):
        pools.parse_pool(["192.0.2.0/24"])
    with pytest.raises(ValueError, match="netaddr"):
        parse_setups([{"cluster": "a"}], {}, {})  # before any cluster is asked
    with pytest.raises(ValueError, match="netaddr"):
        load_balancer_settings({"a": {"load_balancers_settings": {"pool": ["192.0.2.0/29"]}}}, {"clusters": ["a"]})
    # who has no pool does without it
    assert load_balancer_settings({"a": {"pod_cidrs": ["10.2.0.0/16"]}}, {"clusters": ["a"]}) == []


def test_other_collections_are_declared_where_they_are_imported() -> None:
    used = {
        tuple(name.split(".")[1:3])
        for top in ("plugins", "extensions")
        for path in (ROOT / top).rglob("*.py")
        for name in names_in(path)
        if name.startswith("ansible_collections.")
    }
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text("utf-8"))
    own = (galaxy["namespace"], galaxy["name"])
    assert {".".join(pair) for pair in used - {own}} == set(galaxy.get("dependencies") or {})


def test_the_guide_lists_what_the_controller_needs() -> None:
    """``pip install`` of the first guide is what execution environments install, but for what few kubeconfigs need, which it names."""
    text = (ROOT / "docs" / "docsite" / "rst" / "guide_start.rst").read_text("utf-8")
    line = next(line for line in text.splitlines() if "pip install 'ansible-core" in line)
    said = {distribution(name.strip("'")) for name in line.split("pip install", 1)[1].split()} - {"ansible-core"}
    assert set(declared()) - said == {"kubernetes"} and said <= set(declared())
    assert (
        "A kubeconfig with ``exec`` or an ``auth-provider`` (EKS, GKE, AKS, OIDC) needs the package ``kubernetes`` (25), too"
        in " ".join(text.split())
    )
    users = {path.name for path in imported()["kubernetes"]}
    assert users == {"transport.py"}, "what obtains the credential of such a plugin"


def test_the_tarball_has_neither_tests_nor_what_needs_them() -> None:
    ignored = yaml.safe_load((ROOT / "galaxy.yml").read_text("utf-8"))["build_ignore"]
    assert {"tests", "extensions/molecule"} <= set(ignored)
    tops = [ROOT / top for top in ("plugins", "roles", "playbooks", "extensions", "meta")]
    lab = {
        path.relative_to(ROOT).parts[:2]
        for top in tops
        for path in top.rglob("*.yml")
        if "tests/lab" in path.read_text("utf-8", "replace")
    }
    assert lab == {("extensions", "molecule")}
    reach = {
        path
        for top in ("roles", "playbooks")
        for path in (ROOT / top).rglob("*.yml")
        if "../extensions" in path.read_text("utf-8", "replace")
    }
    assert reach == set(), "a collection works with meta, plugins, roles and playbooks alone"
