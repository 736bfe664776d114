# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What documentation of modules must not say."""

from __future__ import annotations

import ast
import pathlib

import pytest
import yaml

MODULES = sorted((pathlib.Path(__file__).resolve().parents[2] / "plugins" / "modules").glob("[a-z]*.py"))
#: Ansible itself reads these in a result: with `skipped` a task shows as skipped, with `failed` it fails.
READ_BY_ANSIBLE = {
    "skipped",
    "failed",
    "unreachable",
    "results",
    "ansible_facts",
    "invocation",
    "exception",
    "finished",
    "started",
}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_no_return_value_means_something_to_ansible(path):
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "RETURN":
            assert not READ_BY_ANSIBLE & set(yaml.safe_load(node.value.value) or {})
