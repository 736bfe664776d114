# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one cluster has that matters for addresses: each kind listed once, complete or not at all (T14)."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ..._kubernetes.client import Client
from ..._loadbalancers.ledger import Ledger, ledger_name
from ..._loadbalancers.previous import former_of
from ..._loadbalancers.services import EVERY_ANNOTATION, Service, addresses_in_use, service_of
from ..._loadbalancers.settings import LoadBalancer
from ..._loadbalancers.setup import Setup
from ..._plan.objects import owners
from ..._values.addresses import readable_address
from . import backends
from .providers import EquinixMetal, StaticProvider
from .writes import read_ledger

SERVICES, NODES, NAMESPACES, KUBE_SYSTEM = (
    "/api/v1/services",
    "/api/v1/nodes",
    "/api/v1/namespaces",
    "/api/v1/namespaces/kube-system",
)


#: Seconds for which what was read may be worked with again, where nobody else was at work meanwhile.
FRESH = 5.0


class Answers(t.NamedTuple):
    """What an API server said of everything but our record, the version of that, and when."""

    uid: str
    services: t.Sequence[t.Mapping[str, t.Any]]
    nodes: t.Sequence[t.Mapping[str, t.Any]]
    namespaces: t.Sequence[t.Mapping[str, t.Any]]
    backend: backends.BackendState
    record: tuple[str, str]
    at: float


@dataclasses.dataclass
class ClusterState:
    """As it was read. ``objects`` are the Services by ``namespace/name``, ``nodes`` the Nodes by name; ``ledger_object``: where the record is.

    ``namespace_labels`` of all namespaces, where a pool is for some of them by their labels.
    """

    balancer: dataclasses.InitVar[LoadBalancer]
    uid: str = ""
    services: list[Service] = dataclasses.field(default_factory=list)
    objects: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    nodes: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    ledger: Ledger = dataclasses.field(default_factory=dict)
    ledger_name: str = ""
    ledger_object: dict[str, t.Any] | None = None
    namespace_labels: dict[str, t.Mapping[str, str]] = dataclasses.field(default_factory=dict)
    answers: Answers | None = None

    def __post_init__(self, balancer: LoadBalancer) -> None:
        self.backend = backends.BackendState(balancer)


def cluster_uid(client: Client) -> str:
    """The UID that a cluster returns for itself. Raises KubeErrors."""
    return str(client.get(KUBE_SYSTEM)["metadata"].get("uid") or "")


def read_state(client: Client, setup: Setup, before: Answers | None = None) -> ClusterState:
    """Raises KubeErrors, and ValueRefused ``config_parse`` for a damaged record.

    ``before``: what was read just now, before the lease was taken, which nobody else had meanwhile. Then only our record is read again: as long as
    nobody changed that, the rest is worked with as it is; each write is on condition of what it was made for.
    """
    state = ClusterState(setup.balancer)
    if not setup.balancer.enabled:
        return state
    state.ledger_name = ledger_name(setup.identity, setup.static)
    if before is not None and time.monotonic() - before.at < FRESH:
        state.ledger, state.ledger_object = read_ledger(client, state.ledger_name)
        if _record(state.ledger_object) == before.record:
            return _understood(setup, state, before)
    at, uid, services, nodes = (
        time.monotonic(),
        cluster_uid(client),
        client.list(SERVICES).items,
        client.list(NODES).items,
    )
    backend = backends.read(client, setup)
    namespaces = client.list(NAMESPACES).items if setup.static and setup.reads_namespaces else ()
    state.ledger, state.ledger_object = read_ledger(client, state.ledger_name)
    return _understood(
        setup, state, Answers(uid, services, nodes, namespaces, backend, _record(state.ledger_object), at)
    )


def _record(obj: t.Mapping[str, t.Any] | None) -> tuple[str, str]:
    meta = obj["metadata"] if obj is not None else {}
    return str(meta.get("uid") or ""), str(meta.get("resourceVersion") or "")


def _understood(setup: Setup, state: ClusterState, answers: Answers) -> ClusterState:
    state.answers, state.uid, state.backend = answers, answers.uid, answers.backend
    mapped = backends.mapped(setup, state.backend)
    for obj in answers.services:
        annotations = obj["metadata"].get("annotations") or {}
        written = [
            key
            for key in EVERY_ANNOTATION
            if key in annotations and _is_owned(owners(obj, "metadata", "annotations", key))
        ]
        owned = bool(written) or _is_owned(owners(obj, *_FIELD))
        service = service_of(obj)._replace(
            set_by_us=owned, reported=_is_owned(owners(obj, *STATUS)), owned=frozenset(written)
        )
        if service.load_balancer_class in setup.further_classes:
            service = service._replace(load_balancer_class="")
        giver = None if service.reported else former_of(obj)
        service = service._replace(giver=giver.title if giver is not None else "")
        state.objects[service.key] = obj
        state.services.append(service if service.reported else service._replace(reported=_is_mapped(service, mapped)))
    state.nodes = {str(node["metadata"].get("name")): node for node in answers.nodes}
    state.namespace_labels = {
        str(obj["metadata"].get("name")): obj["metadata"].get("labels") or {} for obj in answers.namespaces
    }
    return state


def _is_mapped(service: Service, mapped: t.Mapping[tuple[str, str], t.Collection[str]]) -> bool:
    """Whether its address is in its status because an owned entry in the back end put it there."""
    addresses = {network.partition("/")[0] for network in mapped.get((service.namespace, service.name)) or ()}
    return bool(service.ingress) and set(service.ingress) <= addresses


def _is_owned(names: t.Iterable[str]) -> bool:
    return any(map(is_owned, names))


def is_owned(manager: str) -> bool:
    """Whether a field manager is a fabric of the collection."""
    return manager.startswith("multicluster.network/")


_FIELD, STATUS = ("spec", "loadBalancerIP"), ("status", "loadBalancer", "ingress")


def make_provider(setup: Setup, state: ClusterState, now: str, seconds: float = 120.0) -> t.Any:
    if not setup.static:
        text, number = setup.settings.text, setup.settings.number
        return EquinixMetal(
            text("api_key"),
            text("project_id"),
            text("base_url"),
            number("local_asn"),
            number("peer_asn"),
            text("bgp_pass"),
            setup.plain_http,
            now=now,
            total_s=max(5.0, seconds / 2),
        )
    return StaticProvider(setup, state.ledger, taken(setup, state), now, state.namespace_labels)


def taken(setup: Setup, state: ClusterState) -> dict[str, str]:
    """Addresses without a record that no Service may be given: -> the Service that has it, or nothing where it is a host's.

    What a Service names and does not have yet is its claim: where pools have names it counts only once it was granted.
    """
    found = dict.fromkeys(setup.reserved.hosts(), "")
    for service in state.services:
        named = set(service.ingress) if setup.strict else addresses_in_use(service, setup.balancer.type)
        readable = (readable_address(text) for text in named)  # the claims stage notifies the owners of the others
        found.update((str(address), service.key) for address in readable if address is not None)
    return found
