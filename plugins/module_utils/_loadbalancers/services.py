# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Services get an address from us, which they already have (ccm 9.2), how far it has come (ccm 0), and which addresses nobody announces to a router,
in the user's own terms."""

from __future__ import annotations

import typing as t

from .._values.addresses import readable_address
from .._values.text import in_short, lower
from .reservations import CREATED, DEFAULT_DOMAIN, PENDING, Reservation, is_control_plane_service
from .settings import EMPTY, KUBE_VIP, METALLB

LOAD_BALANCER = "LoadBalancer"
#: Cloud controllers put it on Services that they serve. Nobody but who serves such a Service then can take it away.
FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
_ADDRESS_ANNOTATIONS = {
    METALLB: ("metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs"),
    KUBE_VIP: ("kube-vip.io/loadbalancerIPs",),
}
#: Of every controller that can be asked so. An address that is in one of them is never written into the field alongside it:
#: MetalLB drops the address of a Service that has both.
EVERY_ANNOTATION = tuple(name for names in _ADDRESS_ANNOTATIONS.values() for name in names) + (
    "lbipam.cilium.io/ips",
    "io.cilium/lb-ipam-ips",
)
_POOL_ANNOTATIONS = ("metallb.io/address-pool", "metallb.universe.tf/address-pool")
#: Of an annotation that names addresses no more are read.
_MOST_ASKED = 8


class Service(t.NamedTuple):
    """What matters of a Service. ``set_by_us``: our field manager owns ``spec.loadBalancerIP``; ``version``: of its first family.

    ``ingress`` and ``hosts`` are the addresses and names in its status, ``reported``: we wrote them. ``live`` is
    the address that only its status has and that we keep for it (address_claims.settle).

    ``families``: those for which it wants an address, in their order, where that is more than one; ``required``: it wants all of them.
    ``ports`` are protocols and numbers, ``local``: only nodes with pods of its ``selector`` deliver. ``owned``: annotations that our
    field manager wrote. ``held_back``: the finalizer of cloud controllers keeps it until what it has is given back; ``leaving``: it is
    deleted, and only finalizers keep it there. ``giver``: which controller gave it what its status has, where that is known.
    """

    namespace: str
    name: str
    type: str = LOAD_BALANCER
    address: str = ""
    annotations: t.Mapping[str, str] = {}
    load_balancer_class: str = ""
    set_by_us: bool = False
    ingress: tuple[str, ...] = ()
    version: int = 4
    hosts: tuple[str, ...] = ()
    reported: bool = False
    live: str = ""
    families: tuple[int, ...] = ()
    required: bool = False
    ports: frozenset[tuple[str, int]] = frozenset()
    local: bool = False
    selector: t.Mapping[str, str] = {}
    labels: t.Mapping[str, str] = {}
    uid: str = ""
    owned: frozenset[str] = frozenset()
    held_back: bool = False
    leaving: bool = False
    giver: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


def service_of(obj: t.Mapping[str, t.Any]) -> Service:
    """From the API object, without what its field managers say."""
    meta, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    families = tuple(6 if text == "IPv6" else 4 for text in spec.get("ipFamilies") or ())
    return Service(
        str(meta.get("namespace") or ""),
        str(meta.get("name") or ""),
        str(spec.get("type") or ""),
        str(spec.get("loadBalancerIP") or ""),
        meta.get("annotations") or {},
        str(spec.get("loadBalancerClass") or ""),
        False,
        tuple(str(item.get("ip")) for item in ingress if item.get("ip")),
        families[0] if families else 4,
        tuple(str(item.get("hostname")) for item in ingress if item.get("hostname") and not item.get("ip")),
        families=families if len(set(families)) > 1 else (),
        required=spec.get("ipFamilyPolicy") == "RequireDualStack",
        ports=frozenset(
            (str(row.get("protocol") or "TCP"), _number(row.get("port"))) for row in spec.get("ports") or ()
        ),
        local=spec.get("externalTrafficPolicy") == "Local",
        selector=spec.get("selector") or {},
        labels=meta.get("labels") or {},
        uid=str(meta.get("uid") or ""),
        held_back=FINALIZER in (meta.get("finalizers") or ()),
        leaving=bool(meta.get("deletionTimestamp")),
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def annotation(annotations: t.Mapping[str, str], names: t.Iterable[str]) -> str:
    """The first of these annotations that has a value."""
    return next((str(annotations[name]) for name in names if annotations.get(name)), "")


def parts_of(service: Service, versions: t.Container[int]) -> list[Service]:
    """A Service that wants an address of each family, as one for each that can be had; any other one as it is.

    Each part has what is of its family: the address, what is in the status. ``versions``: the families of which there are
    addresses. Who asks for addresses gets of those families only, as with MetalLB and Cilium.
    """
    if len(service.families) < 2:
        return [service]
    desired = [version for version in service.families if version in versions or service.required]
    asked = {address.version for address in map(readable_address, named_addresses(service)) if address is not None}
    desired = [version for version in desired if version in asked or not asked] or list(service.families[:1])
    if len(desired) < 2:
        return [service._replace(version=desired[0], families=())]
    return [_part(service, version, version == desired[0]) for version in desired]


def _part(service: Service, version: int, first: bool) -> Service:
    def is_of_it(text: str) -> bool:
        address = readable_address(text)
        return first if address is None else address.version == version

    return service._replace(
        version=version,
        address=service.address if service.address and is_of_it(service.address) else "",
        ingress=tuple(text for text in service.ingress if is_of_it(text)),
        hosts=service.hosts if first else (),
    )


def named_addresses(service: Service) -> list[str]:
    """What its owner asks for in the annotation of whichever controller; not what we wrote there."""
    names = [name for name in EVERY_ANNOTATION if name not in service.owned]
    texts = [text.strip() for text in annotation(service.annotations, names)[:1024].split(",")[:_MOST_ASKED]]
    return [text for text in texts if text]


def asked_address(service: Service) -> str:
    """The address of its family for which it asks, or nothing."""
    named = named_addresses(service)
    addresses = [readable_address(text) for text in named]
    fitting = [text for text, address in zip(named, addresses) if address is None or address.version == service.version]
    return fitting[0] if fitting else ""


def asked_pool(service: Service) -> str:
    return annotation(service.annotations, _POOL_ANNOTATIONS)


def opted_out(service: Service, domain: str = DEFAULT_DOMAIN) -> bool:
    """Whether its owner wants us to leave it alone."""
    return lower(str(service.annotations.get(domain + "/loadbalancer-managed", ""))) == "false"


def counts(service: Service, our_class: str = "", domain: str = DEFAULT_DOMAIN) -> bool:
    """Whether we care for a Service's address."""
    return service.type == LOAD_BALANCER and not service.leaving and not left_alone(service, our_class, domain)


def left_alone(service: Service, our_class: str = "", domain: str = DEFAULT_DOMAIN) -> bool:
    """Whether a Service is another owner's, whatever its type: the control plane's, another class's, or opted out."""
    return (
        is_control_plane_service(service.namespace, service.name)
        or service.load_balancer_class not in ("", our_class)
        or opted_out(service, domain)
    )


def retains(service: Service, domain: str = DEFAULT_DOMAIN) -> bool:
    return service.annotations.get(domain + "/eip-reclaim") == "retain"


def annotated_address(service: Service, backend: str) -> str:
    """The address that the back end's own annotation names: of several, the first, or for a part of a Service that of its family."""
    return of_family(",".join(_annotated(service, backend)), service).partition(",")[0]


def _annotated(service: Service, backend: str) -> list[str]:
    text = annotation(service.annotations, _ADDRESS_ANNOTATIONS.get(backend, ()))
    return [one.strip() for one in text.split(",", maxsplit=_MOST_ASKED)[:_MOST_ASKED]] if text else []


def annotates(service: Service, address: str) -> bool:
    """Whether any controller's annotation names the address already."""
    return any(
        address in [one.strip() for one in str(service.annotations.get(name) or "").split(",")]
        for name in EVERY_ANNOTATION
    )


def address_of(service: Service, backend: str) -> str:
    """The address that a Service has, in its field or in the back end's annotation, or in its status where we keep that one."""
    return service.address or annotated_address(service, backend) or service.live


def addresses_in_use(service: Service, backend: str) -> set[str]:
    """Every address that is anywhere in it: none of them may go to another Service."""
    return {service.address, *_annotated(service, backend), service.live, *service.ingress} - {""}


class States(t.NamedTuple):
    """The four states and whether traffic flows."""

    requested: bool
    reserved: bool
    assigned: bool
    mapped: bool

    @property
    def ready(self) -> bool:
        """Traffic flows only when an address is reserved, is set in the Service and is announced."""
        return self.reserved and self.assigned and self.mapped

    @property
    def state(self) -> str:
        """The farthest state, for people."""
        farthest = (
            ("Mapped", self.mapped),
            ("Assigned", self.assigned),
            ("Reserved", self.reserved),
            ("Requested", self.requested),
        )
        return next((name for name, reached in farthest if reached), "")


def states(service_address: str, reservation: Reservation | None, mapped: t.Container[str]) -> States:
    """The states of one Service; ``mapped`` are the networks in the back end's address configuration."""
    has_address = reservation is not None and bool(reservation.address)
    reserved = reservation is not None and has_address and reservation.state == CREATED
    requested = reservation is not None and not reserved and reservation.state == PENDING
    assigned = reservation is not None and has_address and service_address == reservation.address
    on_map = reservation is not None and has_address and reservation.network in mapped
    return States(requested, reserved, assigned, on_map)


def of_family(text: str, service: Service) -> str:
    """Of addresses with commas between the one of a Service's part; of a Service that is whole the text as it is."""
    if not service.families:
        return text
    found = ((one, readable_address(one)) for one in text.split(","))
    return next((one for one, address in found if address is not None and address.version == service.version), "")


def alongside(first: t.Mapping[str, t.Any], second: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What is shown of a Service of both families: it has come as far as the one that is behind."""
    row = dict(
        first, addresses=first["addresses"] + second["addresses"], requested=first["requested"] or second["requested"]
    )
    row.update((name, first[name] and second[name]) for name in ("reserved", "assigned", "mapped", "ready"))
    last = States(row["requested"], row["reserved"], row["assigned"], row["mapped"])
    return dict(
        row,
        state=last.state,
        address=first["address"] or second["address"],
        reservation=first["reservation"] or second["reservation"],
    )


#: Who announces where the back end is ``empty``: our role, or something that we know nothing of.
SPEAKER, OTHER = "bgp_speaker", "other"
#: How many Services a sentence names.
NAMED = 5
_BACKENDS = {METALLB: "MetalLB", KUBE_VIP: "kube-vip"}


class Row(t.NamedTuple):
    """One Service with an address. ``stood``: the address was there before this run; ``reported``: its status has it too."""

    service: str
    address: str
    stood: bool = False
    reported: bool = False


def silence(balancer: str, announced_by: str, speakers: t.Collection[str] | None, backend: str) -> str:
    """Why nobody announces anything in a cluster, or nothing.

    ``speakers``: the nodes of the inventory that have neighbours, None where nobody said; ``backend``: what the back end's own
    configuration lacks.
    """
    if balancer != EMPTY:
        return backend
    if announced_by == OTHER or speakers is None or speakers:
        return ""
    return (
        "no node of the cluster has a router to tell: set bgp_speaker_neighbors or layer2_speaker_segment for its nodes, "
        "or announced_by: other in load_balancers_settings where something else announces them"
    )


def missing_backend(balancer: str, images: t.Collection[str]) -> str:
    """What a cluster lacks where its back end would announce; ``images`` of all that runs there, none where nobody may look."""
    name = _BACKENDS.get(balancer, "")
    if not name or not images or any(lower(name) in image for image in images):
        return ""
    return f"load_balancer in load_balancers_settings leaves it to {name}, and no Deployment or DaemonSet of the cluster runs {name}"


def uncarried(version: int) -> str:
    """Why no one announces the addresses of a family."""
    text = (
        "no node of the cluster has a router of IPv{0}: add one to bgp_speaker_neighbors, or write both_families: true there for a router of IPv{1} that "
        "takes both (RFC 8950)"
    )
    return text.format(version, 4 if version == 6 else 6)


def unannounced(
    rows: t.Iterable[Row], balancer: str, why: str, families: t.Collection[int] | None = None
) -> list[dict[str, str]]:
    """``service``, ``address`` and ``reason`` of each address that nobody announces. ``why`` is the answer of silence().

    ``families``: 4 and 6, of what sessions and segments of our speakers carry; None where that is not known, or where others announce.
    """
    found = []
    for row in rows:
        reason = why
        version = 6 if ":" in row.address else 4
        if not reason and families is not None and row.address and version not in families:
            reason = uncarried(version)
        if not reason and balancer in _BACKENDS and row.stood and not row.reported:
            reason = (
                "{0} has not taken it: the status of the Service does not say it; is {0} running in the cluster".format(
                    _BACKENDS[balancer]
                )
            )
        if row.address and reason:
            found.append({"service": row.service, "address": row.address, "reason": reason})
    return found


def sentences(cluster: str, rows: t.Sequence[t.Mapping[str, str]]) -> list[str]:
    """One for each reason."""
    found = []
    for reason in sorted({row["reason"] for row in rows}):
        named = [f"{row['address']} ({row['service']})" for row in rows if row["reason"] == reason]
        found.append(f"{cluster}: nobody announces {in_short(named, NAMED)}: {reason}")
    return found
