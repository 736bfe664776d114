# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node can prove about its mesh: which pods it has, whom they reach, where their packets go, when each peer last shook hands."""

from __future__ import annotations

import time
import typing as t

from ..._dataplane.peer_spec import handshake_age
from ..._linux.errors import LinuxError
from ..._linux.host import echoes, facts, pods, service_proxy, tracking
from ..._linux.netlink import links, routes
from ..._linux.wireguard.device import read_device
from ..._values.prefix_sets import PrefixSet
from ..speakers.layer2 import follow as layer2
from . import persistence
from .kubespan.known_members import read_ends
from .status import read_bgp, read_discovery, read_paths, read_sections, source_addresses, stray_pods
from .tables import carried_versions

Data = dict[str, t.Any]


def probe_node(request: t.Mapping[str, t.Any]) -> Data:
    """A part of a module's result: of ``run``, or pods, strays and others alone where ``targets`` is None. What fails is reported, not raised."""
    try:
        found = run(dict(request, targets=request.get("targets") or []))
    except (LinuxError, OSError, ValueError) as error:
        return {"failed": True, "msg": f"cannot probe: {error}"}
    names = (
        ("pods", "strays", "others")
        if request.get("targets") is None
        else [name for name in found if name not in ("changed", "refused")]
    )
    return {name: found[name] for name in names}


def run(request: t.Mapping[str, t.Any]) -> Data:
    """``request``: {pod_cidrs, cluster_cidrs, max_pods, known, targets and host_targets: [{node, address}], devices: [name], mark, fabric,
    tries, wait_seconds, for_ends: [{source, target}] or None}.

    Returns {pods, strays, others, pings and host_pings: [{source, target, node, ok, milliseconds, size, full}] (see
    echoes.ping_all), host_sources: versions of IP of which the host's own packets are carried, or should be, peers: [{device, public_key, endpoint,
    handshake_age seconds or None, allowed_ips, listen_port, source}], paths: {asked, elsewhere, more} or None, units, bgp,
    service_proxy (of service_proxy.read), tracking (of tracking.read_tracking), discovery (of read_discovery),
    ends (of read_ends, with for_ends), errors: [{section, message}]}.
    With no devices, only pods are looked for. Reads and pings only.
    """
    found = pods.find_pods(
        request["pod_cidrs"], request["max_pods"], request.get("cluster_cidrs") or (), request.get("known") or ()
    )
    mtus = _tunnel_mtus(request)
    jobs = [
        {
            "netns": pod["netns"],
            "source": source,
            "target": target["address"],
            "node": target["node"],
            "mtu": mtus.get(target["address"]),
            "awaited": True,
        }
        for pod in found["pods"]
        for source in pod["addresses"]
        for target in request.get("targets") or ()
        if (":" in source) == (":" in target["address"])
    ]
    state = persistence.load_state(request["fabric"]) if request.get("fabric") and request.get("host_targets") else None
    carried = carried_versions(state, PrefixSet.of_texts(request["pod_cidrs"]))
    host_jobs = _host_jobs(request, carried if state and not state.kubespan else (4, 6))
    asked = echoes.ping_all([*jobs, *host_jobs], request["tries"], request["wait_seconds"])
    for entry in asked:
        del entry["netns"], entry["mtu"], entry["awaited"]
    pings, host_pings = asked[: len(jobs)], asked[len(jobs) :]
    result: Data = {
        "changed": False,
        "pods": [{"addresses": pod["addresses"], "in_namespace": pod["netns"] is not None} for pod in found["pods"]],
        "strays": found["strays"],
        "others": found["others"] if not found["pods"] else [],
        "pings": pings,
        "host_pings": host_pings,
        "host_sources": [],
        "peers": [],
        "paths": None,
        "units": [],
        "bgp": None,
        "layer2": None,
        "service_proxy": None,
        "tracking": None,
        "discovery": None,
        "errors": [],
        "refused": [],
    }
    if request.get("devices"):
        result.update(_devices(request, found))
    if request.get("for_ends") is not None and request.get("fabric"):
        targets = [str(row.get("target")) for row in request["for_ends"]]
        read_sections([("ends", lambda: read_ends(request["fabric"], targets))], result)
    if host_pings:
        result["host_sources"] = carried
    return result


def _host_jobs(request: t.Mapping[str, t.Any], carried: t.Collection[int]) -> list[Data]:
    """What the host itself asks, from the address that its kernel takes; nothing of the size of packets, which those of pods tell.

    ``carried``: versions of IP of which other clusters accept the host's packets. Of others no answer can come, and none is awaited: that would
    cost every node of such a fabric all tries of every run.
    """
    targets = list(request.get("host_targets") or ())
    try:
        ways = routes.look_up([{"dst": row["address"], "mark": request.get("mark") or 0} for row in targets])
    except LinuxError:
        return []
    return [
        {
            "netns": None,
            "source": way["src"],
            "target": row["address"],
            "node": row["node"],
            "mtu": None,
            "awaited": (6 if ":" in row["address"] else 4) in carried,
        }
        for row, way in zip(targets, ways)
        if way.get("src") and way.get("dev") in (request.get("devices") or ())
    ]


def _tunnel_mtus(request: t.Mapping[str, t.Any]) -> dict[str, int]:
    """Target -> bytes that the tunnel takes to which the kernel sends its packets; without those that it sends elsewhere, or nowhere."""
    devices, targets = set(request.get("devices") or ()), [target["address"] for target in request.get("targets") or ()]
    if not devices:
        return {}
    try:
        known = {link.name: link.mtu for link in links.read_links() if link.name in devices}
        ways = routes.look_up([{"dst": target, "mark": request.get("mark") or 0} for target in targets])
    except LinuxError:
        return {}  # what cannot be read is named where the devices are
    return {target: known[way["dev"]] for target, way in zip(targets, ways) if way.get("dev") in known}


def _devices(request: t.Mapping[str, t.Any], found: t.Mapping[str, t.Sequence[t.Any]]) -> Data:
    """What only a node of a mesh has. What cannot be read is named and the rest goes on."""
    names = list(request["devices"])
    result: Data = {"errors": []}
    peers: list[Data] = []
    for name in names:
        try:
            peers += _peers(name)
        except (LinuxError, OSError, ValueError) as error:
            result["errors"].append({"section": name, "message": str(error)[:500]})
    addresses = [address for pod in found["pods"] if pod["netns"] is not None for address in pod["addresses"]]
    devices = [{"name": name, "peers": [peer for peer in peers if peer["device"] == name]} for name in names]
    units = (
        [persistence.unit_name(request["fabric"]), persistence.watch_name(request["fabric"])]
        if request.get("fabric")
        else []
    )
    sections: list[tuple[str, t.Callable[[], t.Any]]] = [
        ("paths", lambda: read_paths(devices, addresses, request.get("mark") or 0)),
        (
            "strays",
            lambda: sorted(
                {*found["strays"], *stray_pods(request["pod_cidrs"], request.get("cluster_cidrs") or (), names)}
            ),
        ),
        ("units", lambda: [unit for unit in facts.read_units(units) if unit["load"] != "not-found"]),
        ("bgp", read_bgp),
        ("layer2", layer2.shown),
        ("service_proxy", service_proxy.read),
        ("tracking", tracking.read_tracking),
        ("discovery", lambda: read_discovery(request["fabric"]) if request.get("fabric") else None),
    ]
    result["peers"] = peers
    read_sections(sections, result)
    return result


def _peers(name: str) -> list[Data]:
    dump = read_device(name)
    now = time.time()
    rows = sorted(dump.peers.items())
    shown = []
    for (key, peer), source in zip(rows, source_addresses([peer.endpoint for _key, peer in rows], dump.fwmark)):
        shown.append(
            {
                "device": name,
                "public_key": key,
                "endpoint": peer.endpoint,
                "allowed_ips": list(peer.allowed_ips),
                "handshake_age": handshake_age(peer.last_handshake, now),
                "listen_port": dump.listen_port,
                "source": source,
                "rx_bytes": peer.rx_bytes,
                "tx_bytes": peer.tx_bytes,
            }
        )
    return shown
