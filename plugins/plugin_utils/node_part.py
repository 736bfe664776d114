# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""One node's part of the run's plan, as options of the modules of nodes take it."""

from __future__ import annotations

import contextlib
import signal
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._mesh.kubespan.generations import (
    DEFAULT_MTU,
    make_layout,
)
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology import generations, kubespan
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kept_addresses import kept_table
from ansible_collections.multicluster.network.plugins.module_utils._mesh.topology.kubespan_rotation import STATE_FOLDER
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._status import report
from ansible_collections.multicluster.network.plugins.plugin_utils.inventory import FABRIC_CLUSTERS

if t.TYPE_CHECKING:  # tests of nodes read plans where Ansible is not installed
    from ansible.plugins.action import ActionBase

Data = dict[str, t.Any]
Settings = t.Mapping[str, t.Any]

#: Defaults of a KubeSpan mesh.
_DEVICE, _MARK = "kubespan", 64


class TooLong(BaseException):
    """A node took longer than it may. Like Ansible's own for the keyword ``timeout``, no ``except Exception`` catches it."""


@contextlib.contextmanager
def at_most(seconds: int) -> t.Iterator[None]:
    """Raise TooLong inside when it takes more seconds; 0: never. An action knows how many they are, a keyword of its task does not."""
    if not seconds:
        yield
        return

    def expired(_signal: int, _frame: t.Any) -> t.NoReturn:
        raise TooLong

    former = signal.signal(signal.SIGALRM, expired)
    left = signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)
        signal.alarm(left)


def devices(mesh: MeshPlan, host: str) -> list[Data]:
    """The option ``devices``. Raises ValueError where the plan does not have the host."""
    if host not in mesh.nodes:
        raise ValueError(f"the plan of the mesh does not have host {host}")
    found: list[Data] = generations.node_devices(mesh, host)
    return found


def bypass(mesh: MeshPlan, found: list[Data], settings: Settings) -> list[Data]:
    """Devices of the plan with what the bypass device of a KubeSpan mesh has in common with its device. settings: of the host."""
    if not mesh.spans_nodes:
        return found
    layout = make_layout(**settings.get("layout") or {})
    config, implementation = settings.get("config") or {}, settings.get("implementation")
    key_file = settings.get("private_key_file")
    secret = {"file": f"{STATE_FOLDER}/{mesh.fabric}/kubespan.psk"} if settings.get("mesh_secret") else None
    return [
        dict(
            device,
            fwmark=layout.mark_from_wireguard,
            mtu=config.get("mtu") or DEFAULT_MTU,
            peers=[dict(peer, preshared_key=secret) for peer in device["peers"]],
            **({"implementation": implementation} if implementation else {}),
            **({"copied_from": key_file} if key_file else {}),
        )
        for device in found
    ]


def unread_devices(mesh: MeshPlan, host: str) -> list[str]:
    """The option ``unread_devices``; none where the plan does not have the host."""
    return generations.unread_devices(mesh, host) if host in mesh.nodes else []


def kubespan_part(mesh: MeshPlan, host: str, settings: Settings) -> Data:
    """The option ``kubespan``: the host's part with its own settings; empty in another mode of the mesh."""
    part = kubespan.node_kubespan(mesh, host)
    if part is None:
        return {}
    given = {key: value for key, value in settings.items() if value not in (None, "") and key != "discovery"}
    service, found = settings.get("discovery") or {}, part.pop("discovery", None)
    if found is not None:
        part["discovery"] = _service(found, service, part["cluster"], host)
    return dict(part, **given)


def _service(found: Data, given: Settings, own: str, host: str) -> Data:
    """The option ``discovery``: where the service is, and what the cluster of its members is granted. Raises ValueError."""
    if not given.get("url"):
        raise ValueError(
            f"{host}: kubespan_registries has discovery, and kubespan_discovery_url is not set; Talos' machines use https://discovery.talos.dev/"
        )
    cluster = str(given.get("cluster") or own)
    if cluster not in found["members"]:
        raise ValueError(f"{host}: kubespan_discovery_cluster is {cluster}, which is no cluster of the inventory")
    return {
        "url": given["url"],
        "ca": given.get("ca") or "",
        "cluster": cluster,
        "overlay": found["overlay"],
        **found["members"][cluster],
    }


def tables(mesh: MeshPlan, host: str) -> list[Data]:
    """Tables that the plan adds to the option ``tables``."""
    table = kept_table(mesh, host)
    return [] if table is None else [table]


def ranges(action: ActionBase, variables: Settings, hostvars: t.Any, mesh: MeshPlan, host: str) -> Data:
    """Where pods of a node are looked for: {pod_cidrs, cluster_cidrs}."""
    node = mesh.node(host)
    cluster = str(variables.get("multicluster_cluster") or node.cluster)
    declared = action._templar.template(variables.get(FABRIC_CLUSTERS) or {})
    known = declared or hostvars
    own = known[cluster].get("pod_cidrs", []) if cluster in known else []
    return {"pod_cidrs": node.pod_cidrs, "cluster_cidrs": [own] if isinstance(own, str) else list(own)}


def reach(mesh: MeshPlan, host: str, pods: t.Mapping[str, t.Sequence[str]], layout: Settings) -> Data:
    """Which pods a node is to reach, and through which devices. pods: those that all nodes found. layout: of a KubeSpan mesh."""
    spans = mesh.spans_nodes
    names = [str(device["name"]) for device in devices(mesh, host)]
    return {
        "known": list(pods.get(host, ())),
        "targets": report.targets(mesh, pods, host),
        "host_targets": report.host_targets(mesh, pods, host),
        "devices": [*names, *([str(layout.get("device") or _DEVICE)] if spans else [])],
        "mark": int(layout.get("mark_to_wireguard", _MARK)) if spans else 0,
    }
