# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fault drills: one broken part does not stop the rest, the run reports what failed and fails, and the next plain run heals.

Each drill spoils something that only a run puts right (a peer and a route of each node, the names of each cluster) and then breaks one
part: what is healthy has to be right again although the run failed.
"""

from __future__ import annotations

import json
import re
import threading

import pytest
from harness import yaml
from service_lab import LABEL, client, until

PROXIES = True
MAPS = "/api/v1/namespaces/kube-system/configmaps"
COREFILE = ".:53 {\n    errors\n    kubernetes cluster.local in-addr.arpa ip6.arpa\n    forward . /etc/resolv.conf\n}\n"
NAMESPACE = "drills"
ON = {
    "multicluster_capabilities": ["service_mirror", "coredns_rewrite"],
    "service_mirror_namespace": NAMESPACE,
    "service_mirror_create_namespace": True,
}
CLUSTERS = ("aws", "gcp")
NODES = ("aws-node-1", "aws-node-2", "gcp-node-1", "gcp-node-2")


def other(cluster):
    return CLUSTERS[1 - CLUSTERS.index(cluster)]


def table(run):
    """cluster -> capability -> cell, from the table that a run shows at its end."""
    lines = [
        json.loads(line.strip().rstrip(","))
        for line in run.out.splitlines()
        if re.match(r'\s+"(CLUSTER|aws|gcp) .*",?$', line)
    ]
    start = max(number for number, line in enumerate(lines) if line.startswith("CLUSTER  ") and "NODE" not in line)
    header, *rows = [re.split(r"\s{2,}", line) for line in lines[start:]]
    return {row[0]: dict(zip((name.lower() for name in header[1:]), row[1:])) for row in rows}


def site(fabric, book="site", **variables):
    return fabric.play(book, variables=dict(ON, **variables))


def names(fabric, cluster):
    return client(fabric, cluster).get(MAPS + "/coredns")["data"]["Corefile"]


def spoil(fabric, clusters=CLUSTERS, nodes=NODES):
    """What the next run has to put right wherever it can."""
    for cluster in clusters:
        client(fabric, cluster).merge_patch(MAPS + "/coredns", {"data": {"Corefile": COREFILE}}, "drill")
    for node in nodes:
        device = "wireguard." + other(node.split("-", maxsplit=1)[0])
        fabric.sh(node, "wg", "set", device, "peer", sorted(fabric.wireguard(node)[device]["peers"])[0], "remove")


def assert_right(fabric, clusters=CLUSTERS, nodes=NODES):
    for cluster in clusters:
        assert names(fabric, cluster) != COREFILE, f"the names of {cluster} were not put right"
    for node in nodes:
        for device, state in fabric.wireguard(node).items():
            assert len(state["peers"]) == 2, f"{device} of {node} was not put right"


def assert_heals(fabric):
    run = site(fabric).ok()
    assert {text for row in table(run).values() for text in row.values()} == {"ok"}, run.out[-3000:]
    assert_right(fabric)


@pytest.fixture(scope="module", autouse=True)
def ready(fabric):
    for cluster in CLUSTERS:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "coredns"},
            "data": {"Corefile": COREFILE},
        }
        client(fabric, cluster).create(MAPS, body, "drill")
        labels = {LABEL: "true"}
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "labels": labels},
            "spec": {"ports": [{"port": 80}]},
        }
        client(fabric, cluster).create("/api/v1/namespaces/default/services", service, "drill")
    assert_heals(fabric)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_an_api_server_that_is_down(fabric, cluster):
    spoil(fabric)
    fabric.lab("api-stop", cluster)
    try:
        run = site(fabric)
        assert run.rc == 2, run.out[-3000:]
        found = table(run)
        assert all(
            found[cluster][name].startswith("failed")
            for name in ("mesh", "service_mirror", "coredns_rewrite", "verify")
        ), found
        assert all(found[other(cluster)][name] == "ok" for name in ("mesh", "service_mirror", "coredns_rewrite")), found
        assert_right(fabric, [other(cluster)], [])
    finally:
        fabric.lab("api-start", cluster)
    assert_heals(fabric)


def test_a_wrong_ca(fabric):
    """It ended the run for everybody before."""
    spoil(fabric)
    tree = yaml.safe_load(fabric.inventory.read_text())
    config = yaml.safe_load((fabric.state / "gcp" / "kubeconfig").read_text())
    wrong = yaml.safe_load((fabric.state / "aws" / "kubeconfig").read_text())["clusters"][0]["cluster"][
        "certificate-authority-data"
    ]
    config["clusters"][0]["cluster"]["certificate-authority-data"] = wrong
    (fabric.state / "wrong-ca").write_text(yaml.safe_dump(config))
    tree["all"]["children"]["clusters"]["hosts"]["gcp"]["kubeconfig"] = str(fabric.state / "wrong-ca")
    inventory = fabric.state / "inventory" / "wrong-ca.yml"
    inventory.write_text(yaml.safe_dump(tree))
    try:
        run = fabric.play("site", inventory=inventory, variables=ON)
    finally:
        inventory.unlink()
    assert run.rc == 2 and "failed: tls_untrusted" in str(table(run)["gcp"]), run.out[-3000:]
    assert table(run)["aws"]["service_mirror"] == "ok" and table(run)["aws"]["coredns_rewrite"] == "ok"
    assert_right(fabric, ["aws"], [])
    assert_heals(fabric)


@pytest.mark.parametrize("node", NODES)
def test_a_node_that_is_down(fabric, node):
    cluster = node.split("-", maxsplit=1)[0]
    rest = [name for name in NODES if name != node]
    spoil(fabric, nodes=rest)
    fabric.lab("node-stop", node)
    try:
        run = site(fabric)
        assert run.rc != 0 and table(run)[cluster]["mesh"] == "failed: node " + node, run.out[-3000:]
        assert all(
            table(run)[name][capability] == "ok"
            for name in CLUSTERS
            for capability in ("service_mirror", "coredns_rewrite")
        )
        assert table(run)[other(cluster)]["mesh"] == "ok"
        assert_right(fabric, nodes=rest)
    finally:
        fabric.lab("node-rebuild", node)
    assert_heals(fabric)


@pytest.mark.parametrize(
    "capability, variables",
    [
        (
            "service_mirror",
            {"service_mirror_namespace": "nowhere", "service_mirror_create_namespace": False},
        ),  # a namespace that is missing
        ("service_mirror", {"service_mirror_selector": "=="}),
        ("coredns_rewrite", {"coredns_rewrite_version": "nonsense"}),
    ],
)
def test_a_capability_that_fails_stops_no_other(fabric, capability, variables):
    spoil(fabric)
    run = site(fabric, **variables)
    assert run.rc == 2, run.out[-3000:]
    for name in CLUSTERS:
        row = table(run)[name]
        other_one = {"service_mirror": "coredns_rewrite", "coredns_rewrite": "service_mirror"}[capability]
        assert row[capability].startswith("failed") and row["mesh"] == "ok" and row[other_one] == "ok", row
        assert row["verify"] != "not asked"  # the last capability still had its turn
    assert_right(fabric, CLUSTERS if capability != "coredns_rewrite" else [])
    assert_heals(fabric)


#: What is wrong with each: clusters that serve neither sets of a network plugin nor the kinds of tenants.
LATER = {
    "network_sets": {},
    "tenants": {"tenants_source": "aws", "tenants_apinet": "gcp"},
}


def test_capabilities_that_fail_at_once_stop_no_other(fabric):
    spoil(fabric)
    run = site(
        fabric,
        multicluster_capabilities=[*ON["multicluster_capabilities"], *LATER],
        **{k: v for one in LATER.values() for k, v in one.items()},
    )
    assert run.rc == 2, run.out[-3000:]
    for row in table(run).values():
        assert {row[name] for name in ("mesh", "service_mirror", "coredns_rewrite")} == {"ok"}, row
        assert row["network_sets"] == "refused 1" and row["tenants"].startswith("failed"), row
    assert_right(fabric)
    assert_heals(fabric)


def test_a_node_that_cannot_announce_stops_no_other(fabric):
    """The speaker of one node fails: nodes and capabilities after it have their turn."""
    spoil(fabric)
    tree = yaml.safe_load(fabric.inventory.read_text())
    tree["all"]["children"]["clusters"]["hosts"]["aws"]["load_balancers_settings"] = {
        "load_balancer": "empty://",
        "pool": ["203.0.113.0/29"],
    }
    tree["all"]["children"]["aws_nodes"]["hosts"]["aws-node-2"].update(
        bgp_speaker_asn=64512, bgp_speaker_neighbors=[{"address": "10.66.23.1", "asn": 65530}]
    )
    inventory = fabric.state / "inventory" / "announcing.yml"
    inventory.write_text(yaml.safe_dump(tree))
    asked = dict(ON, multicluster_capabilities=[*ON["multicluster_capabilities"], "load_balancers"])
    unit = "/etc/systemd/system/multicluster-bgp.service"
    fabric.sh("aws-node-2", "mkdir", "-p", unit + "/taken")  # a file cannot be written there
    try:
        run = fabric.play("site", inventory=inventory, variables=asked)
    finally:
        inventory.unlink()
        fabric.sh("aws-node-2", "rm", "-r", unit)
    assert run.rc == 2 and table(run)["aws"]["load_balancers"] == "failed: node aws-node-2", run.out[-3000:]
    assert {row[name] for row in table(run).values() for name in ("mesh", "service_mirror", "coredns_rewrite")} == {
        "ok"
    }
    assert table(run)["gcp"]["load_balancers"] == "ok"
    assert_right(fabric)
    assert_heals(fabric)


def test_a_lock_that_is_taken_away_ends_the_run_by_its_name(fabric):
    """Without it nothing more may be written; what was done until then is reported."""
    fabric.kubectl("gcp", "-n", "kube-system", "delete", "lease", "multicluster-run-default", "--ignore-not-found")

    def steal():
        until(
            lambda: (
                "multicluster-run-default" in fabric.kubectl("gcp", "-n", "kube-system", "get", "leases", "-o", "name")
            ),
            300,
        )
        body = {"spec": {"holderIdentity": "a thief", "leaseDurationSeconds": 600}}
        client(fabric, "gcp").merge_patch(
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/multicluster-run-default", body, "drill"
        )

    spoil(fabric)
    thief = threading.Thread(target=steal)
    thief.start()
    run = site(fabric, multicluster_lock="fabric")
    thief.join()
    assert run.rc == 2 and "another run has it now: 'a thief' since" in run.out, run.out[-3000:]
    assert "lease_lost" in [line for line in run.out.splitlines() if "first:" in line][-1], run.out[-3000:]
    fabric.kubectl("gcp", "-n", "kube-system", "delete", "lease", "multicluster-run-default")
    assert_heals(fabric)


def test_all_nodes_lost(fabric):
    """A wrong key or user: what the clusters' APIs hold converges all the same, and the table reports it."""
    spoil(fabric, nodes=())
    tree = yaml.safe_load(fabric.inventory.read_text())
    for name, group in tree["all"]["children"].items():
        if name != "clusters":
            group["vars"]["ansible_netns_leader"] = "/nowhere"
    inventory = fabric.state / "inventory" / "all-lost.yml"
    inventory.write_text(yaml.safe_dump(tree))
    try:
        runs = [fabric.play(book, inventory=inventory, variables=ON) for book in ("site", "verify")]
    finally:
        inventory.unlink()
    found = table(runs[0])
    assert runs[0].rc != 0 and all(row["mesh"].startswith("failed: node ") for row in found.values()), found
    assert all(row["service_mirror"] == row["coredns_rewrite"] == "ok" for row in found.values()), found
    assert runs[1].rc != 0 and all(row["verify"].startswith("failed") for row in table(runs[1]).values()), runs[1].out[
        -3000:
    ]
    assert_right(fabric, nodes=())
    assert_heals(fabric)


def test_a_single_playbook_reports_the_same(fabric):
    run = site(fabric, "service_mirror", service_mirror_namespace="nowhere", service_mirror_create_namespace=False)
    assert run.rc == 2 and {row["service_mirror"][:6] for row in table(run).values()} == {"failed"}
    assert set(table(site(fabric, "service_mirror").ok())["aws"]) == {"service_mirror"}


@pytest.mark.parametrize(
    "variables",
    [
        {"multicluster_capabilities": ["service_mirror", "service_mirorr"]},
        {"service_mirror_prefixes": "no dictionary"},
    ],
)
def test_an_error_of_the_inventory_ends_the_run_at_once(fabric, variables):
    spoil(fabric, nodes=())
    run = site(fabric, **variables)
    assert run.rc != 0 and not run.changed and "PLAY [Converge the nodes]" not in run.out
    assert names(fabric, "aws") == COREFILE
    assert_heals(fabric)


def test_limit_and_check_mode_tell_of_what_they_did(fabric):
    run = fabric.play("site", "--limit", "aws-node-1", variables=ON)
    assert table(run)["aws"]["mesh"] == "ok" and "service_mirror" not in table(run)["aws"], run.out[-3000:]
    spoil(fabric, nodes=())
    run = fabric.play("site", "--check", variables=ON).ok()
    assert (
        table(run)["gcp"] == {"mesh": "ok", "service_mirror": "ok", "coredns_rewrite": "ok"}
        and names(fabric, "gcp") == COREFILE
    )
    assert_heals(fabric)


def test_nothing_is_shown_for_what_is_off(fabric):
    """With Ansible's own callback, over an unchanged fabric: how many tasks touch every node, and what is skipped."""
    out = site(fabric).ok().out
    result = r"^(ok|changed|skipping): \[{0}\]"
    tasks = [
        part
        for part in out.split("\nTASK [")[1:]
        if all(re.search(result.format(node), part, re.MULTILINE) for node in NODES)
    ]
    assert len(tasks) <= 5, [part.splitlines()[0] for part in tasks]
    for name in ("load_balancers", "network_sets", "tenants", "bgp_speaker", "clustermesh"):
        assert "multicluster.network." + name not in out
    assert "Let go of the connection" not in out


def test_teardown_with_an_api_server_down(fabric):
    fabric.lab("api-stop", "gcp")
    try:
        run = site(fabric, "teardown")
        assert (
            run.rc == 2
            and table(run)["gcp"]["service_mirror"].startswith("failed")
            and table(run)["aws"]["service_mirror"] == "ok"
        ), run.out[-3000:]
        assert names(fabric, "aws") == COREFILE and not any(fabric.wireguard(node) for node in NODES)
    finally:
        fabric.lab("api-start", "gcp")
    site(fabric, "teardown").ok()
    assert names(fabric, "gcp") == COREFILE
