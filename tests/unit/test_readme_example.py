# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first inventory that anybody copies, as it is and with one more cluster."""

from __future__ import annotations

import pathlib
import re
import textwrap

import inventories
import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = {
    "README.md": r"```yaml\n(clusters:\n.*?)```",
    "docs/docsite/rst/guide_start.rst": r"code-block:: yaml\n\n( +clusters:\n.*?)\n\n",
}


def example(page: str) -> str:
    return textwrap.dedent(re.search(PAGES[page], (ROOT / page).read_text("utf-8"), re.DOTALL).group(1))


@pytest.mark.parametrize("page", sorted(PAGES))
def test_the_example_is_valid_as_it_is(page, tmp_path):
    inventories.write(tmp_path, {"inventory.yml": example(page)})
    errors, warnings, mesh = inventories.validate([tmp_path / "inventory.yml"])
    assert (errors, warnings) == ([], [])
    assert sorted(mesh["nodes"]) == ["aws-node-1", "aws-node-2", "gcp-node-1", "gcp-node-2"]


@pytest.mark.parametrize("page", sorted(PAGES))
def test_a_third_cluster_needs_its_own_lines_and_nothing_else(page, tmp_path):
    inventory = yaml.safe_load(example(page))
    inventory["clusters"]["hosts"]["ibm"] = {
        "kubeconfig": "~/.kube/ibm",
        "pod_cidrs": ["10.6.0.0/16"],
        "service_cidrs": ["10.7.0.0/16"],
        "node_cidrs": ["10.33.33.0/24"],
    }
    inventory["ibm_nodes"] = {"vars": {"multicluster_cluster": "ibm"}, "hosts": {"ibm-node-1": {}}}
    inventories.write(tmp_path, {"inventory.yml": yaml.safe_dump(inventory)})
    errors, warnings, mesh = inventories.validate([tmp_path / "inventory.yml"])
    assert (errors, warnings) == ([], [])
    for local, cluster in mesh["clusters"].items():
        ports = [settings["listen_port"] for settings in cluster["remotes"].values()]
        assert ports == sorted(set(ports)) and len(ports) == 2, local
