# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on nodes without Ansible: the archive holds all that its code imports, and runs by itself."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

from ansible_collections.multicluster.network.plugins.module_utils._flows.node import persistence
from ansible_collections.multicluster.network.plugins.module_utils._linux.host import bundle

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(persistence.__file__))))


def imports_of(name):
    """Files below module_utils that one file imports; every import of ours must be relative."""
    with open(os.path.join(ROOT, name), encoding="utf-8") as source:
        tree = ast.parse(source.read())
    package = name.split("/")[:-1]
    for node in ast.walk(tree):
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
                if os.path.exists(os.path.join(ROOT, candidate)):
                    yield candidate
                    break


def closure(start):
    seen, todo = set(), [start]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(imports_of(name))
    return seen


def test_the_archive_holds_exactly_what_its_entry_imports():
    assert sorted(persistence.BOOT_FILES) == sorted(closure("_flows/node/boot.py"))


def test_the_archive_runs_without_ansible_and_the_collection(tmp_path):
    archive = tmp_path / "dataplane.pyz"
    archive.write_bytes(bundle.build(persistence.BOOT_FILES, "_flows.node.boot"))
    ran = subprocess.run([sys.executable, "-I", str(archive)], capture_output=True, text=True, check=False, cwd=str(tmp_path))
    assert ran.returncode == 2 and "usage" in ran.stderr


def test_the_same_sources_give_the_same_bytes():
    assert bundle.build(persistence.BOOT_FILES, "_flows.node.boot") == bundle.build(persistence.BOOT_FILES, "_flows.node.boot")
