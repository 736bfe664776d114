# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Three clusters with the same ranges of both families; one leaves and comes back. The tests build on each other, in their order."""

from __future__ import annotations

TOPOLOGY = "overlap_three"


def test_every_pod_reaches_every_other_one_by_both_families(fabric):
    assert "all green" in fabric.play("site").ok().out
    rows = fabric.all_reach()
    assert {(":" in row["address"]) for row in rows if row["cross"]} == {True, False}
    assert len([row for row in rows if row["cross"]]) == 6 * 4 * 2, "both pods of each, by both families"
    assert not fabric.play("mesh").ok().changed


def test_a_cluster_leaves_and_comes_back(fabric):
    fabric.play("leave", variables={"cluster": "ap"}).ok()
    for node in ("eu-node-1", "us-node-1"):
        assert "10.203." not in fabric.sh(node, "ip", "route") + fabric.sh(node, "nft", "list", "ruleset")
        assert "10.244.1" in fabric.sh(node, "ip", "route"), "the cluster's own pods are nobody's matter"
    assert "multicluster-network" not in fabric.sh("ap-node-1", "nft", "list", "ruleset")
    reach = [row for row in fabric.reaches() if row["cross"] and "ap-" not in row["source"] + row["target"]]
    assert reach and all(row["ok"] for row in reach)
    fabric.play("site").ok()
    fabric.all_reach()
