# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a caller wants of a WireGuard device, read strictly and with its defaults (semaphore 3.2)."""

from __future__ import annotations

import ipaddress
import typing as t

from .._values.addresses import parse_address, parse_network
from .._values.keys import parse_key
from .._values.refused import ValueRefused, quoted
from .._values.text import check_interface_name, parse_decimal, parse_port
from .constants import OWNER, is_our_alias
from .peer_spec import Peers, parse_peers

IMPLEMENTATIONS = ("auto", "kernel", "userspace")
MTU_RANGE = (576, 9216)
DEFAULT_MTU, DEFAULT_QUEUE = 1420, 1000
#: The kernel's limit for an alias, without its terminator.
MAX_ALIAS = 255


class Device(t.NamedTuple):
    """A complete desired device.

    ``listen_port`` None: any. ``private_key_file`` None: the key is not managed; ``generate_key``: make a missing one (else somebody
    does before the plan is applied). ``addresses`` and ``peers`` None: not managed. ``overlay``: ranges into which no name of an
    endpoint may resolve. ``retired_key``: a public key in place of which the file gets the next one; a file with another key keeps it.
    ``next_key_for``: a public key; while the file has it, the next key is made alongside, see next_key_file. ``copied_from``: the key file of
    another device, of which this one is a copy; ``copied_key``: the public key that both have to have, None for any.
    ``either_way``: packets come in also while their answers leave by another device, see HOST_ADDRESS.
    """

    name: str
    present: bool = True
    alias: str = OWNER
    adopt: bool = False
    implementation: str = "auto"
    mtu: int = DEFAULT_MTU
    txqueuelen: int = DEFAULT_QUEUE
    listen_port: int | None = None
    fwmark: int = 0
    private_key_file: str | None = None
    generate_key: bool = False
    addresses: tuple[str, ...] | None = None
    flush_ipv4: bool = False
    up: bool = True
    peers: Peers | None = None
    purge_peers: bool = True
    overlay: tuple[str, ...] = ()
    retired_key: str | None = None
    next_key_for: str | None = None
    copied_from: str | None = None
    copied_key: str | None = None
    either_way: bool = False


def parse_device(raw: t.Mapping[str, t.Any]) -> Device:
    """A device from what a caller gave: the fields of Device, and ``state`` (present or absent); None means the default everywhere.

    Raises ValueRefused: a device that is not understood is not half configured. A peer that is not is refused alone, see parse_peers.
    """

    def given(name: str, default: t.Any) -> t.Any:
        value = raw.get(name)
        return default if value is None else value

    state = given("state", "present")
    if state not in ("present", "absent"):
        raise ValueRefused("bad_state", f"{quoted(state)} is neither present nor absent")
    alias = given("alias", OWNER)
    if not is_our_alias(alias) or len(alias.encode("utf-8")) > MAX_ALIAS or not alias.isprintable():
        message = "{0} does not begin with {1}, by which our links are known, or is too long"
        raise ValueRefused("bad_alias", message.format(quoted(alias), OWNER))
    implementation = given("implementation", "auto")
    if implementation not in IMPLEMENTATIONS:
        raise ValueRefused("bad_implementation", f"{quoted(implementation)} is not auto, kernel or userspace")
    key_file, copied_from = raw.get("private_key_file"), raw.get("copied_from")
    for path in (key_file, copied_from):
        if path is not None and (not isinstance(path, str) or not path.startswith("/")):
            raise ValueRefused("bad_key_file", f"{quoted(path)} is not an absolute path")
    name = check_interface_name(raw.get("name"))
    mark = parse_decimal(given("fwmark", 0), "bad_fwmark")
    if mark > 0xFFFFFFFF:
        raise ValueRefused("bad_fwmark", f"{mark} has more than 32 bits")
    return Device(
        name=name,
        present=state == "present",
        alias=alias,
        adopt=bool(given("adopt", False)),
        implementation=implementation,
        mtu=_mtu(given("mtu", 0)),
        txqueuelen=parse_decimal(given("txqueuelen", DEFAULT_QUEUE), "bad_txqueuelen"),
        listen_port=parse_port(raw["listen_port"]) if raw.get("listen_port") is not None else None,
        fwmark=mark,
        private_key_file=key_file,
        generate_key=bool(given("generate_key", False)),
        addresses=None
        if raw.get("addresses") is None
        else tuple(sorted({_interface(text) for text in raw["addresses"]})),
        flush_ipv4=bool(given("flush_ipv4", False)),
        up=bool(given("up", True)),
        peers=None if raw.get("peers") is None else parse_peers(name, raw["peers"]),
        purge_peers=bool(given("purge_peers", True)),
        overlay=tuple(str(parse_network(text)) for text in raw.get("overlay") or ()),
        retired_key=_key(raw.get("retired_key")),
        next_key_for=_key(raw.get("next_key_for")),
        copied_from=copied_from,
        copied_key=_key(raw.get("copied_key")),
        either_way=bool(given("either_way", False)),
    )


def _key(text: t.Any) -> str | None:
    return parse_key(text) if text else None


def _mtu(value: t.Any) -> int:
    mtu = parse_decimal(value, "mtu_out_of_range")
    if mtu and not MTU_RANGE[0] <= mtu <= MTU_RANGE[1]:
        raise ValueRefused("mtu_out_of_range", "{0} is not between {1} and {2}".format(mtu, *MTU_RANGE))
    return mtu or DEFAULT_MTU


def _interface(text: t.Any) -> str:
    """An address with its prefix length, host bits kept."""
    address_text, slash, length_text = text.partition("/") if isinstance(text, str) else ("", "", "")
    if not slash:
        raise ValueRefused("bad_address", f"{quoted(text)} is not address/length")
    address = parse_address(address_text)
    length = parse_decimal(length_text, "bad_address")
    if length > address.max_prefixlen:
        raise ValueRefused("bad_address", f"{quoted(text)} has too long a prefix")
    return str(ipaddress.ip_interface((address, length)))
