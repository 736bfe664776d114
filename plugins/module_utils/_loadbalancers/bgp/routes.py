# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes may announce which addresses: what a cluster's API reports of Services and nodes.

The rest only a node knows: a Service with ``externalTrafficPolicy: Local`` has a port (``healthCheckNodePort``) on which every node answers whether
a pod of the Service runs there, so the node that announces asks that (delivery.py), and nobody has to follow endpoints.
"""

from __future__ import annotations

import datetime
import typing as t

LOCAL = "Local"
EXCLUDED, CORDONED, NOT_READY = "excluded", "cordoned", "not_ready"
#: The label of Kubernetes itself; its value does not matter.
EXCLUDE_LABEL = "node.kubernetes.io/exclude-from-external-load-balancers"
NOT_READY_SECONDS = 60
_PORTS = range(1, 65536)


class Route(t.NamedTuple):
    """A network that nodes announce while each of ``health_ports`` answers that the node has an endpoint for its packets.

    ``group``: in which nodes of a segment are backups for it, 0 where none do.
    """

    network: str
    services: tuple[str, ...]
    health_ports: tuple[int, ...] = ()
    group: int = 0

    def shown(self) -> dict[str, t.Any]:
        """Plain data, as the modules bgp_speaker and layer2_speaker take it."""
        shown = {"network": self.network, "services": list(self.services), "health_ports": list(self.health_ports)}
        return dict(shown, group=self.group) if self.group else shown


def routes_of(networks: t.Mapping[str, t.Sequence[str]], objects: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[Route]:
    """One for each network, sorted. ``networks`` of Services by ``namespace/name``, one of each family, ``objects`` the Services.

    Services that share an address share its route: a node has it while all that are Local have a pod there.
    """
    services: dict[str, list[str]] = {}
    for key in sorted(networks):
        for network in networks[key]:
            services.setdefault(network, []).append(key)
    found = []
    for network in sorted(services):
        ports = {_health_port(objects.get(key) or {}) for key in services[network]}
        found.append(
            Route(network, tuple(services[network]), tuple(sorted(port for port in ports if port is not None)))
        )
    return found


def _health_port(service: t.Mapping[str, t.Any]) -> int | None:
    spec = service.get("spec") or {}
    port = spec.get("healthCheckNodePort")
    if (
        spec.get("externalTrafficPolicy") != LOCAL
        or not isinstance(port, int)
        or isinstance(port, bool)
        or port not in _PORTS
    ):
        return None
    return port


def left_out(
    nodes: t.Mapping[str, t.Mapping[str, t.Any]], cordoned: bool, not_ready_seconds: int, now: float
) -> dict[str, str]:
    """Node -> why it announces nothing. ``cordoned``: whether that is a reason; ``now`` in seconds since 1970.

    A node that is not ready counts after ``not_ready_seconds`` (0: never), and only while another node that may announce is ready: when all
    are not ready at once it is the control plane that does not reach them, and addresses that work must not go for that.
    """
    found = {name: why for name in sorted(nodes) for why in [_asked(nodes[name], cordoned)] if why}
    if not_ready_seconds <= 0:
        return found
    rest = [name for name in sorted(nodes) if name not in found]
    late = {name for name in rest if _not_ready_for(nodes[name], now) >= not_ready_seconds}
    if any(_not_ready_for(nodes[name], now) < 0 for name in rest):
        found.update((name, NOT_READY) for name in sorted(late))
    return dict(sorted(found.items()))


def all_left_out(speakers: t.Collection[str] | None, out: t.Mapping[str, str]) -> str:
    """Why nobody announces anything although nodes have routers, or nothing. ``speakers``: their names, None where nobody said."""
    if not speakers or not all(name in out for name in speakers):
        return ""
    why = ", ".join(f"{name} ({out[name]})" for name in sorted(speakers)[:3])
    return f"every node that announces is left out: {why}; see exclude_cordoned and not_ready_seconds in load_balancers_settings"


def _asked(node: t.Mapping[str, t.Any], cordoned: bool) -> str:
    """What somebody asked for with a label, or by cordoning."""
    if EXCLUDE_LABEL in ((node.get("metadata") or {}).get("labels") or {}):
        return EXCLUDED
    return CORDONED if cordoned and (node.get("spec") or {}).get("unschedulable") is True else ""


def _not_ready_for(node: t.Mapping[str, t.Any], now: float) -> float:
    """Seconds since it is not ready; less than 0 for one that is ready, or that has no such condition."""
    for row in (node.get("status") or {}).get("conditions") or ():
        if isinstance(row, dict) and row.get("type") == "Ready":
            return -1.0 if row.get("status") == "True" else max(0.0, now - _seconds(row.get("lastTransitionTime"), now))
    return -1.0


def _seconds(text: t.Any, default: float) -> float:
    try:
        when = datetime.datetime.strptime(str(text), "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return default
    return when.replace(tzinfo=datetime.timezone.utc).timestamp()
