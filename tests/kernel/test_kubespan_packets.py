# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""KubeSpan's table, rule and routes while packets flow: nothing that belongs into the tunnel leaves by the uplink.

A veth device replaces the tunnel: marks, rules and routes do not ask what a device is. A counter behind everything,
in a table of the test's own, is the witness, and changes in an order that is known to leak are its control.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from conftest import MODULE_UTILS, SLOW, flow_environment

pytestmark = pytest.mark.other_kernel

#: Of each update; `tests/run leaks` has 200.
ROUNDS = int(os.environ.get("MCN_REPEATS", "40" if SLOW <= 1 else "20"))
MANY = 100_000 if SLOW <= 1 else 1_000
#: An emulated processor has no time for more than a few packets alongside the changes themselves.
PAUSE = 0 if SLOW <= 1 else 0.002
TARGETS = {4: "10.244.3.9", 6: "fd00:244:3::9"}

DRIVER = f"""
import importlib, ipaddress, json, os, signal, socket, subprocess, sys, time
ask = json.load(sys.stdin)
load = lambda name: importlib.import_module({MODULE_UTILS!r} + name)
nft_table, ip_rules, nft = (load(name) for name in ("_flows.node.nft_table", "_flows.node.ip_rules", "_linux.nftables.table"))
rules, routes = load("_linux.netlink.rules"), load("_linux.netlink.routes")
generations, kubespan_nft, routing = (load("_mesh.kubespan." + name) for name in ("generations", "nft", "routing"))
ranges = load("_values.prefix_sets")
targets = {TARGETS!r}


def run(*words):
    subprocess.run(words, check=True)


def network(*texts):
    return ranges.PrefixSet.of(ipaddress.ip_network(text) for text in texts)


narrow = network("10.244.3.0/24", "fd00:244:3::/64")
wide = network("10.244.2.0/23", "10.20.0.13/32", "fd00:244:2::/47", "2001:db8:9::/64")
one = network("10.244.3.9/32", "10.244.3.128/25", "fd00:244:3::9/128")


def whole(members=narrow, mtu=1420, generation="current", priority=0):
    table = kubespan_nft.table(generations.Layout(), mtu, generations.generation(generation))
    for item in table["sets"]:
        item["elements"] = members.spans(item["version"])
    for chain in table["chains"]:
        chain["priority"] = priority
    return {{"table": table, "owner": "multicluster.network/demo"}}


def set_table(*given, **more):
    return set_table_to(whole(*given, **more))


def set_table_to(desired):
    actual = nft_table.gather(desired)
    planned = nft_table.plan(desired, actual)
    nft_table.apply(desired, actual, planned)
    return planned.changed


def set_routes(mtu=1420, fail_closed=True, table=180):
    steps = routing.plan_routes(routes.read_routes(table), generations.Layout(route_table=table), mtu, fail_closed)
    chosen = [[step["route"] for step in steps if step["op"] == operation] for operation in ("replace", "delete")]
    routes.write_routes(table, 4, *chosen)
    return bool(steps)


def set_rules(table=180):
    changed = False
    for version in (4, 6):
        steps = routing.without_gap(routing.plan_rule(rules.read_rules(version), version, generations.Layout(route_table=table)))
        changed = rules.apply_rules(steps) > 0 or changed
    return changed


# rules between two places of a chain: a packet under way is likely to be there when the chain moves
slow_way = "add table inet slow; add chain inet slow way {{ type route hook output priority -3; }}; " + "add rule inet slow way meta mark 0x99999; " * 1500


def move_at_once(number):
    # as one transaction, without the veth device
    desired = whole(priority=5 * -(number % 2))
    planned = nft_table.plan(desired, nft_table.gather(desired))
    nft.apply_steps("inet", "talos_kubespan", planned.steps)
    return planned.changed


def flap():
    run("ip", "link", "set", "kubespan", "down")
    run("ip", "link", "set", "kubespan", "up")
    return set_routes()


def leaky_rules(table):
    for option in ("-4", "-6"):
        run("ip", option, "rule", "del", "priority", "32500")
        run("ip", option, "rule", "add", "priority", "32500", "fwmark", "0x40/0x60", "table", str(table), "protocol", "static")
    return True


def leaky_set(number):
    run("nft", "flush set inet talos_kubespan kubespan_targets_ipv4; flush set inet talos_kubespan kubespan_targets_ipv6")
    run("nft", "add element inet talos_kubespan kubespan_targets_ipv4 {{ 10.244.3.0/24 }}; "
        "add element inet talos_kubespan kubespan_targets_ipv6 {{ fd00:244:3::/64 }}")
    return True


def module_rules(number):
    desired = {{"rules": [{{"priority": 32400, "fwmark": "0x40/0x60", "table": str(180 + number % 2)}}]}}
    return ip_rules.run(desired, False)["changed"]


def target_range(number):
    return ((0x0AF40300, 0x0AF403FF), (0x0AF40200, 0x0AF403FF))[number % 2]


def other_range(index, number):
    return 0x0B000000 + index * 8, 0x0B000000 + index * 8 + number % 2


def large(number):
    # a table with a large set in which ten ranges, one of them with the target, differ between even and odd numbers
    others = (other_range(index, number if index < 900 and index % 100 == 0 else 0) for index in range(ask["many"]))
    return whole(ranges.PrefixSet((target_range(number), *others), narrow.v6))


def ten_of_many(number):
    # what differs is known: nobody reads or compares the rest again
    if number == 0:
        forms = [large(0), large(1)]
        set_table_to(forms[0])
        tables = [dict(nft_table.gather(form)["table"], generation=None, sets=form["table"]["sets"]) for form in forms]
        known.update({{number: (forms[number], tables[1 - number], nft_table.plan(forms[number], {{"table": tables[1 - number]}})) for number in (0, 1)}})
        return True
    desired, actual, planned = known[number % 2]
    nft_table.apply(desired, {{"table": actual}}, planned)
    return planned.changed


known = {{}}
OPERATIONS = {{
    "ten of many elements": ten_of_many,
    "elements": lambda number: set_table((wide, one, narrow)[number % 3]),
    "clamp": lambda number: set_table(mtu=1400 + number % 2),
    "generation": lambda number: set_table(generation=("v1.3", "current")[number % 2]),
    "chains": lambda number: set_table(priority=5 * ((number + 1) % 2)),
    "chains with rules between": lambda number: set_table(priority=-5 * ((number + 1) % 2)),
    "route": lambda number: set_routes(mtu=1400 + number % 2),
    "rule": lambda number: set_rules(180 + (number + 1) % 2),
    "module's rules": module_rules,
    "link down and up": lambda number: flap(),
    "nothing": lambda number: not (set_table() or set_routes() or set_rules()),
    "control: rule": lambda number: leaky_rules(180 + number % 2),
    "control: set": leaky_set,
    "control: chains": move_at_once,
}}
SLOW_WAY = {{"chains with rules between", "control: chains"}}


def send(version):
    sender = socket.socket(socket.AF_INET if version == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
    while True:
        try:
            sender.sendto(b"secret", (targets[version], 7777))
        except OSError:
            pass  # refused, which is what closed means
        if ask["pause"]:
            time.sleep(ask["pause"])


def counters():
    listed = json.loads(subprocess.run(["nft", "-j", "list", "table", "inet", "witness"], capture_output=True, check=True).stdout)["nftables"]
    return {{item["counter"]["name"]: item["counter"]["packets"] for item in listed if "counter" in item}}


set_routes(), set_routes(table=181), set_rules(), set_table()
run("nft", "add table inet witness; add counter inet witness leaked; add counter inet witness tunnelled; "
    "add chain inet witness last {{ type filter hook postrouting priority 399; }}; "
    'add rule inet witness last udp dport 7777 oifname "eth0" counter name leaked; '
    'add rule inet witness last udp dport 7777 oifname "kubespan" counter name tunnelled')
senders = []
for version in targets:
    child = os.fork()
    if not child:
        send(version)
    senders.append(child)
answer = {{}}
try:
    # both families flow before anything is judged
    while counters()["tunnelled"] < 100:
        time.sleep(0.01)
    for name, operation in OPERATIONS.items():
        if ask["operations"] and name not in ask["operations"]:
            continue
        set_table(), set_routes(), set_routes(table=181), set_rules()
        if name in SLOW_WAY:
            run("nft", slow_way)
        before, started = counters(), time.monotonic()
        rounds = ask["rounds"] if name != "link down and up" else min(ask["rounds"], 50)
        changed = sum(bool(operation(number)) for number in range(rounds))
        after = counters()
        if name in SLOW_WAY:
            run("nft", "delete table inet slow")
        answer[name] = {{key: after[key] - before[key] for key in after}}
        answer[name].update(changed=changed, seconds=round(time.monotonic() - started, 2))
finally:
    for child in senders:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
print(json.dumps(answer))
"""


@pytest.fixture(name="host")
def host_fixture(node):
    for name in ("eth0", "kubespan"):
        node.run("ip", "link", "add", name, "type", "veth", "peer", "name", name + "p")
        for end in (name, name + "p"):
            node.run("ip", "link", "set", end, "arp", "off", "up")
    node.run("ip", "address", "add", "192.0.2.11/24", "dev", "eth0")
    node.run("ip", "address", "add", "2001:db8::11/64", "dev", "eth0", "nodad")
    for option in ("-4", "-6"):
        node.run("ip", option, "route", "add", "default", "dev", "eth0")
    return node


def watch(node, rounds, *operations):
    done = subprocess.run(
        node.command(sys.executable, "-B", "-c", DRIVER),
        input=json.dumps({"rounds": rounds, "operations": operations, "many": MANY, "pause": PAUSE}),
        capture_output=True,
        text=True,
        check=False,
        env=flow_environment(),
        timeout=600 * SLOW,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_no_update_lets_a_packet_leave_by_the_uplink(host):
    names = ["ten of many elements", "elements", "clamp", "generation", "chains", "chains with rules between"]
    names += ["route", "rule", "module's rules", "link down and up", "nothing"]
    seen = watch(host, ROUNDS, *names)
    print({name: found["seconds"] for name, found in seen.items()})
    assert list(seen) == names
    for name, found in seen.items():
        assert found["leaked"] == 0 and found["changed"] >= min(ROUNDS, 50 if "link" in name else ROUNDS) - 1, (
            name,
            found,
        )
    assert sum(found["tunnelled"] for found in seen.values()) > 100


def test_the_witness_sees_what_leaks(host):
    seen = watch(host, 20 if SLOW > 1 else 50, "control: rule", "control: set")
    assert all(found["leaked"] > 0 for found in seen.values()), seen


@pytest.mark.this_machine("an emulated processor sends too few packets to be in such a moment")
def test_the_witness_sees_a_packet_between_the_two_places_of_a_chain(host):
    leaked = 0
    for _attempt in range(10):
        leaked += watch(host, 200, "control: chains")["control: chains"]["leaked"]
        if leaked:
            break
    assert leaked
