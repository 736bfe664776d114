# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two revisions of the collection over one lab: an upgrade, the way back, and the upgrade again, under traffic.

``tests/run upgrade FROM=REVISION TO=REVISION`` makes the two collections and names their folders. All pairs of pods of different clusters
send 100 echoes a second together, from the first run of the former revision to the end, and a pod asks a mirrored Service. The tests build on each other.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import time

import pytest
from harness import LAB
from service_lab import make_fluentd, only, pods_serve

PROXIES = True
VARIABLES = {"service_mirror_create_namespace": True, "service_mirror_as": "endpoints"}
MIRROR, NAMESPACE = "aws-sys-log-73736d-fluentd", "sys-semaphore"
CLIENT, ODD = "gcp-node-1-pod-1", "gcp-node-2"
#: a client that asks ten times a second and prints how often it asked and how often nothing came
ASKING = """
asked=0 lost=0
trap 'echo "$asked asked, $lost lost"; exit' INT TERM
while :; do
  asked=$((asked + 1))
  curl -s -o /dev/null -m 5 --fail "$0" || { lost=$((lost + 1)); date +%T.%N >&2; }
  sleep 0.1
done
"""
STATE = {}


class Revision:
    """A collection in a folder of its own, with the names that it has for what the test uses."""

    def __init__(self, variable):
        self.collections = pathlib.Path(os.environ[variable])
        self.home = self.collections / "ansible_collections" / "multicluster" / "network"
        self.mirrors = "service_mirror" if (self.home / "playbooks" / "service_mirror.yml").exists() else "services"

    def play(self, fabric, book, *arguments, **variables):
        extra = dict(VARIABLES, multicluster_capabilities=[self.mirrors], **variables)
        return fabric.play(book, *arguments, variables=extra, collections=self.collections)


@pytest.fixture(scope="module")
def former():
    return Revision("UPGRADE_FROM")


@pytest.fixture(scope="module")
def present():
    return Revision("UPGRADE_TO")


def started(fabric, pod, *command):
    words = ["/usr/bin/python3", str(LAB), "pod-exec", "--name", fabric.name, pod, "--", *command]
    return subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


@pytest.fixture(scope="module", autouse=True)
def pods(fabric):
    STATE["empty"] = fabric.everything()
    STATE["pods"] = make_fluentd(fabric)
    with pods_serve(fabric), contextlib.ExitStack() as stack:
        STATE["stack"] = stack
        yield


def proven(run):
    assert "all green" in run.ok().out, run.out[-3000:]


def unreachable(fabric, revision):
    """A run of which neither kernels nor API servers notice anything."""
    with fabric.witness() as writes:
        run = revision.play(fabric, "site").ok()
    assert not run.changed, run.changed
    # the fabric's Lease is taken and given back by every run
    assert not [line for line in writes if "/leases" not in line]


def keys(fabric):
    return {
        (node, name, device["public_key"], device["port"])
        for node in fabric.nodes
        for name, device in fabric.wireguard(node).items()
    }


def test_the_former_revision_joins_the_clusters(fabric, former):
    proven(former.play(fabric, "site"))
    STATE["keys"], STATE["notes"] = keys(fabric), notes(fabric)
    address = json.loads(fabric.kubectl("gcp", "-n", NAMESPACE, "get", "service", MIRROR, "-o", "json"))["spec"][
        "clusterIP"
    ]
    url = f"http://{address}:8888/"
    assert only(fabric, url, {"fluentd-a", "fluentd-b"}) == {"fluentd-a", "fluentd-b"}
    STATE["streams"] = {
        (row["source"], row["target"], row["address"]): STATE["stack"].enter_context(
            fabric.pinging(row["source"], row["address"], inside="pod-exec", every=0.08)
        )
        for row in fabric.all_reach()
        if row["cross"]
    }
    STATE["asking"] = started(fabric, CLIENT, "sh", "-c", ASKING, url)
    time.sleep(2)
    assert STATE["asking"].poll() is None


def notes(fabric):
    """What upstream programs read of each node. The first address of ODD is outside of its cluster's node_cidrs; it was announced once."""
    return {
        (cluster, node): {
            name: text
            for name, text in fabric.annotations(cluster, node).items()
            if "wireguard.semaphore.uw.io" in name and (node != ODD or not name.endswith("/endpoint"))
        }
        for cluster in fabric.clusters
        for node in fabric.nodes
        if node.startswith(cluster + "-")
    }


def same_wire(fabric):
    assert keys(fabric) == STATE["keys"]
    for node, read in notes(fabric).items():
        assert read == STATE["notes"][node], node


def test_check_mode_of_the_present_one_leaves_the_wire_as_it_is(fabric, present):
    present.play(fabric, "validate").ok()
    with fabric.witness() as writes:
        run = present.play(fabric, "site", "--check", "--diff").ok()
    assert not writes
    for line in run.out.splitlines():
        assert not line.lstrip().startswith(("-peer", "-link", "-route", "-key", "+peer", "+link", "+route")), line


def test_one_node_of_the_present_revision_among_three_of_the_former(fabric, present):
    present.play(fabric, "mesh", "--limit", "aws-node-1").ok()
    fabric.all_reach()
    same_wire(fabric)


@pytest.mark.parametrize("times", ["first", "again"])
def test_upgrade(fabric, former, present, times):
    if times == "again":
        run = former.play(fabric, "site").ok()
        fabric.ran(f"downgrade: {run.changed}")
        fabric.all_reach()
        same_wire(fabric)
    proven(present.play(fabric, "site", multicluster_serial=[1, "100%"]))
    fabric.all_reach()
    same_wire(fabric)
    unreachable(fabric, present)


def test_no_echo_and_no_request_was_lost(fabric):
    STATE["stack"].close()
    asking = STATE["asking"]
    os.killpg(asking.pid, 15)
    text = asking.communicate(timeout=30)[0]
    fabric.ran(text.strip())
    counts = {pair: (echoes.sent, echoes.lost) for pair, echoes in STATE["streams"].items()}
    fabric.ran(f"echoes: {sum(sent for sent, lost in counts.values())} sent, {counts}")
    assert all(sent > 500 for sent, lost in counts.values())
    # The former revision takes its own endpoint of ODD back while the peer sends from the other address, once; the present one loses nothing.
    forgiven = {pair: any(name.startswith(ODD) for name in pair[:2]) for pair in counts}
    assert not {pair: count for pair, count in counts.items() if count[1] > forgiven[pair]}
    asked, lost = (int(part.split()[0]) for part in text.strip().splitlines()[-1].split(", "))
    assert asked > 100 and lost == 0, text


def test_a_state_of_a_later_release_is_refused(fabric, present):
    """By name, with what to do; the node's kernel stays as it is."""
    node = "aws-node-1"
    file = "/var/lib/multicluster-network/default/dataplane.json"
    text = fabric.sh(node, "cat", file)
    state = json.loads(text)
    state["format"] = 99
    fabric.sh(node, "cp", "-p", file, file + ".kept")
    fabric.sh(node, "python3", "-c", f"open({file!r}, 'w').write({json.dumps(state)!r})")
    before = fabric.wireguard(node)
    run = present.play(fabric, "mesh")
    fabric.sh(node, "mv", file + ".kept", file)
    assert run.rc != 0 and node in run.out and "its format is 99" in run.out, run.out[-3000:]
    assert {name: sorted(device["peers"]) for name, device in before.items()} == {
        name: sorted(device["peers"]) for name, device in fabric.wireguard(node).items()
    }
    proven(present.play(fabric, "site"))


def test_teardown_leaves_what_was_there_before_both(fabric, present):
    present.play(fabric, "teardown", node_dataplane_remove_keys=True).ok()
    now = fabric.everything()
    for name in fabric.nodes:
        for part, before in STATE["empty"][name].items():
            if part != "nft":  # kube-proxy has rules for the Services that the test made
                assert now[name][part] == before, (name, part)
        assert "multicluster" not in json.dumps(now[name]["nft"])
