# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the address of a Service has come (ccm 0), and which addresses nobody tells a router of, in the user's own words."""

from __future__ import annotations

import typing as t

from .._values.ascii_text import lower
from .reservations import CREATED, PENDING, Reservation
from .settings import EMPTY, KUBE_VIP, METALLB


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
        for name in ("mapped", "assigned", "reserved", "requested"):
            if getattr(self, name):
                return name.capitalize()
        return ""


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
