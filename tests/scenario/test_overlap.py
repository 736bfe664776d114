# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two clusters with the same pod and the same Service ranges become one network (translation 6). The tests build on each other, in their order."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time

import pytest
from trace_lab import assert_arrives, make_pod, served, trace

TOPOLOGY = "overlap"
#: Between pods that have the same address.
PING = {"trace_from": "aws/default/web", "trace_to": "10.202.1.10"}
PODS_OF = {"aws/default/web": "aws-node-1-pod-1", "gcp/default/web": "gcp-node-1-pod-1"}


@pytest.fixture(scope="module", autouse=True)
def ready(fabric):
    """Pod objects for two pods of the lab, with a process in each."""
    with contextlib.ExitStack() as stack:
        for name, pod in PODS_OF.items():
            make_pod(fabric, name, pod)
            stack.enter_context(served(fabric, pod))
        yield


def test_validate_refuses_them_without_a_mapping_and_gives_the_line_to_paste(fabric):
    run = fabric.play("validate", variables={"exported_pod_cidrs": {}})
    assert run.rc != 0 and "pod_subnet_overlap" in run.out
    assert "exported_pod_cidrs: {10.244.0.0/16: 10.192.0.0/16} for clusters/" in run.out.replace("\n", " "), run.out[
        -2000:
    ]
    fabric.play("validate").ok()


def test_preflight_has_nothing_against_them(fabric):
    path = fabric.state / "findings.json"
    fabric.play("preflight", variables={"preflight_file": str(path)}).ok()
    assert not {row["reason"] for row in json.loads(path.read_text())} & {"range_in_use", "route_taken", "masqueraded"}


def test_every_pod_reaches_every_pod_of_the_other_cluster(fabric):
    run = fabric.play("site").ok()
    assert "all green" in run.out, run.out[-3000:]
    assert all(row["ok"] for row in fabric.reaches()), fabric.reaches()


def test_an_unchanged_run_changes_nothing(fabric):
    assert not fabric.play("mesh").ok().changed


def table_of(fabric, node):
    tables = fabric.sh(node, "nft", "list", "tables").splitlines()
    return next(line.split()[-1] for line in tables if line.endswith("-nat") and "multicluster-network-" in line)


def test_trace_shows_both_translations(fabric):
    dummy, document = assert_arrives(fabric, **PING)
    rows = [
        (hop["direction"], hop["where"], hop["expected"]) for hop in document["hops"] if hop["what"] == "translation"
    ]
    assert rows == [
        ("forward", "aws-node-1", "source 10.244.1.10 becomes 10.201.1.10"),
        ("forward", "gcp-node-1", "target 10.202.1.10 becomes 10.244.1.10"),
        ("back", "gcp-node-1", "source 10.244.1.10 becomes 10.202.1.10"),
        ("back", "aws-node-1", "target 10.201.1.10 becomes 10.244.1.10"),
    ]
    assert {hop["verdict"] for hop in document["hops"]} == {"ok"}


def test_a_table_that_is_gone_is_named_and_the_run_that_is_proposed_brings_it_back(fabric):
    name = table_of(fabric, "aws-node-1")
    fabric.sh("aws-node-1", "nft", "delete", "table", "inet", name)
    document = trace(fabric, **PING)[1]
    found = document["findings"][0]
    assert (found["cause"], found["where"], found["confidence"]) == ("translation_missing", "aws-node-1", "proven"), (
        found
    )
    assert "10.244.1.10 and should have 10.201.1.10" in found["message"]
    assert fabric.play("verify").rc != 0, "nothing comes through"
    fabric.play("mesh").ok()
    assert_arrives(fabric, **PING)


def test_a_rule_that_decides_first_is_named(fabric):
    rule = "table inet first { chain p { type nat hook postrouting priority 50; oifname wireguard.gcp masquerade; }; }"
    fabric.sh("aws-node-1", "sh", "-c", f"echo '{rule}' | nft -f -")
    try:
        found = trace(fabric, **PING)[1]["findings"][0]
        assert found["cause"] == "masqueraded" and "table inet first, chain p" in found["message"], found
        assert "instead of 10.201.1.10" in found["message"]
    finally:
        fabric.sh("aws-node-1", "nft", "delete", "table", "inet", "first")
    assert_arrives(fabric, **PING)


def test_only_exported_addresses_pass_the_tunnels_while_the_mapping_is_applied_again(fabric):
    """Connections go on over a run that writes the same, and on no tunnel is there an address that is not exported."""
    watch = 'table inet watch {{ set own {{ type ipv4_addr; flags dynamic; }}; chain o {{ type filter hook postrouting priority 300; \
oifname "wireguard.*" ip saddr {0} add @own {{ ip saddr }}; oifname "wireguard.*" ip daddr {0} add @own {{ ip daddr }}; }}; }}'
    for node in fabric.nodes:
        fabric.sh(node, "sh", "-c", "echo '" + watch.format("10.244.0.0/16") + "' | nft -f -")
    name = table_of(fabric, "gcp-node-1")
    with fabric.pinging("aws-node-1-pod-1", "10.202.1.10", inside="pod-exec") as echoes:
        for dummy in range(2):
            fabric.sh("gcp-node-1", "nft", "add", "rule", "inet", name, "postrouting", "counter")
            assert fabric.play("mesh").ok().changed
    assert echoes.lost == 0 and echoes.sent > 10
    for node in fabric.nodes:
        assert "elements" not in fabric.sh(node, "nft", "list", "set", "inet", "watch", "own")
        fabric.sh(node, "nft", "delete", "table", "inet", "watch")


NEW = {"10.244.0.0/16": "10.203.0.0/16"}


def of_gcp(mapping):
    """What the inventory has for gcp, the others as they are."""
    return {
        "exported_pod_cidrs": "{{ %s if inventory_hostname == 'gcp' else {'10.244.0.0/16': '10.201.0.0/16'} }}"
        % json.dumps(mapping)
    }


@contextlib.contextmanager
def asking(fabric, pod, *addresses):
    """A new echo to each address five times a second meanwhile; gives the answers, "ok ADDRESS" or "lost ADDRESS", when the block ends."""
    loop = "while :; do for a in {0}; do ping -n -q -c 1 -W 5 $a > /dev/null && echo ok $a || echo lost $a; done; sleep 0.2; done"
    command = ["/usr/bin/python3", str(fabric.lab_program), "pod-exec", "--name", fabric.name, pod]
    running = subprocess.Popen(
        [*command, "--", "sh", "-c", loop.format(" ".join(addresses))],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    found = []
    try:
        yield found
    finally:
        os.killpg(running.pid, signal.SIGTERM)
        found += running.communicate(timeout=20)[0].splitlines()


def test_a_mapping_changes_without_a_lost_connection(fabric):
    """guide_overlap: accept the new range, then change over, then end the former one."""
    former = {"10.244.0.0/16": "10.202.0.0/16"}
    planned = fabric.play("site", "--check", "--diff", variables=of_gcp(dict(NEW, former=[former]))).ok()
    assert "10.203.0.0/16" in planned.out
    with (
        asking(fabric, "aws-node-1-pod-1", "10.202.1.10") as there,
        asking(fabric, "gcp-node-2-pod-1", "10.201.1.10") as back,
        fabric.pinging("gcp-node-1-pod-1", "10.201.2.10", inside="pod-exec") as lasting,
    ):
        fabric.play("site", variables=of_gcp(dict(former, former=[NEW]))).ok()
        fabric.play("site", variables=of_gcp(dict(NEW, former=[former]))).ok()
        with asking(fabric, "aws-node-2-pod-1", "10.202.2.10", "10.203.2.10") as both:
            time.sleep(3)
    assert lasting.lost == 0 and lasting.sent > 20, lasting
    for answers in (there, back, both):
        assert len(answers) > 5 and not [line for line in answers if line.startswith("lost")], answers
    fabric.play("site", variables=of_gcp(NEW)).ok()
    fabric.lab("pod-exec", "aws-node-1-pod-1", "--", "ping", "-c", "1", "-W", "5", "10.203.1.10")
    gone = fabric.lab("pod-exec", "aws-node-1-pod-1", "--", "ping", "-c", "1", "-W", "2", "10.202.1.10", check=False)
    assert gone.returncode
    fabric.play("site").ok()


def test_kubespan_refuses_the_mapping(fabric):
    run = fabric.play(
        "validate",
        variables={
            "multicluster_mesh": "kubespan",
            "mesh_id": "m",
            "mesh_secret": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0MTI=",
        },
    )
    assert run.rc != 0 and "mode_unsupported" in run.out, run.out[-2000:]


def test_teardown_leaves_nothing(fabric):
    fabric.play("teardown", variables={"teardown_confirm": True}).ok()
    for node in fabric.nodes:
        assert "multicluster-network" not in fabric.sh(node, "nft", "list", "ruleset")
        assert "10.20" not in fabric.sh(node, "ip", "route")
