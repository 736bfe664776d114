# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Services get an address from us, which they already have (ccm 9.2), how far it has come (ccm 0), and which addresses nobody tells a router of,
in the user's own words."""

from __future__ import annotations

import typing as t

from .._values.text import lower
from .reservations import CREATED, DEFAULT_DOMAIN, PENDING, Reservation, is_control_plane_service
from .settings import EMPTY, KUBE_VIP, METALLB

LOAD_BALANCER = "LoadBalancer"
_ADDRESS_ANNOTATIONS = {
    METALLB: ("metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs"),
    KUBE_VIP: ("kube-vip.io/loadbalancerIPs",),
}
#: Of every controller that can be asked so. An address that stands in one of them is never written into the field beside it:
#: MetalLB drops the address of a Service that has both.
_EVERY_ANNOTATION = tuple(name for names in _ADDRESS_ANNOTATIONS.values() for name in names) + ("lbipam.cilium.io/ips", "io.cilium/lb-ipam-ips")
_SHARING_ANNOTATIONS = ("metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip")


class Service(t.NamedTuple):
    """What matters of a Service. ``set_by_us``: our field manager owns ``spec.loadBalancerIP``; ``version``: of its first family.

    ``ingress`` and ``hosts`` are the addresses and names in its status, ``reported`` says that they are of our doing. ``live`` is
    the address that only its status has and that we keep for it (live_addresses.settle).
    """

    namespace: str
    name: str
    type: str = LOAD_BALANCER
    address: str = ""
    annotations: t.Mapping[str, str] = {}
    load_balancer_class: str = ""
    set_by_us: bool = False
    ingress: t.Tuple[str, ...] = ()
    version: int = 4
    hosts: t.Tuple[str, ...] = ()
    reported: bool = False
    live: str = ""

    @property
    def key(self) -> str:
        return "{0}/{1}".format(self.namespace, self.name)

    def sharing_key(self) -> str:
        """The text by which Services agree to share one address, or nothing."""
        return next((str(self.annotations[name]) for name in _SHARING_ANNOTATIONS if self.annotations.get(name)), "")


def service_of(obj: t.Mapping[str, t.Any]) -> Service:
    """From the API object, without what its field managers say."""
    meta, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return Service(
        str(meta.get("namespace") or ""),
        str(meta.get("name") or ""),
        str(spec.get("type") or ""),
        str(spec.get("loadBalancerIP") or ""),
        meta.get("annotations") or {},
        str(spec.get("loadBalancerClass") or ""),
        False,
        tuple(str(item.get("ip")) for item in ingress if item.get("ip")),
        6 if list(spec.get("ipFamilies") or ())[:1] == ["IPv6"] else 4,
        tuple(str(item.get("hostname")) for item in ingress if item.get("hostname") and not item.get("ip")),
    )


def opted_out(service: Service, domain: str = DEFAULT_DOMAIN) -> bool:
    """Whether its owner wants us to leave it alone."""
    return lower(str(service.annotations.get(domain + "/loadbalancer-managed", ""))) == "false"


def counts(service: Service, our_class: str = "", domain: str = DEFAULT_DOMAIN) -> bool:
    """Whether we care for a Service's address."""
    return service.type == LOAD_BALANCER and not left_alone(service, our_class, domain)


def left_alone(service: Service, our_class: str = "", domain: str = DEFAULT_DOMAIN) -> bool:
    """Whether a Service is somebody else's, whatever its type: the control plane's, another class's, or opted out."""
    return (
        is_control_plane_service(service.namespace, service.name)
        or service.load_balancer_class not in ("", our_class)
        or opted_out(service, domain)
    )


def retains(service: Service, domain: str = DEFAULT_DOMAIN) -> bool:
    return service.annotations.get(domain + "/eip-reclaim") == "retain"


def annotated_address(service: Service, backend: str) -> str:
    """The address that the back end's own annotation names; of several, the first."""
    for name in _ADDRESS_ANNOTATIONS.get(backend, ()):
        text = service.annotations.get(name)
        if text:
            return str(text).split(",", maxsplit=1)[0].strip()
    return ""


def annotates(service: Service, address: str) -> bool:
    """Whether any controller's annotation names the address already."""
    return any(address in [one.strip() for one in str(service.annotations.get(name) or "").split(",")] for name in _EVERY_ANNOTATION)


def address_of(service: Service, backend: str) -> str:
    """The address that a Service has, in its field or in the back end's annotation, or in its status where we keep that one."""
    return service.address or annotated_address(service, backend) or service.live


def addresses_in_use(service: Service, backend: str) -> t.Set[str]:
    """Every address that stands anywhere in it: none of them may go to somebody else."""
    return {service.address, annotated_address(service, backend), service.live, *service.ingress} - {""}


class States(t.NamedTuple):
    """The four states and whether traffic flows."""

    requested: bool
    reserved: bool
    assigned: bool
    mapped: bool

    @property
    def ready(self) -> bool:
        """Traffic flows only when an address is reserved, stands in the Service and is announced."""
        return self.reserved and self.assigned and self.mapped

    @property
    def state(self) -> str:
        """The farthest state, for people."""
        farthest = (("Mapped", self.mapped), ("Assigned", self.assigned), ("Reserved", self.reserved), ("Requested", self.requested))
        return next((name for name, reached in farthest if reached), "")


def states(service_address: str, reservation: t.Optional[Reservation], mapped: t.Container[str]) -> States:
    """The states of one Service; ``mapped`` are the networks in the back end's address configuration."""
    has_address = reservation is not None and bool(reservation.address)
    reserved = reservation is not None and has_address and reservation.state == CREATED
    requested = reservation is not None and not reserved and reservation.state == PENDING
    assigned = reservation is not None and has_address and service_address == reservation.address
    on_map = reservation is not None and has_address and reservation.network in mapped
    return States(requested, reserved, assigned, on_map)


#: Who announces where the back end is ``empty``: our role, or something that we know nothing of.
SPEAKER, OTHER = "bgp_speaker", "other"
#: How many Services a sentence names.
NAMED = 5
_BACKENDS = {METALLB: "MetalLB", KUBE_VIP: "kube-vip"}


class Row(t.NamedTuple):
    """One Service with an address. ``stood``: the address stood there before this run; ``reported``: its status says so too."""

    service: str
    address: str
    stood: bool = False
    reported: bool = False


def silence(balancer: str, announced_by: str, speakers: t.Optional[t.Collection[str]], backend: str) -> str:
    """Why nobody announces anything in a cluster, or nothing.

    ``speakers``: the nodes of the inventory that have neighbours, None where nobody said; ``backend``: what the back end's own
    configuration lacks.
    """
    if balancer != EMPTY:
        return backend
    if announced_by == OTHER or speakers is None or speakers:
        return ""
    return (
        "no node of the cluster has a router to tell: set bgp_speaker_neighbors for its nodes, "
        "or announced_by: other in load_balancers_settings where something else announces them"
    )


def missing_backend(balancer: str, images: t.Collection[str]) -> str:
    """What a cluster lacks whose back end would announce; ``images`` of all that runs there, none where nobody may look."""
    name = _BACKENDS.get(balancer, "")
    if not name or not images or any(lower(name) in image for image in images):
        return ""
    return "load_balancer in load_balancers_settings leaves it to {0}, and no Deployment or DaemonSet of the cluster runs {0}".format(name)


def unannounced(rows: t.Iterable[Row], balancer: str, why: str) -> t.List[t.Dict[str, str]]:
    """``service``, ``address`` and ``reason`` of each address that nobody announces. ``why`` is the answer of silence()."""
    found = []
    for row in rows:
        reason = why
        if not reason and balancer in _BACKENDS and row.stood and not row.reported:
            reason = "{0} has not taken it: the status of the Service does not say it; is {0} running in the cluster".format(_BACKENDS[balancer])
        if row.address and reason:
            found.append({"service": row.service, "address": row.address, "reason": reason})
    return found


def sentences(cluster: str, rows: t.Sequence[t.Mapping[str, str]]) -> t.List[str]:
    """One for each reason."""
    found = []
    for reason in sorted({row["reason"] for row in rows}):
        these = [row for row in rows if row["reason"] == reason]
        named = ", ".join("{0} ({1})".format(row["address"], row["service"]) for row in these[:NAMED])
        more = " and {0} more".format(len(these) - NAMED) if len(these) > NAMED else ""
        found.append("{0}: nobody announces {1}{2}: {3}".format(cluster, named, more, reason))
    return found
