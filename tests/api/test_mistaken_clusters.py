# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kubeconfigs that lead to another cluster, over two real API servers: the playbooks that look name them, and nothing is written anywhere.

The nodes do not answer: what is wrong with a cluster's access is found without them. The rules: tests/unit/plugins/module_utils/_mesh.
"""

from __future__ import annotations

import shutil

import pytest
import yaml
from mcs_clusters import other, pair  # pylint: disable=unused-import
from test_limit import play
from test_mcs_playbooks import fabric  # pylint: disable=unused-import

__all__ = ["fabric", "other", "pair"]
NODES = "/api/v1/nodes"
RANGES = {"aws": "10.2.3.0/24", "gcp": "10.4.7.0/24"}


@pytest.fixture(name="joined")
def join(pair, fabric):
    """The folder of an inventory with a node in each cluster, which the cluster knows."""
    tree = yaml.safe_load((fabric / "hosts.yml").read_text())
    tree["all"]["vars"].update(multicluster_capabilities=[])
    for number, (name, server) in enumerate(pair.servers.items()):
        node = {"metadata": {"name": name + "-1"}, "spec": {"podCIDR": RANGES[name], "podCIDRs": [RANGES[name]]}}
        server.client().create(NODES, dict(node, apiVersion="v1", kind="Node"), "kubelet")
        hosts = {
            name + "-1": {"multicluster_cluster": name, "ansible_host": f"127.0.0.{number + 2}", "ansible_port": 9}
        }
        tree["all"]["children"][name + "_nodes"] = {"hosts": hosts}
    (fabric / "hosts.yml").write_text(yaml.safe_dump(tree))
    yield fabric
    for name, server in pair.servers.items():
        server.client().delete(f"{NODES}/{name}-1")


def swapped(folder):
    """Each cluster has the other one's kubeconfig."""
    (folder / "aws").rename(folder / "kept")
    (folder / "gcp").rename(folder / "aws")
    (folder / "kept").rename(folder / "gcp")


def twice(folder):
    """Both have the same."""
    shutil.copy(folder / "aws", folder / "gcp")


@pytest.mark.parametrize("mistake", [swapped, pytest.param(twice, marks=pytest.mark.takes_long)])
def test_a_mistaken_kubeconfig_is_named_and_nothing_is_written(pair, joined, mistake):
    mistake(joined)
    desired = {
        swapped: ["lists Nodes of cluster gcp (gcp-1)", "lists Nodes of cluster aws (aws-1)"],
        twice: ["clusters aws and gcp list the same Nodes"],
    }[mistake]
    mark = pair.mark()
    for book, more in (("preflight", ()), ("site", ("--check",)), ("site", ())):
        code, out = play(joined, book, *more)
        shown = " ".join(out.split())
        assert code != 0, (book, out[-3000:])
        for words in desired:
            assert words in shown, (book, more, words, out[-6000:])
        assert "confirm_empty" not in shown and "write node_name" not in shown, (book, out[-5000:])
    assert pair.writes(mark) == {"aws": [], "gcp": []}
    assert play(joined, "validate")[0] == 0, "the inventory alone has no fault"
