# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One WireGuard device with its key, addresses and peers: gather, plan, apply, verify (semaphore 3.2, 3.3, 3.5)."""

from __future__ import annotations

import contextlib
import typing as t

from ..._dataplane.device_plan import DevicePlan, plan_device
from ..._dataplane.device_spec import Device, parse_device
from ..._dataplane.peer_spec import EMPTY, PeerStep, names_to_resolve, preshared_files
from ..._linux.host.links import change_addresses, create_wireguard_link, delete_link, read_link, set_link
from ..._linux.host.resolve import resolve
from ..._linux.stats import Stats, now
from ..._linux.wireguard.device import open_device
from ..._linux.wireguard.keys import KeyFile, preshared_fingerprint
from ..._plan.plan import to_wire
from ..._values.gc_pause import gc_paused
from ..._values.generations import next_key_file
from .single import converge

Data = dict[str, t.Any]


@gc_paused()
def gather(desired: Device, secrets: t.Sequence[str] = ()) -> Data:
    """Read everything that matters for a device, once. secrets: files of preshared keys besides those of its peers. Raises LinuxError.

    ``{"link": of read_link|None, "wireguard": Dump (of an absent device: empty), "key": of KeyFile.state|None, "next_key" and "copied": of
    KeyFile.state, where the device has to do with such files,
    "resolved": {DNS name: [address]}, "preshared": {path: fingerprint|None}, "now": epoch seconds, "stats": {...}}``.
    Nothing in it is secret.
    """
    stats = Stats()
    link = read_link(desired.name)
    stats.add("reads")
    dump = EMPTY
    if link and link["implementation"]:
        with contextlib.closing(open_device(desired.name, link["implementation"])) as device:
            dump = device.dump()
        stats.add("reads")
    peers = desired.peers.peers if desired.peers and desired.present else ()
    path = desired.private_key_file if desired.present else None
    following = path and (desired.next_key_for or desired.retired_key)
    copied = path and desired.copied_from
    return {
        "link": link,
        "wireguard": dump,
        "key": KeyFile(path).state() if path else None,
        **({"next_key": KeyFile(next_key_file(path)).state()} if path and following else {}),
        **({"copied": KeyFile(copied).state()} if copied else {}),
        "resolved": resolve(names_to_resolve(peers)),
        "preshared": {path: preshared_fingerprint(path) for path in (*preshared_files(peers), *secrets)},
        "now": now(),
        "stats": stats.as_dict(),
    }


#: Pure; the actual state is of gather.
plan = gc_paused()(plan_device)


@gc_paused()
def apply(
    desired: Device, actual: t.Mapping[str, t.Any], planned: DevicePlan, later: t.Container[PeerStep] = ()
) -> Data:
    """Do what was planned; nothing planned, nothing written. later: steps that the caller sends. Returns stats. Raises LinuxError."""
    stats, work, name = Stats(), planned.work, desired.name
    if work.get("delete"):
        delete_link(name)
        return stats.as_dict(netlink_writes=1)
    path = desired.private_key_file or ""  # what needs it is planned only where there is one
    if work.get("make_key"):
        KeyFile(path).ensure()
        stats.add("file_writes")
    if work.get("copy_key") and desired.copied_from:
        KeyFile(path).copy(KeyFile(desired.copied_from))
        stats.add("file_writes")
    if work.get("make_next_key"):
        KeyFile(next_key_file(path)).write_anew()
        stats.add("file_writes")
    if work.get("renew_key"):
        KeyFile(path).succeed(KeyFile(next_key_file(path)))
        stats.add("file_writes")
    settings = dict(work.get("configure", ()))
    if settings.pop("private_key", False):  # first, so that a key that cannot be read leaves no half-made device
        settings["private_key"] = KeyFile(path).private_key()
    implementation = actual["link"]["implementation"] if actual["link"] else None
    if work.get("create"):
        implementation = create_wireguard_link(name, desired.implementation)
        stats.add("netlink_writes")
    link = dict(work.get("link", ()))
    size = link.pop("mtu", None)
    if link:
        set_link(name, **link)
        stats.add("netlink_writes")
    steps = [step for step in planned.steps if step not in later] if later else planned.steps
    if settings or steps:
        with contextlib.closing(open_device(name, implementation)) as device:
            device.configure(**settings)
            device.apply(steps)
            stats.add("wireguard_writes", device.writes)
    # a device goes up when it is complete, and has addresses (which make routes) when it is up; what must not be on it goes before
    late = bool(work.get("add_addresses"))
    if not late:
        _change_addresses(name, work, stats)
    rest = {field: value for field, value in (("mtu", size), ("up", work.get("up"))) if value is not None}
    if rest:
        set_link(name, **rest)
        stats.add("netlink_writes")
    if late:
        _change_addresses(name, work, stats)
    return stats.as_dict()


@gc_paused()
def send(name: str, actual: t.Mapping[str, t.Any], steps: t.Sequence[PeerStep]) -> Data:
    """Tell a device's peers. Returns stats. Raises LinuxError."""
    stats, link = Stats(), actual["link"]
    with contextlib.closing(open_device(name, link["implementation"] if link else None)) as device:
        device.apply(steps)
        return stats.as_dict(wireguard_writes=device.writes)


def _change_addresses(name: str, work: Data, stats: Stats) -> None:
    changes = [work.get(action + "_addresses", ()) for action in ("add", "remove", "keep")]
    stats.add("netlink_writes", change_addresses(name, *changes))


def run(request: t.Mapping[str, t.Any], check: bool, last_endpoints: t.Mapping[str, str] | None = None) -> Data:
    """The whole way, for the module: its result as plain JSON, ``diff`` and ``warnings`` included.

    request: see parse_device. Raises ValueRefused when it is not understood, LinuxError when the host refuses.
    """
    desired = parse_device(request)
    result, after, dummy = converge(
        lambda: gather(desired),
        lambda actual: plan(desired, actual, last_endpoints),
        lambda actual, planned: apply(desired, actual, planned),
        check,
    )
    device = dict(after.device, name=desired.name) if after.device else None
    answer: Data = to_wire(
        dict(result, device=device, public_key=device["public_key"] if device else None, peers=after.peers)
    )
    return answer
