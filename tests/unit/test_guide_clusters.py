# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every sentence of the guide on real clusters that promises something of pod ranges has a test, named here."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MESH = "tests/unit/plugins/module_utils/_mesh/"
#: (sentence, the file and name of its test)
PROMISES = [
    (
        "a further block of Calico, range of Cilium, or address of a Pod where Pods are the source, becomes an allowed IP on all nodes of the other clusters",
        "tests/scenario/test_pod_ranges.py",
        "test_a_pod_in_a_further_block_is_reached_within_the_bound",
    ),
    (
        "Each range is a claim of its cluster: inside ``pod_cidrs``, and no part of another node's. What is not is refused by name, and the rest goes on.",
        MESH + "test_semaphore_topology.py",
        "test_one_range_is_refused_and_the_rest_of_the_node_goes_on",
    ),
    (
        "In a KubeSpan mesh each node announces these ranges itself, without single addresses in blocks of others.",
        MESH + "test_kubespan_plan.py",
        "test_nodes_announce_the_blocks_that_their_network_plugin_gave_them",
    ),
    (
        "A Kilo mesh takes ranges from Kilo, which knows ``spec.podCIDR`` alone: ``pod_ranges`` has no effect there.",
        MESH + "test_kilo_plan.py",
        "test_ranges_are_those_of_spec_pod_cidrs_whatever_else_a_node_has",
    ),
    (
        "Towards a cluster with other ranges it is refused with ``ranges_unannounced``, since it would drop their packets; other clusters are not concerned.",
        MESH + "test_semaphore_topology.py",
        "test_a_neighbour_that_runs_upstream_is_refused_where_it_knows_other_ranges",
    ),
    (
        "With ``auto``, an account without them keeps the ranges of ``spec.podCIDRs``, and the run warns.",
        "tests/api/test_ranges_of_nodes.py",
        "test_rights_of_the_mesh_are_enough_and_those_of_before_keep_working",
    ),
]


@pytest.mark.parametrize("sentence, path, name", PROMISES, ids=[row[2] for row in PROMISES])
def test_the_guide_has_it_and_a_test_proves_it(sentence, path, name):
    text = re.sub(r"\s+", " ", (ROOT / "docs" / "docsite" / "rst" / "guide_clusters.rst").read_text("utf-8"))
    assert sentence in text
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE)
