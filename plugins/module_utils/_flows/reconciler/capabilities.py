# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The capabilities that need API servers only, as the reconciler runs them: the flows of the modules, over clients that watch."""

from __future__ import annotations

import abc
import threading
import time
import typing as t

from ..._kubernetes.client import Client
from ..._kubernetes.clusters import Clusters, seconds_of
from ..._kubernetes.watched_collection import Heard
from ..._loadbalancers.settings import EMPTY
from ..._services import touched
from ..._services.exports import Id, Listed
from ..._services.mcs import touched as mcs_touched
from ..._services.mcs.exports import Listed as McsListed
from ..._services.network_sets.targets import TARGETS
from ..load_balancers import converge as load_balancers
from ..services import coredns, mirror, network_sets, service_imports
from .node_calls import Orders

Data = dict[str, t.Any]
#: The key of a plan of everything.
EVERYTHING = ""
#: The key of Services that went, where a plan of everything has to decide.
GONE = "gone"
#: Deletions wait for so much quiet, in seconds, and at most: a namespace that is deleted loses its Services one by one, and the budget of
#: deletions can only stop what it counts together.
SETTLING = (0.3, 2.0)


class Capability(abc.ABC):
    """One capability with its settings: which keys a change touches, and a run of some keys or of everything.

    ``leads``: the clusters that may be written; the others are read.
    """

    #: Last parts of the paths that it reads.
    plurals: t.Collection[str] = ()
    #: Seconds of quiet, and at most, for which changes collect.
    window: tuple[float, float] = (0.02, 0.2)
    #: The option with the clusters into which it writes.
    into = "clusters"
    #: Whether it writes to clusters at all; then to each of them only while it has the Lease there.
    writes = True

    def __init__(self, request: t.Mapping[str, t.Any]) -> None:
        self.request = request
        self.timeout = seconds_of(request)

    def keys(self, cluster: str, heard: Heard) -> t.Collection[str]:
        """What has to be planned after a change; called for every object from the first list on, in order for each object."""
        return (EVERYTHING,) if heard.news and heard.plural in self.plurals else ()

    def run(self, keys: t.Collection[str], clients: t.Mapping[str, Client], leads: t.Collection[str]) -> Data | None:
        """The result of the module; None where a plan of everything has to decide. Raises ValueError for settings that make no sense."""
        request = self._led(leads)
        if request is None:
            return {"plan": {"changes": []}, "refused": [], "failures": [], "load_balancers": {}}
        return self._run(request, keys, Clusters.of(clients, self.timeout))

    def playbooks(self, result: Data) -> t.Collection[str]:
        """What only a playbook can do after a run with this result, since it needs nodes."""
        return ()

    def orders(self, result: Data) -> Orders:
        """What nodes have to be notified of after a run with this result, where that differs from the last notice."""
        return {}

    def forget(self) -> None:
        """Somebody else may have notified nodes of something. Most capabilities notify them of nothing."""
        return

    def _led(self, leads: t.Collection[str]) -> Data | None:
        """The request, which writes to no other clusters than those; None where it would write nowhere."""
        if self.into == "clusters":
            rows = [row for row in self.request["clusters"] if str(row["name"]) in leads]
            return dict(self.request, clusters=rows) if rows else None
        desired = self.request.get(self.into) or [str(entry["name"]) for entry in self.request["clusters"]]
        led = [name for name in desired if name in leads]
        return dict(self.request, **{self.into: led}) if led else None

    @abc.abstractmethod
    def _run(self, request: Data, keys: t.Collection[str], clusters: Clusters) -> Data | None:
        """A run of the keys, or of everything; as run."""


class NetworkSets(Capability):
    """Pods of clusters as network sets of others."""

    plurals = frozenset(("pods", *(target.plural for targets in TARGETS.values() for target in targets)))

    into = "targets"
    #: Every change may be the one that takes a set away.
    window = SETTLING

    def _run(self, request: Data, keys: t.Collection[str], clusters: Clusters) -> Data:
        return network_sets.run(request, clusters=clusters, hold=True)


class CorednsRewrite(Capability):
    """Blocks of Corefiles, which depend on the inventory alone: nothing that is followed is read, the timer puts edits of others right."""

    def _run(self, request: Data, keys: t.Collection[str], clusters: Clusters) -> Data:
        for name in set(clusters.clients) - {str(row["name"]) for row in request["clusters"]}:
            del clusters.clients[name]
        return coredns.run(request, clusters=clusters)


class LoadBalancers(Capability):
    """Addresses of Services of type LoadBalancer. Node calls notify nodes of what to announce; where our own speakers announce, the playbook releases
    what they have ceased to. What another load balancer announces is released here, once deletions are over."""

    plurals = frozenset(("services", "nodes", "configmaps"))

    def __init__(self, request: t.Mapping[str, t.Any]) -> None:
        super().__init__(dict(request, release_spoken=False))
        self._lock = threading.Lock()
        self._balanced: set[tuple[str, str, str]] = set()
        #: by cluster, what nodes were last asked to announce; and clusters in which somebody else may have notified nodes of something since
        self._announced: Orders = {}
        self._doubted: set[str] = set()
        #: Clusters in which another load balancer announces; and when Services of theirs went, the first and the last of those not looked at yet.
        self._unowned: set[str] = set()
        self._went: tuple[float, float] | None = None

    def keys(self, cluster: str, heard: Heard) -> t.Collection[str]:
        """Of Services only those count that have, had or want an address."""
        if heard.plural == "services" and heard.name:
            place = cluster, heard.namespace, heard.name
            spec = (heard.after or {}).get("spec") or {}
            with self._lock:
                before = place in self._balanced
                if spec.get("type") == "LoadBalancer":
                    self._balanced.add(place)
                elif not before:
                    return ()
                else:
                    self._balanced.discard(place)
                    if cluster in self._unowned and heard.news:
                        now = time.monotonic()
                        self._went = self._went[0] if self._went else now, now
                        return (GONE,)
        return super().keys(cluster, heard)

    def playbooks(self, result: Data) -> t.Collection[str]:
        """That of the capability: where a cluster with nodes that announce something is seen for the first time, since the inventory may have something
        new of them, or who led before may have ended before his node call; and where something waits to be released."""
        rows = {name: row for name, row in result["load_balancers"].items() if row}
        with self._lock:
            now = {name: _order(row) for name, row in rows.items() if name not in self._announced}
            changed = [name for name, order in now.items() if order["routes"]]
            self._announced.update(now)
        return (
            ("load_balancers",)
            if changed or any(row.get("releases") and not row.get("released") for row in rows.values())
            else ()
        )

    def orders(self, result: Data) -> Orders:
        """Of clusters that were seen before."""
        found: Orders = {}
        with self._lock:
            for name, row in result["load_balancers"].items():
                if not row or name not in self._announced:
                    continue
                now, before = _order(row), self._announced[name]
                again = name in self._doubted and bool(now["routes"] or before["routes"])
                self._doubted.discard(name)
                if now != before or again:
                    found[name] = self._announced[name] = now
        return found

    def forget(self) -> None:
        """Nodes that announce something are notified again."""
        with self._lock:
            self._doubted = set(self._announced)

    def _run(self, request: Data, keys: t.Collection[str], clusters: Clusters) -> Data | None:
        led = [str(row["name"]) for row in request["clusters"]]
        with self._lock:
            went, now = self._went, time.monotonic()
            settled = went is None or now >= min(went[1] + SETTLING[0], went[0] + SETTLING[1])
            if settled:
                self._went = None
        if not settled and EVERYTHING not in keys:
            return None
        # what else changes in between is looked after at once, and releases nothing
        more = {"clusters": self.request["clusters"], **({} if settled else {"release": False})}
        result = load_balancers.run(dict(request, **more), clusters=clusters, only=led)
        with self._lock:
            self._unowned.difference_update(led)
            self._unowned.update(
                name for name, row in result["load_balancers"].items() if row and row.get("load_balancer") != EMPTY
            )
        return result


def _order(row: t.Mapping[str, t.Any]) -> Data:
    return {
        "routes": row.get("routes") or [],
        "left_out": row.get("left_out") or {},
        "segments": row.get("segments") or {},
    }


class ServiceMirror(Capability):
    """Mirrors and global Services, by the names that they have in the mirror namespace."""

    into = "destinations"
    plurals = frozenset((touched.SERVICES, touched.ENDPOINTS, touched.SLICES))

    def __init__(self, request: t.Mapping[str, t.Any]) -> None:
        super().__init__(request)
        options = mirror.read_options(request, mirror.load(request))
        self._lock = threading.Lock()
        self._indices = {
            str(entry["name"]): touched.Index(str(entry["name"]), options) for entry in request["clusters"]
        }
        #: Something waits that only a plan of everything decides.
        self._waiting = True

    def keys(self, cluster: str, heard: Heard) -> t.Collection[str]:
        """Targets, see _services/touched.py."""
        kind, place = heard.plural, (heard.namespace, heard.name)
        if kind not in self.plurals or cluster not in self._indices:
            return ()
        if not heard.name:
            return (EVERYTHING,)
        with self._lock:
            found = self._indices[cluster].put(kind, place, heard.after)
        if not heard.news:
            return ()
        return (EVERYTHING,) if touched.everything(kind, place) else found

    def _run(self, request: Data, keys: t.Collection[str], clusters: Clusters) -> Data | None:
        """Only what the keys touch, where that decides."""
        if EVERYTHING not in keys and not self._waiting:
            return mirror.converge(request, clusters, diff=False, cut=lambda listed: self._cut(keys, listed))
        result = t.cast(Data, mirror.converge(request, clusters, diff=False, hold=True))
        self._waiting = touched.counted(result["refused"])
        return result

    def _cut(self, keys: t.Collection[str], listed: t.Mapping[str, Listed]) -> dict[str, Listed]:
        with self._lock:
            targets = touched.closed(self._indices.values(), keys)
            return {name: self._indices[name].cut(one, targets) for name, one in listed.items()}


class Mcs(Capability):
    """Imports of the Multi-Cluster Services API, by what belongs together in each namespace."""

    into = "destinations"
    plurals = frozenset((*mcs_touched.KINDS, mcs_touched.NAMESPACES))

    def __init__(self, request: t.Mapping[str, t.Any]) -> None:
        # one that leads a part of the clusters knows of the others that somebody of us writes there
        everywhere = [str(entry["name"]) for entry in request["clusters"]]
        super().__init__(dict(request, kept=request.get("destinations") or everywhere))
        service_imports.read_options(request, service_imports.load(request))
        self._lock = threading.Lock()
        self._indices = {str(entry["name"]): mcs_touched.Index() for entry in request["clusters"]}
        #: Something waits that only a plan of everything decides.
        self._waiting = True

    def keys(self, cluster: str, heard: Heard) -> t.Collection[str]:
        """Units, see _services/mcs/touched.py."""
        kind, place = heard.plural, (heard.namespace, heard.name)
        if kind not in self.plurals or cluster not in self._indices:
            return ()
        if not heard.name:
            return (EVERYTHING,)
        with self._lock:
            if kind == mcs_touched.NAMESPACES:
                found = (
                    {unit for index in self._indices.values() for unit in index.inside(heard.name)}
                    if heard.news
                    else set()
                )
            else:
                found = self._indices[cluster].put(kind, place, heard.after)
        if not heard.news:
            return ()
        return (EVERYTHING,) if mcs_touched.everything(kind, place) else ["/".join(unit) for unit in found]

    def _run(self, request: Data, keys: t.Collection[str], clusters: Clusters) -> Data | None:
        """Only what the keys touch, where that decides."""
        if EVERYTHING not in keys and not self._waiting:
            return service_imports.converge(request, clusters, diff=False, cut=lambda listed: self._cut(keys, listed))
        result = t.cast(Data, service_imports.converge(request, clusters, diff=False, hold=True))
        self._waiting = touched.counted(result["refused"])
        return result

    def _cut(self, keys: t.Collection[str], listed: t.Mapping[str, McsListed]) -> dict[str, McsListed]:
        with self._lock:
            units: list[Id] = [t.cast(Id, tuple(key.split("/", 1))) for key in keys]
            return {name: self._indices[name].cut(one, units) for name, one in listed.items()}


#: By the capability's name.
CAPABILITIES: dict[str, type[Capability]] = {
    "service_mirror": ServiceMirror,
    "mcs": Mcs,
    "coredns_rewrite": CorednsRewrite,
    "network_sets": NetworkSets,
    "load_balancers": LoadBalancers,
}
