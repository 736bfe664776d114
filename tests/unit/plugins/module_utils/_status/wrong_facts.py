# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What takes one thing away from the facts of a good fabric, and the verdict and its reason that must follow."""

from __future__ import annotations

import pathlib
import sys

from ansible_collections.multicluster.network.plugins.module_utils._status.verdict import BROKEN, UNPROVEN

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import verified  # pylint: disable=wrong-import-position

CHANGE = {"action": "create", "kind": "Service", "id": "gcp/s/x", "fields": []}
REFUSAL = {"object": "gcp/gcp-2", "reason": "claimed_twice", "message": "its range is that of another"}
FAILURE = {"cluster": "gcp", "reason": "unreachable", "message": "connection refused", "operation": "list nodes"}


def probe(facts, host="aws-1"):
    return facts["found"][host]["probe"]


def no_pods(facts):
    for host in facts["found"]:
        probe(facts, host).update(pods=[], pings=[])


def one_node_without_pods(facts):
    probe(facts, "gcp-2").update(pods=[], pings=[], others=["192.168.7.5"])
    for host in ("aws-1", "aws-2"):
        probe(facts, host)["pings"] = [ping for ping in probe(facts, host)["pings"] if ping["node"] != "gcp-2"]


def no_peer_at_all(facts):
    for cluster in facts["mesh"]["clusters"].values():
        for part in cluster["remotes"].values():
            part["peers"] = []
    for host in facts["found"]:
        probe(facts, host).update(peers=[])


def every_node_refused(facts):
    no_peer_at_all(facts)
    facts["mesh"]["refused"] = [dict(REFUSAL, object=host) for host in verified.HOSTS]


def replace_pods(facts, *hosts):
    """No pod was found on the hosts: the bridge's address was pinged there, and from there, in place of one."""
    old = {verified.pod(host): verified.pod(host).replace(".10", ".1") for host in hosts}
    for host in hosts:
        probe(facts, host)["pods"] = [{"addresses": [old[verified.pod(host)]], "in_namespace": False}]
    for host in facts["found"]:
        for ping in probe(facts, host)["pings"]:
            ping.update({key: old.get(ping[key], ping[key]) for key in ("source", "target")})


def a_node_represents_its_pods(facts):
    replace_pods(facts, "gcp-2")


def nodes_represent_all_pods(facts):
    replace_pods(facts, *facts["found"])


def one_node_refused(facts):
    facts["mesh"]["refused"] = [REFUSAL]


def unreadable_cluster(facts):
    facts["mesh"]["failures"] = [FAILURE]


def limit(facts, unasked=verified.CAPABILITIES):
    """As --limit aws_nodes: of the nodes of gcp, and without a cluster's host of the capabilities, nothing was asked."""
    gone = [host for host in verified.HOSTS if host.startswith("gcp")]
    for host in gone:
        del facts["found"][host]
    facts.update(limit="aws_nodes", outside=gone, unasked=list(unasked), capabilities=[])
    facts["plans"] = {name: plan for name, plan in facts["plans"].items() if name not in unasked}


def unreachable_host(facts):
    facts["found"]["gcp-2"] = {}


def host_that_no_play_had(facts):
    del facts["found"]["gcp-2"]


def limit_that_leaves_nothing(facts):
    facts.update(
        mesh={}, found={}, limit="bastion", outside=list(facts["declared"]), unasked=facts["capabilities"], plans={}
    )


def limited_and_broken_inside(facts):
    limit(facts)
    facts["found"]["aws-1"]["drift"]["plan"]["changes"].append(
        {"action": "create", "kind": "route", "id": "10.4.0.0/16"}
    )


def limited_and_a_node_without_pods(facts):
    limit(facts)
    probe(facts, "aws-2").update(pods=[], pings=[])


def run_limited_to_clusters(facts):
    facts.update(mesh={}, found={})


def not_compared(facts):
    facts["found"]["aws-1"]["drift"] = {}


def drifted(facts):
    facts["found"]["aws-1"]["drift"]["plan"]["changes"] = [
        {"action": "create", "kind": "route", "id": "10.4.0.0/16", "fields": []}
    ]


def other_release(facts):
    folder = "/usr/local/lib/multicluster-network/demo/dataplane-"
    rows = [
        {"action": action, "kind": "file", "id": folder + name + ".pyz", "fields": []}
        for action, name in (("create", "aa"), ("delete", "bb"))
    ]
    facts["found"]["aws-1"]["drift"]["plan"]["changes"] = rows


def unowned_table(facts):
    facts["found"]["aws-1"]["drift"]["refused"] = [{"object": "table x", "reason": "not_ours", "message": "somebody's"}]


def ping_fails(facts):
    probe(facts)["pings"][0].update(ok=False, milliseconds=None)


def large_packets_are_lost(facts):
    probe(facts)["pings"][0].update(size=1296)


def never_shook_hands(facts):
    probe(facts)["peers"][0]["handshake_age"] = None


def stale(facts):
    probe(facts)["peers"][0]["handshake_age"] = 181


def peer_missing(facts):
    del probe(facts)["peers"][0]


def sent_elsewhere(facts):
    probe(facts)["paths"]["elsewhere"] = [
        {
            "range": "10.4.7.0/24",
            "device": "wireguard.gcp",
            "address": "10.4.7.129",
            "source": None,
            "text": "the kernel sends it by eth0; it is taken by route 10.4.7.128/25 dev eth0 table main",
        }
    ]


def kernel_not_asked(facts):
    probe(facts)["paths"] = None


def unreadable_rules(facts):
    probe(facts).update(paths=None, errors=[{"section": "paths", "message": "this needs root"}])


def pods_of_another_range(facts):
    probe(facts)["strays"] = ["10.2.99.5"]


def unit_failed(facts):
    probe(facts)["units"][0]["active"] = "failed"


def watcher_stopped(facts):
    probe(facts)["units"].append(
        {"name": "multicluster-network-default-watch.service", "active": "inactive", "enabled": "enabled"}
    )


def other_family(facts):
    for ping in list(probe(facts)["pings"]):
        probe(facts)["pings"].remove(ping)


def annotations_differ(facts):
    facts["plans"]["annotations"] = verified.result(plan={"changes": [CHANGE]})


def service_differs(facts):
    facts["plans"]["service_mirror"] = verified.result(plan={"changes": [CHANGE]})


def service_refused(facts):
    facts["plans"]["service_mirror"] = verified.result(refused=[REFUSAL])


def sets_unreadable(facts):
    facts["plans"]["network_sets"] = verified.result(failures=[FAILURE])


def names_failed(facts):
    facts["plans"]["coredns_rewrite"] = {"failed": True, "msg": "no ConfigMap coredns"}


def tenants_not_compared(facts):
    del facts["plans"]["tenants"]


def nobody_announces(facts):
    probe(facts)["bgp"] = None


def no_speaker(facts):
    row = {"service": "default/web", "address": "203.0.113.1", "reason": "no node of the cluster has a router to tell"}
    facts["plans"]["load_balancers"]["load_balancers"]["aws"].update(nodes=[], unannounced=[row])


def announced_to_nobody(facts):
    probe(facts)["bgp"]["sessions"] = [{"neighbor": "10.66.23.1", "state": "Active"}]


def nobody_holds(facts):
    row = {
        "announce": ["10.66.23.200/32"],
        "nodes": [],
        "segments": {"rack1": [{"name": "aws-1", "addresses": ["10.66.23.31"]}]},
        "routes": [{"network": "10.66.23.200/32", "group": 9}],
    }
    facts["plans"]["load_balancers"]["load_balancers"]["aws"] = row


def two_hold(facts):
    nobody_holds(facts)
    for host in ("aws-1", "aws-2"):
        facts["found"][host]["probe"]["layer2"] = {"interface": "eth0", "holds": ["10.66.23.200/32"], "withheld": []}


def pods_outside_of_the_inventory(facts):
    rows = [
        {"level": "error", "reason": "pods_outside_pod_cidrs", "message": "9 pods: outside"},
        {"level": "warning", "reason": "x", "message": "y"},
    ]
    facts["mesh"]["pod_places"] = {"gcp": rows}


def nothing_at_all(facts):
    facts.update(mesh={}, found={}, declared=[], capabilities=[], plans={})


CASES = {
    no_pods: (UNPROVEN, "start a pod"),
    one_node_without_pods: (UNPROVEN, "gcp-2: has no pod and no address in its pod ranges 10.4.8.0/24"),
    a_node_represents_its_pods: (
        UNPROVEN,
        "gcp-2: has no network namespace with an address of its pod ranges 10.4.8.0/24, so its own address 10.4.8.1",
    ),
    nodes_represent_all_pods: (
        UNPROVEN,
        "aws-1: pinged no pod of another cluster: what answered there are addresses of nodes",
    ),
    no_peer_at_all: (UNPROVEN, "no peer of cluster gcp is planned"),
    every_node_refused: (UNPROVEN, "[claimed_twice]"),
    one_node_refused: (UNPROVEN, "mesh: refused gcp/gcp-2"),
    unreadable_cluster: (BROKEN, "cluster gcp: connection refused [unreachable]"),
    unreachable_host: (BROKEN, "gcp-2: could not be verified"),
    host_that_no_play_had: (UNPROVEN, "1 node not looked at (gcp-2): no play of this run had them"),
    limit_that_leaves_nothing: (
        UNPROVEN,
        "nothing was looked at: --limit bastion leaves no node and no cluster to ask",
    ),
    limited_and_broken_inside: (BROKEN, "aws-1: route 10.4.0.0/16 is not as desired (create)"),
    limited_and_a_node_without_pods: (UNPROVEN, "aws-2: has no pod and no address in its pod ranges 10.2.4.0/24"),
    run_limited_to_clusters: (UNPROVEN, "the mesh was not planned"),
    not_compared: (UNPROVEN, "aws-1: was not compared with the plan"),
    drifted: (BROKEN, "aws-1: route 10.4.0.0/16 is not as desired (create)"),
    other_release: (
        BROKEN,
        "aws-1: what it runs at boot is of another release of this collection than this run; multicluster.network.mesh brings it",
    ),
    unowned_table: (BROKEN, "aws-1: table x: somebody's [not_ours]"),
    ping_fails: (BROKEN, "aws-1: pod 10.2.3.10 does not reach pod 10.4.7.10 of gcp-1"),
    large_packets_are_lost: (
        BROKEN,
        "aws-1: packets of more than 1,296 bytes do not reach pod 10.4.7.10 of gcp-1, though the tunnel takes 1,420: set "
        "wireguard_mtu: 1296 on the host of cluster gcp and run site",
    ),
    never_shook_hands: (
        BROKEN,
        "no handshake with gcp/gcp-1: UDP from 10.66.23.31 port 51821 to 10.22.22.27:51821 got no answer; check firewalls",
    ),
    stale: (BROKEN, "aws-1: last handshake with gcp/gcp-1 is 181 s old: UDP from 10.66.23.31"),
    peer_missing: (BROKEN, "aws-1: gcp/gcp-1 is no peer of wireguard.gcp"),
    sent_elsewhere: (
        BROKEN,
        "aws-1: packets for 10.4.7.0/24 (asked for 10.4.7.129) do not leave by wireguard.gcp: the kernel sends it by eth0; it is",
    ),
    kernel_not_asked: (UNPROVEN, "aws-1: its kernel was not asked"),
    unreadable_rules: (UNPROVEN, "aws-1: could not read paths: this needs root"),
    pods_of_another_range: (BROKEN, "1 pod with an address outside the ranges 10.2.3.0/24 of its Node (10.2.99.5)"),
    pods_outside_of_the_inventory: (BROKEN, "cluster gcp: 9 pods: outside [pods_outside_pod_cidrs]"),
    unit_failed: (BROKEN, "aws-1: unit multicluster-network-default.service is failed"),
    watcher_stopped: (BROKEN, "aws-1: unit multicluster-network-default-watch.service is inactive"),
    other_family: (UNPROVEN, "aws-1: no pod there has an address of the same IP version as those of gcp-1, gcp-2"),
    annotations_differ: (BROKEN, "annotations: Service gcp/s/x is not as desired"),
    service_differs: (BROKEN, "service_mirror: Service gcp/s/x is not as desired (create)"),
    service_refused: (UNPROVEN, "service_mirror: refused gcp/gcp-2"),
    sets_unreadable: (BROKEN, "network_sets: cluster gcp: connection refused [unreachable]"),
    names_failed: (BROKEN, "coredns_rewrite: no ConfigMap coredns"),
    tenants_not_compared: (UNPROVEN, "tenants: it is on, and was not compared"),
    nobody_announces: (
        UNPROVEN,
        "load_balancers: cluster aws: no speaker of aws-1 announces 203.0.113.1/32 to a neighbour that listens",
    ),
    announced_to_nobody: (UNPROVEN, "load_balancers: cluster aws: no speaker of aws-1 announces 203.0.113.1/32"),
    no_speaker: (
        UNPROVEN,
        "load_balancers: cluster aws: nobody announces 203.0.113.1 (default/web): no node of the cluster has a router to tell",
    ),
    nobody_holds: (UNPROVEN, "load_balancers: cluster aws: no node holds 10.66.23.200/32"),
    two_hold: (
        BROKEN,
        "load_balancers: cluster aws: aws-1 and aws-2 hold 10.66.23.200 at once: they do not hear each other",
    ),
    nothing_at_all: (UNPROVEN, "nothing was looked at"),
}
