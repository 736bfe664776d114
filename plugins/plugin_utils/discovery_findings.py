# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""What is wrong with the discovery service of a KubeSpan mesh in an inventory: none, one that is no URL, or several of which no node knows all."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._linux.host.discovery_service import parse_url
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.variables import Finding
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kubespan import ANNOTATIONS, DISCOVERY
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import KUBESPAN
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

URL, _REGISTRIES, _MODE = "kubespan_discovery_url", "kubespan_registries", "multicluster_mesh"
#: Variables of which the values are needed.
LOOKED_AT = (URL, _REGISTRIES, _MODE)
#: Hosts of one service that a message names.
_NAMED = 3
_SEVERAL = "{0} is a list, and a host asks one service: the one that all members of the mesh announce themselves to; write its URL alone"
_DIFFER = (
    "hosts of one mesh ask different discovery services ({0}), and {1}; write one kubespan_discovery_url for all of them. A service that has several "
    "addresses gets one name, which each host resolves for itself"
)
_APART = "hosts of the one never find those of the other"
_MEMBERS_APART = "each host finds those members alone that announce themselves to its own"


def check_services(
    rows: t.Iterable[tuple[str, t.Any, t.Sequence[str]]],
    nodes: t.Container[str],
    place: t.Callable[[t.Sequence[str]], str],
) -> list[Finding]:
    """Findings for hosts with discovery in ``kubespan_registries``. rows: (variable, value, hosts). place: what a list of hosts is called."""
    given: dict[str, dict[str, t.Any]] = {name: {} for name in LOOKED_AT}
    for name, value, hosts in rows:
        if name in given:
            given[name].update((host, value) for host in hosts if host in nodes)
    joined = [
        host
        for host, registries in sorted(given[_REGISTRIES].items())
        if DISCOVERY in _words(registries) and given[_MODE].get(host) == KUBESPAN
    ]
    found: list[Finding] = []
    wrong: dict[str, list[str]] = {}
    services: dict[str, list[str]] = {}
    for host in joined:
        value = given[URL].get(host) or ""
        try:
            if isinstance(value, (list, tuple)):
                raise ValueRefused("bad_url", _SEVERAL.format(URL))
            services.setdefault(str(parse_url(value)), []).append(host)
        except ValueRefused as error:
            message = (
                error.message if value else "kubespan_registries has discovery, and kubespan_discovery_url is not set"
            )
            wrong.setdefault(message, []).append(host)
    found += [
        Finding(place(hosts), URL, "bad_url", f"{message}; Talos' machines use https://discovery.talos.dev/")
        for message, hosts in sorted(wrong.items())
    ]
    if len(services) > 1:
        met = all(ANNOTATIONS in _words(given[_REGISTRIES][host]) for host in joined)
        shown = "; ".join(f"{url}: {_named(hosts)}" for url, hosts in sorted(services.items()))
        message = _DIFFER.format(shown, _MEMBERS_APART if met else _APART)
        found.append(Finding(place(joined), URL, "services_differ", message, "warning" if met else "error"))
    return found


def _words(value: t.Any) -> t.Sequence[str]:
    return (
        [value] if isinstance(value, str) else [str(one) for one in value] if isinstance(value, (list, tuple)) else []
    )


def _named(hosts: t.Sequence[str]) -> str:
    return ", ".join(hosts[:_NAMED]) + (f" and {len(hosts) - _NAMED} more" if len(hosts) > _NAMED else "")
