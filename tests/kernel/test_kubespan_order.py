# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The order of every write of a whole run, seen at the last step before the kernel (kubespan 17.1, 24.4).

Each write is noted together with what the sets hold and which peers the device has at that moment.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import MODULE_UTILS, SLOW, flow_environment
from test_kubespan import MESH, PODS, site_fixture  # noqa: F401 pylint: disable=unused-import
from test_kubespan_leaks import other

OTHER_SECRET = "AgIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
DRIVER = f"""
import importlib, json, sys
load = lambda name: importlib.import_module({MODULE_UTILS!r} + name)
ask = json.load(sys.stdin)
flow, device_flow, links = load("_flows.node.dataplane"), load("_flows.node.wireguard_device"), load("_linux.host.links")
kubespan, nft, rules = load("_flows.node.kubespan.dataplane"), load("_linux.nftables.table"), load("_linux.netlink.rules")
socket_device, netlink_device = load("_linux.wireguard.control_socket").UserspaceDevice, load("_linux.wireguard.netlink").KernelDevice
open_device = load("_linux.wireguard.device").open_device
seen = []


def note(what, **more):
    table = nft.read_table("inet", "talos_kubespan") or {{}}
    targets = next((item["elements"] for item in table.get("sets", ()) if item["name"] == "kubespan_targets_ipv4"), None)
    link = links.read_link("kubespan")
    peers = {{}}
    if link is not None and link["implementation"]:
        device = open_device("kubespan", link["implementation"])
        peers = {{key: peer.allowed_ips for key, peer in device.dump().peers.items()}}
        device.close()
    seen.append(dict(more, what=what, targets=targets, peers=peers))


def wrap(owner, name, describe):
    real = getattr(owner, name)

    def written(*words, **options):
        what = describe(*words, **options)
        if what:
            note(**what)
        return real(*words, **options)

    setattr(owner, name, written)


def linked(name, **desired):
    what = "link up" if desired.get("up") else "mtu" if "mtu" in desired else "link"  # the kernel takes the MTU of a message first
    return dict(what=what)


def peers(device, steps):
    steps = list(steps)
    return dict(what="peers", steps=[["remove" if step.remove else "set", step.public_key] for step in steps]) if steps else None


wrap(device_flow, "create_wireguard_link", lambda *words: dict(what="create link"))
wrap(device_flow, "delete_link", lambda *words: dict(what="delete link"))
wrap(device_flow, "set_link", linked)
wrap(device_flow, "change_addresses", lambda name, add, remove, keep=(): dict(what="address") if add or remove else None)
for kind in (socket_device, netlink_device):
    wrap(kind, "apply", peers)
    wrap(kind, "configure", lambda device, **settings: dict(what="settings") if settings else None)
wrap(kubespan, "write_routes", lambda table, protocol, replaced, deleted: dict(what="routes"))
wrap(rules, "apply_rules", lambda steps: dict(what="rules") if steps else None)
wrap(nft, "apply_steps", lambda family, name, steps, generation=None: dict(what="nft", steps=[step["op"] for step in steps]) if steps else None)
result = flow.run(ask, False)
note("end")
print(json.dumps({{"seen": seen, "refused": result["refused"]}}))
"""


def order(site, **change):
    """What a run of node a writes: names, then every write with what was there just before it."""
    wish = dict(site.wants["a"], kubespan=None if change.get("gone") else dict(site.wants["a"]["kubespan"], **change))
    done = subprocess.run(
        site.nodes["a"].command(sys.executable, "-B", "-c", DRIVER),
        input=json.dumps(wish),
        capture_output=True,
        text=True,
        check=False,
        env=flow_environment(),
        timeout=60 * SLOW,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert not answer["refused"]
    return [write["what"] for write in answer["seen"][:-1]], answer["seen"]


def span(prefix):
    """The range of a /24 as the kernel's own elements have it."""
    first = int.from_bytes(bytes(map(int, (prefix + ".0").split("."))), "big")
    return [first, first + 255]


def holds(targets, prefix):
    first, last = span(prefix)
    return any(one <= first and last <= two for one, two in targets or ())


def test_enable_and_disable(site):
    names, unused = order(site)
    for earlier, later in (
        ("create link", "settings"),
        ("settings", "link up"),
        ("peers", "link up"),
        ("link up", "address"),
        ("address", "routes"),
        ("routes", "rules"),
        ("rules", "nft"),
    ):
        if earlier in names:
            assert names.index(earlier) < names.index(later), names
    assert names[-1] == "nft" and names[0] == "create link"  # the mark is the switch: on last
    assert order(site)[0] == []
    names, unused = order(site, gone=True)
    assert [name for index, name in enumerate(names) if name not in names[:index]] == [
        "nft",
        "rules",
        "routes",
        "delete link",
    ]


def test_peers_come_and_go(site):
    """Kubespan 24.3, 24.4: nobody is steered to before it is a peer, and nobody stops being a peer while it is steered to."""
    site.join()
    both = site.wants["a"]["kubespan"]["affiliates"]
    third = other(site)
    key = third["public_key"]
    names, seen = order(site, affiliates=[*both, third])
    # the new range is joined to the one before it, with its addresses kept apart meanwhile: three transactions
    assert names == ["peers", "nft", "nft", "nft"]
    before, between, after = seen[0], seen[1], seen[-1]
    assert key not in before["peers"] and not holds(before["targets"], "10.244.3")
    assert "10.244.3.0/24" in between["peers"][key] and not holds(between["targets"], "10.244.3")
    assert holds(after["targets"], "10.244.3")
    names, seen = order(site, affiliates=both)
    assert names == ["nft", "nft", "nft", "peers"]
    before, between, after = seen[0], seen[-2], seen[-1]
    assert key in before["peers"] and holds(before["targets"], "10.244.3")
    assert "10.244.3.0/24" in between["peers"][key] and not holds(between["targets"], "10.244.3")
    assert key not in after["peers"]
    assert not any(step[1] != key for write in seen if write["what"] == "peers" for step in write["steps"]), (
        "nobody else is touched"
    )


def test_a_prefix_moves(site):
    """The gaining peer takes it over; it is never without an owner, and the sets stay as they are."""
    site.join()
    own, peer = site.wants["a"]["kubespan"]["affiliates"]
    third = other(site)
    order(site, affiliates=[own, peer, third])
    less = dict(peer, additional_addresses=[text for text in peer["additional_addresses"] if ":" in text])
    names, seen = order(
        site, affiliates=[own, less, dict(third, additional_addresses=["10.244.3.0/24", PODS["b"] + ".0/24"])]
    )
    assert set(names) == {"peers"}, names
    for write in seen:
        owners = [
            key
            for key, allowed in write["peers"].items()
            if PODS["b"] + ".0/24" in allowed or "10.244.2.0/23" in allowed
        ]
        # as long as both have it, the longer prefix decides, and the union stays the same
        assert owners and holds(write["targets"], PODS["b"]), write
    assert owners == [third["public_key"]]


@pytest.mark.parametrize("mtu", [1380, 1500])
def test_mtu(site, mtu):
    """Kubespan 24.12: the link, both routes, both clamp rules, in this order."""
    site.join()
    names, unused = order(site, config={"advertiseKubernetesNetworks": True, "mtu": mtu})
    assert names == ["mtu", "routes", "nft"]
    node = site.nodes["a"]
    assert f"mtu {mtu} " in node.run("ip", "link", "show", "kubespan")
    for option in ("-4", "-6"):
        assert f"metric 1 mtu {mtu}" in node.run("ip", option, "route", "show", "table", "180")
    chain = node.run("nft", "list", "chain", "inet", "talos_kubespan", "kubespan_outgoing")
    assert f"maxseg size set {mtu - 52}" in chain and f"maxseg size set {mtu - 72}" in chain


def test_secret_and_rules_in_place(site):
    site.join()
    names, seen = order(site, mesh_secret=OTHER_SECRET)
    assert set(names) <= {"peers", "settings"} and names, names
    assert not any(step[0] == "remove" for write in seen if write["what"] == "peers" for step in write["steps"])
    order(site, mesh_secret=MESH["mesh_secret"])
    names, seen = order(site, generation="v1.3")
    (write,) = [write for write in seen if write["what"] == "nft"]
    assert "delete_table" not in write["steps"] and names[-1] == "nft"
