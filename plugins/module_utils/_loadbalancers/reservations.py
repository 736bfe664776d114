# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reservations, the tags by which their owner is known, also once he is gone, and the proof of them (ccm 9.1, 9.6, 9.7; decisions 24, 39); and the names
under which generations of the cloud controller keep their tags, objects and provider IDs (ccm 2, 6.1).

Anyone in a project can put our tags on a reservation (T15): tags with the cluster's UID are enough to use an address,
never enough to release one. And the UID is a claim of the cluster: one that two clusters answer with is nobody's, unless the inventory has
the owner (``cluster_uid``), and while one of the clusters cannot be asked, another one's answer proves too little to give anything back.
"""

from __future__ import annotations

import base64
import hashlib
import typing as t

from .._values.addresses import readable_address
from .._values.refused import ValueRefused, quoted

#: The controller's three names, newest first: tags and objects of each are in the wild.
IDENTITIES = ("cloud-provider-equinix-metal", "metal-ccm", "packet-ccm")
DEFAULT_IDENTITY = "metal-ccm"
#: Where its annotations live unless said otherwise.
DEFAULT_DOMAIN = "metal.equinix.com"
#: Prefixes of provider IDs that are read; the first is written.
PROVIDER_PREFIXES = ("equinixmetal", "packet")
CONTROL_PLANE_NAMESPACE = "kube-system"


def parse_identity(text: object) -> str:
    """One of the three names. Raises ValueRefused ``bad_format``."""
    if text not in IDENTITIES:
        raise ValueRefused("bad_format", f"{quoted(text)} is none of {', '.join(IDENTITIES)}")
    return str(text)


def usage_tag(identity: str) -> str:
    """The tag with the identity that ordered an address."""
    return f"usage={identity}-auto"


def external_service_name(identity: str) -> str:
    """The Service (and Endpoints) through which nodes accept the control plane's address."""
    return f"{identity}-kubernetes-external"


def is_control_plane_service(namespace: str, name: str) -> bool:
    """Whether a Service is the control plane's own, under any identity: no load balancer may touch it (ccm 9.2)."""
    return namespace == CONTROL_PLANE_NAMESPACE and name in [external_service_name(identity) for identity in IDENTITIES]


def provider_id(device: str, prefix: str = PROVIDER_PREFIXES[0]) -> str:
    return f"{prefix}://{device}"


def parse_provider_id(text: object, prefixes: t.Sequence[str] = PROVIDER_PREFIXES) -> str:
    """The device's id. Raises ValueRefused ``empty_provider_id``, ``wrong_provider`` or ``bad_format``."""
    if not isinstance(text, str) or not text:
        raise ValueRefused("empty_provider_id", "the node has no provider ID")
    parts = text.split("://")
    if len(parts) > 2:
        raise ValueRefused("bad_format", f"{quoted(text)} is no provider ID")
    if len(parts) == 2 and parts[0] not in prefixes:
        raise ValueRefused("wrong_provider", f"{quoted(text)} is of another provider than {prefixes[0]}")
    device = parts[-1]
    if not device:
        raise ValueRefused("empty_provider_id", f"{quoted(text)} names no device")
    # The id becomes part of a path of the provider's API; a node must not be able to choose another path (T23).
    if (
        not device.isascii()
        or not device.isprintable()
        or any(char in "/?#%\\ " for char in device)
        or set(device) == {"."}
    ):
        raise ValueRefused("bad_format", f"{quoted(text)} is no provider ID")
    return device


CREATED, PENDING, DENIED = "created", "pending", "denied"
REFUSE, FIRST = "refuse", "first"


class Assignment(t.NamedTuple):
    """A reservation's pointing at a device; it has an id of its own."""

    id: str
    address: str = ""
    device: str = ""


class Reservation(t.NamedTuple):
    """An address that a provider holds for us. ``address`` is empty while the provider has not given one."""

    id: str
    address: str
    cidr: int = 32
    tags: tuple[str, ...] = ()
    state: str = CREATED
    assignments: tuple[Assignment, ...] = ()
    location: str = ""

    @property
    def network(self) -> str:
        return f"{self.address}/{self.cidr}"


class Owner(t.NamedTuple):
    """The owners of the addresses that are looked for: the identity that we write, those that we also accept, the cluster."""

    identity: str
    cluster_uid: str
    adopted: tuple[str, ...] = IDENTITIES

    @property
    def usage_tags(self) -> tuple[str, ...]:
        """Every usage tag that counts as owned."""
        return tuple(usage_tag(identity) for identity in (self.identity,) + tuple(self.adopted))

    @property
    def cluster_tag(self) -> str:
        """The cluster's tag. Raises ValueRefused ``missing_cluster_uid``: without it we would own everybody's."""
        if not self.cluster_uid:
            raise ValueRefused("missing_cluster_uid", "the UID of the namespace kube-system is not known")
        return "cluster=" + self.cluster_uid


def service_tag(namespace: str, name: str) -> str:
    """The tag of one Service: a digest, since providers limit what a tag may hold."""
    digest = hashlib.sha256(f"{namespace}/{name}".encode("utf-8", "surrogatepass")).digest()
    return "service=" + base64.b64encode(digest).decode("ascii")


def service_tags(owner: Owner, namespace: str, name: str) -> list[str]:
    """The three tags of a new reservation, in their order."""
    return [usage_tag(owner.identity), service_tag(namespace, name), owner.cluster_tag]


def load_balancer_name(tags: t.Iterable[str]) -> str:
    """The name of a Service's load balancer in the log and events of cloud-provider-equinix-metal."""
    return ":".join(tags)


def carries(tags: t.Iterable[str] | None, desired: t.Iterable[str]) -> bool:
    """Whether all desired tags are there, as exact text; extra tags and the order do not matter."""
    return set(desired) <= set(tags or ())


def is_owned(reservation: Reservation, owner: Owner) -> bool:
    """Whether an adopted usage tag and this cluster's tag are there. Without a cluster tag it is unowned (ccm 9.6)."""
    tags = set(reservation.tags)
    return owner.cluster_tag in tags and not tags.isdisjoint(owner.usage_tags)


def matches_of(
    reservations: t.Iterable[Reservation], owner: Owner, namespace: str, name: str, version: int = 0
) -> list[Reservation]:
    """The reservations made for a Service under any adopted identity, in the order of the list. ``version``: of that family, 0 for any."""
    tag = service_tag(namespace, name)
    return [
        item
        for item in reservations
        if tag in item.tags and is_owned(item, owner) and version in (0, family_of(item) or version)
    ]


def family_of(reservation: Reservation) -> int:
    """4 or 6, or 0 while no address is known."""
    address = readable_address(reservation.address)
    return address.version if address is not None else 0


def reservation_of(
    reservations: t.Iterable[Reservation],
    owner: Owner,
    namespace: str,
    name: str,
    address: str = "",
    recorded: t.Container[str] = (),
    on_duplicate: str = REFUSE,
    version: int = 0,
) -> Reservation | None:
    """The one reservation of a Service, or None; of a Service of both families that of ``version``.

    Of several: the one with the address that the Service has; with ``on_duplicate`` first, the first of the list; the one that
    our records hold. Raises ValueRefused ``claimed_twice`` with the ids of all (decision 24).
    """
    found = matches_of(reservations, owner, namespace, name, version)
    if len(found) < 2:
        return found[0] if found else None
    held = [item for item in found if address and item.address == address]
    if len(held) == 1:
        return held[0]
    if on_duplicate == FIRST:
        return found[0]
    known = [item for item in found if item.id in recorded]
    if len(known) == 1:
        return known[0]
    raise ValueRefused(
        "claimed_twice",
        "the reservations {0} all carry the tags of {1}/{2}; none is used until only one does".format(
            ", ".join(quoted(item.id) for item in found[:10]), namespace, name
        ),
    )


class Sweep(t.NamedTuple):
    """Ids: to release, to keep, and blocked since they still point at a device."""

    release: list[str]
    keep: list[str]
    blocked: list[str]


def sweep(reservations: t.Iterable[Reservation], owner: Owner, force: bool = False) -> Sweep:
    """What a gone cluster left. Raises ValueRefused ``missing_cluster_uid``."""
    _tag = owner.cluster_tag  # refuses at once, also for an empty list
    found = Sweep([], [], [])
    for item in reservations:
        if not is_owned(item, owner):
            found.keep.append(item.id)
        elif item.assignments and not force:
            found.blocked.append(item.id)
        else:
            found.release.append(item.id)
    return found


_FIX = "write cluster_uid into load_balancers_settings of its owner (kubectl get namespace kube-system -o jsonpath={.metadata.uid})"


def check_uids(answers: t.Mapping[str, str], pinned: t.Mapping[str, str]) -> dict[str, ValueRefused]:
    """Clusters with a UID that cannot be trusted, and why: ``outside_grant`` where the inventory has another one, else ``claimed_twice``.

    ``answers``: what each cluster reports. ``pinned``: what the inventory has, of any of them, also of those that did not answer.
    """
    refused: dict[str, ValueRefused] = {}
    users: dict[str, list[str]] = {}
    for name in sorted(answers):
        uid = answers[name]
        if pinned.get(name) and uid != pinned[name]:
            text = "its namespace kube-system has the UID {0}, and cluster_uid of load_balancers_settings is {1}"
            refused[name] = ValueRefused("outside_grant", text.format(quoted(uid), quoted(pinned[name])))
        elif uid:
            users.setdefault(uid, []).append(name)
    for uid, names in users.items():
        owners = sorted(name for name in pinned if pinned[name] == uid)
        claimants = [name for name in names if name not in owners]
        if owners:
            text = "its namespace kube-system has the UID {0}, which is that of cluster {1} (cluster_uid of its load_balancers_settings)"
            refused.update(
                (name, ValueRefused("claimed_twice", text.format(quoted(uid), owners[0]))) for name in claimants
            )
        elif len(claimants) > 1:
            text = "the clusters {0} say that they have one UID of the namespace kube-system, {1}; none of their addresses is touched: {2}"
            error = ValueRefused("claimed_twice", text.format(" and ".join(claimants[:5]), quoted(uid), _FIX))
            refused.update((name, error) for name in claimants)
    return refused


def unproven(name: str, unreachable: t.Collection[str], pinned: t.Mapping[str, str]) -> ValueRefused | None:
    """Why a cluster's UID is not proof enough to release anything, or None. ``unreachable``: clusters without a known UID now."""
    others = sorted(other for other in unreachable if other != name and not pinned.get(other))
    if pinned.get(name) or not others:
        return None
    text = "nothing is given back while {0} cannot be asked, and its reservations could be the ones that carry the UID of {1}; {2}"
    return ValueRefused("source_incomplete", text.format(", ".join(others[:5]), name, _FIX))
