# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one cluster has that matters for addresses: each kind listed once, complete or not at all (T14)."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._kubernetes.client import Client
from ..._loadbalancers.ledger import Ledger, ledger_name
from ..._loadbalancers.services import EVERY_ANNOTATION, Service, addresses_in_use, service_of
from ..._loadbalancers.settings import LoadBalancer
from ..._loadbalancers.setup import Setup
from ..._plan.objects import owners
from ..._values.addresses import readable_address
from . import backends
from .providers import EquinixMetal, StaticProvider
from .writes import read_ledger

SERVICES, NODES, NAMESPACES, KUBE_SYSTEM = "/api/v1/services", "/api/v1/nodes", "/api/v1/namespaces", "/api/v1/namespaces/kube-system"


@dataclasses.dataclass
class ClusterState:
    """As it was read. ``objects`` are the Services by ``namespace/name``, ``nodes`` the Nodes by name; ``ledger_object``: where the record stands.

    ``namespace_labels`` of all namespaces, where a pool is for some of them by their labels.
    """

    balancer: dataclasses.InitVar[LoadBalancer]
    uid: str = ""
    services: t.List[Service] = dataclasses.field(default_factory=list)
    objects: t.Dict[str, t.Any] = dataclasses.field(default_factory=dict)
    nodes: t.Dict[str, t.Any] = dataclasses.field(default_factory=dict)
    ledger: Ledger = dataclasses.field(default_factory=dict)
    ledger_name: str = ""
    ledger_object: t.Optional[t.Dict[str, t.Any]] = None
    namespace_labels: t.Dict[str, t.Mapping[str, str]] = dataclasses.field(default_factory=dict)

    def __post_init__(self, balancer: LoadBalancer) -> None:
        self.backend = backends.BackendState(balancer)


def cluster_uid(client: Client) -> str:
    """What a cluster says that it is. Raises KubeErrors."""
    return str(client.get(KUBE_SYSTEM)["metadata"].get("uid") or "")


def read_state(client: Client, setup: Setup) -> ClusterState:
    """Raises KubeErrors, and ValueRefused ``config_parse`` for a damaged record."""
    state = ClusterState(setup.balancer)
    if not setup.balancer.enabled:
        return state
    manager_field = ("spec", "loadBalancerIP")
    state.uid = cluster_uid(client)
    services = []
    for obj in client.list(SERVICES).items:
        annotations = obj["metadata"].get("annotations") or {}
        written = [key for key in EVERY_ANNOTATION if key in annotations and _is_ours(owners(obj, "metadata", "annotations", key))]
        ours = bool(written) or _is_ours(owners(obj, *manager_field))
        service = service_of(obj)._replace(set_by_us=ours, reported=_is_ours(owners(obj, *STATUS)), ours=frozenset(written))
        state.objects[service.key] = obj
        services.append(service)
    state.nodes = {str(node["metadata"].get("name")): node for node in client.list(NODES).items}
    state.backend = backends.read(client, setup)
    mapped = backends.mapped(setup, state.backend)
    state.services = [item if item.reported else item._replace(reported=_is_mapped(item, mapped)) for item in services]
    if setup.static and setup.reads_namespaces:
        state.namespace_labels = {str(obj["metadata"].get("name")): obj["metadata"].get("labels") or {} for obj in client.list(NAMESPACES).items}
    state.ledger_name = ledger_name(setup.identity, setup.static)
    state.ledger, state.ledger_object = read_ledger(client, state.ledger_name)
    return state


def _is_mapped(service: Service, mapped: t.Mapping[t.Tuple[str, str], t.Collection[str]]) -> bool:
    """Whether its address is in its status because an entry of ours in the back end put it there."""
    networks = mapped.get((service.namespace, service.name)) or ()
    return bool(networks) and len(service.ingress) == 1 and any(network.partition("/")[0] == service.ingress[0] for network in networks)


def _is_ours(names: t.Iterable[str]) -> bool:
    return any(name.startswith("multicluster.network/") for name in names)


STATUS = ("status", "loadBalancer", "ingress")


def make_provider(setup: Setup, state: ClusterState, now: str, seconds: float = 120.0) -> t.Any:
    if not setup.static:
        text, number = setup.settings.text, setup.settings.number
        return EquinixMetal(
            text("api_key"), text("project_id"), text("base_url"), number("local_asn"), number("peer_asn"), text("bgp_pass"), setup.plain_http,
            now=now, total_s=max(5.0, seconds / 2),
        )  # fmt: skip
    return StaticProvider(setup, state.ledger, taken(setup, state), now, state.namespace_labels)


def taken(setup: Setup, state: ClusterState) -> t.Dict[str, str]:
    """Addresses without a record that no Service may be given: -> the Service that has it, or nothing where it is a host's.

    What a Service names and does not have yet is its claim: where pools have names it counts only once it was granted.
    """
    found = dict.fromkeys(setup.reserved.hosts(), "")
    for service in state.services:
        named = set(service.ingress) if setup.strict else addresses_in_use(service, setup.balancer.type)
        readable = (readable_address(text) for text in named)  # the claims stage tells the owners of the others
        found.update((str(address), service.key) for address in readable if address is not None)
    return found
