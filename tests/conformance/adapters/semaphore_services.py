# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Semaphore's vectors: names, mirrors and global services, through what a run of the service mirror plans.

Every vector becomes lists of clusters, from which read_exports and plan_cluster make the writes; the answer is what these leave behind.
Set, and why: ``endpoint_fields: all`` and ``max_deletes: -1``, since upstream copies everything and knows no budget; ``adopt`` for
Endpoints and slices, which upstream overwrites whoever made them. Services without our labels it changes without ever labelling them,
which no option of the collection does: they are left alone. What local objects own by labels counts as applied by us. Addresses are not checked:
vectors know no grants. Where updates come one after another, each run is seen from the cluster that was the last to bring one.
"""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._plan.object_plan import Key, Write
from ansible_collections.multicluster.network.plugins.module_utils._plan.plan import Plan
from ansible_collections.multicluster.network.plugins.module_utils._plan.sole_owner import surplus
from ansible_collections.multicluster.network.plugins.module_utils._services import (
    claims,
    exports,
    mirror_services,
    names,
)
from ansible_collections.multicluster.network.plugins.module_utils._services.mirror_plan import objects_of, plan_cluster
from ansible_collections.multicluster.network.plugins.module_utils._services.sweeps import EVERYBODY, mark_of
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from ansible_collections.multicluster.network.plugins.module_utils._values.selectors import matches, parse_selector

Input = t.Mapping[str, t.Any]
Answer = dict[str, t.Any]
Objects = dict[Key, t.Any]
MANAGER = "multicluster.network/vectors"
HERE, THERE = "here", "there"
VERSION = "discovery.k8s.io/v1"
EVERYTHING = parse_selector("")
PORTS = [{"port": 80, "protocol": "TCP"}]
#: The label by which our own Services ask for local-first routing where a vector states only that they do.
ROUTING = {"routing": "yes"}


# --- names -------------------------------------------------------------------------------------------------------


def separator(data: Input) -> Answer:
    return {"separator": names.separator(data["text"])}


def _named(name: names.Name) -> Answer:
    # these two ask about the built text, ``valid`` also about the parts that it was built from
    whole = {
        "valid_service_name": names.is_service_name(name.name),
        "valid_object_name": names.is_object_name(name.name),
    }
    return {"name": name.name, "length": len(name.name), "error": name.reason, "valid": name.valid, **whole}


def mirror(data: Input) -> Answer:
    return _named(names.mirror_name(data["prefix"], data["namespace"], data["name"]))


def global_(data: Input) -> Answer:
    return _named(names.global_name(data["namespace"], data["name"]))


def global_slice(data: Input) -> Answer:
    return _named(names.global_slice_name(data["slice_name"]))


def _colliding(named: list[tuple[str, tuple[str, str, str]]], first: str) -> Answer:
    found = names.collisions(named)
    rows = {
        name: [dict(zip((first, "namespace", "name"), source)) for source in sources] for name, sources in found.items()
    }
    kept = {
        name: dict(zip((first, "namespace", "name"), names.name_holder(sources, []))) for name, sources in found.items()
    }
    return {"collisions": [{"name": name, "sources": rows[name], "kept": kept[name]} for name in found]}


def collisions(data: Input) -> Answer:
    rows = [(str(row.get("prefix") or data.get("prefix")), row["namespace"], row["name"]) for row in data["services"]]
    return _colliding([(names.mirror_name(*row).name, row) for row in rows], "prefix")


def slice_collisions(data: Input) -> Answer:
    rows = [(row["cluster"], row["namespace"], row["name"]) for row in data["slices"]]
    return _colliding([(names.global_slice_name(row[2]).name, row) for row in rows], "cluster")


# --- what a run makes of it --------------------------------------------------------------------------------------


class _Open(claims.Guard):
    """Vectors know no grants: every address holds."""

    def refusal(self, source: str, text: str) -> claims.Verdict:
        return None


#: What vectors call the action where something was refused.
_ACTIONS = {
    "not_ours": "conflict",
    "adoptable": "none",
    "too_many_zones": "config_error",
    "missing_service_name_label": "error",
}


_WRITTEN = (("clusterIP", "None"), ("sessionAffinity", "ClientIP"))


class World:
    """The cluster of a vector's objects, and what the others offer it. ``sources``: None for one that could not be listed."""

    def __init__(self, namespace: str, local: str = HERE, **options: t.Any) -> None:
        self.local, self.objects = local, t.cast(Objects, {})
        self.sources: dict[str, exports.Listed | None] = {}
        self._options, self.namespace, self._marks = options, namespace, t.cast(set[str], set())
        self.plan, self.writes = Plan(), t.cast(list[Write], [])

    def put(self, kind: str, obj: Input | None, labels: t.Mapping[str, str] | None = None) -> None:
        """An object of the mirror namespace, if there is one."""
        if obj is None:
            return
        made = copy.deepcopy(dict(obj))
        made["metadata"] = dict(
            {"namespace": self.namespace}, **made["metadata"], **({"labels": dict(labels)} if labels else {})
        )
        mark = mark_of(mirror_services.labels_of(made))
        if mark is not None:
            self._marks.add(mark[1])
            written = {
                key: value
                for key, value in (made.get("spec") or {}).items()
                if key == "ports" or (key, value) in _WRITTEN
            }
            tree = {
                "f:metadata": _tree({"labels": made["metadata"]["labels"]}),
                **({"f:spec": _tree(written)} if written else {}),
            }
            made["metadata"]["managedFields"] = [{"manager": MANAGER, "operation": "Apply", "fieldsV1": tree}]
        version = VERSION if kind == "EndpointSlice" else "v1"
        self.objects[Key(version, kind, made["metadata"]["namespace"], made["metadata"]["name"])] = made

    def run(self) -> None:
        """One run; ``objects`` is what it leaves behind."""
        given: dict[str, t.Any] = {
            "mirror_selector": None,
            "global_selector": None,
            "routing": None,
            "prefixes": {},
            "zones": {},
        }
        given.update(fields="all", max_deletes=-1, **self._options)
        prefixes = dict({name: name for name in (self.local, *self.sources)}, **self._options.get("prefixes") or {})
        # other owners of objects: clusters of the inventory that this vector does not mention
        given["prefixes"] = dict(
            prefixes, **{mark: mark for mark in self._marks - set(prefixes.values()) - {EVERYBODY}}
        )
        options = exports.Options(self.namespace, **given)
        guard = _Open({name: {} for name in self.sources})
        found = {
            name: exports.read_exports(name, listed, options, guard)
            for name, listed in self.sources.items()
            if listed is not None
        }
        if self.local not in self.sources:
            found[self.local] = exports.Exports({}, {}, [], {}, [])
        here = {
            kind: [obj for key, obj in self.objects.items() if key.kind == kind]
            for kind in ("Service", "Endpoints", "EndpointSlice")
        }
        listed = exports.Listed(here["Service"], here["Endpoints"], here["EndpointSlice"], exports.ENDPOINTS, VERSION)
        self.plan, self.writes = plan_cluster(self.local, listed, found, [], options, MANAGER)
        for one in found.values():
            self.plan.refused.extend(one.refused)
        self.objects = objects_of(listed, self.namespace)
        for write in self.writes:
            before = self.objects.pop(write.key, None)
            if write.manifest is not None:
                self.objects[write.key] = _applied(before, write.manifest)

    def names(self, action: str, kind: str) -> list[str]:
        """The objects of a kind with which this was done, sorted."""
        return sorted(
            write.key.name for write in self.writes if (write.change.action, write.key.kind) == (action, kind)
        )

    def answer(self, kind: str, field: str) -> Answer:
        """What became of the only object of a kind."""
        actions = [write.change.action for write in self.writes if write.key.kind == kind]
        reasons = [refusal.reason for refusal in self.plan.refused]
        action = "recreate" if actions == ["delete", "create"] else actions[0] if actions else "none"
        if not actions and reasons:
            action = _ACTIONS.get(reasons[0], "skip")
        left = [obj for key, obj in self.objects.items() if key.kind == kind]
        failed = reasons[0] if action in ("conflict", "config_error", "error") else None
        return {
            "action": action,
            "changed": bool(actions),
            field: left[0] if left else None,
            "error": failed or False,
            "reason": reasons[0] if reasons else None,
            "skipped_reason": reasons[0] if action == "skip" else None,
        }


def _tree(value: t.Any) -> dict[str, t.Any]:
    """Fields as the API server records who owns them; lists as a whole."""
    return {"f:" + key: _tree(item) for key, item in value.items()} if isinstance(value, dict) else {}


def _applied(before: Input | None, manifest: Input) -> Answer:
    """What applying leaves: fields that the manifest does not speak of stay."""
    if before is None or manifest["kind"] != "Service":  # of the others a manifest has everything
        return dict(manifest)
    gone = surplus(manifest, before, MANAGER).get("spec") or {}
    spec = {key: value for key, value in (before.get("spec") or {}).items() if key not in gone}
    made = dict(manifest, spec=dict(spec, **manifest["spec"]))
    meta = {key: value for key, value in before["metadata"].items() if key != "managedFields"}
    meta["labels"] = dict(meta.get("labels") or {}, **manifest["metadata"].get("labels") or {})
    return dict(
        made, metadata=dict(meta, **{key: value for key, value in manifest["metadata"].items() if key != "labels"})
    )


def _listed(
    services: t.Iterable[Input] = (), endpoints: t.Iterable[Input] = (), slices: t.Iterable[Input] = ()
) -> exports.Listed:
    return exports.Listed(list(services), list(endpoints), list(slices), exports.ENDPOINTS, VERSION)


def _service(
    namespace: str, name: str, headless: bool = False, ports: t.Any = None, labels: Input | None = None
) -> Answer:
    spec = {"ports": ports or PORTS, "clusterIP": "None" if headless else "10.96.0.9"}
    return {"metadata": {"namespace": namespace, "name": name, "labels": dict(labels or {})}, "spec": spec}


def _keyed(obj: Input | None, key: Input | None) -> list[Input]:
    """The remote object under its key."""
    return [] if obj is None else [dict(obj, metadata=dict(obj["metadata"], **(key or {})))]


# --- mirrors -----------------------------------------------------------------------------------------------------


def _mirrors(data: Input, prefix: str, **options: t.Any) -> World:
    return World(
        data.get("mirror_namespace") or "sys-semaphore", mirror_selector=EVERYTHING, prefixes={THERE: prefix}, **options
    )


def reconcile_service(data: Input) -> Answer:
    affinity = data.get("session_affinity", True)
    world = _mirrors(data, data["prefix"], session_affinity=affinity)
    world.put("Service", data.get("local_service"))
    world.sources[THERE] = _listed(_keyed(data.get("remote_service"), data.get("key")))
    world.run()
    return world.answer("Service", "local_service")


def reconcile_endpoints(data: Input) -> Answer:
    world = _mirrors(data, data["prefix"], adopt=True)
    world.put("Endpoints", data.get("local_endpoints"))
    world.sources[THERE] = _listed([_service(**data["key"])], _keyed(data.get("remote_endpoints"), data["key"]))
    world.run()
    return world.answer("Endpoints", "local_endpoints")


def _remote(rows: t.Any) -> list[Answer] | None:
    """Services given as [namespace, name]; None for ``unknown``."""
    return None if rows == "unknown" else [_service(*row) for row in rows]


def startup_sync(data: Input) -> Answer:
    world = _mirrors(data, data["prefix"], sweep_services=data.get("service_sync", True))
    for kind, rows in (("Service", "local_services"), ("Endpoints", "local_endpoints")):
        for row in data.get(rows) or ():
            world.put(kind, {"metadata": row, **({"spec": {"ports": PORTS}} if kind == "Service" else {"subsets": []})})
    services = _remote(data["remote_services"])
    world.sources[THERE] = None if services is None else _listed(services)
    world.run()
    return {"deleted": world.names("delete", "Service"), "deleted_endpoints": world.names("delete", "Endpoints")}


def outage(data: Input) -> Answer:
    prefix = data.get("prefix") or "aws"
    world = _mirrors(data, prefix)
    edited = data.get("event") == "local_mirror_edited_by_hand"
    for name in data.get("local_mirrors") or ():
        world.put(
            "Service",
            {"metadata": {"name": name}, "spec": {"ports": [{"port": 9}] if edited else PORTS}},
            mirror_services.mirror_labels(prefix),
        )
    services = _remote(data.get("remote_services") or []) if data["remote_api"] == "up" else None
    world.sources[THERE] = None if services is None else _listed(services)
    world.run()
    made, repaired = world.names("create", "Service"), world.names("update", "Service")
    return {
        "deleted": world.names("delete", "Service"),
        "created": made,
        "recreated": made,
        "updated": repaired,
        "repaired": repaired,
    }


def selector_match(data: Input) -> Answer:
    try:
        return {"match": matches(parse_selector(data["selector"]), data.get("labels") or {})}
    except ValueRefused as error:
        return {"match": False, "error": error.reason}


# --- global services ---------------------------------------------------------------------------------------------


def _global(namespace: str, **options: t.Any) -> World:
    return World(namespace, global_selector=EVERYTHING, **options)


def store(data: Input) -> Answer:
    replays: dict[tuple[str, str], Replay] = {}
    errors: list[Answer] = []
    for index, step in enumerate(data["steps"]):
        key = (step["namespace"], step["name"])
        replay = replays.setdefault(key, Replay(_global("mirrors", routing=parse_selector("routing=yes"))))
        labels = ROUTING if step.get("routing_label_matches") else {}
        service = None if step["op"] == "delete" else _service(*key, step["clusterIP"] == "None", step["ports"], labels)
        code = replay.update(step["cluster"], service)
        errors += [{"step": index, "code": code}] if code else []
    objects = [obj for key in sorted(replays) for obj in replays[key].world.objects.values()]
    reported = [refusal for key in sorted(replays) for refusal in replays[key].world.plan.refused]
    warnings = [
        {"code": refusal.reason, "cluster": refusal.object.partition("/")[0]}
        for refusal in reported
        if refusal.reason == "ports_conflict"
    ]
    return {"services": [_shown(obj) for obj in objects], "errors": errors, "warnings": warnings}


class Replay:
    """Updates of one global Service one after the other, as clusters tell them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.order: list[str] = []  # of the last updates that were taken in

    def update(self, cluster: str, service: Input | None) -> str:
        """Why the cluster is held back, if it is."""
        self.world.sources[cluster] = _listed([] if service is None else [service])
        self._run()
        held = [
            refusal.reason
            for refusal in self.world.plan.refused
            if refusal.reason == "headless_mismatch" and refusal.object.partition("/")[0] == cluster
        ]
        if held:
            return held[0]
        self.order = [name for name in self.order if name != cluster] + ([] if service is None else [cluster])
        self._run()
        return ""

    def _run(self) -> None:
        for key, obj in list(self.world.objects.items()):
            self.world.put(key.kind, obj)  # as this run reads it
        self.world.local = self.order[-1] if self.order else HERE
        self.world.run()


def _shown(service: Input) -> Answer:
    meta, spec = service["metadata"], service["spec"]
    annotations = meta.get("annotations") or {}
    return {
        "name": meta["name"],
        "clusters": annotations["global-svc-clusters"].split(","),
        "annotations": annotations,
        "labels": meta["labels"],
        "headless": spec.get("clusterIP") == "None",
        "ports": spec["ports"],
    }


def reconcile_sequence(data: Input) -> Answer:
    replay = Replay(_global(data["mirror_namespace"], routing=parse_selector(data["routing_strategy_selector"])))
    existing = data.get("existing_local")
    if existing:
        replay.world.put("Service", {key: value for key, value in existing.items() if key != "store"})
        _remember(replay, existing, data["events"][0], data["routing_strategy_selector"])
    after: list[Answer] = []
    for event in data["events"]:
        found = _keyed(event.get("remote_service"), {"namespace": event["namespace"], "name": event["name"]})
        code = replay.update(event["cluster"], found[0] if found else None)
        after.append(dict(replay.world.answer("Service", "local_service"), error=code or False, code=code))
    return {
        "after": after,
        "errors": [{"step": index, "code": row["code"]} for index, row in enumerate(after) if row["code"]],
    }


def _remember(replay: Replay, existing: Input, event: Input, selector: str) -> None:
    """What the clusters of ``store`` share, from the Service that came of it."""
    known = existing.get("store") or {}
    opted = "service.kubernetes.io/topology-aware-hints" in (existing["metadata"].get("annotations") or {})
    labels = {one.key: one.values[0] for one in parse_selector(selector)} if opted else {}
    for cluster in known.get("clusters") or ():
        service = _service(
            event["namespace"], event["name"], bool(known.get("headless")), existing["spec"]["ports"], labels
        )
        replay.world.sources[cluster] = _listed([service])
        replay.order.append(cluster)


def _slices(data: Input, slices: t.Sequence[Input], local: t.Sequence[Input] = ()) -> World:
    """A run over slices of Services that all take part; those without a Service's name have none."""
    home = data["cluster"] if data.get("is_local_cluster") else HERE
    sweep = data.get("endpoint_slice_sync", True)
    world = _global(
        data.get("mirror_namespace") or "mirrors",
        local=home,
        zones={home: data.get("zones") or []},
        routing=parse_selector("routing=yes"),
        sweep_slices=sweep,
        adopt=True,
    )
    for obj in local:
        world.put("EndpointSlice", obj)
    owners = {
        (item["metadata"]["namespace"], (item["metadata"].get("labels") or {}).get("kubernetes.io/service-name"))
        for item in slices
    }
    labels = ROUTING if data.get("service_opted_in") else {}
    services = [_service(namespace, name, labels=labels) for namespace, name in owners if name]
    world.sources[data["cluster"]] = _listed(services, slices=slices)
    return world


def reconcile_slice(data: Input) -> Answer:
    remote, local = data.get("remote_slice"), data.get("local_slice")
    world = _slices(data, [remote] if remote else [], [local] if local else [])
    world.run()
    return world.answer("EndpointSlice", "local_slice")


def reconcile_slice_batch(data: Input) -> Answer:
    world = _slices(data, data["slices"])
    world.run()
    made = {key.name: obj for key, obj in world.objects.items() if key.kind == "EndpointSlice"}
    return {
        "local_labels": {name: obj["metadata"]["labels"] for name, obj in made.items()},
        "local_slices": list(made.values()),
        "errors": [{"object": refusal.object, "code": refusal.reason} for refusal in world.plan.refused],
    }


def startup_sync_services(data: Input) -> Answer:
    world = _global(data["mirror_namespace"])
    for row in data["local_global_services"]:
        world.put("Service", {"metadata": row, "spec": {"ports": PORTS}})
    services = _remote(data["seen"])
    world.sources[THERE] = None if services is None else _listed(services)
    world.run()
    return {"deleted": world.names("delete", "Service")}


def startup_sync_slices(data: Input) -> Answer:
    labels = {"kubernetes.io/service-name": "service"}
    known = data["remote_slices"] != "unknown"
    rows = [
        {
            "metadata": {"namespace": "ns", "name": name, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [],
            "ports": [],
        }
        for name in (data["remote_slices"] if known else ())
    ]
    local = [{"metadata": row, "addressType": "IPv4", "endpoints": [], "ports": []} for row in data["local_slices"]]
    world = _slices(data, rows, local)
    if not known:
        world.sources[data["cluster"]] = None
    world.run()
    return {"deleted": world.names("delete", "EndpointSlice")}


def headless_mismatch_endpoints(data: Input) -> Answer:
    world = _global("mirrors")
    for row in data["clusters"]:
        slices = [
            {
                "metadata": {"namespace": "ns", "name": name, "labels": {"kubernetes.io/service-name": "name"}},
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.2.0.1"]}],
                "ports": PORTS,
            }
            for name in row["slices"]
        ]
        world.sources[row["cluster"]] = _listed([_service("ns", "name", row["headless"])], slices=slices)
    world.run()
    copied = world.names("create", "EndpointSlice")
    given = [name for row in data["clusters"] for name in row["slices"]]
    held = [refusal.object.partition("/")[0] for refusal in world.plan.refused if refusal.reason == "headless_mismatch"]
    return {"attached": [name for name in given if names.global_slice_name(name).name in copied], "held_back": held}


HANDLERS: dict[str, dict[str, t.Callable[[Input], Answer]]] = {
    "mirror_name": {
        "separator": separator,
        "mirror": mirror,
        "global": global_,
        "global_slice": global_slice,
        "collisions": collisions,
        "slice_collisions": slice_collisions,
    },
    "mirror_service": {
        "reconcile_service": reconcile_service,
        "reconcile_endpoints": reconcile_endpoints,
        "startup_sync": startup_sync,
        "outage": outage,
        "selector_match": selector_match,
    },
    "global_service": {
        "store": store,
        "reconcile_sequence": reconcile_sequence,
        "reconcile_slice": reconcile_slice,
        "reconcile_slice_batch": reconcile_slice_batch,
        "startup_sync_services": startup_sync_services,
        "startup_sync_slices": startup_sync_slices,
        "headless_mismatch_endpoints": headless_mismatch_endpoints,
    },
}
