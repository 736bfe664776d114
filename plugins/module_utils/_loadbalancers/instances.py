# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes and the devices they run on (ccm 6)."""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused, quoted
from .reservations import PROVIDER_PREFIXES, parse_provider_id, provider_id

UNINITIALIZED, SHUTDOWN = "node.cloudprovider.kubernetes.io/uninitialized", "node.cloudprovider.kubernetes.io/shutdown"
PROVIDED_IP = "alpha.kubernetes.io/provided-node-ip"
ALL, SINGLE = "all", "single"
_TYPE, _REGION, _ZONE = (
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)
#: Their names of before 1.17, which cloud-provider-equinix-metal writes alongside them and old manifests select by.
_FORMER = {
    _TYPE: "beta.kubernetes.io/instance-type",
    _REGION: "failure-domain.beta.kubernetes.io/region",
    _ZONE: "failure-domain.beta.kubernetes.io/zone",
}


#: The labels that a cloud controller gives nodes.
LABELS = frozenset((*_FORMER, *_FORMER.values()))


class Device(t.NamedTuple):
    """A server that a provider knows. ``addresses`` are maps of address, address_family, public, management, parent_block."""

    id: str
    hostname: str
    state: str = ""
    plan: str = ""
    plan_name: str = ""
    metro: str = ""
    facility: str = ""
    addresses: tuple[t.Mapping[str, t.Any], ...] = ()


class Variant(t.NamedTuple):
    """Which generation's node facts are written: region_from metro or facility, zone_from none or facility."""

    region_from: str = "metro"
    zone_from: str = "none"
    address_list: str = ALL
    type_from: str = "plan"
    prefixes: tuple[str, ...] = PROVIDER_PREFIXES


def device_of(
    name: str, node_provider_id: str, devices: t.Sequence[Device], variant: Variant = Variant()
) -> Device | None:
    """A node's device by its provider ID where it has one, else by its name; ``devices`` is the complete list.

    Raises ValueRefused for no name, two devices of the name, and for another provider's or a malformed provider ID, which never means that the device is gone.
    """
    if not node_provider_id:
        # the device with the node's name as host name (T15)
        if not name:
            raise ValueRefused("bad_format", "a node without a name has no device")
        found = [device for device in devices if device.hostname == name]
        if len(found) > 1:
            raise ValueRefused(
                "claimed_twice",
                "the devices {0} are all called {1}".format(
                    ", ".join(quoted(device.id) for device in found[:10]), quoted(name)
                ),
            )
        return found[0] if found else None
    ident = parse_provider_id(node_provider_id, variant.prefixes)
    return next((device for device in devices if device.id == ident), None)


def node_addresses(device: Device, provided: str | None = None, variant: Variant = Variant()) -> list[dict[str, str]]:
    """``status.addresses``. Raises ValueRefused ``no_private_ip`` or ``no_public_ip``."""
    v4 = [item for item in device.addresses if item.get("address_family") == 4 and item.get("address")]
    internal = [str(item["address"]) for item in v4 if not item.get("public")]
    external = [str(item["address"]) for item in v4 if item.get("public")]
    if not internal and not provided:
        raise ValueRefused("no_private_ip", f"the device {quoted(device.hostname)} has no private IPv4 address")
    if not external:
        raise ValueRefused("no_public_ip", f"the device {quoted(device.hostname)} has no public IPv4 address")
    rows = [{"type": "Hostname", "address": device.hostname}]
    if variant.address_list == SINGLE:
        return rows + [
            {"type": "InternalIP", "address": (internal or [str(provided)])[-1]},
            {"type": "ExternalIP", "address": external[-1]},
        ]
    if provided:
        rows.append({"type": "InternalIP", "address": provided})
    seen = {row["address"] for row in rows[1:]}
    for item in v4:
        address = str(item["address"])
        if address not in seen:
            rows.append({"type": "ExternalIP" if item.get("public") else "InternalIP", "address": address})
            seen.add(address)
    return rows


def same_addresses(one: t.Sequence[t.Mapping[str, t.Any]], other: t.Sequence[t.Mapping[str, t.Any]]) -> bool:
    """Whether two lists of ``status.addresses`` say the same: the first of a type counts, so the order matters within a type alone.

    An API server that merges a cloud controller's patch puts a new address alongside those of its type, not at the end.
    """
    return _by_type(one) == _by_type(other)


def _by_type(rows: t.Iterable[t.Mapping[str, t.Any]]) -> dict[t.Any, list[t.Any]]:
    found: dict[t.Any, list[t.Any]] = {}
    for row in rows:
        found.setdefault(row.get("type"), []).append(dict(row))
    return found


def region_of(device: Device, variant: Variant) -> str:
    """The region's code; a facility replaces a metro that is not there."""
    return device.metro or device.facility if variant.region_from == "metro" else device.facility


def zone_of(device: Device, variant: Variant) -> str:
    """The zone's code, or nothing."""
    return device.facility if variant.zone_from == "facility" else ""


class NodeFacts(t.NamedTuple):
    """What a node gets. ``taint_removed``: it was waiting for this, and now is initialised."""

    provider_id: str
    labels: dict[str, str]
    addresses: list[dict[str, str]]
    taint_removed: bool


def node_facts(
    device: Device,
    taints: t.Iterable[str],
    current_provider_id: str = "",
    provided: str | None = None,
    variant: Variant = Variant(),
) -> NodeFacts:
    """For a node with the taint of the uninitialised: everything; for others only addresses (``spec.providerID`` is immutable)."""
    addresses = node_addresses(device, provided, variant)
    new = UNINITIALIZED in taints
    ident = current_provider_id or (provider_id(device.id, variant.prefixes[0]) if new else "")
    kind = device.plan_name if variant.type_from == "plan_name" else device.plan
    values = {_TYPE: kind, _REGION: region_of(device, variant), _ZONE: zone_of(device, variant)}
    values.update({_FORMER[key]: value for key, value in values.items()})
    return NodeFacts(ident, {key: value for key, value in values.items() if value} if new else {}, addresses, new)


class Fate(t.NamedTuple):
    """What becomes of a node: ``delete`` it, give it the ``shutdown`` taint or take that away (None: leave it)."""

    delete: bool
    shutdown: bool | None


def fate_of(ready: bool, device: Device | None, taints: t.Iterable[str], delete_nodes: bool = False) -> Fate:
    """Only a node that is not ready can lose anything, and deleting it must be asked for (ccm 6.5)."""
    tainted = SHUTDOWN in taints
    if ready:
        return Fate(False, False if tainted else None)
    if device is None:
        return Fate(delete_nodes, None)
    return Fate(False, True if is_shut_down(device) and not tainted else None)


def is_shut_down(device: Device) -> bool:
    """Exactly this state; one that is on its way to it is not there yet."""
    return device.state == "inactive"
