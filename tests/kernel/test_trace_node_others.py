# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several traces and other programs at once, other users of the host, and ends in the middle: nothing is disturbed and nothing is left."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from conftest import DRIVER, MODULE_UTILS, flow_environment
from trace_router import (  # pylint: disable=unused-import
    FORWARD,
    PASSES,
    SERVER,
    ask,
    ends,
    flow,
    places,
    router_fixture,  # noqa: F401
    traced,
)

pytestmark = pytest.mark.other_kernel


def test_two_traces_at_once_do_not_disturb_each_other(router):
    before = router.ruleset()
    first, second = flow(number=61001, name="a"), flow("udp", port=8081, number=61002, name="b")
    assert ask(router, "armed", [first], "one")["armed"] and ask(router, "armed", [second], "two")["armed"]
    again = ask(router, "armed", [first], "one")
    assert not again["armed"] and "its name is taken" in again["reason"]
    ask(router, "sent", [first], "one")
    ask(router, "sent", [second], "two")
    found = ask(router, "collected", trace="one")
    assert set(found["counts"]) == {"a"} and places(found, name="a") == PASSES
    assert not [row for row in found["events"] if row["table"] == "multicluster_trace_two"]
    ask(router, "sent", [second], "two")
    found = ask(router, "collected", trace="two")
    assert set(found["counts"]) == {"b"} and places(found, name="b") == PASSES
    assert router.ruleset() == before and router.remains() == {"sockets": [], "processes": []}


def test_a_flush_by_others_does_not_end_it(router):
    router.nft(FORWARD.format(0, "drop"))
    ask(router, "armed", [flow()])
    router.node.run("nft", "flush", "ruleset")
    assert ask(router, "sent", [flow()])["sent"][0]["outcome"] == "answered"
    assert places(ask(router, "collected")) == PASSES
    assert router.ruleset() == ""


def test_flows_may_share_a_number(router):
    flows = [
        flow(name="tcp"),
        flow("udp", port=8081, name="udp"),
        flow("icmp", name="icmp"),
        flow(version=6, name="six"),
        flow("udp", port=9, name="closed", version=6),
    ]
    _armed, sent, collected = traced(router, *flows)
    assert [row["outcome"] for row in sent] == ["answered"] * 4 + ["refused"]
    assert set(collected["counts"]) == {"tcp", "udp", "icmp", "six", "closed"}
    for name in collected["counts"]:
        assert places(collected, name=name) == PASSES and places(collected, "back", name) == PASSES
    assert {row["error"] for row in collected["events"] if row["flow"] == "closed" and row["direction"] == "back"} == {
        "port_unreachable"
    }


def test_others_who_use_our_number_are_left_out(router):
    router.node.run("ip", "-n", "client", "address", "add", "198.18.1.77/24", "dev", "eth0")
    ask(router, "armed", [flow()])
    script = "import socket; s = socket.socket(); s.bind(('198.18.1.77', 61234)); s.connect(('198.18.2.1', 9))"
    subprocess.run(
        router.node.command("ip", "netns", "exec", "client", sys.executable, "-c", script),
        capture_output=True,
        check=False,
        timeout=10,
    )
    collected = ask(router, "collected")
    assert collected["events"] == [] and collected["counts"] == {} and collected["others"] >= 2


def test_many_events_are_counted_and_few_are_kept(router):
    ask(router, "armed", [flow("icmp")], events=20)
    for _turn in range(5):
        ask(router, "sent", [flow("icmp")])
    collected = ask(router, "collected")
    assert len(collected["events"]) == 20 and collected["counts"]["0"] == 5 * 2 * len(PASSES)
    assert (
        collected["events"][0]["chain"] == "prerouting_first" and collected["events"][-1]["chain"] == "postrouting_last"
    )


def test_a_thousand_flows_at_once(router):
    kinds = (("tcp", 8080), ("udp", 8081), ("icmp", 0))
    flows = [
        flow(
            *kinds[number % 3][:1],
            version=4 + 2 * (number % 2),
            port=kinds[number % 3][1],
            number=20000 + number,
            name=str(number),
        )
        for number in range(1000)
    ]
    _armed, sent, collected = traced(router, *flows)
    assert {row["outcome"] for row in sent} == {"answered"} and len(sent) == 1000
    assert set(collected["counts"]) == {str(number) for number in range(1000)}
    for name in ("0", "1", "2", "997", "998", "999"):
        assert places(collected, name=name) == PASSES
    assert len(collected["events"]) <= 20000


HOSTILE = (
    "x; flush ruleset",
    "a\nb",
    "$(touch /tmp/owned)",
    "{{ lookup('env','HOME') }}",
    "\x1b[31mred",
    "<script>",
    "-f",
)
#: Makes a table with chains of any name; nft itself cannot.
MAKE_HOSTILE = """
import json, sys
from ansible_collections.multicluster.network.plugins.module_utils._linux.nftables import codec, netlink
names = json.load(sys.stdin)
new = netlink.NLM_F_CREATE
with netlink.NetfilterSocket() as opened:
    orders = [netlink.Message(codec.NEWTABLE, new, codec.encode_table(names[0]), "table")]
    for number, name in enumerate(names):
        chain = dict(name=name, type="filter", hook="forward", priority=number, policy="accept" if number + 1 < len(names) else "drop")
        orders.append(netlink.Message(codec.NEWCHAIN, new, codec.encode_chain(names[0], chain), "chain"))
    opened.commit("inet", orders)
"""


def test_names_of_others_are_only_shown(router):
    subprocess.run(
        router.node.command(sys.executable, "-c", MAKE_HOSTILE),
        input=json.dumps(HOSTILE),
        text=True,
        check=True,
        env=flow_environment(),
    )
    _armed, _sent, collected = traced(router, flow())
    met = list(dict.fromkeys(row["chain"] for row in collected["events"] if not row["owned"]))
    assert met == [name.replace("\n", "?").replace("\x1b", "?") for name in HOSTILE]
    assert {row[1:5] for row in ends(collected)} == {("x; flush ruleset", "-f", "policy", "drop")}
    assert not pathlib.Path("/tmp/owned").exists() and all(row["rule"] is None for row in collected["events"])


def as_nobody(router, script):
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", script]
    return subprocess.Popen(router.node.command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_another_user_is_not_answered(router):
    ask(router, "armed", [flow()])
    script = """
import socket
opened = socket.socket(socket.AF_UNIX)
opened.settimeout(5)
opened.connect("\\0multicluster_trace_t1")
try:
    opened.send(b"events")
    print(len(opened.recv(9)))
except OSError:
    print("closed")
"""
    said, _errors = as_nobody(router, script).communicate(timeout=20)
    assert said.strip() in ("0", "closed")
    assert ask(router, "collected")["collected"]


def test_another_user_is_not_believed(router):
    script = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0multicluster_trace_t1'); s.listen(); print('x', flush=True); s.accept()[0].recv(9)"
    holder = as_nobody(router, script)
    try:
        assert holder.stdout.readline()
        armed = ask(router, "armed", [flow()])
        assert not armed["armed"] and "its name is taken" in armed["reason"] and armed["facts"]["links"]
        collected = ask(router, "collected")
        assert not collected["collected"] and "somebody else" in collected["reason"]
    finally:
        holder.kill()
        holder.communicate()


def test_without_a_recorder_it_reports_it(router):
    collected = ask(router, "collected", [flow()])
    assert (
        not collected["collected"]
        and "no recorder" in collected["reason"]
        and collected["events"] == []
        and collected["counters"]["links"]
    )


def test_it_ends_by_itself(router, wait_for):
    before = router.ruleset()
    assert ask(router, "armed", [flow()], lifetime=1)["armed"]
    assert router.ruleset() != before
    assert wait_for(lambda: router.remains() == {"sockets": [], "processes": []})
    assert router.ruleset() == before


def recorders(router):
    return [int(pid) for pid in router.remains()["processes"]]


def test_killed_at_any_moment_it_leaves_nothing(router, wait_for):
    """The recorder, while packets are on their way."""
    before = router.ruleset()
    for number in range(10):
        assert ask(router, "armed", [flow()])["armed"]
        busy = subprocess.Popen(
            router.node.command("ip", "netns", "exec", "client", "ping", "-q", "-f", "-c", "2000", SERVER[4]),
            stdout=subprocess.DEVNULL,
        )
        time.sleep(0.01 * number)
        victims = [
            pid
            for pid in recorders(router)
            if pid != busy.pid and b"trace" in pathlib.Path(f"/proc/{pid}/comm").read_bytes()
        ]
        assert victims
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        busy.kill()
        busy.wait()
        assert wait_for(lambda: router.remains() == {"sockets": [], "processes": []})
        assert router.ruleset() == before
        assert not ask(router, "collected")["collected"]


def test_a_module_killed_at_any_moment_leaves_nothing(router, wait_for):
    before = router.ruleset()
    request = {
        "state": "armed",
        "fabric": "demo",
        "id": "t1",
        "flows": [flow()],
        "questions": [],
        "lifetime": 1,
        "events": 400,
        "sizes": [],
        "wait_seconds": 1,
    }
    started = 0
    for number in range(12):
        module = subprocess.Popen(
            router.node.command(sys.executable, "-B", "-c", DRIVER),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=flow_environment(),
        )
        module.stdin.write(
            json.dumps({"flow": MODULE_UTILS + "_flows.node.trace.answer", "arguments": [request]}).encode()
        )
        module.stdin.close()
        time.sleep(0.03 * number)
        module.kill()
        module.wait()
        started += router.ruleset() != before
        assert wait_for(lambda: router.remains() == {"sockets": [], "processes": []}, 20)
        assert router.ruleset() == before
    print(f"the recorder stood when the module was killed: {started} times")


def test_a_kernel_without_the_owner_flag_is_named(router):
    """The kernel refuses a flag that it does not know, as an older one refuses this."""
    script = """
import json, sys
from ansible_collections.multicluster.network.plugins.module_utils._flows.node.trace import answer as trace
from ansible_collections.multicluster.network.plugins.module_utils._linux.nftables import trace as codec
codec.OWNED = 0x4000
print(json.dumps(trace.run(json.load(sys.stdin))))
"""
    before = router.ruleset()
    request = {
        "state": "armed",
        "fabric": "demo",
        "id": "t1",
        "flows": [flow()],
        "questions": [],
        "lifetime": 30,
        "events": 400,
    }
    done = subprocess.run(
        router.node.command(sys.executable, "-c", script),
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=True,
        env=flow_environment(),
    )
    armed = json.loads(done.stdout)
    assert not armed["armed"] and "Linux 5.12" in armed["reason"] and armed["answers"] and armed["facts"]["links"]
    assert router.ruleset() == before and router.remains()["sockets"] == []
