# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel's WireGuard messages: pyroute2's encoder and decoder are the oracle of our codec."""

from __future__ import annotations

import base64
import contextlib
import socket
import struct

from ansible_collections.multicluster.network.plugins.module_utils._dataplane.peer_spec import (
    LivePeer,
    PeerStep,
    Preshared,
)
from ansible_collections.multicluster.network.plugins.module_utils._linux.netlink import messages as netlink
from ansible_collections.multicluster.network.plugins.module_utils._linux.wireguard import (
    control_socket as wg_socket,
    netlink as wg_netlink,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.keys import fingerprint
from hypothesis import given, settings, strategies as st
from pyroute2.netlink.generic.wireguard import wgmsg

keys = st.binary(min_size=32, max_size=32).map(lambda raw: base64.b64encode(raw).decode())
ports = st.integers(1, 65535)
v4 = st.ip_addresses(v=4).map(str)
v6 = st.ip_addresses(v=6).map(lambda a: socket.inet_ntop(socket.AF_INET6, a.packed))
endpoints = st.one_of(
    st.tuples(v4, ports).map(lambda e: "{0}:{1}".format(*e)), st.tuples(v6, ports).map(lambda e: "[{0}]:{1}".format(*e))
)
cidrs = st.one_of(
    st.tuples(v4, st.integers(0, 32)).map(lambda c: "{0}/{1}".format(*c)),
    st.tuples(v6, st.integers(0, 128)).map(lambda c: "{0}/{1}".format(*c)),
)
set_steps = st.builds(
    PeerStep,
    public_key=keys,
    remove=st.just(False),
    update_only=st.booleans(),
    replace_allowed_ips=st.booleans(),
    allowed_ips=st.lists(cidrs, max_size=5).map(tuple),
    endpoint=st.none() | endpoints,
    keepalive=st.none() | st.integers(0, 65535),
    preshared=st.none() | st.just(Preshared()),
)
steps_lists = st.lists(st.one_of(set_steps, keys.map(lambda key: PeerStep(key, remove=True))), max_size=8)


def theirs(payload):
    """A payload of WG_CMD_SET_DEVICE, as pyroute2 reads it."""
    body = struct.pack("=BBH", wg_netlink.WG_CMD_SET_DEVICE, 1, 0) + payload
    message = wgmsg(struct.pack("=IHHII", 16 + len(body), 30, 5, 1, 0) + body)
    message.decode()
    return message


def as_step(peer):
    """A peer that pyroute2 read, in the form of our steps."""
    flags = peer.get_attr("WGPEER_A_FLAGS") or 0
    step = PeerStep(peer.get_attr("WGPEER_A_PUBLIC_KEY").decode())
    if flags & wg_netlink.FLAG_REMOVE:
        return step._replace(remove=True)
    step = step._replace(update_only=bool(flags & 4), replace_allowed_ips=bool(flags & 2))
    endpoint = peer.get_attr("WGPEER_A_ENDPOINT")
    if endpoint is not None:
        shown = "[{0}]:{1}" if ":" in endpoint["addr"] else "{0}:{1}"
        step = step._replace(endpoint=shown.format(endpoint["addr"], endpoint["port"]))
    keepalive = peer.get_attr("WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL")
    psk = peer.get_attr("WGPEER_A_PRESHARED_KEY")
    if psk is not None:
        assert base64.b64decode(psk) == bytes(32)
        step = step._replace(preshared=Preshared())
    allowed = peer.get_attr("WGPEER_A_ALLOWEDIPS")
    return step._replace(keepalive=keepalive, allowed_ips=tuple(entry["addr"] for entry in allowed or ()))


@settings(max_examples=200, deadline=None)
@given(steps_lists)
def test_pyroute2_reads_what_we_write(steps):
    read = []
    for payload in wg_netlink.encode_messages("wireguard.gcp", steps):
        message = theirs(payload)
        assert message.get_attr("WGDEVICE_A_IFNAME") == "wireguard.gcp"
        read.extend(as_step(peer) for peer in message.get_attr("WGDEVICE_A_PEERS"))
    assert read == steps


dumped_peers = st.fixed_dictionaries(
    {
        "key": keys,
        "endpoint": st.none() | st.tuples(v4 | v6, ports),
        "keepalive": st.integers(0, 65535),
        "psk": st.binary(min_size=32, max_size=32),
        "handshake": st.integers(0, 2**40),
        "counters": st.tuples(st.integers(0, 2**63), st.integers(0, 2**63)),
        "allowed": st.lists(cidrs, max_size=6),
    }
)


def their_allowed(cidr):
    address, _slash, length = cidr.partition("/")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    raw = socket.inet_pton(family, address)
    return {
        "attrs": [
            ["WGALLOWEDIP_A_FAMILY", family],
            ["WGALLOWEDIP_A_IPADDR", raw],
            ["WGALLOWEDIP_A_CIDR_MASK", int(length)],
        ]
    }


def their_dump(name, device, peers, split):
    """A dump as the kernel sends it, made by pyroute2: one message, or one for each half of every peer's ranges."""
    messages = []
    for first, part in [(True, 0), (False, 1)] if split else [(True, None)]:
        message = wgmsg()
        message["cmd"] = 0
        message["attrs"].append(["WGDEVICE_A_IFNAME", name])
        if first:
            message["attrs"] += device
        listed = []
        for peer in peers:
            attrs = [["WGPEER_A_PUBLIC_KEY", peer["key"]]]
            if first:
                attrs.append(["WGPEER_A_PRESHARED_KEY", base64.b64encode(peer["psk"]).decode()])
                attrs.append(["WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL", peer["keepalive"]])
                attrs.append(["WGPEER_A_LAST_HANDSHAKE_TIME", {"tv_sec": peer["handshake"], "tv_nsec": 5}])
                attrs.append(["WGPEER_A_RX_BYTES", peer["counters"][0]])
                attrs.append(["WGPEER_A_TX_BYTES", peer["counters"][1]])
                if peer["endpoint"]:
                    host, port = peer["endpoint"]
                    value = {"addr": host, "port": port}
                    if ":" in host:
                        value.update(flowinfo=0, scope_id=0)
                    attrs.append(["WGPEER_A_ENDPOINT", value])
            half = len(peer["allowed"]) // 2
            allowed = (
                peer["allowed"] if part is None else peer["allowed"][:half] if part == 0 else peer["allowed"][half:]
            )
            if allowed:
                attrs.append(["WGPEER_A_ALLOWEDIPS", [their_allowed(cidr) for cidr in allowed]])
            listed.append({"attrs": attrs})
        if listed:
            message["attrs"].append(["WGDEVICE_A_PEERS", listed])
        message["header"]["type"] = 30
        message["header"]["flags"] = 2
        message.encode()
        messages += [body[4:] for _kind, _flags, _sequence, body in netlink.messages(bytes(message.data))]
    return messages


@settings(max_examples=200, deadline=None)
@given(
    st.lists(dumped_peers, max_size=5, unique_by=lambda p: p["key"]),
    keys,
    ports,
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_we_read_what_pyroute2_writes(peers, key, port, mark, split):
    private = base64.b64encode(b"p" * 32).decode()
    device = [
        ["WGDEVICE_A_PRIVATE_KEY", private],
        ["WGDEVICE_A_PUBLIC_KEY", key],
        ["WGDEVICE_A_LISTEN_PORT", port],
        ["WGDEVICE_A_FWMARK", mark],
    ]
    dump = wg_netlink.decode_dump(their_dump("wg0", device, peers, split))
    none = base64.b64encode(bytes(32)).decode()
    assert (dump.public_key, dump.listen_port, dump.fwmark) == (None if key == none else key, port, mark)
    assert private not in str(dump)
    assert list(dump.peers) == [peer["key"] for peer in peers]
    for peer in peers:
        shown = "[{0}]:{1}" if peer["endpoint"] and ":" in peer["endpoint"][0] else "{0}:{1}"
        psk = base64.b64encode(peer["psk"]).decode()
        assert dump.peers[peer["key"]] == LivePeer(
            shown.format(*peer["endpoint"]) if peer["endpoint"] else None,
            tuple(peer["allowed"]),
            peer["keepalive"],
            None if peer["psk"] == bytes(32) else fingerprint(psk),
            peer["handshake"] and peer["handshake"] + 5e-9,
            *peer["counters"],
        )


def many(count, ranges=1):
    return [
        PeerStep(
            base64.b64encode(number.to_bytes(32, "big")).decode(),
            replace_allowed_ips=True,
            allowed_ips=tuple(f"10.{number % 256}.{i // 256}.{i % 256}/32" for i in range(ranges)),
            endpoint="192.0.2.1:51820",
            keepalive=25,
        )
        for number in range(1, count + 1)
    ]


def test_a_thousand_peers_are_two_messages():
    payloads = wg_netlink.encode_messages("wg0", many(1000))
    assert len(payloads) == 2
    assert all(len(payload) < 65535 + 64 for payload in payloads)
    assert sum(len(theirs(payload).get_attr("WGDEVICE_A_PEERS")) for payload in payloads) == 1000


def test_a_peer_with_ten_thousand_ranges_is_split_and_replaces_only_once():
    read = []
    for payload in wg_netlink.encode_messages("wg0", many(1, 10_000)):
        read += [as_step(peer) for peer in theirs(payload).get_attr("WGDEVICE_A_PEERS")]
    assert [step.replace_allowed_ips for step in read] == [True] + [False] * (len(read) - 1)
    assert [step.update_only for step in read] == [False] + [True] * (len(read) - 1)
    assert [cidr for step in read for cidr in step.allowed_ips] == list(many(1, 10_000)[0].allowed_ips)


@given(st.binary(max_size=80))
def test_hostile_bytes_are_refused_never_looped_over(data):
    for parse in (netlink.attributes, netlink.messages):
        with contextlib.suppress(ValueError):
            list(parse(data))


@settings(max_examples=100)
@given(st.lists(set_steps, max_size=6, unique_by=lambda step: step.public_key))
def test_control_socket_lines_come_back(steps):
    lines = ["private_key=" + "11" * 32, "listen_port=7", "fwmark=3"]
    lines += [line for line in wg_socket.encode_steps(steps) if not line.startswith(("update_only", "replace_"))]
    dump = wg_socket.decode_dump(lines)
    assert "11" * 32 not in str(dump) and len(dump.public_key) == 44
    assert (dump.listen_port, dump.fwmark) == (7, 3)
    for step in steps:
        assert dump.peers[step.public_key] == LivePeer(step.endpoint, step.allowed_ips, step.keepalive or 0)


def test_a_handshake_is_read_with_its_fraction():
    """It often comes in the same second as the endpoint that led to it, and must count as later."""
    lines = ["public_key=" + "22" * 32, "last_handshake_time_sec=1700000000", "last_handshake_time_nsec=250000000"]
    peer = next(iter(wg_socket.decode_dump(lines).peers.values()))
    assert peer.last_handshake == 1700000000.25
    peer = next(
        iter(
            wg_socket.decode_dump(
                [*lines[:1], "last_handshake_time_sec=0", "last_handshake_time_nsec=0"]
            ).peers.values()
        )
    )
    assert peer.last_handshake == 0
