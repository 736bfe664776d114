# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traffic between the nodes of different clusters while keys change, counted where it arrives.

MCN_ROTATION_RATE: packets a second of each pair and direction; MCN_ROTATION_STREAMS: TCP streams of each pair; MCN_ROTATION_DOWNLOAD: bytes a second of each
pair's download.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import time

from counted_traffic import counted_traffic, packets_first, processes_alongside, roomy_sockets, wireguard_go
from harness import REPO

RATE = int(os.environ.get("MCN_ROTATION_RATE", "1000"))
STREAMS = int(os.environ.get("MCN_ROTATION_STREAMS", "10"))
DOWNLOAD = int(os.environ.get("MCN_ROTATION_DOWNLOAD", "100000"))
#: A busy machine needs longer than the default for a change of all nodes at once.
FAST = {"rotate_drain_seconds": 2, "node_dataplane_rollback_seconds": 240}


def pods_of(fabric):
    """{node: (its cluster, its first pod, the pod's address)}."""
    status = json.loads(fabric.lab("status", check=False).stdout)
    found = {}
    for node, row in status["nodes"].items():
        pod, addresses = next(iter(row["pods"].items()))
        found[node] = (row["cluster"], status["namespaces"] + pod, addresses[0])
    return found


@contextlib.contextmanager
def traffic(fabric, rate=RATE, within=False):
    """Packets from a pod of each node to a pod of each node of other clusters meanwhile; ``within``: of its own cluster, too. Members are nodes."""
    pods = pods_of(fabric)
    members = {node: "/run/netns/" + namespace for node, (_cluster, namespace, _address) in pods.items()}
    flows = [
        (node, other, pods[other][2])
        for node in sorted(pods)
        for other in sorted(pods)
        if node != other and (within or pods[node][0] != pods[other][0])
    ]
    counted = None
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(roomy_sockets())
            stack.enter_context(packets_first(lambda: processes_alongside(leaders(fabric).values(), wireguard_go)))
            folder = fabric.state / "traffic"
            counted = stack.enter_context(counted_traffic(folder, members, flows, rate, STREAMS, DOWNLOAD))
            yield counted
    finally:
        fabric.ran(str(counted))


def able(fabric, rate=RATE, seconds=20, **options):
    """Fails where this machine loses packets while no key changes: then nothing can be said of a rotation."""
    with traffic(fabric, rate=rate, **options) as counted:
        time.sleep(seconds)
    assert counted.lost == 0, f"without a rotation this machine loses packets, so it cannot judge one: {counted}"
    counted.nothing_lost()


def first_mesh(fabric, **variables):
    """The mesh as ``site`` makes it."""
    with roomy_sockets():
        assert "all green" in fabric.play("site", variables=dict(FAST, **variables)).ok().out
    fabric.all_reach()


def keys(fabric):
    """{node: {device: public key}}."""
    return {node: {name: row["public_key"] for name, row in fabric.wireguard(node).items()} for node in fabric.nodes}


def rotated(before, after, hosts):
    """Fails unless the keys of these hosts, and of no others, have changed."""
    for node, rows in before.items():
        for name, key in rows.items():
            assert (after[node][name] != key) == (node in hosts), (node, name)


def nothing_left(fabric):
    """Nothing of a rotation is on any node or Node."""
    for node in fabric.nodes:
        assert not [name for name in fabric.wireguard(node) if name.startswith("wg-rotate")]
        folders = "/var/lib/semaphore-wireguard /var/lib/multicluster-network"
        assert "wg-rotate" not in fabric.sh(node, "sh", "-c", f"find {folders} 2>/dev/null; true")
        state = json.loads(fabric.sh(node, "cat", "/var/lib/multicluster-network/default/dataplane.json"))
        assert "wg-rotate" not in json.dumps([state["devices"], state["key_files"], state.get("kubespan")])
        for family in ("-4", "-6"):
            assert "wg-rotate" not in fabric.sh(node, "ip", family, "route", "show", "table", "all")
    for cluster in fabric.clusters:
        for node in (name for name in fabric.nodes if name.startswith(cluster)):
            assert not [key for key in fabric.annotations(cluster, node) if "rotation" in key]


def start(fabric, **variables):
    """A run of rotate_keys in a process group of its own."""
    words = ["ansible-playbook", "-i", str(fabric.inventory), "multicluster.network.rotate_keys"]
    return subprocess.Popen(
        [*words, "-e", json.dumps(dict(FAST, **variables))],
        stdout=(fabric.state / "rotate_keys.log").open("w"),
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        cwd=str(REPO),
    )


def kill_controller(fabric, seconds, **variables):
    """Run rotate_keys and kill the controller after so many seconds, with all of its workers."""
    process = start(fabric, **variables)
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    time.sleep(1)


def leaders(fabric):
    """{node: process id of its init}, without those that have no power."""
    found = {}
    for node in fabric.nodes:
        with contextlib.suppress(OSError, IndexError):
            found[node] = int((fabric.state / "nodes" / node / "leader").read_text().split()[0])
    return found


def end_modules(fabric, node, process):
    """End the module that runs on a node as soon as there is one, with SIGKILL; how many processes that were. process: the run."""
    leader = leaders(fabric)[node]
    while process.poll() is None:
        found = processes_alongside([leader], _is_module)
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if found:
            return len(found)
        time.sleep(0.02)
    return 0


def _is_module(words):
    """A module comes by standard input, to a Python without arguments, or as a file."""
    python = b"python" in words[0].rpartition(b"/")[2]
    return python and (len(words) == 1 or any(b"AnsiballZ_" in part for part in words))


def but_for_keys(fabric):
    """Everything on all nodes and in all clusters, with the name of its device in place of each key."""
    names = {key: f"key of {device} on {node}" for node, rows in keys(fabric).items() for device, key in rows.items()}
    found = fabric.everything()
    for node in fabric.nodes:
        files = found[node]["files"]
        for path in files:
            if path.startswith("/var/lib/semaphore-wireguard/"):
                files[path] = "a key"
            elif path.startswith("/var/lib/multicluster-network/") and path.endswith(".json"):
                files[path] = hashlib.sha256(_named(fabric.sh(node, "cat", path), names).encode()).hexdigest()
    return json.loads(_named(json.dumps(found), names))


def _named(text, names):
    for key, name in names.items():
        text = text.replace(key, name)
    return json.dumps(_in_order(json.loads(text)), sort_keys=True)


def _in_order(thing):
    """The same with its lists sorted: peers are in the order of their keys."""
    if isinstance(thing, dict):
        return {name: _in_order(row) for name, row in thing.items()}
    if isinstance(thing, list):
        return sorted(map(_in_order, thing), key=lambda row: json.dumps(row, sort_keys=True))
    return thing


def differences(found, expected):
    """{node or cluster: {part: [as it is, as expected]}} of what differs, short enough for a message of pytest."""
    rows = {}
    for name in sorted({*found, *expected}):
        one, other = found.get(name) or {}, expected.get(name) or {}
        parts = {part: [one.get(part), other.get(part)] for part in {*one, *other} if one.get(part) != other.get(part)}
        rows.update({name: parts} if parts else {})
    return rows
