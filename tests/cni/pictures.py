# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pictures of guide_packets against what ``trace`` found on nodes with a network plugin."""

from __future__ import annotations

import pathlib
import re
import xml.etree.ElementTree

IMAGES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "docsite" / "rst" / "images"
#: The picture in which a plugin's nodes are, by the name of their cluster in the labs of this folder.
PICTURES = {
    "agent": "packet_cilium_agent.svg",
    "calico": "packet_plugins.svg",
    "cilium": "packet_cilium.svg",
    "flannel": "packet_plugins.svg",
}
_WAYS = re.compile(r"in by (\S+), out by (\S+)\Z")
_ROUTE = re.compile(r"route (\S+?)(/\d+ dev \S+) ")


def texts(picture):
    """The lines of text of a picture."""
    tree = xml.etree.ElementTree.parse(IMAGES / picture)
    return [element.text or "" for element in tree.iter() if element.tag.endswith("}text")]


def missing(hops):
    """What of the hops of a trace, {direction, where, what, expected, observed, verdict}, its plugins' pictures do not have: [(hop's node, text)].

    Per hop the devices in and out; of a target the plugin's own route to its pods, too, where that is a node's and not one pod's: the length of its
    prefix and its device, since nodes differ in the rest, and of IPv4, as in the pictures. The other end of a device has the alias of the other
    cluster, so of the mesh's devices only the kind is compared.
    """
    found = []
    for hop in hops:
        picture = PICTURES.get(hop["where"].partition("-")[0])
        if picture is None or hop["what"] == "tunnel":
            continue
        lines = texts(picture)
        ways, route = _WAYS.match(hop["observed"]), _ROUTE.match(hop["expected"])
        expected = [_kind(device) for device in ways.groups()] if ways else [hop["observed"]]
        if hop["what"] == "target" and route and ":" not in route.group(1) and not route.group(2).startswith("/32 "):
            expected.append(route.group(2))
        found += [(hop["where"], text) for text in expected if not any(text in line for line in lines)]
    return found


def _kind(device):
    """A pod's own device and the mesh's as pictures call them."""
    return re.sub(r"\A(cali|lxc|veth)\w+\Z", "\\1…", re.sub(r"\A(wireguard\.).+\Z", "device \\1", device))
