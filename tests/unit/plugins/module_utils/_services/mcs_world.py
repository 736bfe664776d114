# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clusters of the Multi-Cluster Services API in memory: lists as API servers give them, and writes as they take them."""

from __future__ import annotations

import copy

from ansible_collections.multicluster.network.plugins.module_utils._plan.objects import field_manager
from ansible_collections.multicluster.network.plugins.module_utils._services.claims import Guard
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs import touched
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.clusterset import join, vanished
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.exports import (
    Listed,
    Options,
    read_exports,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.names import VERSIONS, derived_name
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.plan import Here, filled, plan_cluster
from ansible_collections.multicluster.network.plugins.module_utils._services.mcs.statuses import (
    export_statuses,
    import_statuses,
)

MANAGER, V1 = field_manager("t"), "discovery.k8s.io/v1"
GRANTS = {
    "aws": {"pod_cidrs": ["10.2.0.0/16"]},
    "gcp": {"pod_cidrs": ["10.4.0.0/16"]},
    "merit": {"pod_cidrs": ["10.6.0.0/16"]},
}
KINDS = {
    "ServiceExport": touched.EXPORTS,
    "ServiceImport": touched.IMPORTS,
    "Service": touched.SERVICES,
    "EndpointSlice": touched.SLICES,
}
OPTIONS = Options({name: name for name in GRANTS}, {}, families={name: ["IPv4"] for name in GRANTS})
NOW = "2026-01-01T00:00:00Z"


def export(place, stamp="2025-01-01T00:00:00Z", **more):
    spec = {key: more.pop(key) for key in ("exportedLabels", "exportedAnnotations") if key in more}
    meta = {"namespace": place[0], "name": place[1], "uid": "u-" + stamp, "generation": 1, "creationTimestamp": stamp}
    return {"metadata": dict(meta, **more), "spec": spec}


def service(place, ports=None, labels=None, **spec):
    meta = {"namespace": place[0], "name": place[1], "labels": dict(labels or {})}
    base = {
        "ports": ports or [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
        "clusterIP": "10.3.0.9",
        "ipFamilies": ["IPv4"],
    }
    return {"metadata": meta, "spec": dict(base, **spec)}


def ends(place, *ips, name=None, ports=None, family="IPv4", labels=None, **more):
    meta = {
        "namespace": place[0],
        "name": name or place[1] + "-x",
        "labels": dict({"kubernetes.io/service-name": place[1]}, **(labels or {})),
    }
    rows = [dict({"addresses": [ip], "conditions": {"ready": True}}, **more) for ip in ips]
    ports = [{"name": "http", "port": 8080, "protocol": "TCP"}] if ports is None else ports
    return {"metadata": meta, "addressType": family, "endpoints": rows, "ports": ports}


def namespaces(*names):
    return [{"metadata": {"name": name, "labels": {}}, "status": {"phase": "Active"}} for name in names]


def listed(exports=(), services=(), slices=(), imports=(), spaces=("shop", "bank"), version=VERSIONS[0]):
    return Listed(list(exports), list(imports), list(services), (), list(slices), namespaces(*spaces), version, V1)


def read(lists, options=OPTIONS, **more):
    """Of each cluster what it exports."""
    return {name: read_exports(name, one, options, Guard(GRANTS, **more)) for name, one in lists.items()}


def planned(lists, options=OPTIONS, exported=None, **more):
    """({cluster: plan}, what all export together, {cluster: what it has})."""
    heres = {name: Here(name, one, MANAGER) for name, one in lists.items()}
    lost = vanished(lists, options)
    exported = (
        read({name: one for name, one in lists.items() if name not in lost}, options) if exported is None else exported
    )
    joined = join(exported, heres, options)
    slices, parts = {}, {name: joined.part(here) for name, here in heres.items()}
    plans = {
        name: plan_cluster(here, parts[name].merged, parts[name].kept, options, MANAGER, slices=slices, **more)
        for name, here in heres.items()
    }
    return plans, joined, heres


class World:
    """Three clusters, each a source and written; an index of each is kept by events as the reconciler keeps it."""

    def __init__(self, options=OPTIONS):
        self.options, self.counter = options, 0
        self.objects = {name: {kind: {} for kind in KINDS.values()} for name in GRANTS}
        self.spaces = {name: {"shop": False, "bank": False} for name in GRANTS}
        self.index = {name: touched.Index() for name in GRANTS}
        self.dirty = set()

    def put(self, cluster, kind, place, obj):
        if obj is None:
            self.objects[cluster][kind].pop(place, None)
        else:
            self.objects[cluster][kind][place] = obj
        self.dirty |= self.index[cluster].put(kind, place, obj)

    def space(self, cluster, name, state):
        """A namespace is there (False), terminating (True) or gone (None)."""
        if state is None:
            self.spaces[cluster].pop(name, None)
        else:
            self.spaces[cluster][name] = state
        for index in self.index.values():
            self.dirty |= index.inside(name)

    def listed(self, name, backwards=False):
        here = self.objects[name]
        rows = {kind: [here[kind][place] for place in sorted(here[kind], reverse=backwards)] for kind in KINDS.values()}
        spaces = [
            {"metadata": {"name": space, **({"deletionTimestamp": NOW} if going else {})}}
            for space, going in sorted(self.spaces[name].items())
        ]
        return Listed(
            rows[touched.EXPORTS],
            rows[touched.IMPORTS],
            rows[touched.SERVICES],
            (),
            rows[touched.SLICES],
            spaces,
            VERSIONS[0],
            V1,
        )

    def lists(self, backwards=False):
        return {name: self.listed(name, backwards) for name in GRANTS}

    def whole(self, backwards=False):
        return planned(self.lists(backwards), self.options)

    def some(self):
        lost = vanished(self.lists(), self.options)
        lists = {name: self.index[name].cut(one, self.dirty) for name, one in self.lists().items()}
        return planned(
            lists, self.options, read({name: one for name, one in lists.items() if name not in lost}, self.options)
        )

    def apply(self, plans, joined, heres):
        """Do the writes, and the statuses; they come back by the watch, and nothing is planned for them."""
        for name, one in plans.items():
            for write in sorted(
                one.writes, key=lambda write: ("Service", "ServiceImport", "EndpointSlice").index(write.key.kind)
            ):
                self._write(name, write)
        for name, (made, claims) in self.statuses(plans, joined, heres).items():
            for write in made + claims:
                kind, place = KINDS[write.key.kind], (write.key.namespace, write.key.name)
                obj = copy.deepcopy(self.objects[name][kind][place])
                obj["status"] = dict(obj.get("status") or {}, **write.manifest["status"])
                self.put(name, kind, place, obj)
        self.dirty = set()

    def statuses(self, plans, joined, heres, now=NOW):
        exported = read({name: here.listed for name, here in heres.items()}, self.options)
        return {
            name: (
                import_statuses(here, joined.part(here).clusters(here), plans[name].failed),
                export_statuses(here, exported[name], joined.merged, {}, now),
            )
            for name, here in heres.items()
        }

    def _write(self, name, write):
        kind, place = KINDS[write.key.kind], (write.key.namespace, write.key.name)
        if write.manifest is None:
            self.put(name, kind, place, None)
            return
        made = copy.deepcopy(filled(write, self._known(name, write.key)).manifest)
        before = self.objects[name][kind].get(place)
        self.counter += 1
        if kind == touched.SERVICES:
            made["spec"].update(
                clusterIP=(before or {"spec": {}})["spec"].get("clusterIP") or f"10.3.1.{self.counter % 250}"
            )
            made["spec"]["clusterIPs"] = [made["spec"]["clusterIP"]]
        fields = {"f:" + field: {} for field in made if field not in ("apiVersion", "kind", "metadata")}
        fields["f:metadata"] = {
            "f:" + part: {"f:" + key: {} for key in made["metadata"][part]}
            for part in ("labels", "annotations")
            if part in made["metadata"]
        }
        made["metadata"].update(
            uid=before["metadata"]["uid"] if before else f"u{self.counter}", resourceVersion=str(self.counter)
        )
        made["metadata"]["managedFields"] = [{"manager": MANAGER, "operation": "Apply", "fieldsV1": fields}]
        if before and "status" in before:
            made["status"] = before["status"]
        self.put(name, kind, place, made)

    def _known(self, name, key):
        if key.kind == "ServiceImport":
            unit = (key.namespace, derived_name(key.namespace, key.name))
            found = self.objects[name][touched.SERVICES].get(unit)
            return {unit: ([found["spec"]["clusterIP"]], ["IPv4"])} if found else {}
        return {
            (place[0], derived_name(*place)): obj["metadata"]["uid"]
            for place, obj in self.objects[name][touched.IMPORTS].items()
        }
