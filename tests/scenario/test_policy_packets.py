# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide's policy, with packets: it admits the pods of our set and drops everybody else. The tests build on each other, in order.

There is no Calico in the lab. A double of its Felix reads the set that our playbook wrote and the policy from the API server, and enforces both with
nftables on the pod's node; the packets, the tunnel and the addresses in the set are real.
"""

from __future__ import annotations

import contextlib
import json
import re

import felix_double as felix
import pytest
import yaml
from ansible_collections.multicluster.network.plugins.filter.policy_selector import policy_selector
from harness import REPO
from service_lab import client, pod_address, running, until

GUIDE = (REPO / "docs" / "docsite" / "rst" / "guide_network_sets.rst").read_text("utf-8")
GROUP = "/apis/crd.projectcalico.org/v1"
SETS, POLICIES, PODS = (
    GROUP + "/globalnetworksets",
    GROUP + "/namespaces/sys-log/networkpolicies",
    "/api/v1/namespaces/sys-log/pods",
)
LABEL = "policy.semaphore.uw.io/name"
NODE, FLUENTD, FORWARDER, STRANGER = "aws-node-1", "aws-node-1-pod-1", "gcp-node-1-pod-1", "gcp-node-2-pod-1"
ALLOWED, OTHER = 8889, 8888
SERVER = """
import http.server, sys, threading
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"fluentd")
    def log_message(self, *unused): pass
for port in (8888, 8889):
    threading.Thread(target=http.server.HTTPServer(("", port), Answer).serve_forever).start()
"""
STATE = {}


def the_guides_policy():
    """The document of the guide's example."""
    blocks = re.findall(r"(?m)^\.\. code-block:: yaml\n\n((?:    .*\n|\n)+)", GUIDE)
    (policy,) = [
        one
        for one in (yaml.safe_load(block) for block in blocks)
        if isinstance(one, dict) and one.get("kind") == "NetworkPolicy"
    ]
    return policy


def make_pod(fabric, cluster, name, pod, labels):
    """A Pod object with the address of a pod of the lab, as a kubelet would report it."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "sys-log", "labels": labels},
        "spec": {
            "nodeName": pod.rpartition("-pod-")[0],
            "automountServiceAccountToken": False,
            "containers": [{"name": "c", "image": "i"}],
        },
    }
    api, address = client(fabric, cluster), pod_address(fabric, pod)
    api.create(PODS, body, "kubelet")
    api.merge_patch(
        PODS + "/" + name + "/status",
        {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}},
        "kubelet",
    )
    return address


def enforce(fabric):
    felix.enforce(fabric, client(fabric, "aws"), NODE, "sys-log")


def dropped(fabric):
    """How many packets the policy has dropped since it was written."""
    shown = fabric.sh(NODE, "nft", "list", "table", "inet", felix.TABLE)
    return int(re.search(r"counter packets (\d+) bytes \d+ drop", shown).group(1))


def answer(fabric, pod, port=ALLOWED):
    """What a pod gets from fluentd, or nothing."""
    script = f"curl -s -m 3 --retry 3 --retry-all-errors http://{STATE['fluentd']}:{port}/"
    return fabric.lab("pod-exec", pod, "--", "sh", "-c", script, check=False).stdout


def held_back(fabric, pod, port=ALLOWED):
    """It gets nothing, and that is the policy's doing."""
    before = dropped(fabric)
    return answer(fabric, pod, port) == "" and dropped(fabric) > before


@pytest.fixture(scope="module", autouse=True)
def ready(fabric):
    fabric.play("mesh").ok()
    for cluster in fabric.clusters:
        felix.define(client(fabric, cluster), "globalnetworksets", "GlobalNetworkSet", "Cluster")
        fabric.kubectl(cluster, "create", "namespace", "sys-log")
    felix.define(client(fabric, "aws"), "networkpolicies", "NetworkPolicy", "Namespaced")
    STATE["fluentd"] = make_pod(fabric, "aws", "fluentd", FLUENTD, {"app": "fluentd"})
    STATE["forwarder"] = make_pod(fabric, "gcp", "forwarder", FORWARDER, {LABEL: "forwarder"})
    STATE["stranger"] = make_pod(fabric, "gcp", "stranger", STRANGER, {"app": "other"})
    with contextlib.ExitStack() as stack:
        stack.enter_context(running(fabric, "pod-exec", FLUENTD, "--", "/usr/bin/python3", "-c", SERVER))
        until(lambda: answer(fabric, FORWARDER) == "fluentd")
        yield


def test_without_the_policy_everybody_gets_through(fabric):
    assert [answer(fabric, pod, port) for pod in (FORWARDER, STRANGER) for port in (ALLOWED, OTHER)] == ["fluentd"] * 4


def test_the_guides_policy_admits_the_set_and_drops_the_rest(fabric):
    fabric.play("network_sets").ok()
    (found,) = client(fabric, "aws").list(SETS).items
    assert found["metadata"]["name"] == "gcp-sys-log-forwarder" and found["spec"]["nets"] == [
        STATE["forwarder"] + "/32"
    ]
    policy = the_guides_policy()
    made = policy_selector("forwarder", "gcp", "sys-log")
    assert felix.terms(policy["spec"]["ingress"][0]["source"]["selector"]) == felix.terms(made["selector"])
    policy["spec"]["ingress"][0]["source"] = made
    client(fabric, "aws").create(POLICIES, policy, "kubectl")
    enforce(fabric)
    assert answer(fabric, FORWARDER) == "fluentd"
    assert held_back(fabric, STRANGER) and held_back(fabric, FORWARDER, OTHER)


def test_who_leaves_the_set_is_dropped_and_who_enters_is_admitted(fabric):
    gcp = client(fabric, "gcp")
    gcp.merge_patch(PODS + "/stranger", {"metadata": {"labels": {LABEL: "forwarder"}}}, "kubectl")
    gcp.merge_patch(PODS + "/forwarder", {"metadata": {"labels": {LABEL: None}}}, "kubectl")
    enforce(fabric)
    assert answer(fabric, FORWARDER) == "fluentd"  # nothing has updated the set yet
    fabric.play("network_sets").ok()
    enforce(fabric)
    assert answer(fabric, STRANGER) == "fluentd" and held_back(fabric, FORWARDER)


def test_a_set_that_is_gone_admits_nobody(fabric):
    fabric.play("network_sets", variables={"network_sets_state": "absent"}).ok()
    assert client(fabric, "aws").list(SETS).items == []
    enforce(fabric)
    assert held_back(fabric, STRANGER) and held_back(fabric, FORWARDER)
    assert json.loads(fabric.kubectl("aws", "-n", "sys-log", "get", "pods", "-o", "json"))["items"]
