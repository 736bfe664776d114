# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reconciler and its timer, replaced by their role alone: an upgrade, the way back, and the upgrade again, under traffic.

The service and the timer on one node alone run the fabric's playbooks. Pairs of pods of different clusters send 100 packets a second
together, from the first mesh of the former revision to the end. The tests build on each other.
"""

from __future__ import annotations

import contextlib
import io
import json
import tarfile

import pytest
from counted_traffic import counted_traffic
from rotation_lab import pods_of
from service_lab import make_fluentd, make_pod, remove_pod
from test_continuous import HOME, RECONCILER, idle, inventory, journal, measured, mirrored, peers, put
from test_upgrade import ODD, VARIABLES, former, present  # noqa: F401 pylint: disable=unused-import

#: Services lead nowhere without them, so a run of the timer fails.
PROXIES = True
#: Packets a second of each of the four flows.
RATE = 25
STATE = {}
UNITS = ["multicluster-reconciler-default.service", "multicluster-site.service", "multicluster-site.timer"]


def packed(home):
    """What a released collection has in it."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as target:
        for name in ("plugins", "roles", "playbooks", "meta", "galaxy.yml"):
            target.add(
                home / name,
                "ansible_collections/multicluster/network/" + name,
                filter=lambda member: None if "__pycache__" in member.name else member,
            )
    return archive.getvalue()


def installed(fabric, revision):
    """The collection of that revision where the service has its own, in place of the one that was there, and the inventory with that one's names."""
    put(fabric, HOME + "/collection.tar.gz", packed(revision.home))
    fabric.sh(RECONCILER, "rm", "-rf", HOME + "/ansible_collections")
    fabric.sh(RECONCILER, "tar", "-xzf", HOME + "/collection.tar.gz", "-C", HOME)
    inventory(fabric, dict(VARIABLES, multicluster_capabilities=[revision.mirrors]))


def role(fabric, revision, **variables):
    own = {
        "multicluster_reconcilers": RECONCILER,
        "reconciler_inventory": HOME + "/hosts.yml",
        "reconciler_collections_path": HOME,
        "reconciler_capabilities": [revision.mirrors],
        "reconciler_period": "20s",
        "reconciler_clusters": [{"name": name, "kubeconfig": f"{HOME}/{name}.kubeconfig"} for name in fabric.clusters],
    }
    return revision.play(fabric, "reconciler", **dict(own, **variables))


def units(fabric):
    """Names of the units that the role makes; multicluster-network-* is the node's own, of the mesh."""
    found = fabric.sh(RECONCILER, "sh", "-c", "cd /etc/systemd/system && ls -d multicluster-* 2>/dev/null || true")
    return sorted(name for name in found.split() if not name.startswith("multicluster-network-"))


def service(fabric):
    """One start of the service that follows the clusters: another one has another name here."""
    shown = fabric.sh(RECONCILER, "systemctl", "show", "-p", "InvocationID,ActiveState", UNITS[0])
    assert "ActiveState=active" in shown, journal(fabric)
    return shown


def follows(fabric, revision, pods):
    """A change of a Service arrives in the other cluster, and the timer's run of everything ends well."""
    measured(fabric, "a changed service, by an event", lambda: mirrored(fabric) == sorted(pods))
    idle(fabric)
    fabric.sh(RECONCILER, "systemctl", "start", "multicluster-site.service", check=False)
    shown = fabric.sh(RECONCILER, "systemctl", "show", "-p", "Result", "multicluster-site.service")
    assert "Result=success" in shown, journal(fabric)
    fabric.all_reach()
    config = json.loads(fabric.sh(RECONCILER, "cat", "/etc/multicluster/reconciler-default.json"))
    assert revision.mirrors in json.dumps(config["watch"]), config["watch"]


@pytest.fixture(scope="module", autouse=True)
def traffic():
    with contextlib.ExitStack() as stack:
        STATE["stack"] = stack
        yield


def test_the_former_role_keeps_the_fabric(fabric, former):  # noqa: F811
    STATE["before"] = units(fabric)
    fabric.sh(RECONCILER, "mkdir", "-p", HOME)
    installed(fabric, former)
    role(fabric, former).ok()
    pairs = (("aws-node-2", "wireguard.gcp"), ("gcp-node-1", "wireguard.aws"))
    measured(
        fabric,
        "a fabric from nothing, by the timer",
        lambda: all(len(peers(fabric, node, device)) == 2 for node, device in pairs),
        300,
    )
    STATE["pods"] = list(make_fluentd(fabric))
    follows(fabric, former, STATE["pods"])
    assert units(fabric) == UNITS
    pods = pods_of(fabric)
    members = {node: "/run/netns/" + namespace for node, (_cluster, namespace, _address) in pods.items()}
    # The revisions choose different addresses of ODD, and the former one takes a peer that goes on sending from its other address for a failure.
    flows = [
        (one, two, pods[two][2])
        for one in pods
        for two in pods
        if pods[one][0] != pods[two][0] and ODD not in (one, two)
    ]
    STATE["counted"] = STATE["stack"].enter_context(
        counted_traffic(fabric.state / "traffic", members, flows, RATE, 0, 0)
    )


@pytest.mark.parametrize("times", ["upgrade", "downgrade", "upgrade again"])
def test_the_role_alone_replaces_both(fabric, former, present, times):  # noqa: F811
    revision = former if times == "downgrade" else present
    former_service = service(fabric)
    installed(fabric, revision)
    assert role(fabric, revision).ok().changed
    idle(fabric)
    assert service(fabric) != former_service, "the service of the other revision still runs"
    assert units(fabric) == UNITS, "of one revision each"
    assert not role(fabric, revision).ok().changed
    if len(STATE["pods"]) == 2:
        remove_pod(fabric, "fluentd-b")
        STATE["pods"].pop()
    else:
        STATE["pods"].append(make_pod(fabric, "fluentd-b"))
    follows(fabric, revision, STATE["pods"])


def test_no_packet_was_lost(fabric):
    STATE["stack"].close()
    fabric.ran(str(STATE["counted"]))
    assert STATE["counted"].sent > 4 * 1000 and STATE["counted"].lost == 0, STATE["counted"]


def test_absent_leaves_nothing_of_either(fabric, present):  # noqa: F811
    role(fabric, present, reconciler_state="absent").ok()
    assert units(fabric) == STATE["before"]
    assert not role(fabric, present, reconciler_state="absent").ok().changed
