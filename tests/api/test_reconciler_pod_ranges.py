# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Blocks of Calico that come, move and go, followed by the reconciler's process over real API servers: what nodes are to change, and no playbook."""

from __future__ import annotations

import contextlib
import json

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.control_loop import ControlLoop
from ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.metrics import Metrics
from ansible_collections.multicluster.network.plugins.module_utils._flows.runs import run_lock
from ansible_collections.multicluster.network.plugins.module_utils._io.structured_log import Log
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.lease import Lease
from test_ranges_of_nodes import (  # pylint: disable=unused-import
    CRD,
    NODES,
    POD_CIDRS,
    fabric,
    key_of,
    node,
    pod,
    put,
    recorded,
    servers,
)
from test_reconciler import quiet, until

__all__ = ["fabric", "servers"]
AFFINITIES, BLOCKS = (f"/apis/{CRD}/{plural}" for plural in ("blockaffinities", "ipamblocks"))
FIRST, SECOND = (key_of(name) for name in NODES["cal"])
START = {FIRST: ["192.168.185.64/26"], SECOND: ["192.168.194.128/26"]}


def request_for(servers, **variables):
    definition = {
        "clusters": {name: {"pod_cidrs": POD_CIDRS[name]} for name in servers},
        "nodes": {host: {"multicluster_cluster": name} for name, hosts in NODES.items() for host in hosts},
    }
    definition["clusters"]["cal"].update(variables)
    clusters = [one.access(name) for name, one in servers.items()]
    return {"fabric": "t", "mode": "semaphore", "definition": definition, "clusters": clusters, "timeout": 20}


@contextlib.contextmanager
def kept(servers, well=lambda: True, **variables):
    """The process; ``books``: the playbooks that it asks for, ``orders``: what nodes were to change, one row for each call."""
    lines, books, orders = [], [], []

    def set_ranges(given):
        orders.append(json.loads(json.dumps(given)))
        return well()

    control_loop = ControlLoop(
        {"pod_ranges": request_for(servers, **variables)},
        Log(lines.append),
        Metrics(),
        playbook=books.append,
        set_ranges=set_ranges,
    )
    control_loop.lines, control_loop.books, control_loop.orders = lines, books, orders
    control_loop.start()
    try:
        try:
            until(lambda: control_loop.settled)
        except AssertionError:
            raise AssertionError("\n".join(lines)) from None
        quiet(control_loop)
        yield control_loop
    finally:
        control_loop.stop()


def peers(order):
    """The peers of an order for the nodes of aws, which has no other."""
    assert list(order) == ["aws"] and list(order["aws"]) == ["wireguard.cal"]
    return order["aws"]["wireguard.cal"]["peers"]


def affinity(host, cidr, **more):
    name = f"{host}-{cidr.replace('.', '-').replace('/', '-')}"
    spec = {"node": host, "cidr": cidr, "state": "confirmed", "deleted": "false"}
    return {"apiVersion": CRD, "kind": "BlockAffinity", "metadata": {"name": name}, "spec": dict(spec, **more)}


def block(host, cidr):
    name = cidr.replace(".", "-").replace("/", "-")
    spec = {"cidr": cidr, "affinity": f"host:{host}", "allocations": [None] * 64, "attributes": [], "unallocated": []}
    return {"apiVersion": CRD, "kind": "IPAMBlock", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def blocks(fabric):
    put(fabric["cal"].client(), recorded("ipam-0-tunnel-only", "BlockAffinity", "IPAMBlock"))
    return fabric["cal"].client()


def test_a_further_block_is_one_change_of_its_peer_and_no_playbook(fabric, blocks):
    with kept(fabric) as control_loop:
        assert control_loop.handles("cal", "BlockAffinity") and control_loop.handles("cal", "IPAMBlock")
        assert not control_loop.handles("cal", "CiliumNode") and not control_loop.handles("aws", "BlockAffinity")
        assert not control_loop.handles("cal", "Node") and not control_loop.handles("gone", "BlockAffinity")
        mark = fabric["cal"].mark()
        blocks.create(BLOCKS, block("cal-node-1", "192.168.185.128/26"), "calico")
        blocks.create(AFFINITIES, affinity("cal-node-1", "192.168.185.128/26"), "calico")
        until(lambda: control_loop.orders)
        assert peers(control_loop.orders[0]) == {FIRST: ["192.168.185.64/26", "192.168.185.128/26"]}
        asked = [row for row in fabric["cal"].writes(mark) if row[0] not in ("watch", "create")]
        assert not asked, "no request but the test's own"

        # pods in the block are no news
        path = f"{BLOCKS}/192-168-185-128-26"
        spec = blocks.get(path)["spec"]
        spec["attributes"] = [
            {"handle_id": "k8s-pod-network.x", "secondary": {"node": "cal-node-1", "pod": "x", "namespace": "d"}}
        ]
        spec["allocations"][0] = 0
        blocks.merge_patch(path, {"spec": spec}, "calico")
        # one that another node borrows is
        spec["attributes"].append(
            {"handle_id": "k8s-pod-network.y", "secondary": {"node": "cal-node-2", "pod": "y", "namespace": "d"}}
        )
        spec["allocations"][1] = 1
        blocks.merge_patch(path, {"spec": spec}, "calico")
        until(lambda: len(control_loop.orders) == 2)
        assert peers(control_loop.orders[1]) == {SECOND: [*START[SECOND], "192.168.185.129/32"]}
        assert control_loop.orders[1]["aws"]["wireguard.cal"]["borrowed"] == ["192.168.185.129/32"]

        blocks.delete(f"{AFFINITIES}/{affinity('cal-node-1', '192.168.185.128/26')['metadata']['name']}")
        blocks.delete(path)
        until(lambda: len(control_loop.orders) == 3)
        assert peers(control_loop.orders[2]) == START
        quiet(control_loop)
        assert control_loop.books == [] and len(control_loop.orders) == 3
        assert not any("event=failed" in line for line in control_loop.lines), control_loop.lines
        assert sum("part=pod_ranges event=set" in line for line in control_loop.lines) == 3, control_loop.lines


def test_a_block_that_moves_is_one_order_with_both_peers(fabric, blocks):
    """The steps of pod_ranges 6.3, as fast as a client writes them."""
    cidr = "192.168.185.128/26"
    blocks.create(BLOCKS, block("cal-node-1", cidr), "calico")
    blocks.create(AFFINITIES, affinity("cal-node-1", cidr), "calico")
    with kept(fabric) as control_loop:
        old, new = affinity("cal-node-1", cidr), affinity("cal-node-2", cidr, state="pending")
        where = f"{AFFINITIES}/{old['metadata']['name']}"
        blocks.merge_patch(where, {"spec": {"state": "pendingDeletion"}}, "calico")
        blocks.delete(f"{BLOCKS}/{block('', cidr)['metadata']['name']}")
        blocks.merge_patch(where, {"spec": {"deleted": "true"}}, "calico")
        blocks.delete(where)
        blocks.create(AFFINITIES, new, "calico")
        blocks.create(BLOCKS, block("cal-node-2", cidr), "calico")
        blocks.merge_patch(f"{AFFINITIES}/{new['metadata']['name']}", {"spec": {"state": "confirmed"}}, "calico")
        until(lambda: control_loop.orders)
        quiet(control_loop)
        assert [peers(order) for order in control_loop.orders] == [{**START, SECOND: [cidr, *START[SECOND]]}]
        assert control_loop.books == []


def test_claims_are_checked_and_what_is_more_than_ranges_is_a_playbook(fabric, blocks):
    with kept(fabric) as control_loop:
        # outside of the grant, and inside another node's: refused by name, and the rest goes on
        blocks.create(AFFINITIES, affinity("cal-node-1", "10.99.0.0/26"), "calico")
        blocks.create(AFFINITIES, affinity("cal-node-1", "192.168.194.128/25"), "calico")
        until(lambda: sum("event=refused" in line for line in control_loop.lines) == 2)
        quiet(control_loop)
        assert control_loop.orders == [] and control_loop.books == []
        refused = " ".join(line for line in control_loop.lines if "event=refused" in line)
        assert "reason=outside_grant" in refused and "reason=claimed_twice" in refused, refused

        # a node without any range that holds is no peer any more
        for item in blocks.list(AFFINITIES).items:
            if item["spec"]["node"] == "cal-node-1" and item["spec"]["cidr"] == START[FIRST][0]:
                blocks.delete(f"{AFFINITIES}/{item['metadata']['name']}")
        until(lambda: control_loop.books)
        quiet(control_loop)
        assert control_loop.books == ["mesh"] and control_loop.orders == []

        # a Node that comes is the matter of the playbook that follows Nodes
        blocks.create("/api/v1/nodes", node("cal-node-3", 3, "aws", ["10.244.3.0/24"]), "kubelet")
        blocks.merge_patch("/api/v1/nodes/cal-node-3", {"metadata": {"labels": {"a": "b"}}}, "kubelet")
        quiet(control_loop)
        assert control_loop.books == ["mesh"] and control_loop.orders == []


def test_nodes_that_could_not_be_changed_get_a_playbook(fabric, blocks):
    with kept(fabric, well=lambda: False) as control_loop:
        blocks.create(AFFINITIES, affinity("cal-node-1", "192.168.185.128/26"), "calico")
        until(lambda: control_loop.books)
        assert control_loop.books == ["mesh"] and len(control_loop.orders) == 1
        assert any('part=pod_ranges event="not set"' in line for line in control_loop.lines), control_loop.lines


def test_a_run_of_the_mesh_is_waited_for(fabric, blocks):
    """It may have read what was before the change, and would put that back."""
    with kept(fabric) as control_loop:
        leases = []
        for one in fabric.values():
            lease = Lease(one.client(), "kube-system", run_lock.lease_name("t"), "tests", 30.0)
            lease.holder = "ops@host mesh.yml x"
            lease.acquire(0.0)
            leases.append(lease)
        until(lambda: not control_loop._readable())
        blocks.create(AFFINITIES, affinity("cal-node-1", "192.168.185.128/26"), "calico")
        until(lambda: any(worker.look()["oldest"] > 1.0 for worker in control_loop.workers))
        assert control_loop.orders == []
        for lease in leases:
            lease.release()
        until(lambda: control_loop.orders)
        assert peers(control_loop.orders[0]) == {FIRST: [*START[FIRST], "192.168.185.128/26"]}


def test_a_network_plugin_that_comes_later(fabric):
    """The source of ranges changes with it, which is the playbook's matter; from then on blocks are followed."""
    client = fabric["cal"].client()
    with kept(fabric) as control_loop:
        assert not control_loop.handles("cal", "BlockAffinity")
        put(client, recorded("ipam-0-tunnel-only", "BlockAffinity", "IPAMBlock"))
        control_loop._forget()  # as after each run
        until(lambda: control_loop.handles("cal", "BlockAffinity"), 60.0)


def test_addresses_of_pods_are_followed_where_they_are_the_source(fabric):
    """Nodes without ranges, and no network plugin with objects: ``auto`` reads Pods, and each further address is one change of its peer."""
    client = fabric["cal"].client()
    path = "/api/v1/namespaces/default/pods"
    for number, host in enumerate(NODES["cal"], 1):
        client.delete("/api/v1/nodes/" + host)
        client.create("/api/v1/nodes", node(host, number, "aws", []), "kubelet")
        pod(client, f"p{number}", host, f"10.251.0.{16 * number}")
    try:
        with kept(fabric) as control_loop:
            mark = fabric["cal"].mark()
            pod(client, "p3", NODES["cal"][0], "10.251.0.40")
            until(lambda: control_loop.orders)
            assert peers(control_loop.orders[0]) == {FIRST: ["10.251.0.16/32", "10.251.0.40/32"]}
            # one that has finished has no address any more, and a label is no news
            client.merge_patch(f"{path}/p3", {"metadata": {"labels": {"a": "b"}}}, "tests")
            client.merge_patch(f"{path}/p3/status", {"status": {"phase": "Succeeded"}}, "kubelet")
            until(lambda: len(control_loop.orders) == 2)
            assert peers(control_loop.orders[1]) == {FIRST: ["10.251.0.16/32"]}
            quiet(control_loop)
            assert control_loop.books == [] and len(control_loop.orders) == 2
            assert not [row for row in fabric["cal"].audit(mark) if row[0] == "list"], "Pods come by their watch"
    finally:
        for item in client.list(path).items:
            client.delete(f"{path}/{item['metadata']['name']}?gracePeriodSeconds=0")
