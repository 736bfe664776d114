# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that replace each other on one segment: real keepalived in namespaces on a bridge, and a neighbour who asks.

keepalived is started and notified of changes as its unit would do it; how the unit does that is a scenario's work (tests/scenario/test_layer2.py).
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._linux.daemons import keepalived
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.layer2 import keepalived_config
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.layer2.segment import (
    order,
    parse_segment,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from conftest import MODULE_UTILS, flow_environment

NAMES = ("n1", "n2", "n3")
FOUR, SIX, MORE = "10.9.0.200", "fd09::200", "10.9.0.201"
GROUP = 7
#: A takeover takes two seconds at most; a machine that is busy gets more.
SOON = 20.0


def sh(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, (words, done.stdout + done.stderr)
    return done.stdout


class Lan:
    """A bridge with a neighbour, and nodes with a keepalived each."""

    def __init__(self, folder, version=4, names=NAMES):
        self.folder, self.version, self.names = folder, version, names
        self.prefix = f"mcn-l2-{os.getpid()}"
        self.routes = [{"network": FOUR + "/32", "group": GROUP}, {"network": SIX + "/128", "group": GROUP}]
        self.running = {}

    def space(self, name):
        return f"{self.prefix}-{name}"

    def __enter__(self):
        switch = self.space("lan")
        sh("ip", "netns", "add", switch)
        sh("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        sh("ip", "-n", switch, "link", "set", "lo", "up")
        self._address(switch, "br0", 1)
        for number, name in enumerate(self.names, 11):
            sh("ip", "netns", "add", self.space(name))
            sh(
                "ip",
                "link",
                "add",
                "up0",
                "netns",
                self.space(name),
                "type",
                "veth",
                "peer",
                "name",
                name,
                "netns",
                switch,
            )
            sh("ip", "-n", switch, "link", "set", name, "master", "br0", "up")
            sh("ip", "-n", self.space(name), "link", "set", "lo", "up")
            self._address(self.space(name), "up0", number)
        return self

    @staticmethod
    def _address(space, link, number):
        sh("ip", "-n", space, "address", "add", f"10.9.0.{number}/24", "dev", link)
        sh("ip", "-n", space, "address", "add", f"fd09::{number}/64", "dev", link, "nodad")
        sh("ip", "-n", space, "link", "set", link, "up")

    def __exit__(self, *unused):
        for name in list(self.running):
            self.kill(name)
        for name in ("lan", *self.names):
            sh("ip", "netns", "delete", self.space(name))

    def configure(self, name):
        """Write what the node's module would."""
        address = "10.9.0.{0}" if self.version == 4 else "fd09::{0}"
        nodes = [{"name": one, "addresses": [address.format(number)]} for number, one in enumerate(self.names, 11)]
        segment = parse_segment({"node": name, "nodes": nodes, "routes": self.routes})
        home = self.folder / name
        (home / "groups").mkdir(parents=True, exist_ok=True)
        for group in segment.groups:
            path = home / "groups" / str(group.number)
            path.write_text(path.read_text() if path.exists() else "0\n")
        text = keepalived_config.render(segment, "up0", str(home / "groups"))
        (home / "keepalived.conf").write_text(text)
        sh(
            "ip",
            "netns",
            "exec",
            self.space(name),
            keepalived.program(),
            "--config-test",
            f"--use-file={home}/keepalived.conf",
        )

    def command(self, space, home):
        """keepalived in a namespace, with a folder of its own."""
        return [
            "ip",
            "netns",
            "exec",
            self.space(space),
            keepalived.program(),
            "--dont-fork",
            "--vrrp",
            "--log-console",
            f"--use-file={home}/keepalived.conf",
            f"--pid={home}/pid",
            f"--vrrp_pid={home}/vrrp.pid",
        ]

    def start(self, name):
        self.configure(name)
        home = self.folder / name
        with (home / "log").open("w", encoding="utf-8") as log:
            self.running[name] = subprocess.Popen(
                self.command(name, home), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def reload(self, name):
        self.configure(name)
        self.running[name].send_signal(signal.SIGHUP)

    def kill(self, name, by=signal.SIGKILL):
        process = self.running.pop(name)
        if by == signal.SIGKILL:
            child = self.folder / name / "vrrp.pid"
            os.kill(int(child.read_text()), by) if child.exists() else None
        process.send_signal(by)
        process.wait(timeout=30)

    def cut(self, name):
        """No power: nothing is said any more, and nothing taken back."""
        sh("ip", "-n", self.space("lan"), "link", "set", name, "down")
        self.kill(name)

    def deliver(self, name, yes, group=GROUP):
        """As the follower does it."""
        path = self.folder / name / "groups" / str(group)
        spare = path.with_name(".spare")
        spare.write_text("0\n" if yes else "1\n")
        spare.replace(path)

    def holders(self, address=FOUR, within=None):
        found = set()
        for name in within or self.names:
            rows = json.loads(sh("ip", "-n", self.space(name), "-j", "address", "show", "dev", "up0"))
            if any(one.get("local") == address for one in rows[0]["addr_info"]):
                found.add(name)
        return found

    def settle(self, *names, address=FOUR, within=None):
        deadline = time.monotonic() + SOON
        while self.holders(address, within) != set(names):
            assert time.monotonic() < deadline, (
                self.holders(address, within),
                names,
                [path.read_text()[-800:] for path in self.folder.glob("*/log")],
            )
            time.sleep(0.05)

    def answers(self, address=FOUR):
        words = ["ip", "netns", "exec", self.space("lan"), "ping", "-q", "-c", "1", "-W", "1", address]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    def neighbour(self, address=FOUR):
        """The node with the hardware that the neighbour believes to have an address."""
        rows = json.loads(sh("ip", "-n", self.space("lan"), "-j", "neighbour", "show", address))
        own = {
            json.loads(sh("ip", "-n", self.space(name), "-j", "link", "show", "up0"))[0]["address"]: name
            for name in self.names
        }
        return own.get(rows[0].get("lladdr")) if rows else None


@pytest.fixture(name="folder")
def folder_fixture(tmp_path):
    if os.geteuid() != 0 or not shutil.which("keepalived", path="/usr/sbin:/usr/bin"):
        pytest.skip("needs root and keepalived")
    return pathlib.Path(tmp_path)


def request(**more):
    nodes = [{"name": "n1", "addresses": ["10.9.0.11"]}, {"name": "n2", "addresses": ["10.9.0.12"]}]
    routes = [{"network": FOUR + "/32", "group": GROUP}, {"network": SIX + "/128", "group": GROUP}]
    return dict(
        {
            "state": "present",
            "node": "n1",
            "nodes": nodes,
            "routes": routes,
            "node_health_port": 0,
            "verify_seconds": 0,
        },
        **more,
    )


@pytest.fixture(name="place")
def place_fixture(node, folder):
    """A node with an interface; what the module writes stays in a folder of the test's own, over the machine's."""
    node.run("mount", "-t", "tmpfs", "tmpfs", str(folder))
    for name in ("/etc", "/usr/local/lib"):
        above, work = [folder / (kind + name.replace("/", "-")) for kind in ("upper", "work")]
        node.run("mkdir", str(above), str(work))
        node.run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={name},upperdir={above},workdir={work}", name)
    node.run("ip", "link", "add", "up0", "type", "bridge")
    node.run("ip", "address", "add", "10.9.0.11/24", "dev", "up0")
    node.run("ip", "address", "add", "fd09::11/64", "dev", "up0", "nodad")
    node.run("ip", "link", "set", "up0", "up")
    return node


def files_of(node):
    """Names, modes and contents of every owned file."""
    names = "find /etc /usr/local/lib -path '*multicluster*' -exec ls -ld --time-style=+ {} +"
    contents = "cat /etc/multicluster-network/layer2/* /etc/systemd/system/multicluster-layer2* 2>/dev/null | sha256sum"
    return node.run("sh", "-c", f"{names}; {contents}", check=False)


def test_the_module_writes_what_it_planned_and_takes_it_back(place, flow_failed):
    """Without systemd: files, check mode, diff, and refusals. What runs is another test's work."""
    nothing = files_of(place)
    planned = place.flow("speakers.layer2.speaker", request(), True)
    assert planned["changed"] and files_of(place) == nothing and planned["interface"] == "up0"
    assert "virtual_router_id 7" in planned["diff"]["after"]
    made = place.flow("speakers.layer2.speaker", request(), False)
    assert made["plan"]["create"] == planned["plan"]["create"] == 5 and not made["refused"]
    before = files_of(place)
    again = place.flow("speakers.layer2.speaker", request(), False)
    assert not again["changed"] and files_of(place) == before
    off = place.flow("speakers.layer2.speaker", request(routes=[{"network": "203.0.113.9/32", "group": 3}]), True)
    assert off["refused"][0]["reason"] == "outside_grant" and "layer2_speaker_networks" in off["refused"][0]["message"]
    assert not place.flow(
        "speakers.layer2.speaker",
        request(routes=[{"network": "203.0.113.9/32", "group": 3}], networks=["203.0.113.0/24"]),
        True,
    )["refused"]
    for wrong, expected in (
        ({"interface": "none0"}, "no interface none0"),
        ({"node": "n2"}, "layer2_speaker_address"),
        ({"node": "n9"}, "not among the nodes"),
        ({"nodes": []}, "one of them is missing"),
    ):
        with pytest.raises(flow_failed, match=expected):
            place.flow("speakers.layer2.speaker", request(**wrong), False)
    place.run("ip", "link", "add", "other0", "type", "bridge")
    place.run("ip", "address", "add", FOUR + "/24", "dev", "other0")
    with pytest.raises(flow_failed, match="other0 of this node has " + FOUR):
        place.flow("speakers.layer2.speaker", request(), False)
    place.run("ip", "link", "del", "other0")
    # what a keepalived that was killed left behind goes too
    place.run("ip", "address", "add", FOUR + "/32", "dev", "up0")
    assert place.flow("speakers.layer2.speaker", request(), False)["holds"] == [FOUR]
    assert place.flow("status", {"fabric": "demo"})["node"]["layer2"] == {
        "interface": "up0",
        "holds": [FOUR + "/32"],
        "withheld": [],
    }
    gone = place.flow("speakers.layer2.speaker", {"state": "absent"}, False)
    assert gone["plan"]["delete"] == 5 and files_of(place) == nothing and FOUR not in place.run("ip", "address")
    assert not place.flow("speakers.layer2.speaker", {"state": "absent"}, False)["changed"]


@pytest.mark.parametrize("version", [4, pytest.param(6, marks=pytest.mark.takes_long)])
def test_one_node_holds_both_families_and_the_next_takes_over(folder, version):
    first, second, third = order(GROUP, NAMES)
    with Lan(folder, version) as lan:
        for name in NAMES:
            lan.start(name)
        lan.settle(first)
        lan.settle(first, address=SIX)
        assert lan.answers() and lan.answers(SIX) and lan.neighbour() == first
        lan.cut(first)
        rest = (second, third)
        lan.settle(second, within=rest)
        lan.settle(second, address=SIX, within=rest)
        # nobody asked anew: the neighbour was notified
        deadline = time.monotonic() + SOON
        while (lan.neighbour(), lan.neighbour(SIX)) != (second, second):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert lan.answers() and lan.answers(SIX)
        lan.kill(second, signal.SIGTERM)
        lan.settle(third, within=rest)
        assert lan.holders(SIX, [second]) == set()


@pytest.mark.takes_long
def test_what_a_node_cannot_deliver_it_hands_over(folder):
    first, second, third = order(GROUP, NAMES)
    with Lan(folder) as lan:
        for name in NAMES:
            lan.start(name)
        lan.settle(first)
        lan.deliver(first, False)
        lan.settle(second)
        lan.deliver(second, False)
        lan.deliver(third, False)
        lan.settle()
        lan.deliver(first, True)
        lan.settle(first)


@pytest.mark.takes_long
def test_changes_leave_addresses_where_they_are(folder):
    first, second, third = order(GROUP, NAMES)
    with Lan(folder) as lan:
        for name in NAMES:
            lan.start(name)
        lan.settle(first)
        words = ["ip", "netns", "exec", lan.space("lan"), "ping", "-q", "-i", "0.02", "-c", "150", "-W", "1", FOUR]
        ping = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        lan.routes.append({"network": MORE + "/32", "group": GROUP})
        # one after the other, as a play in batches does it: nodes with the old file go on hearing those with the new one
        for name in (second, first, third):
            lan.reload(name)
            time.sleep(0.5)
        lan.settle(first, address=MORE)
        said = ping.communicate(timeout=60)[0]
        assert " 0% packet loss" in said, said
        assert lan.holders() == {first}
        lan.routes = lan.routes[:1]
        for name in NAMES:
            lan.reload(name)
        lan.settle(address=MORE)
        lan.settle(address=SIX)
        assert lan.holders() == {first}
        lan.routes = []
        for name in NAMES:
            lan.reload(name)
        lan.settle()


@pytest.mark.takes_long
def test_nodes_that_do_not_hear_each_other_both_hold_it_until_they_do(folder):
    first, second, third = order(GROUP, NAMES)
    with Lan(folder) as lan:
        for name in NAMES:
            lan.start(name)
        lan.settle(first)
        for name in (second, third):  # these hear each other, and not the first
            number = 11 + NAMES.index(first)
            rule = (
                f"table ip cut {{ chain in {{ type filter hook input priority 0; ip saddr 10.9.0.{number} drop; }}; }}"
            )
            sh("ip", "netns", "exec", lan.space(name), "nft", rule)
        lan.settle(first, second)
        assert lan.answers()
        for name in (second, third):
            sh("ip", "netns", "exec", lan.space(name), "nft", "delete", "table", "ip", "cut")
        lan.settle(first)
        deadline = time.monotonic() + SOON
        while lan.neighbour() != first:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.takes_long
def test_what_was_killed_comes_back_without_what_it_had(folder):
    first, second, unused = order(GROUP, NAMES)
    with Lan(folder) as lan:
        for name in NAMES:
            lan.start(name)
        lan.settle(first)
        lan.kill(first)
        lan.settle(first, second)  # nobody has taken it from the interface
        lan.start(first)
        lan.settle(second)
        lan.settle(first)


ANNOUNCED = f"""
import json
from {MODULE_UTILS}_linux.host.facts import read_host
from {MODULE_UTILS}_mesh.kubespan.endpoints import node_addresses
rows = [dict(row, protocol=0) for row in read_host()["configured"]]
print(json.dumps([node_addresses(read_host()["configured"]), node_addresses(rows), [row["protocol"] for row in read_host()["configured"]]]))
"""


#: An address with keepalived's number, as its newer releases write it; iproute2 of many distributions cannot.
AS_KEEPALIVED = f"""
import socket, struct
from {MODULE_UTILS}_linux.netlink.links import link_index
from {MODULE_UTILS}_linux.netlink.messages import NLM_F_CREATE, RouteSocket, attribute
packed = socket.inet_aton("10.9.0.200")
with RouteSocket("links") as netlink:
    head = struct.pack("=BBBBi", socket.AF_INET, 24, 0, 0, link_index("up0"))
    netlink.order(20, NLM_F_CREATE, head + attribute(1, packed) + attribute(2, packed) + attribute(11, bytes([18])))
"""


def announced(lan, name):
    """What a node would announce in a KubeSpan mesh: as it reads itself, and without who put its addresses there."""
    done = subprocess.run(
        ["ip", "netns", "exec", lan.space(name), sys.executable, "-c", ANNOUNCED],
        capture_output=True,
        text=True,
        check=False,
        env=flow_environment(),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_holder_announces_no_address_of_a_service(folder):
    """It has it for as long as nothing happens to it: as a node's address it would stay with the dead one (threat T48)."""
    with Lan(folder, names=NAMES[:2]) as lan:
        for name in lan.names:
            lan.start(name)
        holder = next(name for name in order(GROUP, NAMES) if name in lan.names)
        lan.settle(holder)
        lan.settle(holder, address=SIX)
        for number, name in enumerate(lan.names, 11):
            own = [f"10.9.0.{number}", f"fd09::{number}"]
            assert announced(lan, name)[:2] == [own, own]


def test_who_put_an_address_there_counts_where_the_kernel_keeps_it(node, folder):  # pylint: disable=unused-argument
    node.run("ip", "link", "add", "up0", "type", "bridge")
    node.run("ip", "link", "set", "up0", "up")
    node.run("ip", "address", "add", "10.9.0.11/24", "dev", "up0")
    done = subprocess.run(
        node.command(sys.executable, "-c", AS_KEEPALIVED + ANNOUNCED),
        capture_output=True,
        text=True,
        check=False,
        env=flow_environment(),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found[0] == ["10.9.0.11"] and found[1] == ["10.9.0.11", "10.9.0.200"] and 18 in found[2]


def test_a_node_alone_on_its_segment(folder):
    with Lan(folder, names=("n1",)) as lan:
        lan.start("n1")
        lan.settle("n1")
        assert lan.answers()


@pytest.mark.takes_long
def test_a_packet_from_elsewhere_takes_nothing_away(folder):
    """A neighbour that is no node of the segment announces the highest priority to its holder."""
    first = order(GROUP, NAMES)[0]
    with Lan(folder) as lan:
        for name in NAMES:
            lan.start(name)
        lan.settle(first)
        home = folder / "rival"
        home.mkdir()
        (home / str(GROUP)).write_text("0\n")
        nodes = [
            {"name": "rival", "addresses": ["10.9.0.1"]},
            {"name": first, "addresses": [f"10.9.0.{11 + NAMES.index(first)}"]},
        ]
        rival = parse_segment({"node": "rival", "nodes": nodes, "routes": lan.routes})
        own = f"    priority {rival.priority(GROUP)}\n"
        text = keepalived_config.render(rival, "br0", str(home))
        assert own in text
        (home / "keepalived.conf").write_text(text.replace(own, "    priority 255\n"))
        with (home / "log").open("w", encoding="utf-8") as log:
            process = subprocess.Popen(lan.command("lan", home), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            until = time.monotonic() + SOON
            while "MASTER" not in (home / "log").read_text() and time.monotonic() < until:
                time.sleep(0.1)
            time.sleep(2)  # four of its advertisements
            still = lan.holders()
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)
        assert still == {first} and "MASTER" in (home / "log").read_text()


def test_a_configuration_that_keepalived_refuses():
    with pytest.raises(ValueRefused) as caught:
        keepalived.check_config("vrrp_instance x {\n  virtual_router_id 900\n}\n")
    assert caught.value.reason == "config_refused" and "900" in caught.value.message
