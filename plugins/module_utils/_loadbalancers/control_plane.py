# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control plane's address: when it is probed, whom it goes to, how it moves (ccm 11.1 to 11.3, decision 22), and the Service, with its endpoints,
that makes every node accept it (ccm 11.4).

The decision is a generator that yields probes and is sent their results (an HTTP status, or None for no answer), so
that the same rules run in a play, on a timer and in tests.
"""

from __future__ import annotations

import copy
import typing as t

from .._values.addresses import readable_address, special_kind
from .._values.refused import ValueRefused
from .reservations import (
    CONTROL_PLANE_NAMESPACE,
    PROVIDER_PREFIXES,
    REFUSE,
    Assignment,
    Reservation,
    external_service_name,
    parse_provider_id,
)

LABELS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
RESYNC, ADD, UPDATE, REMOVE = "resync", "add", "update", "delete"


class Node(t.NamedTuple):
    """What matters of a Node; ``addresses`` are (type, address)."""

    name: str
    labels: t.Mapping[str, str] = {}
    provider_id: str = ""
    addresses: tuple[tuple[str, str], ...] = ()
    unschedulable: bool = False
    deleting: bool = False

    @property
    def is_control_plane(self) -> bool:
        """By label, with any value."""
        return any(label in self.labels for label in LABELS)


class Rules(t.NamedTuple):
    """``eip_port`` 0: as the nodes'; ``host_probe``: ask the holder itself, not the address; ``on_duplicate`` refuse or first."""

    tag: str
    eip_port: int = 0
    node_port: int = 0
    host_probe: bool = False
    prefixes: tuple[str, ...] = PROVIDER_PREFIXES
    on_duplicate: str = REFUSE


class Event(t.NamedTuple):
    """Why we look. ``gone`` is the deleted node; ``cordoned``: this update made the node unschedulable."""

    kind: str = RESYNC
    node: str = ""
    cordoned: bool = False
    gone: Node | None = None


class Decision(t.NamedTuple):
    """What to do: nothing, or first ``unassign`` (an assignment's id), then assign ``address`` to ``device``."""

    address: str = ""
    holder: str = ""
    healthy: bool | None = None
    unassign: str = ""
    device: str = ""
    winner: str = ""

    @property
    def moves(self) -> bool:
        return bool(self.device)


Probes = t.Generator[str, t.Optional[int], Decision]


def node_of(obj: t.Mapping[str, t.Any]) -> Node:
    meta, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    rows = (obj.get("status") or {}).get("addresses") or ()
    return Node(
        str(meta.get("name") or ""),
        meta.get("labels") or {},
        str(spec.get("providerID") or ""),
        tuple((str(row.get("type")), str(row.get("address"))) for row in rows if isinstance(row, dict)),
        spec.get("unschedulable") is True,
        bool(meta.get("deletionTimestamp")),
    )


def endpoint_reservation(reservations: t.Iterable[Reservation], tag: str, on_duplicate: str = REFUSE) -> Reservation:
    """The reservation that carries the tag. Raises ValueRefused ``eip_not_found``, ``claimed_twice``, ``multiple_assignments``."""
    found = [item for item in reservations if tag in item.tags]
    if not found:
        raise ValueRefused("eip_not_found", "no reservation carries the control plane's tag")
    if len(found) > 1 and on_duplicate == REFUSE:
        ids = ", ".join(item.id for item in found[:10])
        raise ValueRefused("claimed_twice", f"the reservations {ids} all carry the control plane's tag")
    if not found[0].address:
        raise ValueRefused("eip_not_found", "the control plane's reservation has no address yet")
    if len(found[0].assignments) > 1:
        raise ValueRefused("multiple_assignments", "the control plane's address has more than one assignment")
    return found[0]


def decide(
    reservations: t.Sequence[Reservation], nodes: t.Sequence[Node], rules: Rules, event: Event = Event()
) -> Probes:
    """One pass. ``nodes`` are all nodes, whatever the event was. Raises ValueRefused, with nothing to do then:
    ``eip_not_found claimed_twice multiple_assignments port_unknown no_candidate``."""
    if not rules.tag:
        return Decision()
    eip = endpoint_reservation(reservations, rules.tag, rules.on_duplicate)
    if not rules.node_port:
        raise ValueRefused("port_unknown", "the API servers' port is not known")
    assignment = eip.assignments[0] if eip.assignments else None
    known = list(nodes) + ([event.gone] if event.gone is not None else [])
    holder = _holder(eip.address, assignment, known, rules)
    name = holder.name if holder is not None else ""
    leaving = bool(name) and event.node == name and (event.kind == REMOVE or (event.kind == UPDATE and event.cordoned))
    if not leaving and (event.kind == REMOVE or (event.kind == UPDATE and event.cordoned)):
        return Decision(eip.address, name)
    if assignment is not None and not leaving and (yield _holder_probe(eip.address, holder, rules)) == 200:
        return Decision(eip.address, name, True)
    for candidate in candidates(nodes, name, leaving):
        device = _device(candidate, rules)
        if not device:
            continue
        for url in _urls(candidate, eip.address, rules.node_port):
            if (yield url) != 200:
                continue
            if candidate.name == name and assignment is not None:
                return Decision(eip.address, name, False)  # its own server answers; moving it there again helps nobody
            unassign = assignment.id if assignment is not None else ""
            return Decision(
                eip.address, name, False if assignment is not None else None, unassign, device, candidate.name
            )
    raise ValueRefused("no_candidate", "no control-plane node answers with health; the address stays where it is")


def candidates(nodes: t.Iterable[Node], holder: str, exclude_holder: bool = False) -> list[Node]:
    """Whom the address may go to, in the order in which they are asked."""
    rows = sorted((node for node in nodes if node.is_control_plane and not node.deleting), key=lambda node: node.name)
    rows = [node for node in rows if not node.unschedulable] or rows
    others = [node for node in rows if node.name != holder]
    if exclude_holder and others:
        return others
    return others + [node for node in rows if node.name == holder]


def _holder(address: str, assignment: Assignment | None, nodes: t.Sequence[Node], rules: Rules) -> Node | None:
    # of a block only the assigned address is on the node
    held = assignment.address if assignment is not None and assignment.address else address
    for node in nodes:
        if assignment is not None and any(other == held for _kind, other in node.addresses):
            return node
    for node in nodes:
        if assignment is not None and assignment.device and _device(node, rules) == assignment.device:
            return node
    return None


def _device(node: Node, rules: Rules) -> str:
    try:
        return parse_provider_id(node.provider_id, rules.prefixes)
    except ValueRefused:
        return ""


def _holder_probe(eip: str, holder: Node | None, rules: Rules) -> str:
    if rules.host_probe and holder is not None:
        own = [text for kind, text in holder.addresses if kind == "ExternalIP" and text != eip]
        for text in own:
            if _usable(text):
                return health_url(text, rules.node_port)
    return health_url(eip, rules.eip_port or rules.node_port)


def _urls(node: Node, eip: str, port: int) -> t.Iterator[str]:
    for kind, text in node.addresses:
        if kind != "Hostname" and text != eip and _usable(text):
            yield health_url(text, port)


def _usable(text: str) -> bool:
    """A node may claim any address; the controller sends no request to its own network for it."""
    address = readable_address(text)
    return address is not None and special_kind(address) is None


def health_url(host: str, port: int) -> str:
    """Where an API server reports whether it is healthy."""
    return f"https://{(f'[{host}]' if ':' in host else host)}:{port}/healthz"


class Hysteresis(t.NamedTuple):
    """``failures`` probes in a row must fail; ``rest_s`` seconds must have passed since the last move. 1 and 0: as upstream."""

    failures: int = 3
    rest_s: float = 60


class FailureRecord(t.NamedTuple):
    """What is kept between runs. ``moved_at`` is a time of the caller's clock, None for never."""

    failures: int = 0
    moved_at: float | None = None


def may_move(record: FailureRecord, hysteresis: Hysteresis, now: float) -> bool:
    """Whether, with one more failed probe at ``now``, the address may move. A clock that was set back does not hold it."""
    rested = record.moved_at is None or not 0 <= now - record.moved_at < hysteresis.rest_s
    return rested and record.failures + 1 >= hysteresis.failures


NO_POOL = "disabled-metallb-do-not-use-any-address-pool"
POOL_ANNOTATIONS = ("metallb.universe.tf/address-pool", "metallb.io/address-pool")
Manifest = dict[str, t.Any]
#: Endpoints are deprecated from here on.
SLICES_FROM = (1, 33)


def eip_port(ports: t.Sequence[t.Mapping[str, t.Any]], configured: int = 0) -> int:
    """The port on which the address listens. Raises ValueRefused ``no_ports`` or ``port_unknown``."""
    if not ports:
        raise ValueRefused("no_ports", "the Service default/kubernetes has no ports")
    port = configured or ports[0].get("targetPort")
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        raise ValueRefused("port_unknown", "the API servers' port has no number")
    return port


def external_service(
    identity: str,
    address: str,
    ports: t.Sequence[t.Mapping[str, t.Any]],
    configured_port: int = 0,
    existing: t.Mapping[str, t.Any] | None = None,
    load_balancer_class: str = "",
) -> Manifest:
    """The whole Service as it should be: what exists keeps its cluster IP, node ports and unowned metadata."""
    desired_ports = [
        {key: port[key] for key in ("name", "port", "protocol", "targetPort", "appProtocol") if key in port}
        for port in ports
    ]
    first = eip_port(ports, configured_port)
    desired_ports[0]["port"] = first
    service: Manifest = (
        copy.deepcopy(dict(existing))
        if existing
        else {"apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": {}}
    )
    meta, spec = service.setdefault("metadata", {}), service.setdefault("spec", {})
    meta.update(name=external_service_name(identity), namespace=CONTROL_PLANE_NAMESPACE)
    meta["annotations"] = dict(meta.get("annotations") or {}, **dict.fromkeys(POOL_ANNOTATIONS, NO_POOL))
    node_ports = {port.get("name", ""): port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
    for port in desired_ports:
        if port.get("name", "") in node_ports:
            port["nodePort"] = node_ports[port.get("name", "")]
    spec.update(type="LoadBalancer", loadBalancerIP=address, ports=desired_ports)
    spec.pop("selector", None)
    if load_balancer_class and not existing:
        spec["loadBalancerClass"] = load_balancer_class  # immutable, so only when the Service is made
    return service


def ingress_status(address: str) -> Manifest:
    """Its status, written through the sub-resource."""
    return {"loadBalancer": {"ingress": [{"ip": address}]}}


def reports(existing: t.Mapping[str, t.Any] | None, address: str) -> bool:
    """Whether the Service's status already has the address. API servers from 1.30 on add a mode to each address, which is no difference."""
    rows = (((existing or {}).get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return [row.get("ip") for row in rows if isinstance(row, dict)] == [address]


def uses_slices(version: tuple[int, int], mode: str = "auto") -> bool:
    """Whether EndpointSlices are written; mode auto, endpoints or slices."""
    return version >= SLICES_FROM if mode == "auto" else mode == "slices"


def endpoints(identity: str, source: t.Mapping[str, t.Any]) -> Manifest:
    """Endpoints with the addresses and ports of those of default/kubernetes."""
    subsets = [
        {
            "addresses": [{"ip": item["ip"]} for item in subset.get("addresses") or ()],
            "ports": [dict(port) for port in subset.get("ports") or ()],
        }
        for subset in source.get("subsets") or ()
    ]
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": _meta(identity), "subsets": subsets}


def endpoint_slices(identity: str, sources: t.Iterable[t.Mapping[str, t.Any]]) -> list[Manifest]:
    """One slice for each of default/kubernetes; other slices of that namespace are not copied."""
    slices = []
    mine = [
        item
        for item in sources
        if (item.get("metadata") or {}).get("namespace", "default") == "default"
        and ((item.get("metadata") or {}).get("labels") or {}).get("kubernetes.io/service-name") == "kubernetes"
    ]
    for index, item in enumerate(sorted(mine, key=lambda item: str(item["metadata"].get("name")))):
        meta = _meta(identity)
        meta["name"] += "" if len(mine) == 1 else f"-{index}"
        meta["labels"] = {"kubernetes.io/service-name": external_service_name(identity)}
        slices.append(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": meta,
                "addressType": item.get("addressType", "IPv4"),
                "endpoints": [
                    {key: one[key] for key in ("addresses", "conditions") if key in one}
                    for one in item.get("endpoints") or ()
                ],
                "ports": [dict(port) for port in item.get("ports") or ()],
            }
        )
    return slices


def _meta(identity: str) -> Manifest:
    return {"name": external_service_name(identity), "namespace": CONTROL_PLANE_NAMESPACE}
