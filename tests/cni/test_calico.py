# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calico with its own IPAM and its default pool (vxlan across subnets, natOutgoing) in one cluster, flannel with its default manifest in the other.

No BGP daemon runs. The tests build on each other.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import time

import checks
import ranges
from cni_fabric import mirror
from harness import REPO
from installs import CALICO, FLANNEL, calico_network, install_calico, install_flannel

TOPOLOGY = "calico"
NEEDS = CALICO + FLANNEL
SMALL = "10.251.0.0/25"
LABEL = "policy.semaphore.uw.io"


def test_calico_chooses_its_pool_and_masquerades(fabric):
    install_calico(fabric, "calico")
    install_flannel(fabric, "flannel")
    fabric.deploy()
    (pool,) = fabric.objects("calico", "ippools." + ranges.CALICO)
    assert pool["spec"]["cidr"] == "192.168.0.0/16" and pool["spec"]["natOutgoing"] is True
    assert all(address.startswith("192.168.") for unused, address in fabric.pods("calico").values())
    for node in fabric.nodes_of("calico"):
        assert "cali-nat-outgoing" in fabric.sh(node, "iptables-save", "-t", "nat")


def test_our_table_alone_keeps_addresses_from_its_masquerade(fabric):
    """Without the pools that the mesh writes for other clusters where it may."""
    fabric.play("site", variables={"calico_ippools": "never"}).ok()
    pools = [item["metadata"]["name"] for item in fabric.objects("calico", "ippools." + ranges.CALICO)]
    assert pools == ["default-ipv4-ippool"] and fabric.all_kept() == 12
    fabric.play("site", variables={"calico_ippools": "never", "keep_pod_addresses": False})
    lost = [row for row in fabric.pairs() if row[0] == "calico" and fabric.cluster_of_address(row[3]) == "flannel"]
    assert len(lost) == 4 and not any(row[4] for row in lost), lost


def test_pods_of_both_clusters_reach_each_other_with_their_own_addresses(fabric):
    assert checks.joined(fabric) == 12
    run = fabric.play("preflight").ok()
    assert "pod ranges of calico: BlockAffinities and IPAMBlocks of Calico (pod_ranges: calico)" in run.out
    follows(fabric)


def test_mirrors_names_and_pods_on_the_hosts_network(fabric):
    checks.mirrors(fabric, "calico", "flannel")
    checks.mirrors(fabric, "flannel", "calico")
    checks.hosts(fabric, "calico", "flannel")


def test_imports_and_ports_of_other_nodes(fabric):
    checks.imports(fabric, "calico", "flannel")
    checks.node_ports(fabric, "calico", "flannel")
    checks.node_ports(fabric, "flannel", "calico")


def test_a_trace_finds_the_pods(fabric):
    """By the devices of the picture in guide_packets."""
    for document in checks.traced(fabric, "calico", "flannel"):
        shown = "\n".join(document["table"])
        for line in (
            r"forward +calico-\d +route .*10\.244\.0\.0/16 dev wireguard\.flan .*in by cali\w+, out by wireguard\.flan +ok",
            r"forward +flannel-\d +target .*10\.244\.\d\.0/24 dev cni0 .*in by wireguard\.cali, out by cni0 +ok",
            r"back +flannel-\d +route .*192\.168\.0\.0/16 dev wireguard\.cali .*in by cni0, out by wireguard\.cali +ok",
            r"back +calico-\d +target .*in by wireguard\.flan, out by cali\w+ +ok",
        ):
            assert re.search(line, shown), (line, shown)


def test_calico_starts_again_over_the_mesh(fabric):
    """Its start-up looks for the node's address among all devices, and felix for rules that are not its own."""

    def chosen():
        found = {
            item["metadata"]["name"]: item["metadata"]["annotations"] for item in fabric.objects("calico", "nodes")
        }
        return {node: notes["projectcalico.org/IPv4Address"] for node, notes in found.items()}

    before = chosen()
    for node in fabric.nodes_of("calico"):
        (program, *dummy), given = fabric.daemons[node, "node-services"]
        fabric.stop(node, "felix")
        fabric.in_runtime(node, program, "component", "node", "startup", **given)
        fabric.restart(node, "felix")
    assert chosen() == before
    assert fabric.all_kept(within=60) == 12
    assert "all green" in fabric.play("verify").ok().out
    assert not fabric.play("site").ok().changed


def test_a_policy_of_calico_admits_the_pods_of_our_set_alone(fabric):
    """The policy as the guide has it, enforced by felix on the pod's node."""
    fabric.apply("calico", on_node(mirror("guarded"), "calico-1"), guard("guarded", "asker", "flannel"))
    fabric.kubectl("calico", "rollout", "status", "deployment/guarded", "--timeout=300s")
    asker, other = (fabric.pods("flannel")[node] for node in fabric.nodes_of("flannel"))
    fabric.kubectl("flannel", "label", "pod", asker[0], f"{LABEL}/name=asker")
    fabric.play("network_sets").ok()
    ((unused, address),) = fabric.pods("calico", "guarded").values()
    own = fabric.pods("calico")["calico-2"]

    def answers():
        return [
            fabric.ask(*one, [address])[address]
            for one in (("flannel", asker[0]), ("flannel", other[0]), ("calico", own[0]))
        ]

    end = time.monotonic() + 60
    while answers() != [asker[1], "", ""]:
        assert time.monotonic() < end, answers()
    fabric.play("network_sets", variables={"network_sets_state": "absent"}).ok()
    end = time.monotonic() + 60
    while answers() != ["", "", ""]:
        assert time.monotonic() < end, answers()
    fabric.kubectl("calico", "delete", "deployment/guarded", "networkpolicies.crd.projectcalico.org/guarded")


def test_two_hundred_pods_on_one_node(fabric):
    """They need further blocks of the node, which become allowed IPs; a pod in the last of them is reached."""
    before = ranges.calico(fabric, "calico")
    take(fabric, "calico-1", "fill", 200)
    fabric.apply("calico", on_node(mirror("late"), "calico-1"))
    fabric.kubectl("calico", "rollout", "status", "deployment/late", "--timeout=300s")
    after = ranges.calico(fabric, "calico")
    assert len(after["calico-1"]) >= 4 and len(before["calico-1"]) == 1, (before, after)
    converged(fabric, "two hundred pods", before, after)
    reached(fabric, "late")


def test_a_borrowed_address(fabric):
    """A pod of the second node gets an address of a pool that the first node has taken: one allowed IP of its own in the block of another peer."""
    before = ranges.calico(fabric, "calico")
    fabric.apply("calico", pool("small", SMALL))
    take(fabric, "calico-1", "small", 66, SMALL)
    fabric.apply("calico", on_node(mirror("borrower"), "calico-2", pools=[SMALL]))
    fabric.kubectl("calico", "rollout", "status", "deployment/borrower", "--timeout=300s")
    after = ranges.calico(fabric, "calico")
    single = [one for one in after["calico-2"] if one.prefixlen == 32]
    assert len(single) == 1 and single[0].subnet_of(ipaddress.ip_network(SMALL)), after
    converged(fabric, "a borrowed address", before, after)
    reached(fabric, "borrower")


def test_a_block_moves_to_another_node(fabric):
    """The first node gives the addresses of a block back, and the plugin of the second takes it."""
    before = ranges.calico(fabric, "calico")
    fabric.kubectl("calico", "delete", "deployment", "borrower", "--wait=true")
    give(fabric, "calico-1", "small", 66)
    fabric.apply("calico", on_node(mirror("mover"), "calico-2", pools=[SMALL]))
    fabric.kubectl("calico", "rollout", "status", "deployment/mover", "--timeout=300s")
    after = ranges.calico(fabric, "calico")
    moved = [one for one in after["calico-2"] if one in before["calico-1"]]
    assert moved and not set(moved) & after["calico-1"], (before, after)
    converged(fabric, "a block moved", before, after)
    reached(fabric, "mover")


def test_a_node_that_leaves(fabric):
    """Its blocks stay confirmed in Calico's objects for a while; no peer has them."""
    before = ranges.calico(fabric, "calico")
    ranges.keys(fabric)  # while they can be asked for
    fabric.kubectl("calico", "delete", "deployment", "mover")
    fabric.lab("node-stop", "calico-2")
    fabric.kubectl("calico", "delete", "node", "calico-2")
    after = ranges.calico(fabric, "calico")
    assert set(after) == {"calico-1"}
    leftovers = [item["spec"]["node"] for item in fabric.objects("calico", "blockaffinities." + ranges.CALICO)]
    fabric.ran(f"affinities of the node that is gone: {leftovers.count('calico-2')}")
    converged(fabric, "a node left", before, after)
    take(fabric, "calico-1", "again", 70, SMALL)
    further = ranges.calico(fabric, "calico")
    converged(fabric, "its pool is used by others", after, further)


# --- what these need --------------------------------------------------------------------------------------------------


def follows(fabric):
    """The allowed IPs of the other cluster's nodes are what Calico's objects have."""
    names = ranges.keys(fabric)
    expected = ranges.owners(ranges.calico(fabric, "calico"))
    for node in fabric.nodes_of("flannel"):
        assert ranges.owners(ranges.now(fabric, node, names)) == expected, node
    return True


def converged(fabric, step, before, after, *arguments):
    """One run of the mesh leads from the ranges before to those after, and has no other at any time."""
    record(fabric, step, after)
    with ranges.watched(fabric, fabric.nodes_of("flannel")) as rows:
        fabric.play("mesh", *arguments).ok()
    assert ranges.calico(fabric, "calico") == after, "Calico's objects changed meanwhile"
    bad, count = ranges.wrong(rows, before, after)
    fabric.ran(f"{step}: allowed IPs seen {count} times, wrong {bad} times")
    assert not bad
    expected, last = ranges.owners(after), dict(rows)
    assert [node for node, found in last.items() if ranges.owners(found) != expected] == []


STEPS = []


def record(fabric, step, expected):
    """With RECORD: keep what Calico wrote until this step for the tests that run without it."""
    nodes = sorted(item["metadata"]["name"] for item in fabric.objects("calico", "nodes"))
    items = [ranges.trimmed(item) for kind in ranges.KINDS for item in fabric.objects("calico", kind)]
    found = {node: sorted(map(str, networks)) for node, networks in sorted(expected.items())}
    STEPS.append({"step": step, "nodes": nodes, "items": items, "ranges": found})
    if os.environ.get("RECORD"):
        text = ",\n".join(json.dumps(one, sort_keys=True, separators=(",", ":")) for one in STEPS)
        (REPO / "tests" / "fixtures" / "cni" / "calico-run.json").write_text(f"[{text}]\n", encoding="utf-8")


def reached(fabric, app):
    """The pods of an app reach those of all clusters and are reached."""
    for node, (pod, address) in fabric.pods("calico", app).items():
        for other, there in fabric.pods("flannel").values():
            assert fabric.ask("calico", pod, [there]) == {there: address}, (node, there)
            assert fabric.ask("flannel", other, [address]) == {address: there}, (node, there)


def guard(app, name, cluster):
    """Calico's policy: pods of an app take connections from a set of pods of another cluster, and from nobody else."""
    terms = {"name": name, "namespace": "default", "cluster": cluster}
    selector = " && ".join(f"{LABEL}/{key} == '{value}'" for key, value in terms.items())
    source = {"selector": selector, "namespaceSelector": "global()"}
    rule = {"action": "Allow", "protocol": "TCP", "source": source, "destination": {"ports": [8080]}}
    return {
        "apiVersion": ranges.CALICO + "/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": f"app == '{app}'", "types": ["Ingress"], "ingress": [rule]},
    }


def pool(name, cidr):
    spec = {"cidr": cidr, "blockSize": 26, "natOutgoing": True, "vxlanMode": "CrossSubnet", "nodeSelector": "!all()"}
    return {
        "apiVersion": ranges.CALICO + "/v1",
        "kind": "IPPool",
        "metadata": {"name": name},
        "spec": dict(spec, ipipMode="Never"),
    }


def on_node(workload, node, pools=None):
    """The workload as a Deployment of one pod on a node, with an address of the pools."""
    workload["kind"] = "Deployment"
    workload["spec"]["template"]["spec"]["nodeName"] = node
    if pools:
        notes = {"cni.projectcalico.org/ipv4pools": json.dumps(pools)}
        workload["spec"]["template"]["metadata"]["annotations"] = notes
    return workload


def ipam(fabric, node, command, name, count, pools=None):
    """The plugin's IPAM asked ``count`` times as a runtime does, for pods ``NAME-1`` and so on."""
    items = fabric.manifest("calico-vxlan.yaml")
    network = json.loads(calico_network(items, node, fabric.access(node)))
    config = dict(network["plugins"][0], name=network["name"], cniVersion=network["cniVersion"])
    if pools:
        config["ipam"]["ipv4_pools"] = [pools]
    path = fabric.write(node, "ipam.json", json.dumps(config))
    script = (
        f'for n in $(seq {count}); do CNI_CONTAINERID={name}-$n CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={name}-$n" '
        f"/mnt/cni-bin/calico-ipam <{path} || exit 1; done"
    )
    more = {"CNI_COMMAND": command, "CNI_NETNS": "/run/netns/none", "CNI_IFNAME": "eth0", "CNI_PATH": "/mnt/cni-bin"}
    fabric.in_runtime(node, "sh", "-c", script, **more)
    fabric.ran(f"{command} {count} times on {node}")


def take(fabric, node, name, count, pools=None):
    ipam(fabric, node, "ADD", name, count, pools)


def give(fabric, node, name, count):
    ipam(fabric, node, "DEL", name, count)
