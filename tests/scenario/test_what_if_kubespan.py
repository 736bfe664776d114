# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Another mode of the mesh and random changes of a KubeSpan mesh: real packets agree with what check mode shows of pairs and gaps, as in test_what_if_cases.

An eighth as many changes as there. The tests build on each other, in their order.
"""

from __future__ import annotations

import copy
import json
import math
import time

import pytest
from rotation_lab import FAST
from test_kubespan import MESH
from what_if_lab import AFTER, CASES, CLUSTERS, FIRST, REPEATED, RUNNING, Case, agrees, changing, longest

TOPOLOGY = "dual"
SPAN_KEY = "/var/lib/multicluster-network/default/kubespan.key"
OTHER_SECRET = "IB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgE="


class SpanCase(Case):
    """One random change of a KubeSpan mesh, which carries pairs of one cluster as well, and finds endpoints by itself."""

    kinds = ("key", "key", "port", "mtu", "narrow", "nothing")
    mode, within = MESH, True

    def key_of(self, node):
        return SPAN_KEY


@pytest.fixture(scope="module")
def cases(fabric):
    with changing(fabric) as made:
        yield made


def agrees_with_another_mode(cases, mesh, tmp_path):
    """Changes the mode of the mesh under packets. Either end may have begun a handshake before the other one was ready, and repeats it."""
    fabric, plan = cases.fabric, tmp_path / "plan.json"
    inventory = cases.inventory(cases.state)
    checking = time.monotonic()
    fabric.play("mesh", "--check", inventory=inventory, variables=dict(RUNNING, **mesh, mesh_plan_file=str(plan))).ok()
    checked = time.monotonic() - checking
    said = json.loads(plan.read_text())["reachability"]
    between = [row for row in said["stages"] if row["cause"] == "mode_new"]
    assert sum(row["pairs"] for row in between) == 4, (said["stages"], said["classes"])
    with cases.traffic() as counted:
        begin = time.monotonic()
        fabric.play("mesh", inventory=inventory, variables=dict(RUNNING, **mesh)).ok()
        end = time.monotonic()
        time.sleep(REPEATED + AFTER)
    for ends, rows in counted.gaps.items():
        about = (ends, [(round(one - begin, 2), round(two - begin, 2), count) for one, two, count in rows], end - begin)
        assert rows and rows[0][0] >= begin and rows[-1][1] <= end + REPEATED, about
        assert rows[-1][1] - rows[0][0] <= longest(said, "mode_new", checked, end - begin), (about, said["stages"])
    fabric.ran(f"{mesh.get('multicluster_mesh', 'semaphore')}: {counted}")


def test_packets_agree_with_what_was_said_of_a_change_to_kubespan(cases, tmp_path):
    cases.state.narrow = dict.fromkeys(CLUSTERS, 0)
    cases.fabric.play("mesh", inventory=cases.inventory(cases.state), variables=RUNNING).ok()
    agrees_with_another_mode(cases, MESH, tmp_path)


@pytest.mark.parametrize("number", range(FIRST, FIRST + math.ceil(CASES / 8)))
def test_packets_of_a_kubespan_mesh_agree_with_what_was_said(cases, number, tmp_path):
    agrees(cases, SpanCase(number, cases.state, cases.nodes, cases.addresses), tmp_path)


@pytest.mark.parametrize("to", CLUSTERS)
def test_packets_to_one_cluster_agree_where_its_port_moves(cases, to, tmp_path):
    """A node that receives nothing shows its new port by nothing but its keepalive."""
    case = SpanCase(FIRST, cases.state, cases.nodes, cases.addresses)
    case.after = copy.deepcopy(cases.state)
    case.after.port[to] = 1 - case.after.port[to]
    case.keys, case.what, case.to = [], [f"port of {to}"], to
    agrees(cases, case, tmp_path)


def test_another_secret_of_one_node_stops_a_run(cases):
    fabric, inventory = cases.fabric, cases.inventory(cases.state)
    other = dict(MESH, mesh_secret=OTHER_SECRET)
    with fabric.witness() as writes:
        run = fabric.play("mesh", "--limit", "aws-node-1", inventory=inventory, variables=dict(FAST, **other))
    assert run.rc != 0 and "[pairs_lost]" in run.out and "secret_changed/aws/gcp" in run.out, run.out[-4000:]
    assert not run.changed and not [line for line in writes if "/leases/" not in line], writes


def test_packets_agree_with_what_was_said_of_a_change_to_semaphore(cases, tmp_path):
    cases.state.narrow = dict.fromkeys(CLUSTERS, 0)
    cases.fabric.play("mesh", inventory=cases.inventory(cases.state), variables=dict(RUNNING, **MESH)).ok()
    agrees_with_another_mode(cases, {}, tmp_path)
