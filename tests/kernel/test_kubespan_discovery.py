# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""KubeSpan nodes that find each other through a discovery service, by the flow that the play runs and the watcher of its unit.

The service is a process of its own in a third namespace, since a node of the mesh sends what it has for others through the tunnel.
The watcher runs by the distribution's Python, with its packages.
"""

from __future__ import annotations

import binascii
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from conftest import SLOW, flow_environment
from test_kubespan import MESH, PODS, ULA, UNDERLAY, Site

DOUBLE = pathlib.Path(__file__).parents[1] / "doubles" / "discovery_service" / "server.py"
FOLDER = "/var/lib/multicluster-network/mesh"


class Joined(Site):
    """Two nodes with nothing but the service between them."""

    def __init__(self, new_node, implementation, folder):
        super().__init__(new_node, implementation)
        self.control, self.log, self.started = folder / "control.json", folder / "log", []
        self.nodes["s"] = new_node()
        for number, name in enumerate("ab"):
            self.nodes[name].run(
                *f"ip link add toward type veth peer name to{name} netns {self.nodes['s'].pid}".split()
            )
            self.nodes[name].run("ip", "address", "add", f"198.51.100.{4 * number + 2}/30", "dev", "toward")
            self.nodes[name].run("ip", "link", "set", "toward", "up")
            self.nodes["s"].run("ip", "address", "add", f"198.51.100.{4 * number + 1}/30", "dev", "to" + name)
            self.nodes["s"].run("ip", "link", "set", "to" + name, "up")
        self.settings = {
            "cluster": "c",
            "pod_cidrs": ["10.244.0.0/16", "fd00:1::/64", "fd00:2::/64"],
            "node_cidrs": ["192.0.2.0/24"],
            "overlay": ["10.244.0.0/16", "10.96.0.0/12"],
        }
        for number, name in enumerate("ab"):
            settings = dict(self.settings, url=f"http://198.51.100.{4 * number + 1}:3000")
            self.wants[name]["kubespan"].update(
                watcher=True, discovery=settings, complete=True, exclude_addresses=["198.51.100.0/24"]
            )

    def start(self, name, *words):
        """A process in a node, ended with the test."""
        process = subprocess.Popen(
            self.nodes[name].command(*words),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=flow_environment(),
        )
        self.started.append(process)
        return process

    def serve(self):
        words = [sys.executable, str(DOUBLE), "--address", "0.0.0.0:3000"]
        process = self.start("s", *words, "--control", str(self.control), "--log", str(self.log))
        assert process.stdout.readline().startswith("listening")
        return process

    def order(self, **orders):
        spare = self.control.with_suffix(".new")
        spare.write_text(json.dumps(orders), "utf-8")
        spare.rename(self.control)

    def watch(self, name):
        (code,) = self.nodes[name].run("sh", "-c", "ls /usr/local/lib/multicluster-network/mesh/*.pyz").split()
        return self.start(name, "/usr/bin/python3", "-B", code, "watch", "mesh")

    def stop(self, process):
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        said = process.stdout.read()
        process.stdout.close()
        self.started.remove(process)
        return said

    def shown(self, name):
        text = self.nodes[name].run("cat", "/run/multicluster-network/mesh-kubespan.json", check=False)
        return json.loads(text) if text.strip() else {}

    def peers(self, name):
        return self.nodes[name].run("wg", "show", "kubespan", "peers", check=False).split()

    def close(self):
        for process in self.started[:]:
            self.stop(process)


@pytest.fixture(name="joined")
def joined_fixture(new_node, implementation, wait_for, tmp_path):
    site = Joined(new_node, implementation, tmp_path)
    assert all(
        wait_for(lambda node=node: "state UP" in node.run("ip", "link", "show", "under"), 60 * SLOW)
        for node in (site.nodes["a"], site.nodes["b"])
    )
    site.order()
    yield site
    with contextlib.suppress(ProcessLookupError):
        site.close()


def test_two_hosts_meet_only_through_the_service_and_part(joined, wait_for):
    service = joined.serve()
    planned = joined.run("a", check=True)
    assert [row["kind"] for row in planned["plan"]["changes"] if row["kind"] == "affiliate"] == ["affiliate"]
    assert not joined.log.exists() or b"AffiliateUpdate" not in joined.log.read_bytes()
    first = joined.run("a")
    assert not first["refused"] and first["kubespan"]["peers"] == 0, first
    again = joined.run("a")
    assert not again["changed"] and not again["warnings"], again["diff"]
    started = time.monotonic()
    watchers = [joined.watch("a")]
    second = joined.run("b")
    assert second["kubespan"]["peers"] == 1 and not second["refused"], second
    watchers.append(joined.watch("b"))
    # the watcher of the one that was there is told of the newcomer, without a play
    assert wait_for(lambda: joined.peers("a"), 20 * SLOW), joined.stop(watchers[0])
    assert wait_for(lambda: joined.ping(ULA["b"], ULA["a"]), 30 * SLOW)
    assert joined.ping(PODS["b"] + ".9", PODS["a"] + ".9")
    assert time.monotonic() - started < 60 * SLOW
    assert wait_for(lambda: (joined.shown("a").get("discovery") or {}).get("state") == "connected", 10 * SLOW)
    for name in "ab":
        again = joined.run(name)
        assert not again["changed"] and not again["warnings"], again["diff"]
    # nothing that a node is or has can be read in what was sent
    sent = b"".join(map(binascii.unhexlify, joined.log.read_bytes().splitlines()))
    keys = [joined.peers(name)[0] for name in "ab"]
    names = [os.uname().nodename.encode(), b"worker", *(key.encode() for key in keys), *map(binascii.a2b_base64, keys)]
    addresses = [text.encode() for text in (*UNDERLAY.values(), *ULA.values(), *PODS.values())]
    raw = [bytes(map(int, text.split("."))) for text in UNDERLAY.values()] + [
        bytes((10, 244, 1, 0)),
        bytes((10, 244, 2, 0)),
    ]
    assert MESH["mesh_id"].encode() in sent and len(sent) > 500
    for text in (*names, *addresses, *raw, MESH["mesh_secret"].encode()):
        assert text not in sent, text
    # the service goes away: peers stay, and it is said once
    joined.stop(service)
    assert wait_for(lambda: joined.shown("a")["discovery"]["state"] == "away", 60 * SLOW)
    assert joined.peers("a") and joined.ping(PODS["b"] + ".9", PODS["a"] + ".9")
    away = joined.run("a")
    assert not away["changed"] and "[service_away]" in away["warnings"][0], away
    service = joined.serve()  # with nothing in its memory
    assert wait_for(lambda: joined.shown("a")["discovery"]["state"] == "connected", 90 * SLOW)
    assert joined.peers("a") == [key for key in keys if key in joined.peers("a")] and joined.peers("b")
    # b leaves: its record goes, and with it the peer, and its watcher does not bring it back
    gone = joined.run("b", kubespan=None)
    assert [row["action"] for row in gone["plan"]["changes"] if row["kind"] == "affiliate"] == ["delete"]
    assert wait_for(lambda: not joined.peers("a"), 30 * SLOW)
    joined.stop(watchers[1])  # as the unit of it would be
    time.sleep(1)
    assert not joined.peers("a")
    left = joined.nodes["b"].run("ls", FOLDER).split()
    assert left == ["kubespan-identity.json", "kubespan.key"]


def test_a_wrong_secret_reads_nothing_and_says_so(joined, wait_for):
    joined.serve()
    joined.run("b")
    joined.wants["a"]["kubespan"]["mesh_secret"] = "AgIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
    found = joined.run("a")
    assert found["kubespan"]["peers"] == 0 and any("[wrong_secret]" in text for text in found["warnings"]), found
    assert {row["reason"] for row in found["refused"]} == {"wrong_secret"}
    joined.watch("a")
    assert wait_for(lambda: (joined.shown("a").get("discovery") or {}).get("state") == "wrong_secret", 20 * SLOW)


def test_two_fabrics_of_one_service_do_not_meet(joined):
    joined.serve()
    joined.run("b")
    joined.wants["a"]["kubespan"]["mesh_id"] = "another mesh"
    found = joined.run("a")
    assert found["kubespan"]["peers"] == 0 and not found["refused"] and not found["warnings"], found
