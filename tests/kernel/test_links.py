# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every message about links and addresses against a real kernel; pyroute2, which the product does not use, is the witness."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import MODULE_UTILS, flow_environment

LINKS = f"import json; from {MODULE_UTILS}_linux.netlink import links, messages\n"
WITNESS = """
import json
from ipaddress import ip_interface
from pyroute2 import IPRoute
with IPRoute() as route:
    addresses = [(found["index"], found.get_attr("IFA_LOCAL") or found.get_attr("IFA_ADDRESS"), found["prefixlen"]) for found in route.get_addr()]
    print(json.dumps({link.get_attr("IFLA_IFNAME"): {
        "index": link["index"], "mtu": link.get_attr("IFLA_MTU"), "txqueuelen": link.get_attr("IFLA_TXQLEN"), "alias": link.get_attr("IFLA_IFALIAS"),
        "up": bool(link["flags"] & 1), "mac": link.get_attr("IFLA_ADDRESS"), "kind": (link.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND") or ""),
        "addresses": sorted(str(ip_interface("{0}/{1}".format(text, length))) for index, text, length in addresses if index == link["index"]),
    } for link in route.get_links()}))
"""
SHOW = """print(json.dumps({{link.name: dict(
    index=link.ifindex, mtu=link.mtu, txqueuelen=link.txqueuelen, alias=link.alias, up=link.up, mac=link.mac, kind=link.kind,
    addresses=sorted(address.text for address in link.addresses)) for link in {0}}}))"""


@pytest.fixture(name="owned")
def owned_fixture(node):
    """Runs lines of Python alongside our module in the node, gives what they print as data."""

    def owned(lines):
        done = subprocess.run(
            node.command(sys.executable, "-c", LINKS + lines),
            capture_output=True,
            text=True,
            check=False,
            env=flow_environment(),
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout else None

    return owned


def witness(node):
    found = json.loads(node.run(sys.executable, "-c", WITNESS))
    return {name: dict(link, alias=(link["alias"] or "").rstrip("\0") or None) for name, link in found.items()}


def test_what_is_read_is_what_is_there(node, owned):
    node.run("ip", "link", "add", "eth0", "mtu", "1380", "type", "veth", "peer", "name", "eth1")
    node.run("ip", "link", "set", "eth0", "alias", "somebody's", "txqueuelen", "77", "up")
    node.run("ip", "link", "add", "br0", "type", "bridge")
    for address in ("10.66.23.31/24", "10.66.23.32/24", "192.0.2.1/32", "2001:db8::1/64", "::ffff:10.0.0.1/128"):
        node.run("ip", "address", "add", address, "dev", "eth0", *(("nodad",) if ":" in address else ()))
    node.run("ip", "address", "add", "192.0.2.9", "peer", "192.0.2.10", "dev", "br0")
    expected = witness(node)
    assert len(expected["eth0"]["addresses"]) == 5 and expected["br0"]["addresses"] == ["192.0.2.9/32"]
    assert owned(SHOW.format("links.read_links()")) == expected
    assert owned(SHOW.format("[links.read_link('eth0')]")) == {"eth0": expected["eth0"]}
    assert owned("print(json.dumps(links.read_link('eth9')))") is None


def test_thousands_of_links_and_addresses(node, owned):
    batch = [
        line
        for number in range(600)
        for line in (
            f"link add v{number} type veth peer name w{number}",
            f"address add 10.9.{number // 250}.{number % 250}/32 dev v{number}",
        )
    ]
    node.run("ip", "-batch", "-", stdin="\n".join(batch))
    assert owned(SHOW.format("links.read_links()")) == witness(node)


def test_each_change_of_a_link(node, owned):
    owned("links.add_link('br0', 'bridge')")
    made = witness(node)["br0"]
    assert made["kind"] == "bridge" and not made["up"]
    at = f"links.change_link({made['index']}, "
    owned(at + "mtu=1380, txqueuelen=500, alias='multicluster.network/f', up=True)")
    changed = {"mtu": 1380, "txqueuelen": 500, "alias": "multicluster.network/f", "up": True}
    assert {name: witness(node)["br0"][name] for name in changed} == changed
    owned(at + "up=False)")
    assert {name: witness(node)["br0"][name] for name in changed} == dict(changed, up=False)
    owned(at + "alias='')")
    assert witness(node)["br0"]["alias"] is None
    owned(f"links.remove_link({made['index']})")
    assert "br0" not in witness(node)


def test_each_change_of_addresses(node, owned):
    node.run("ip", "link", "add", "br0", "type", "bridge")
    index = witness(node)["br0"]["index"]
    write = "links.write_address({0}, {1!r}, {2})".format
    for text in ("10.66.23.31/24", "2001:db8::1/64"):
        for _again in range(2):  # what is there already is as it should be
            owned(write(index, text, True))
        assert witness(node)["br0"]["addresses"].count(text) == 1
    shown = json.loads(node.run("ip", "-j", "address", "show", "dev", "br0"))[0]["addr_info"]
    assert {row["local"]: row["scope"] for row in shown} == {"10.66.23.31": "global", "2001:db8::1": "global"}
    for text in ("10.66.23.31/24", "2001:db8::1/64"):
        for _again in range(2):
            owned(write(index, text, False))
    assert witness(node)["br0"]["addresses"] == []


REFUSED = """
try:
    {0}
except messages.NetlinkRefused as error:
    print(json.dumps([error.errno, str(error)]))
"""


@pytest.mark.parametrize(
    "call, number",
    [
        ("links.add_link('lo', 'bridge')", 17),
        ("links.add_link('x0', 'nosuchkind')", 95),
        ("links.change_link(4711, mtu=1400)", 19),
        ("links.remove_link(4711)", 19),
        ("links.write_address(4711, '10.0.0.1/24', True)", 19),
        ("links.change_link(1, mtu=-0 + 2**31)", 22),
    ],
)
def test_what_the_kernel_refuses_is_reported_by_its_number(owned, call, number):
    assert owned(REFUSED.format(call))[0] == number


def test_who_is_not_root_gets_the_variable(node):
    code = LINKS + "import os; os.setuid(65534)\n" + REFUSED.format("links.add_link('x0', 'bridge')")
    said = subprocess.run(
        node.command(sys.executable, "-c", code), capture_output=True, text=True, check=True, env=flow_environment()
    ).stdout
    assert json.loads(said)[0] == 1 and "ansible_become: true" in said


def test_links_of_another_namespace_and_never_those_of_the_wrong_one(node, owned):
    node.run(
        "sh",
        "-c",
        "mkdir -p /run/netns; ip netns add pod && ip -n pod link add br0 type bridge && ip -n pod address add 10.9.0.1/32 dev br0",
    )
    node.run("ip", "link", "add", "here", "type", "bridge")
    theirs = owned(SHOW.format("links.read_links('/run/netns/pod')"))
    assert theirs["br0"]["addresses"] == ["10.9.0.1/32"] and "here" not in theirs
    again = owned("links.read_links('/run/netns/pod'); " + SHOW.format("links.read_links()"))
    assert "here" in again and "br0" not in again, "this process is where it was"
    assert "no such" in owned("""
try:
    links.read_links('/run/netns/gone')
except messages.LinuxError as error:
    print(json.dumps(str(error).lower()))""")
