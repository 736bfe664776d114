# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network links: reading one with its addresses, making a WireGuard link, setting it, deleting it."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
import time
import typing as t

from ..._values.ascii_text import lower
from ..errors import LinuxError
from ..netlink.ip_command import find_program, ip_json
from ..netlink.names import link_index, link_names
from ..netlink.rtnetlink import rtnetlink
from ..programs import FAILURES, run
from ..wireguard.device import KERNEL, USERSPACE, remove_stale_socket, socket_state

_START_TIMEOUT = 10.0
_STOP_TIMEOUT = 5.0


def read_link(name: str) -> t.Optional[t.Dict[str, t.Any]]:
    """A link, or None: ``{"index", "kind", "implementation", "mtu", "txqueuelen", "alias", "up", "addresses"}``.

    kind: the kernel's word (``wireguard``, ``tun``, ``veth``; "" for hardware). implementation: ``kernel`` or
    ``userspace`` when it is a WireGuard device, else None. addresses: sorted ``address/length`` of both families,
    without the link-local ones that the kernel makes by itself.
    """
    found = ip_json(["address", "show", "dev", name], nothing=("does not exist",))
    if not found:
        return None
    entry = found[0]
    kind = entry.get("linkinfo", {}).get("info_kind", "")
    implementation = None
    if kind == "wireguard":
        implementation = KERNEL
    elif kind == "tun" and socket_state(name) == "alive":
        implementation = USERSPACE
    addresses = [
        "{0}/{1}".format(address["local"], address["prefixlen"])
        for address in entry.get("addr_info", ())
        if not (address["family"] == "inet6" and lower(address["local"]).startswith("fe80:"))
    ]
    return {
        "index": entry["ifindex"],
        "kind": kind,
        "implementation": implementation,
        "mtu": entry["mtu"],
        "txqueuelen": entry.get("txqlen", 0),
        "alias": entry.get("ifalias"),
        "up": "UP" in entry.get("flags", ()),
        "addresses": sorted(addresses),
    }


def links_with_alias(alias: str) -> t.List[str]:
    """Names of all links whose alias is exactly this, sorted."""
    return sorted(entry["ifname"] for entry in ip_json(["link", "show"]) if entry.get("ifalias") == alias)


def create_wireguard_link(name: str, implementation: str = "auto") -> str:
    """Make a WireGuard link (down) and say who implements it: ``kernel`` or ``userspace``.

    implementation ``auto`` takes the kernel where it can, else wireguard-go; the other two words insist.
    """
    if implementation != USERSPACE:
        try:
            with rtnetlink("create", name) as route:
                route.link("add", ifname=name, kind="wireguard")
            return KERNEL
        except LinuxError as error:
            if error.message != os.strerror(errno.EOPNOTSUPP):
                raise
            if implementation == KERNEL:
                raise LinuxError(
                    "create", name, "this kernel has no WireGuard; implementation: auto would use wireguard-go"
                ) from None
    _start_wireguard_go(name)
    return USERSPACE


def _start_wireguard_go(name: str) -> None:
    program = find_program("wireguard-go")
    if program is None:
        raise LinuxError(
            "create",
            name,
            "this kernel has no WireGuard and the program wireguard-go is missing (package wireguard-go)",
            "wireguard-go",
        )
    if not os.path.exists("/dev/net/tun"):
        raise LinuxError("create", name, "wireguard-go needs /dev/net/tun, which is missing")
    remove_stale_socket(name)
    environment = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")}
    # It goes into the background by itself. A pipe that the background process inherits would keep Ansible waiting,
    # so everything it could write to is a file or nothing, and it is no member of our session.
    with tempfile.TemporaryFile() as output:
        try:
            done = run(
                [program, name], _START_TIMEOUT, stdout=output, stderr=output, env=environment, cwd="/", close_fds=True, start_new_session=True
            )
        except FAILURES as error:
            raise LinuxError("start wireguard-go for", name, str(error)) from None
        output.seek(0)
        text = output.read(4096).decode("utf-8", "replace").strip().splitlines()
    if done.returncode:
        reason = text[-1] if text else "exit code {0}".format(done.returncode)
        raise LinuxError("start wireguard-go for", name, reason)
    if not _wait(lambda: socket_state(name) == "alive" and _exists(name), _START_TIMEOUT):
        raise LinuxError("start wireguard-go for", name, "it did not open its control socket")


def set_link(name: str, **wanted: t.Any) -> None:
    """Set what is given, in one message: ``mtu``, ``txqueuelen``, ``alias``, ``up`` (True or False)."""
    attributes: t.Dict[str, t.Any] = {}
    for ours, theirs in (("mtu", "mtu"), ("txqueuelen", "txqlen"), ("alias", "ifalias")):
        if wanted.get(ours) is not None:
            attributes[theirs] = wanted[ours]
    if wanted.get("up") is not None:
        attributes["state"] = "up" if wanted["up"] else "down"
    if attributes:
        try:
            with rtnetlink("set", name) as route:
                route.link("set", index=link_index(name), **attributes)
        except LinuxError as error:
            if error.message != os.strerror(errno.EADDRINUSE):
                raise
            # The kernel's WireGuard takes its port when the link goes up, so that is where a taken one shows.
            raise LinuxError("set", name, "its UDP port is taken by another program or device") from None


def change_addresses(name: str, add: t.Sequence[str], remove: t.Sequence[str], keep: t.Sequence[str] = ()) -> int:
    """Add addresses (``address/length``), then remove others. Returns how many messages it took.

    keep: addresses that stay. Deleting the first IPv4 address of a network takes the others of that network along
    (unless promote_secondaries is set), so afterwards those are added once more.
    """
    if not add and not remove:
        return 0
    again = [text for text in (*keep, *add) if ":" not in text] if any(":" not in text for text in remove) else []
    with rtnetlink("set the addresses of", name) as route:
        index = link_index(name)
        for action, texts in (("add", add), ("del", remove), ("add", again)):
            for text in texts:
                address, _slash, length = text.partition("/")
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                try:
                    route.addr(action, index=index, address=address, prefixlen=int(length), family=family)
                except Exception as error:  # pylint: disable=broad-except
                    if getattr(error, "code", None) != (errno.EEXIST if action == "add" else errno.EADDRNOTAVAIL):
                        raise
    return len(add) + len(remove) + len(again)


def delete_link(name: str) -> None:
    """Delete a link. wireguard-go ends when its tun device goes; a control socket that stays behind is removed."""
    with rtnetlink("delete", name) as route:
        route.link("del", index=link_index(name))
    _wait(lambda: socket_state(name) != "alive", _STOP_TIMEOUT)
    remove_stale_socket(name)


def _exists(name: str) -> bool:
    return name in link_names()


def _wait(ready: t.Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
