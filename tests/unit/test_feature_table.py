# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our column of the table that compares load balancers: every yes names something that exists, every no has a reason."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers.arguments import settings_spec
from ansible_collections.multicluster.network.plugins.plugin_utils.known_variables import known_variables

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "docsite" / "rst" / "guide_load_balancers_moving.rst").read_text("utf-8")
METRICS = set(
    re.findall(
        r'"(multicluster_[a-z_]+)"',
        (ROOT / "plugins" / "module_utils" / "_status" / "prometheus.py").read_text("utf-8"),
    )
)
NAMES = known_variables().names | set(settings_spec()) | METRICS


def table():
    """The rows below the head, each with its five cells."""
    body = PAGE.split(".. list-table::")[1]
    rows = [re.split(r"\n     - ", part.strip("\n")) for part in body.split("\n   * - ")[1:]]
    assert [cell.strip() for cell in rows[0]] == ["What", "Here", "MetalLB", "kube-vip", "Cilium"]
    return [[cell.strip() for cell in row] for row in rows[1:]]


def evidence(cell):
    """What a yes names, and what of it there is not."""
    names = re.findall(r"``([^`]+)``", cell)
    return names, [name for name in names if name not in NAMES and not is_test(name)]


def is_test(name):
    path, dummy, function = name.partition("::")
    source = ROOT / path
    if not re.fullmatch(r"tests/[a-z]+/test_[a-z_0-9]+\.py", path) or not source.is_file():
        return False
    return not function or function in {
        node.name for node in ast.parse(source.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)
    }


def test_the_table_has_rows_of_five_cells():
    assert len(table()) >= 25 and {len(row) for row in table()} == {5} and all(all(row) for row in table())


@pytest.mark.parametrize("row", table(), ids=lambda row: row[0][:50])
def test_a_yes_names_what_proves_it_and_a_no_its_reason(row):
    here = row[1]
    if here.startswith("yes: "):
        names, missing = evidence(here)
        assert names and not missing
    else:
        assert here.startswith("no. ") and len(here) > 60, "a no needs a reason that an operator would accept"


def test_names_that_do_not_exist_are_seen():
    assert evidence("yes: ``no_such_variable``")[1] and evidence("yes: ``tests/api/test_none.py``")[1]
    assert (
        evidence("yes: ``tests/api/test_load_balancers.py::test_none``")[1]
        and not evidence("yes: ``bgp_speaker_med``")[1]
    )
