# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on nodes without Ansible: the archive holds all that its code imports, nothing else, and runs by itself."""

from __future__ import annotations

import ast
import os
import pathlib
import subprocess
import sys
import typing as t
import zipfile

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import persistence
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import bundle

ROOT = pathlib.Path(persistence.__file__).resolve().parents[2]
#: The folders with code that may run where there is no Ansible.
FOLDERS = ("_values/", "_plan/", "_dataplane/", "_linux/", "_mesh/kubespan/", "_flows/node/")
IMPORT_ALL = """
import importlib, sys, zipfile
sys.path.insert(0, sys.argv[1])
for name in zipfile.ZipFile(sys.argv[1]).namelist():
    if name != "__main__.py":
        importlib.import_module(name[:-len(".py")].replace("/", ".").replace(".__init__", ""))
print(sum(name.startswith("multicluster_network.") for name in sys.modules))
"""


@pytest.fixture(name="archive")
def archive_fixture(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "dataplane.pyz"
    path.write_bytes(bundle.build(persistence.AGENT))
    return path


def members(archive: pathlib.Path) -> set[str]:
    """The collection's files in it, as paths below module_utils; those that only make folders importable are left out."""
    names = (name.partition("/")[2] for name in zipfile.ZipFile(archive).namelist())
    return {name for name in names if name and not name.endswith("__init__.py")}


def imports_of(name: str) -> t.Iterator[str]:
    """Files below module_utils that one file imports; every import of the collection must be relative."""
    package = name.split("/")[:-1]
    for node in ast.walk(ast.parse((ROOT / name).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("ansible") for alias in node.names), name
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level == 0:
            assert not (node.module or "").startswith("ansible"), name
            continue
        base = package[: len(package) - (node.level - 1)] + (node.module.split(".") if node.module else [])
        for alias in node.names:
            for candidate in ("/".join(base + [alias.name]) + ".py", "/".join(base) + ".py"):
                if (ROOT / candidate).exists():
                    yield candidate
                    break


def closure(start: str) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(imports_of(name))
    return seen


def run(*words: str, cwd: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """Without the environment, the user's packages, the site's packages and anything alongside the script."""
    return subprocess.run(
        [sys.executable, "-I", "-S", *words], capture_output=True, text=True, check=False, cwd=str(cwd), env={}
    )


def test_the_archive_holds_exactly_what_its_entry_imports(archive: pathlib.Path) -> None:
    assert members(archive) == closure(persistence.AGENT.replace(".", "/") + ".py")


def test_the_archive_holds_only_what_runs_on_nodes(archive: pathlib.Path) -> None:
    assert [name for name in members(archive) if not name.startswith(FOLDERS)] == []


def test_everything_in_the_archive_can_be_imported_with_nothing_else(
    archive: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Also what is only imported once it is needed, which would otherwise show on a node that boots."""
    ran = run("-c", IMPORT_ALL, str(archive), cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > len(members(archive))


def test_the_archive_runs_without_ansible_and_the_collection(archive: pathlib.Path, tmp_path: pathlib.Path) -> None:
    ran = run(str(archive), cwd=tmp_path)
    assert ran.returncode == 2 and "usage" in ran.stderr


def test_the_archive_builds_itself_anew(archive: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The boot program and the watcher compare their own file with what a run installed; zipped sources are found like plain ones."""
    anew = (
        "import sys; sys.path.insert(0, sys.argv[1]); from multicluster_network._linux.host import bundle; "
        "sys.stdout.write(bundle.digest(sys.argv[2])); open(sys.argv[3], 'wb').write(bundle.build(sys.argv[2]))"
    )
    other = tmp_path / "other.pyz"
    ran = run("-c", anew, str(archive), persistence.AGENT, str(other), cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == bundle.digest(persistence.AGENT) and other.read_bytes() == archive.read_bytes()
    assert os.fspath(persistence.code_file("f")).endswith(f"dataplane-{ran.stdout}.pyz")


def test_imports_in_every_form_are_found() -> None:
    source = b"""
from . import one, two as second  # a reason
from .. import three
from .four import NAME
from .five.six import seven
from ..eight import (
    nine,  # another
    ten as other,
)
import os
def later():
    from .eleven import twelve
"""
    assert set(bundle._imports("a/b/c.py", source)) == {
        "a/b.py",
        "a/b/one.py",
        "a/b/two.py",
        "a.py",
        "a/three.py",
        "a/b/four.py",
        "a/b/four/NAME.py",
        "a/b/five/six.py",
        "a/b/five/six/seven.py",
        "a/eight.py",
        "a/eight/nine.py",
        "a/eight/ten.py",
        "a/b/eleven.py",
        "a/b/eleven/twelve.py",
    }
