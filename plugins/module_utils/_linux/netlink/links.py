# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links and their addresses: read by a dump of each, in this network namespace or another one; written one message at a time."""

from __future__ import annotations

import errno
import socket
import struct
import typing as t

from ..errors import LinuxError, failing
from .messages import (
    ADDRESS_FAMILIES,
    NLM_F_CREATE,
    NLM_F_EXCL,
    SCOPE_NAMES,
    SCOPES,
    NetlinkRefused,
    RouteSocket,
    attribute,
    attributes,
    from_kernel,
    unpack_address,
)

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_TXQLEN, _IFLA_OPERSTATE, _IFLA_LINKINFO, _IFLA_IFALIAS = (
    1,
    3,
    4,
    13,
    16,
    18,
    20,
)
_IFLA_MASTER, _IFLA_STATS64, _IFLA_AF_SPEC = 10, 23, 26
_IFLA_INFO_KIND = 1
_IFLA_INET6_ADDR_GEN_MODE, _ADDR_GEN_MODE_NONE = 8, 1
_IFA_ADDRESS, _IFA_LOCAL, _IFA_FLAGS, _IFA_PROTO = 1, 2, 8, 11
_IFA_F_PERMANENT = 0x80
_IFF_UP, _IFF_LOWER_UP = 0x1, 0x10000
_OPER_UNKNOWN, _OPER_UP = 0, 6
#: family, padding, type of hardware, index, flags, changed flags
_LINK = struct.Struct("=BxHiII")
#: family, length of the prefix, flags, scope, index of the link
_ADDRESS = struct.Struct("=BBBBi")
_U32 = struct.Struct("=I")
ETHERNET = 1


class Address(t.NamedTuple):
    """``text`` is address/length; ``scope`` a name of SCOPES, or its number as text. ``permanent``: no lifetime, as DHCP and routers give it one.

    ``protocol`` is the kernel's number of who put it there, 0 where no one said; kernels before 5.18 do not keep it.
    """

    text: str
    scope: str
    permanent: bool = True
    protocol: int = 0


class Link(t.NamedTuple):
    """A link. ``kind`` is the kernel's name of it (``wireguard``, ``tun``, ``veth``; "" for hardware), ``hardware`` its number of the type of
    hardware, ``mac`` the hardware address with colons. ``addresses`` are there when they were asked for. ``master`` is the index of the bridge or VRF
    that it belongs to, 0 for none.
    """

    ifindex: int
    name: str
    kind: str
    hardware: int
    mac: str | None
    mtu: int
    txqueuelen: int
    alias: str | None
    flags: int
    state: int
    addresses: tuple[Address, ...] = ()
    master: int = 0

    @property
    def up(self) -> bool:
        return bool(self.flags & _IFF_UP)

    @property
    def in_use(self) -> bool:
        """Whether packets can pass: switched on, with a carrier where it is hardware."""
        return self.up and self.state in (_OPER_UNKNOWN, _OPER_UP) and bool(self.kind or self.flags & _IFF_LOWER_UP)


def link_index(name: str) -> int:
    """The link's index. Raises LinuxError when it is gone."""
    with failing("find", name):
        return socket.if_nametoindex(name)


def link_name(index: int) -> str | None:
    """The name of the link of an index, None when there is none."""
    try:
        return socket.if_indextoname(index)
    except OSError:
        return None


def link_names() -> set[str]:
    return {name for _index, name in socket.if_nameindex()}


def read_links(netns: str | None = None) -> list[Link]:
    """All links with their addresses, by index; netns: path of another network namespace. Raises LinuxError."""
    return _read(netns, 0)


def read_link(name: str) -> Link | None:
    """One link with its addresses, None when there is none of this name. Raises LinuxError."""
    try:
        found = _read(None, socket.if_nametoindex(name))
    except OSError:
        return None
    return found[0] if found else None


def _read(netns: str | None, index: int) -> list[Link]:
    """All links, or the one of this index."""
    request = _LINK.pack(0, 0, index, 0, 0)
    addresses: dict[int, list[Address]] = {}
    with RouteSocket("links", strict=True, netns=netns) as netlink:
        try:
            bodies = netlink.order(RTM_GETLINK, 0, request) if index else netlink.dump_messages(RTM_GETLINK, request)
            for body in netlink.dump_messages(RTM_GETADDR, _ADDRESS.pack(0, 0, 0, 0, index)):
                of, address = decode_address(body)
                addresses.setdefault(of, []).append(address)
        except NetlinkRefused as error:
            if index and error.errno == errno.ENODEV:
                return []
            raise LinuxError("read", "links", str(error)) from None
    links = map(decode_link, bodies)
    return [link._replace(addresses=tuple(addresses.get(link.ifindex, ()))) for link in links]


#: Of the counters that every link has, in the kernel's order; those with a name are returned.
_COUNTERS = ("rx_packets", "tx_packets", None, None, "rx_errors", "tx_errors", "rx_dropped", "tx_dropped")


def read_counters() -> dict[str, dict[str, int]]:
    """What has passed each link so far, by its name: ``{rx_packets, tx_packets, rx_errors, tx_errors, rx_dropped, tx_dropped}``. Raises LinuxError."""
    with RouteSocket("links", strict=True) as netlink:
        try:
            bodies = netlink.dump_messages(RTM_GETLINK, _LINK.pack(0, 0, 0, 0, 0))
        except NetlinkRefused as error:
            raise LinuxError("read", "links", str(error)) from None
    return dict(map(decode_counters, bodies))


@from_kernel("a link's counters")
def decode_counters(body: bytes) -> tuple[str, dict[str, int]]:
    """(name, counters) of one answer about links; none where the kernel sends none."""
    parts = dict(attributes(body[_LINK.size :]))
    raw = parts.get(_IFLA_STATS64, b"")
    numbers = struct.unpack_from(f"={len(_COUNTERS)}Q", raw) if raw else ()
    return _text(parts[_IFLA_IFNAME]), {name: number for name, number in zip(_COUNTERS, numbers) if name}


@from_kernel("a link")
def decode_link(body: bytes) -> Link:
    """One answer about links, without addresses."""
    _family, hardware, index, flags, _change = _LINK.unpack_from(body)
    parts = dict(attributes(body[_LINK.size :]))
    info = dict(attributes(parts.get(_IFLA_LINKINFO, b"")))
    alias, mac = _text(parts.get(_IFLA_IFALIAS, b"")), parts.get(_IFLA_ADDRESS)
    return Link(
        index,
        _text(parts[_IFLA_IFNAME]),
        _text(info.get(_IFLA_INFO_KIND, b"")),
        hardware,
        mac.hex(":") if mac else None,
        _U32.unpack(parts[_IFLA_MTU])[0],
        _U32.unpack(parts.get(_IFLA_TXQLEN, bytes(4)))[0],
        alias or None,
        flags,
        parts.get(_IFLA_OPERSTATE, b"\0")[0],
        (),
        _U32.unpack(parts.get(_IFLA_MASTER, bytes(4)))[0],
    )


@from_kernel("an address")
def decode_address(body: bytes) -> tuple[int, Address]:
    """(index of its link, address) of one answer about addresses: the link's own one where it has a peer's, too."""
    family, length, flags, scope, index = _ADDRESS.unpack_from(body)
    parts = dict(attributes(body[_ADDRESS.size :]))
    own = parts.get(_IFA_LOCAL) or parts[_IFA_ADDRESS]
    flags = _U32.unpack(parts[_IFA_FLAGS])[0] if _IFA_FLAGS in parts else flags
    text = f"{unpack_address(family, own)}/{length}"
    return index, Address(
        text, SCOPE_NAMES.get(scope, str(scope)), bool(flags & _IFA_F_PERMANENT), parts.get(_IFA_PROTO, b"\0")[0]
    )


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode("utf-8", "replace")


def add_link(name: str, kind: str) -> None:
    """Make a link of a kind, switched off. Raises NetlinkRefused; EOPNOTSUPP where the kernel has none of this kind."""
    info = attribute(_IFLA_LINKINFO, attribute(_IFLA_INFO_KIND, kind.encode("ascii")))
    _write(
        RTM_NEWLINK,
        NLM_F_CREATE | NLM_F_EXCL,
        _LINK.pack(0, 0, 0, 0, 0) + attribute(_IFLA_IFNAME, name.encode("ascii") + b"\0") + info,
    )


def change_link(
    index: int, mtu: int | None = None, txqueuelen: int | None = None, alias: str | None = None, up: bool | None = None
) -> None:
    """Set what is given, in one message; an empty alias takes it away. Raises NetlinkRefused."""
    body = _LINK.pack(0, 0, index, _IFF_UP if up else 0, 0 if up is None else _IFF_UP)
    for kind, number in ((_IFLA_MTU, mtu), (_IFLA_TXQLEN, txqueuelen)):
        body += attribute(kind, _U32.pack(number)) if number is not None else b""
    body += attribute(_IFLA_IFALIAS, alias.encode("utf-8")) if alias is not None else b""
    _write(RTM_NEWLINK, 0, body)


def keep_without_address(index: int) -> None:
    """Have the kernel give a link no link-local address when it goes up. A kernel without IPv6 gives none. Raises NetlinkRefused."""
    six = attribute(ADDRESS_FAMILIES[6], attribute(_IFLA_INET6_ADDR_GEN_MODE, bytes([_ADDR_GEN_MODE_NONE])))
    try:
        _write(RTM_NEWLINK, 0, _LINK.pack(0, 0, index, 0, 0) + attribute(_IFLA_AF_SPEC, six))
    except NetlinkRefused as error:
        if error.errno != errno.EAFNOSUPPORT:
            raise


def remove_link(index: int) -> None:
    """Raises NetlinkRefused."""
    _write(RTM_DELLINK, 0, _LINK.pack(0, 0, index, 0, 0))


def write_address(index: int, text: str, add: bool, scope: str = "global") -> None:
    """Add or delete ``address/length`` at a link; scope: a name of SCOPES.

    One that is there already, or gone already, is as it should be. Raises NetlinkRefused.
    """
    address, _slash, length = text.partition("/")
    family = ADDRESS_FAMILIES[6 if ":" in address else 4]
    packed = socket.inet_pton(family, address)
    body = (
        _ADDRESS.pack(family, int(length), 0, SCOPES[scope], index)
        + attribute(_IFA_LOCAL, packed)
        + attribute(_IFA_ADDRESS, packed)
    )
    try:
        _write(RTM_NEWADDR if add else RTM_DELADDR, NLM_F_CREATE | NLM_F_EXCL if add else 0, body)
    except NetlinkRefused as error:
        if error.errno != (errno.EEXIST if add else errno.EADDRNOTAVAIL):
            raise


def _write(kind: int, flags: int, body: bytes) -> None:
    with RouteSocket("links") as netlink:
        netlink.order(kind, flags, body)
