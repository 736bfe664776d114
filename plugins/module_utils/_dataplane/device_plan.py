# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A desired WireGuard device against what is there: who owns it, what to set, in which order (semaphore 3.2, 3.6)."""

from __future__ import annotations

import typing as t

from .._plan.plan import Pending, Plan
from .._values.addresses import parse_address
from .._values.generations import HOST_ADDRESS, next_key_file
from .._values.prefix_sets import PrefixSet
from .constants import is_our_alias
from .device_spec import Device
from .key_plan import ERROR, GENERATE, USE, key_action
from .peer_plan import plan_peers
from .peer_spec import Dump, Key, LivePeer, PeerStep, settle_peers

Data = dict[str, t.Any]


class DevicePlan(Plan):
    """A plan and what ``apply`` does for it.

    work: ``delete`` (bool), ``create`` (bool), ``make_key`` (bool), ``copy_key`` (bool), ``make_next_key`` (bool), ``renew_key`` (bool),
    ``link`` (arguments of set_link before the device is configured), ``configure`` (``private_key``: True means the file's; ``listen_port``, ``fwmark``),
    ``add_addresses``, ``remove_addresses``, ``keep_addresses``, ``up`` (None: as it is). steps: what is written for its peers, in order.
    device and after: the device, and its peers by key, as they will be; device is None when the link will not be there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.work: Data = {}
        self.steps: list[PeerStep] = []
        self.device: Data | None = None
        self.after: t.Mapping[Key, LivePeer] = {}

    def key_files(self, path: str | None) -> list[str]:
        """The key files that its work concerns. path: that of the device."""
        if path is None:
            return []
        own = [path] if any(map(self.work.get, ("make_key", "copy_key", "renew_key"))) else []
        return own + ([next_key_file(path)] if any(map(self.work.get, ("make_next_key", "renew_key"))) else [])

    @property
    def peers(self) -> list[Data]:
        """Its peers as results show them, sorted by key."""
        return [dict(self.after[key].shown(), public_key=key) for key in sorted(self.after, key=str)]


def device_view(link: t.Mapping[str, t.Any], dump: Dump) -> Data:
    """What of a device is configuration, as diffs and results show it."""
    names = ("implementation", "mtu", "txqueuelen", "alias", "up", "addresses")
    shown = {name: link[name] for name in names}
    return dict(shown, listen_port=dump.listen_port, fwmark=dump.fwmark, public_key=dump.public_key)


def plan_device(
    desired: Device,
    actual: t.Mapping[str, t.Any],
    last_endpoints: t.Mapping[str, str] | None = None,
) -> DevicePlan:
    """actual: of the flow's gather; last_endpoints: see peer_plan.endpoint_drifted."""
    plan = DevicePlan()
    name, link = desired.name, actual["link"]
    dump: Dump = actual["wireguard"]
    if link is not None:
        plan.device, plan.after = device_view(link, dump), t.cast(t.Mapping[Key, LivePeer], dump.peers)
        refusal = _unowned(desired, link)
        if refusal:
            plan.refuse(name, *refusal)
            return plan
    if not desired.present:
        if link is not None:
            for gone in sorted(dump.peers):
                plan.delete("peer", f"{name} {gone}", dump.peers[gone].shown())
            plan.delete("link", name, device_view(link, dump))
            plan.work["delete"] = True
        plan.device, plan.after = None, {}
        return plan
    key = _plan_key(plan, desired, actual)
    if plan.refused:
        return plan
    _plan_link(plan, desired, link, dump, key)
    if desired.peers is not None:
        own_key = key if key is not None else dump.public_key
        settled = settle_peers(
            name, desired.peers, dump.peers, own_key, _outside(actual["resolved"], desired.overlay), actual["preshared"]
        )
        plan.refused.extend(settled.refused)
        peers = plan_peers(
            name, settled.peers, dump.peers, actual["now"], last_endpoints, desired.purge_peers, settled.kept
        )
        plan.extend(peers.plan)
        plan.steps, plan.after = peers.steps, peers.after
    return plan


def _outside(resolved: t.Mapping[str, t.Sequence[str]], overlay: t.Sequence[str]) -> dict[str, list[str]]:
    """What names resolve to, without addresses behind the tunnel itself: DNS is a claim like any other (threat T5)."""
    inside = PrefixSet.of_texts(overlay)
    return {name: [text for text in found if parse_address(text) not in inside] for name, found in resolved.items()}


def _unowned(desired: Device, link: t.Mapping[str, t.Any]) -> tuple[str, str] | None:
    """(reason, message) when the link must be left alone."""
    if link["implementation"] is None:
        kind = link["kind"] or "hardware"
        return "not_ours", f"a link of this name exists and is no WireGuard device ({kind}); it is left alone"
    if is_our_alias(link["alias"], desired.alias) or desired.adopt:
        return None
    return (
        "adoptable",
        "a WireGuard device of this name exists and does not carry this owner's mark; adopt: true takes it over",
    )


def _plan_key(plan: DevicePlan, desired: Device, actual: t.Mapping[str, t.Any]) -> t.Any:
    """The public key that the device will have; None when the key is not managed."""
    path, found = desired.private_key_file, actual["key"]
    if path is None:
        return None
    action = key_action(found["state"])
    if action == ERROR:
        plan.refuse(desired.name, "bad_private_key", f"{path}: {found['message']}; it is never overwritten")
        return None
    before = {"mode": found["mode"], "public_key": found["public_key"]}
    if desired.copied_from is not None and (action == GENERATE or before["public_key"] != desired.copied_key):
        return _plan_copy(plan, desired, actual, before)
    if action == GENERATE:
        key = Pending(f"public key of {desired.name}")
        if not desired.generate_key:
            return key
        plan.create("key", path, {"mode": "0600", "public_key": key})
        plan.work["make_key"] = True
        return key
    following = actual.get("next_key") or {}
    if desired.retired_key is not None and before["public_key"] == desired.retired_key:
        key = following.get("public_key") or Pending(f"new public key of {desired.name}")
        plan.update("key", path, before, {"mode": "0600", "public_key": key})
        plan.work["renew_key"] = True
        return key
    if desired.next_key_for is not None and before["public_key"] == desired.next_key_for:
        following_file = next_key_file(path)
        if key_action(following["state"]) != USE:  # no peer has it yet, so one that holds no key is replaced
            pending = Pending(f"next public key of {desired.name}")
            plan.create("key", following_file, {"mode": "0600", "public_key": pending})
            plan.work["make_next_key"] = True
    if found["mode"] != "0600" and desired.generate_key:
        plan.update("key", path, before, dict(before, mode="0600"))
        plan.work["make_key"] = True
    return found["public_key"]


def _plan_copy(plan: DevicePlan, desired: Device, actual: t.Mapping[str, t.Any], before: Data) -> t.Any:
    """The public key of a device that has the key of another device."""
    source, expected = actual["copied"], desired.copied_key
    key = source["public_key"]
    if key is None or (expected is not None and key != expected):
        if before["public_key"] is not None and expected is None:
            return before["public_key"]
        if source["state"] == "absent" and expected is None:
            key = Pending(f"public key of {desired.name}")  # that of the other device, which is made first
        elif expected is not None and actual["wireguard"].public_key == expected:
            text = "{0} is not the file of the key that {1} has, and no other file has it; end the rotation of keys before this node boots"
            plan.warnings.append(text.format(desired.private_key_file, desired.name))
            return expected
        else:
            text = (
                "{0} has another key than the Node published when the rotation of keys began ({1}), and {2} needs that one; "
                "run rotate_keys with rotate_keys_state: abandoned, then without it"
            )
            plan.refuse(desired.name, "key_differs", text.format(desired.copied_from, expected, desired.name))
            return None
    after = {"mode": "0600", "public_key": key}
    path = str(desired.private_key_file)
    if before["public_key"] is None:
        plan.create("key", path, after)
    elif before["public_key"] == key:
        return key
    else:
        plan.update("key", path, before, after)
    plan.work["copy_key"] = True
    return key


def _plan_link(
    plan: DevicePlan,
    desired: Device,
    link: t.Mapping[str, t.Any] | None,
    dump: Dump,
    key: t.Any,
) -> None:
    name = desired.name
    # wireguard-go and the kernel set a port of their own choice on a new device; what nobody asked for is not shown.
    now: Data = device_view(link, dump) if link else {"addresses": [], "listen_port": 0, "public_key": None}
    after = dict(now, implementation=now.get("implementation") or desired.implementation)
    after.update(
        mtu=desired.mtu, txqueuelen=desired.txqueuelen, alias=desired.alias, up=desired.up, fwmark=desired.fwmark
    )
    if desired.listen_port is not None:
        after["listen_port"] = desired.listen_port
    if key is not None:
        after["public_key"] = key
    after["addresses"] = _addresses(desired, now["addresses"])
    changed = {field for field in after if link is None or now[field] != after[field]}

    work = plan.work
    work["create"] = link is None
    work["link"] = {field: after[field] for field in ("mtu", "txqueuelen", "alias") if field in changed}
    work["configure"] = {
        field: after[field] for field in ("listen_port", "fwmark") if now.get(field, 0) != after[field]
    }
    if key is not None and now["public_key"] != key:
        work["configure"]["private_key"] = True
    work["add_addresses"] = sorted(set(after["addresses"]) - set(now["addresses"]))
    work["remove_addresses"] = sorted(set(now["addresses"]) - set(after["addresses"]))
    work["keep_addresses"] = sorted(set(after["addresses"]) & set(now["addresses"]))
    work["up"] = after["up"] if now.get("up", False) != after["up"] else None
    plan.device = after
    if link is None:
        plan.create("link", name, after)
        return
    if desired.implementation not in ("auto", now["implementation"]):
        message = "{0} is a {1} device and stays one; remove it first to change its implementation"
        plan.warnings.append(message.format(name, now["implementation"]))
    if now == after:
        plan.unchanged += 1
    else:
        plan.update("link", name, now, after)


def _addresses(desired: Device, now: t.Sequence[str]) -> list[str]:
    """A list of addresses is exact for both families; flushing takes IPv4 and leaves IPv6 alone (semaphore 3.2). HOST_ADDRESS stays where it is."""
    extra = {HOST_ADDRESS} if desired.either_way or HOST_ADDRESS in now else set()
    if desired.addresses is not None:
        return sorted({*desired.addresses, *extra})
    return sorted({*(text for text in now if ":" in text or not desired.flush_ipv4), *extra})
