# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network links: reading one with its addresses, making a WireGuard link, setting it, deleting it."""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile
import time
import typing as t

from ..._values.generations import HOST_ADDRESS
from ..errors import PORT_TAKEN, LinuxError
from ..netlink import links
from ..netlink.messages import NetlinkRefused
from ..programs import FAILURES, find_program, run
from ..wireguard.device import KERNEL, USERSPACE, read_device, remove_stale_socket, socket_state

_START_TIMEOUT = 10.0
_STOP_TIMEOUT = 5.0


def read_link(name: str) -> dict[str, t.Any] | None:
    """A link, or None: ``{"index", "kind", "implementation", "mtu", "txqueuelen", "alias", "up", "addresses"}``.

    As in links.Link, and implementation: ``kernel`` or ``userspace`` when it is a WireGuard device, else None. addresses:
    sorted texts, without the link-local ones that the kernel makes by itself.
    """
    link = links.read_link(name)
    if link is None:
        return None
    implementation = None
    if link.kind == "wireguard":
        implementation = KERNEL
    elif link.kind == "tun" and socket_state(name) == "alive":
        implementation = USERSPACE
    return {
        "index": link.ifindex,
        "kind": link.kind,
        "implementation": implementation,
        "mtu": link.mtu,
        "txqueuelen": link.txqueuelen,
        "alias": link.alias,
        "up": link.up,
        "addresses": sorted(address.text for address in link.addresses if not address.text.startswith("fe80:")),
    }


def links_with_alias(alias: str) -> list[str]:
    """Names of all links with exactly this alias, sorted."""
    return sorted(link.name for link in links.read_links() if link.alias == alias)


def create_wireguard_link(name: str, implementation: str = "auto") -> str:
    """Make a WireGuard link (down) and say who implements it: ``kernel`` or ``userspace``.

    implementation ``auto`` takes the kernel where it can, else wireguard-go; the other two words insist.
    """
    if implementation != USERSPACE:
        try:
            links.add_link(name, "wireguard")
            return KERNEL
        except NetlinkRefused as error:
            if error.errno != errno.EOPNOTSUPP:
                raise LinuxError("create", name, str(error)) from None
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
    # After a device was deleted by hand, its process has the socket until it ends by itself.
    _wait(lambda: socket_state(name) != "alive", _STOP_TIMEOUT)
    remove_stale_socket(name)
    environment = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")}
    # It goes into the background by itself. A pipe that the background process inherits would keep Ansible waiting,
    # so everything it could write to is a file or nothing, and it is no member of our session.
    with tempfile.TemporaryFile() as output:
        try:
            done = run(
                [program, name],
                _START_TIMEOUT,
                stdout=output,
                stderr=output,
                env=environment,
                cwd="/",
                close_fds=True,
                start_new_session=True,
            )
        except FAILURES as error:
            raise LinuxError("start wireguard-go for", name, str(error)) from None
        output.seek(0)
        text = output.read(4096).decode("utf-8", "replace").strip().splitlines()
    if done.returncode:
        reason = text[-1] if text else f"exit code {done.returncode}"
        raise LinuxError("start wireguard-go for", name, reason)
    # The socket is listened on before the background process serves it, so one that answers nobody yet looks alive.
    try:
        if _wait(lambda: socket_state(name) == "alive" and name in links.link_names(), _START_TIMEOUT):
            read_device(name, USERSPACE)
            _keep_without_address(name)
            return
        reason = "it did not open its control socket"
    except LinuxError as error:
        reason = f"it ended right after its start, or does not answer ({error.message})"
    remove_stale_socket(name)
    if not _inotify_left():
        reason = "it watches its control socket by inotify, and of that no instance is left: raise fs.inotify.max_user_instances"
    raise LinuxError("start wireguard-go for", name, reason)


def _keep_without_address(name: str) -> None:
    """As the kernel's own WireGuard is: a plugin like Cilium takes each device with an address for an uplink, and its MTU for that of pods."""
    try:
        links.keep_without_address(links.link_index(name))
    except NetlinkRefused as error:
        raise LinuxError("set", name, str(error)) from None


def _inotify_left() -> bool:
    """Whether this user may watch files once more; wireguard-go ends without a message where it may not."""
    libc = ctypes.CDLL(None, use_errno=True)
    opened = libc.inotify_init1(os.O_CLOEXEC)
    if opened >= 0:
        os.close(opened)
    return opened >= 0 or ctypes.get_errno() != errno.EMFILE


def set_link(name: str, **desired: t.Any) -> None:
    """Set what is given, in one message: ``mtu``, ``txqueuelen``, ``alias``, ``up`` (True or False)."""
    try:
        links.change_link(links.link_index(name), **desired)
    except NetlinkRefused as error:
        # The kernel's WireGuard takes its port when the link goes up, so that is where a taken one shows.
        taken = error.errno == errno.EADDRINUSE
        raise LinuxError("set", name, PORT_TAKEN if taken else str(error)) from None


def change_addresses(name: str, add: t.Sequence[str], remove: t.Sequence[str], keep: t.Sequence[str] = ()) -> int:
    """Add addresses (``address/length``), then remove others. Returns how many messages it took.

    keep: addresses that stay. Deleting the first IPv4 address of a network takes the others of that network along
    (unless promote_secondaries is set), so afterwards those are added once more.
    """
    if not add and not remove:
        return 0
    again = [text for text in (*keep, *add) if ":" not in text] if any(":" not in text for text in remove) else []
    index = links.link_index(name)
    for adding, texts in ((True, add), (False, remove), (True, again)):
        for text in texts:
            try:
                links.write_address(index, text, adding, "host" if text == HOST_ADDRESS else "global")
            except NetlinkRefused as error:
                raise LinuxError("set the addresses of", name, str(error)) from None
    return len(add) + len(remove) + len(again)


def delete_link(name: str) -> None:
    """Delete a link. wireguard-go ends when its tun device goes; a control socket that stays behind is removed."""
    try:
        links.remove_link(links.link_index(name))
    except NetlinkRefused as error:
        raise LinuxError("delete", name, str(error)) from None
    _wait(lambda: socket_state(name) != "alive", _STOP_TIMEOUT)
    remove_stale_socket(name)


def _wait(ready: t.Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
