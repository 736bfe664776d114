# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A router between two pods, for the tests of trace_node."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

CLIENT, SERVER = {4: "198.18.1.10", 6: "fd00:1::10"}, {4: "198.18.2.10", 6: "fd00:2::10"}
SERVICE = {4: "198.18.9.9", 6: "fd00:9::9"}
NUMBER = 61234
#: Listens in the server: a TCP port that accepts, a UDP port that echoes, one that answers nothing.
LISTENERS = """
import select, socket, sys
opened = []
for kind, port in ((socket.SOCK_STREAM, 8080), (socket.SOCK_DGRAM, 8081), (socket.SOCK_DGRAM, 8082)):
    made = socket.socket(socket.AF_INET6, kind)
    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("::", port))
    if kind == socket.SOCK_STREAM:
        made.listen(2000)
    opened.append(made)
inside = socket.create_server(("127.0.0.1", 8090))
six = socket.create_server(("::", 8091), family=socket.AF_INET6)
print("ready", flush=True)
while True:
    for made in select.select(opened, [], [])[0]:
        if made.type == socket.SOCK_STREAM:
            made.accept()[0].close()
        else:
            data, sender = made.recvfrom(65536)
            if made.getsockname()[1] == 8081:
                made.sendto(b"hello", sender)
"""


class Router:
    """The node between the client's pod and the server's, each a namespace with a link to it."""

    def __init__(self, node):
        self.node = node
        node.run("sh", "-c", "mkdir -p /run/netns")
        for index, (name, addresses) in enumerate((("client", CLIENT), ("server", SERVER)), 1):
            node.run("ip", "netns", "add", name)
            # addresses are there at once
            for words in ((), ("ip", "netns", "exec", name)):
                node.run(
                    *words, "sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0", "net.ipv6.conf.all.accept_dad=0"
                )
            node.run("ip", "link", "add", "veth-" + name, "type", "veth", "peer", "name", "eth0", "netns", name)
            node.run("ip", "link", "set", "veth-" + name, "up")
            node.run("ip", "-n", name, "link", "set", "lo", "up")
            node.run("ip", "-n", name, "link", "set", "eth0", "up")
            for version, address in addresses.items():
                length, gateway = (24, f"198.18.{index}.1") if version == 4 else (64, f"fd00:{index}::1")
                node.run("ip", "-n", name, "address", "add", f"{address}/{length}", "dev", "eth0")
                node.run("ip", "address", "add", f"{gateway}/{length}", "dev", "veth-" + name)
                node.run("ip", "-n", name, "route", "add", "default", "via", gateway)
        self._server = subprocess.Popen(
            node.command("ip", "netns", "exec", "server", sys.executable, "-c", LISTENERS),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._server.stdout.readline() == "ready\n"

    def close(self):
        self._server.kill()
        self._server.wait()
        self._server.stdout.close()

    def nft(self, text):
        self.node.run("nft", "-f", "-", stdin=text)

    def ruleset(self):
        return self.node.run("nft", "-s", "list", "ruleset")

    def remains(self):
        """What a trace must not leave: tables, abstract sockets, processes of the node's namespace."""
        sockets = [line for line in self.node.run("cat", "/proc/net/unix").splitlines() if "multicluster" in line]
        namespace = pathlib.Path(f"/proc/{self.node.pid}/ns/net").readlink()
        processes = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (process / "ns/net").readlink() == namespace and int(process.name) != self.node.pid:
                    processes.append(process.name)
            except OSError:
                continue
        return {"sockets": sockets, "processes": processes}


@pytest.fixture(name="router")
def router_fixture(node):
    made = Router(node)
    yield made
    made.close()


def flow(protocol="tcp", version=4, port=8080, number=NUMBER, target=None, backends=(), name="0"):
    return {
        "id": name,
        "number": number,
        "protocol": protocol,
        "version": version,
        "source": {
            "kind": "pod",
            "name": "one/default/client",
            "cluster": "one",
            "host": "router",
            "address": CLIENT[version],
        },
        "target": {
            "kind": "pod",
            "name": "two/default/server",
            "cluster": "two",
            "address": target or SERVER[version],
            "port": 0 if protocol == "icmp" else port,
            "backends": list(backends),
        },
    }


def ask(router, state, flows=(), trace="t1", **more):
    request = {
        "state": state,
        "fabric": "demo",
        "id": trace,
        "flows": list(flows),
        "questions": [],
        "lifetime": 30,
        "events": 400,
        "sizes": [],
        "wait_seconds": 1,
    }
    return router.node.flow("node.trace.answer", dict(request, **more))


def traced(router, *flows, **more):
    """(armed, sent by (flow, size), collected) of a whole trace; nothing of it stays."""
    before = router.ruleset()
    armed = ask(router, "armed", flows)
    assert armed["armed"], armed["reason"]
    sent = ask(router, "sent", flows, **more)["sent"]
    collected = ask(router, "collected")
    assert (
        collected["collected"] and not collected["lost"] and not collected["unreadable"] and not collected["errors"]
    ), collected
    assert router.ruleset() == before and router.remains() == {"sockets": [], "processes": []}
    return armed, sent, collected


def places(collected, direction="forward", name="0"):
    """Where packets of a flow were seen by the trace's own chains, in order, each once."""
    found = [
        row["chain"]
        for row in collected["events"]
        if row["owned"] and row["direction"] == direction and row["flow"] == name
    ]
    return list(dict.fromkeys(found))


PASSES = [
    "prerouting_first",
    "prerouting_last",
    "forward_first",
    "forward_last",
    "postrouting_first",
    "postrouting_last",
]


def ends(collected, direction="forward", name="0"):
    """The last verdict about a packet, as (family, table, chain, type, verdict), without repetitions."""
    last = {}
    for row in collected["events"]:
        if row["flow"] == name and row["direction"] == direction:
            last[row["packet"]] = row
    return {
        (row["family"], row["table"], row["chain"], row["type"], row["verdict"], row["rule"]) for row in last.values()
    }


FORWARD = """
add table inet unowned
add chain inet unowned forward {{ type filter hook forward priority {0}; policy {1}; }}
"""
