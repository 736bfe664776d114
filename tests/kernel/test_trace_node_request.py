# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests of trace_node as the module and its users give them, and the form of what it returns."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from ansible_collections.multicluster.network.plugins.module_utils._values.packed import unpack
from trace_router import (  # pylint: disable=unused-import
    NUMBER,
    PASSES,
    SERVER,
    SERVICE,
    ask,
    flow,
    places,
    router_fixture,  # noqa: F401
)

pytestmark = pytest.mark.other_kernel


@pytest.mark.parametrize(
    "change,words",
    (
        ({"number": 0}, "number"),
        ({"protocol": "sctp"}, "protocol"),
        ({"version": 5}, "version"),
        ({"source": {"address": "fd00::1"}}, "no address of IPv4"),
        ({"source": None}, "makes no sense"),
        ({"target": {"address": "198.18.2.10", "port": 70000}}, "port"),
        ({"target": {"address": "198.18.2.10; reboot", "port": 1}}, "reboot"),
    ),
)
def test_flows_that_make_no_sense_are_refused_and_the_others_go_on(router, change, words):
    armed = ask(router, "armed", [dict(flow(name="bad"), **change), flow()])
    (row,) = armed["refused"]
    assert row["object"] == "flow bad" and row["reason"] in ("bad_flow", "bad_address") and words in row["message"]
    assert armed["armed"] and {row["flow"] for row in armed["answers"]} == {"0"}
    assert ask(router, "collected")["collected"]


def test_a_name_that_is_none_is_refused(router, flow_failed):
    with pytest.raises(flow_failed, match="small letters"):
        ask(router, "armed", [flow()], trace="../x")


@pytest.mark.this_machine("Ansible")
def test_as_ansible_runs_it(router, tmp_path):
    """Ansible packs the module, runs it and takes it away again; the recorder goes on without it, and nobody waits for its end."""
    root = next(
        path for path in sys.path if path and (pathlib.Path(path) / "ansible_collections" / "multicluster").exists()
    )
    program = shutil.which("ansible") or pytest.fail("ansible is not there")
    environment = dict(
        os.environ,
        ANSIBLE_COLLECTIONS_PATH=root,
        ANSIBLE_REMOTE_TMP=str(tmp_path),
        ANSIBLE_LOCAL_TEMP=str(tmp_path / "local"),
        HOME=str(tmp_path),
    )

    def run(state, **more):
        arguments = json.dumps(dict(more, state=state, id="t1", flows=[flow()], lifetime=60))
        words = [
            program,
            "-i",
            "localhost,",
            "-c",
            "local",
            "-e",
            "ansible_python_interpreter=" + sys.executable,
            "localhost",
            "-m",
            "multicluster.network.trace_node",
            "-a",
            arguments,
        ]
        done = subprocess.run(
            router.node.command(*words), capture_output=True, text=True, check=False, timeout=50, env=environment
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return json.loads(done.stdout[done.stdout.index("{") :])

    before = router.ruleset()
    armed = run("armed")
    assert armed["armed"] is True and armed["changed"] is False and armed["facts"]["errors"] == []
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and "trace" in path.name], "the module is gone"
    assert run("sent", sizes=[1400])["sent"][1]["outcome"] == "answered"
    collected = run("collected")
    assert collected["collected"] and places(collected) == PASSES and router.ruleset() == before
    assert router.remains() == {"sockets": [], "processes": []}


SAMPLES = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "trace"
SAMPLE_RULES = """
add table ip nat
add chain ip nat KUBE-SERVICES
add rule ip nat KUBE-SERVICES ip daddr 198.18.9.9 tcp dport 80 counter dnat to 198.18.2.10:8080 comment "default/web"
add chain ip nat PREROUTING { type nat hook prerouting priority -100; }
add rule ip nat PREROUTING jump KUBE-SERVICES
add table inet unowned
add chain inet unowned guard
add rule inet unowned guard ip daddr 198.18.2.10 tcp dport 8083 counter drop comment "no telnet"
add chain inet unowned forward { type filter hook forward priority 10; }
add rule inet unowned forward jump guard
"""


def shape(value):
    """Names and kinds, without the values."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items() if not name.startswith(("veth", "wireguard"))}
    return (
        sorted({json.dumps(shape(inner), sort_keys=True) for inner in value})
        if isinstance(value, list)
        else type(value).__name__
    )


@pytest.mark.this_machine("/dev/net/tun, by which wireguard-go makes its device")
def test_the_samples_have_todays_shape(router, tmp_path):
    """What the other side of a trace is tested with. MCN_TRACE_SAMPLES=1 writes them anew."""
    router.node.flow(
        "wireguard_device",
        {
            "name": "wireguard.gcp",
            "implementation": "userspace",
            "listen_port": 51821,
            "private_key_file": str(tmp_path / "key"),
            "generate_key": True,
            "peers": [
                {
                    "public_key": base64.b64encode(bytes([7]) * 32).decode(),
                    "endpoint": "198.18.7.27:51821",
                    "allowed_ips": ["10.4.7.0/24"],
                    "persistent_keepalive": 0,
                    "preshared_key": None,
                }
            ],
        },
        False,
    )
    router.node.run("ip", "link", "set", "wireguard.gcp", "up")
    router.nft(SAMPLE_RULES)
    flows = [
        flow(
            port=80,
            target=SERVICE[4],
            backends=[{"address": SERVER[4], "port": 8080, "cluster": "two", "host": "router"}],
        ),
        flow(port=8083, number=61235, name="1"),
        flow("icmp", number=61236, name="2"),
        flow(port=9999, number=61237, name="3"),
    ]
    for state, more in (("armed", {}), ("sent", {"sizes": [1500]}), ("collected", {})):
        result, path = ask(router, state, flows, **more), SAMPLES / (state + ".json")
        if os.environ.get("MCN_TRACE_SAMPLES"):
            path.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        found = [shape(json.loads(path.read_text("utf-8"))), shape(json.loads(json.dumps(result)))]
        assert found[0] == found[1], state


def test_a_chain_at_the_way_out_of_a_device_is_in_the_hook_of_that_name(router):
    for hook, name in (("ingress", "in"), ("egress", "out")):
        router.nft(
            f"add table netdev guard; add chain netdev guard {name} {{ type filter hook {hook} device lo priority 0; }}"
        )
    try:
        tables = ask(router, "armed", [flow()])["facts"]["tables"]
    finally:
        ask(router, "collected")
        router.nft("delete table netdev guard")
    (guard,) = [table for table in tables if table["name"] == "guard"]
    assert {chain["name"]: chain["hook"] for chain in guard["chains"]} == {"in": "ingress", "out": "egress"}


def test_what_was_recorded_comes_as_one_text_where_that_is_asked(router):
    assert ask(router, "armed", [flow()])["armed"]
    ask(router, "sent", [flow()])
    collected = ask(router, "collected", packed=True)
    events = unpack(collected["packed"])
    assert (
        collected["events"] == [] and len(events) == collected["counts"]["0"] and places({"events": events}) == PASSES
    )


#: Answers every question for an address of IPv4, in the network namespace where it runs and nowhere else.
NAME_SERVER = """
import socket, struct
made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
made.bind(("127.0.0.1", 5300))
print("ready", flush=True)
while True:
    data, sender = made.recvfrom(4096)
    record = struct.pack(">HHHIH4B", 0xC00C, 1, 1, 5, 4, 10, 5, 0, 9)
    made.sendto(data[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0) + data[12:] + record, sender)
"""


def test_a_name_is_asked_for_where_the_source_is(router):
    """A server on the loopback of the client's namespace answers the client, and nobody else."""
    names = {"names": ["web.shop.svc.cluster.local"], "servers": ["127.0.0.1"], "port": 5300}
    inside, outside = dict(flow("icmp"), ask=names), dict(flow("icmp", name="1", number=NUMBER + 1), ask=names)
    outside["source"] = dict(outside["source"], kind="node", address="198.18.1.1")
    server = subprocess.Popen(
        router.node.command("ip", "netns", "exec", "client", sys.executable, "-c", NAME_SERVER),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout.readline() == "ready\n"
        asked = ask(router, "sent", [inside, outside])["asked"]
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    assert [(row["flow"], row["outcome"], row["addresses"]) for row in asked] == [
        ("0", "answered", ["10.5.0.9"]),
        ("1", "failed", []),
    ]
    assert "refused" in asked[1]["detail"] and asked[0]["name"] == names["names"][0]
