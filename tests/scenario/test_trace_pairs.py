# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every pair of nodes, both families and each protocol with real packets; and a plan that shows what it cuts off, before it does."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time

import pytest
from service_lab import client, until
from test_trace import reported, trace

TOPOLOGY = "dual"
PORT, ECHO, MUTE = 8888, 8889, 8890
ENDS = {
    "aws/default/one": "aws-node-1-pod-1",
    "aws/default/two": "aws-node-2-pod-1",
    "gcp/default/one": "gcp-node-1-pod-1",
    "gcp/default/two": "gcp-node-2-pod-1",
}
#: TCP on one port, UDP that echoes on another, UDP that answers nothing on a third; both families.
SERVER = """
import select, socket
tcp = socket.create_server(("::", 8888), family=socket.AF_INET6, dualstack_ipv6=True)
echo, mute = (socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) for _ in "ab")
for port, one in ((8889, echo), (8890, mute)):
    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    one.bind(("::", port))
while True:
    for one in select.select([tcp, echo, mute], [], [])[0]:
        if one is tcp:
            one.accept()[0].close()
        else:
            data, sender = one.recvfrom(65536)
            one is echo and one.sendto(data, sender)
"""


def addresses(fabric, pod):
    text = fabric.lab("pod-exec", pod, "--", "ip", "-o", "address", "show", "eth0", "scope", "global").stdout
    return re.findall(r"inet6? ([0-9a-f.:]+)", text)


def make_pod(fabric, name, pod):
    cluster, namespace, short = name.split("/")
    api, base = client(fabric, cluster), f"/api/v1/namespaces/{namespace}/pods"
    until(lambda: "default" in fabric.kubectl(cluster, "-n", namespace, "get", "serviceaccounts", "-o", "name"))
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": short, "namespace": namespace, "labels": {"app": short}},
        "spec": {
            "nodeName": pod.rpartition("-pod-")[0],
            "automountServiceAccountToken": False,
            "containers": [{"name": "c", "image": "i"}],
        },
    }
    api.create(base, body, "kubelet")
    found = addresses(fabric, pod)
    status = {
        "phase": "Running",
        "podIP": found[0],
        "podIPs": [{"ip": ip} for ip in found],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    api.merge_patch(base + "/" + short + "/status", {"status": status}, "kubelet")


@contextlib.contextmanager
def served(fabric, pod):
    leader = (fabric.state / "nodes" / pod.rpartition("-pod-")[0] / "leader").read_text().split()[0]
    process = subprocess.Popen(
        [
            "nsenter",
            "--net=/run/netns/" + fabric.namespace(pod),
            "nsenter",
            "--target=" + leader,
            "--mount",
            "--uts",
            "--ipc",
            "--pid",
            "--cgroup",
            "--root",
            "--wd",
            "/usr/bin/python3",
            "-c",
            SERVER,
        ],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=10)


@pytest.fixture(scope="module", autouse=True)
def ready(fabric):
    for name, pod in ENDS.items():
        make_pod(fabric, name, pod)
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"selector": {"app": "one"}, "ports": [{"name": "http", "port": PORT}]},
    }
    client(fabric, "gcp").create("/api/v1/namespaces/default/services", service, "test")
    until(lambda: "10.4.7." in fabric.kubectl("gcp", "get", "endpoints", "one", "--ignore-not-found", "-o", "json"))
    fabric.play("site").ok()
    fabric.all_reach()
    with contextlib.ExitStack() as stack:
        for pod in ENDS.values():
            stack.enter_context(served(fabric, pod))
        yield


def verdicts(document):
    """{(source's pod, target's pod)} of the flows that arrive, and of those that do not."""
    found = {True: set(), False: set()}
    for row in document["flows"]:
        found[row["verdict"] == "arrives"].add((row["source"], row["target"]))
    return found[True], found[False]


def every_arrives(fabric, **more):
    deadline = time.monotonic() + 30
    while True:  # a new peer needs a handshake first
        run, document = trace(fabric, **more)
        if document["verdict"] == "arrives":
            return run, document
        assert time.monotonic() < deadline, reported(document)


def test_every_pair_of_nodes_agrees_in_both_families(fabric):
    run, document = every_arrives(fabric)
    number = len(ENDS) * (len(ENDS) - 1) * 2
    assert document["agreement"] == {"asked": number, "arrive": number, "agree": number}, reported(document)
    assert f"{number} flows, {number} arrive, expected and observed agree in {number}" in run.out
    assert verdicts(document)[0] == {(one, other) for one in ENDS for other in ENDS if one != other}


@pytest.mark.parametrize("family", ["4", "6"])
@pytest.mark.parametrize(("protocol", "port"), [("tcp", PORT), ("udp", ECHO), ("udp", MUTE), ("icmp", None)])
def test_each_protocol_there_and_back(fabric, family, protocol, port):
    questions = [
        {"source": one, "target": other, "protocol": protocol, "port": port, "family": family}
        for one, other in (("aws/default/one", "gcp/default/two"), ("gcp/default/two", "aws/default/one"))
    ]
    dummy, document = trace(fabric, trace_questions=questions)
    assert document["verdict"] == "arrives" and not document["findings"], reported(document)
    assert {row["verdict"] for row in document["hops"] if row["direction"] == "forward"} == {"ok"}
    # of who rightly does not answer no answer leaves the target's node
    ends = {
        question["flow"]: next(
            row["where"]
            for row in document["hops"]
            if (row["flow"], row["what"], row["direction"]) == (question["flow"], "target", "forward")
        )
        for question in document["flows"]
    }
    back = {
        row["verdict"] for row in document["hops"] if row["direction"] == "back" and row["where"] == ends[row["flow"]]
    }
    assert back == {"not seen" if port == MUTE else "ok"}


def test_nodes_and_addresses_with_ports_are_ends_too(fabric):
    two = addresses(fabric, ENDS["gcp/default/two"])
    one = "aws/default/one"
    questions = [
        {"source": one, "target": f"{two[0]}:{PORT}"},
        {"source": one, "target": f"[{two[1]}]:{PORT}"},
        {"source": "aws/aws-node-1", "target": "gcp/gcp-node-1"},
        {"source": "aws/default/one", "target": "gcp/default/two", "port": 9},
    ]
    dummy, document = trace(fabric, trace_questions=questions)
    asked = [(row["target"], row["verdict"], row["cause"]) for row in document["flows"]]
    assert asked[:2] == [(question["target"], "arrives", "") for question in questions[:2]], reported(document)
    assert [row for row in asked if row[0] == "gcp/default/two"] == [
        ("gcp/default/two", "does not arrive", "port_closed")
    ] * 2, reported(document)


def planned(fabric, inventory, **more):
    """(run, document) of a question to the plan."""
    path = fabric.state / "planned.json"
    path.unlink(missing_ok=True)
    with fabric.witness() as writes:
        run = fabric.play("trace", inventory=inventory, variables=dict(more, trace_document=str(path))).ok()
    assert writes == []
    return run, json.loads(path.read_text("utf-8"))


def test_what_a_change_would_cut_off_is_said_before_and_true_after(fabric):
    dummy, document = planned(fabric, None, trace_what_if="plan")
    assert (
        document["verdict"] == "arrives"
        and document["trace"]["reach"]["reachable"] == document["trace"]["reach"]["pairs"] == 12
    )
    tree = fabric.tree
    cluster = tree["clusters"]["hosts"]["gcp"]
    cluster["pod_cidrs"] = [text.replace("10.4.0.0/16", "10.4.7.0/24") for text in cluster["pod_cidrs"]]
    inventory = fabric.state / "inventory" / "narrow.yml"
    inventory.write_text(json.dumps({"all": {"children": tree}}), "utf-8")
    try:
        run, document = planned(fabric, inventory, trace_what_if="plan")
        assert document["verdict"] == "does not arrive", reported(document)
        said = {
            (one, other)
            for row in document["trace"]["reach"]["cut"]
            if row["cause"]
            for one in row["from"]
            for other in row["to"]
            if one != other
        }
        assert said == {
            (one, two)
            for near in ("aws-node-1", "aws-node-2")
            for one, two in ((near, "gcp-node-2"), ("gcp-node-2", near))
        }, reported(document)
        assert len(document["trace"]["reach"]["cut"]) <= 2 and all(row["fix"] for row in document["findings"])
        # nothing has happened yet
        every_arrives(fabric, trace_family="4")
        fabric.play("mesh", inventory=inventory, variables={"mesh_max_lost_pairs": -1})
        until(lambda: "10.4.0.0/16" not in fabric.sh("aws-node-1", "ip", "route"), 30)
        path = fabric.state / "trace.json"
        path.unlink()
        fabric.play("trace", inventory=inventory, variables={"trace_family": "4", "trace_document": str(path)}).ok()
        document = json.loads(path.read_text("utf-8"))
        host = {name: pod.rpartition("-pod-")[0] for name, pod in ENDS.items()}
        arrive, lost = ({(host[one], host[other]) for one, other in rows} for rows in verdicts(document))
        assert lost == said and len(arrive) == 12 - len(said), reported(document)
        assert document["agreement"]["agree"] == document["agreement"]["asked"] == 12, reported(document)
    finally:
        inventory.unlink()
        fabric.play("mesh").ok()
    every_arrives(fabric, trace_family="4")


def test_what_if_a_node_or_a_cluster_is_away(fabric):
    run, document = planned(fabric, None, trace_what_if=[{"away": "gcp-node-1"}])
    reach = document["trace"]["reach"]
    assert (reach["away"], reach["pairs"], reach["reachable"]) == (["gcp-node-1"], 12, 6) and reach["cut"] == []
    assert [(row["cluster"], row["name"]) for row in reach["alone"]] == [
        ("gcp", "one")
    ] and "keeps no endpoint" in run.out
    assert "lost 2 pairs of nodes with what is away" in run.out
    dummy, document = planned(fabric, None, trace_what_if="away=aws")
    assert document["trace"]["reach"]["reachable"] == 2 and document["trace"]["reach"]["alone"] == []
    for given, said in (
        ({"trace_what_if": "away=gcp-node-11"}, "did you mean gcp-node-1?"),
        ({"trace_what_if": [{"awya": "gcp-node-1"}]}, "did you mean away?"),
        ({"trace_away": ["gcp-node-1"]}, "trace_what_if"),
        ({"trace_plan": True}, "trace_what_if"),
    ):
        run = fabric.play("trace", variables=given)
        assert run.rc != 0 and said in " ".join(run.out.split()), run.out[-3000:]


def test_hypotheses_are_answered_together_and_nothing_is_written(fabric):
    """An annotation, a range and a key, of a mesh that is planned anew for them; what comes out is what a run with them would plan."""
    ranges = [
        text.replace("10.2.0.0/16", "10.2.3.0/24") for text in fabric.tree["clusters"]["hosts"]["aws"]["pod_cidrs"]
    ]
    given = [
        {"annotation": "aws.wireguard.semaphore.uw.io/pubKey", "node": "gcp-node-1"},
        {"range": "pod_cidrs", "cluster": "aws", "value": ranges},
        "key=gcp-node-2",
    ]
    run, document = planned(fabric, None, trace_what_if=given)
    reach = document["trace"]["reach"]
    # the next run would publish the key again: that pair moves
    assert (reach["lost"], reach["moved"]) == (3, 1), reach["changes"]
    causes = {row["cause"] for row in reach["changes"] if row["kind"] == "lost"}
    assert causes == {"key_changed", "peer_missing"}, reach["changes"]
    assert "key_changed/" in run.out and "gcp-node-2 has another key" in run.out
    wrong = [{"range": "pod_cidrs", "cluster": "aws", "value": ["10.4.0.0/16"]}]
    run = fabric.play("trace", variables={"trace_what_if": wrong})
    assert run.rc != 0 and "overlap" in run.out, "ranges that no inventory may have"
