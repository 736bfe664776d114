# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A peer's JSON form is read and written in one file, and every form that the guide names is there."""

from __future__ import annotations

import ast
import pathlib
import re
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
UTILS = ROOT / "plugins" / "module_utils"
#: The one file with the form, and what checks a rollback journal before anything of it is believed.
FORM = {"_dataplane/peer_spec.py", "_dataplane/journal.py"}
#: On nodes, what reads the KubeSpan mesh's own state file or shows peers to the controller.
MESH_STATE = {"_flows/node/kubespan.py", "_flows/node/kubespan_node.py", "_flows/node/kubespan_watch.py", "_flows/node/contests.py"}
SHOWN = {"_flows/node/paths.py", "_flows/node/probe.py", "_flows/node/status.py"}


def naming(key: str, *rooms: str) -> t.Set[str]:
    """Files with a string that is this key, other than in a docstring."""
    found = set()
    for room in rooms:
        for path in (UTILS / room).rglob("*.py"):
            texts = (node.value for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant))
            if any(text == key for text in texts):
                found.add(path.relative_to(UTILS).as_posix())
    return found


def test_one_file_has_the_json_form_of_a_peer() -> None:
    assert naming("persistent_keepalive", "") == FORM
    on_nodes = naming("allowed_ips", "_dataplane", "_linux", "_flows/node", "_mesh/semaphore", "_mesh/kubespan")
    assert on_nodes == FORM | MESH_STATE | SHOWN


def test_the_forms_that_the_guide_names_are_there() -> None:
    guide = (ROOT / "docs" / "docsite" / "rst" / "guide_design.rst").read_text("utf-8")
    section = guide.split("A peer on its way")[1].split("Trust\n-----")[0]
    named = re.findall(r"``(_[a-z_/]+\.py)``", section)
    assert len(named) >= 9 and not [name for name in named if not (UTILS / name).is_file()]
