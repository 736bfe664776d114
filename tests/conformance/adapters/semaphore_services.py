# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Semaphore's vectors: names, mirrors and global services. Fields are renamed, nothing is decided here.

Options that are set, because the original always behaves so: ``adopt`` (a local object without our labels is taken over),
``endpoint_fields: all``.
"""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._services import (
    endpoints,
    global_services,
    global_slices,
    mirror_config,
    mirror_services,
    names,
    sweeps,
)
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused
from ansible_collections.multicluster.network.plugins.module_utils._values.selectors import matches, parse_selector

Input = t.Mapping[str, t.Any]
Answer = t.Dict[str, t.Any]
UP = (None, True, "up", "ok", "reachable", "healthy")


def first(data: Input, *keys: str) -> t.Any:
    return next((data[key] for key in keys if key in data), None)


# --- names -------------------------------------------------------------------------------------------------------


def separator(data: Input) -> Answer:
    return {"separator": names.separator(data["text"])}


def _named(name: names.Name) -> Answer:
    answer = {"name": name.name, "length": len(name.name), "error": name.reason, "reason": name.reason}
    # these two ask about the built text, ``valid`` also about the parts that it was built from
    whole = {"valid_service_name": names.is_service_name(name.name), "valid_object_name": names.is_object_name(name.name)}
    return dict(answer, valid=name.valid, **whole)


def mirror(data: Input) -> Answer:
    return _named(names.mirror_name(first(data, "prefix", "service_prefix"), data["namespace"], data["name"]))


def global_(data: Input) -> Answer:
    return _named(names.global_name(data["namespace"], data["name"]))


def global_slice(data: Input) -> Answer:
    return _named(names.global_slice_name(first(data, "slice_name", "name")))


def _rows(data: Input, *keys: str) -> t.List[t.Any]:
    rows = first(data, *keys)
    if rows is None:
        rows = next((value for value in data.values() if isinstance(value, list)), [])
    if isinstance(rows, dict):
        rows = [dict(item, cluster=cluster) for cluster, items in rows.items() for item in items]
    return list(rows)


def _meta(row: t.Any) -> Input:
    return dict(row.get("metadata") or {}, **row) if isinstance(row, dict) else {}


def _service_source(row: t.Any, prefix: t.Optional[str]) -> names.Source:
    if isinstance(row, (list, tuple)):
        return names.Source(*([prefix or names.GLOBAL_PREFIX, *row][-3:]))
    row = _meta(row)
    return names.Source(first(row, "prefix", "service_prefix", "cluster", "remote") or prefix or names.GLOBAL_PREFIX, row["namespace"], row["name"])


def _colliding(named: t.List[t.Tuple[str, t.Any]]) -> Answer:
    found = names.collisions(named)
    groups, kept, conflicts = [], [], []
    for name, sources in found.items():
        keeper = names.keeper(sources, lambda source: False)
        rows = [dict(source._asdict(), cluster=source.prefix) for source in sources]
        groups.append({"name": name, "local_name": name, "members": rows, "sources": rows, "services": rows, "slices": rows,
                       "count": len(rows), "kept": dict(keeper._asdict(), cluster=keeper.prefix)})  # fmt: skip
        kept.append(dict(keeper._asdict(), cluster=keeper.prefix))
        conflicts.extend(
            dict(source._asdict(), cluster=source.prefix, local_name=name, source=str(source)) for source in sources if source != keeper
        )
    return {"collisions": groups, "collision": bool(found), "collide": bool(found), "groups": groups, "names": list(found),
            "kept": kept, "keep": kept, "conflicts": conflicts, "count": len(found)}  # fmt: skip


def collisions(data: Input) -> Answer:
    prefix = first(data, "prefix", "service_prefix")
    rows = [_service_source(row, prefix) for row in _rows(data, "services", "remote_services", "sources", "items")]
    return _colliding([(names.mirror_name(*row).name, row) for row in rows])


def slice_collisions(data: Input) -> Answer:
    rows = []
    for given in _rows(data, "slices", "remote_slices", "sources", "items"):
        row = _meta(given) if isinstance(given, dict) else dict(zip(("cluster", "namespace", "name"), given))
        name = first(row, "name", "slice_name")
        rows.append(names.Source(str(first(row, "cluster", "prefix") or ""), str(row.get("namespace") or ""), name))
    return _colliding([(names.global_slice_name(row.name).name, row) for row in rows])


# --- mirrors -----------------------------------------------------------------------------------------------------


def _reconciled(done: mirror_services.Reconciled, what: str, before: t.Any) -> Answer:
    failed = done.reason if done.action in ("conflict", "config_error") else None
    answer = {
        "action": done.action,
        "changed": done.action in ("create", "update", "recreate", "delete"),
        what: done.result,
        "error": bool(failed),
        "reason": done.reason,
        "skipped_reason": done.reason if done.action == "skip" else None,
        "conflict": done.action == "conflict",
        "before": before,
    }
    return answer


def _key(data: Input, remote: t.Any) -> t.Tuple[str, str]:
    key = data.get("key") or remote["metadata"]
    return key["namespace"], key["name"]


def reconcile_service(data: Input) -> Answer:
    key = _key(data, data.get("remote_service"))
    local = data.get("local_service")
    given = dict(data.get("options") or {}, **data)
    named = [name for name in ("session_affinity", "copy_session_affinity") if name in given]
    options = {"session_affinity": given[named[0]]} if named else {}
    done = mirror_services.reconcile_service(
        data["prefix"], data["mirror_namespace"], key, data.get("remote_service"), local, adopt=True, **options
    )
    return _reconciled(done, "local_service", local)


def reconcile_endpoints(data: Input) -> Answer:
    key = _key(data, data.get("remote_endpoints"))
    local = data.get("local_endpoints")
    done = endpoints.reconcile_endpoints(
        data["prefix"], data["mirror_namespace"], key, data.get("remote_endpoints"), local, adopt=True, fields=endpoints.ALL
    )
    return _reconciled(done, "local_endpoints", local)


def _keys(rows: t.Any) -> t.List[t.Tuple[str, str]]:
    keys = []
    for row in rows or ():
        if isinstance(row, dict):
            row = (_meta(row)["namespace"], _meta(row)["name"])
        elif isinstance(row, str):
            row = row.split("/", 1)
        keys.append((row[0], row[1]))
    return keys


def _labelled(rows: t.Any, namespace: t.Optional[str]) -> t.Dict[str, t.Dict[str, str]]:
    """Local objects by name, those of the mirror namespace only: nothing else is ever listed."""
    found = {}
    for row in rows or ():
        row = _meta(row)
        if namespace is None or row.get("namespace", namespace) == namespace:
            found[row["name"]] = row.get("labels") or {}
    return found


def _known(data: Input, *keys: str) -> bool:
    """False when the vector says that the source, or one of several, could not be listed."""
    if any(data.get(key) == "unknown" for key in keys) or first(data, "remote_api", "api") not in UP:
        return False
    if any(value in ("unknown", "unreachable", "down", False) for key in keys for value in _values(data.get(key))):
        return False
    told = [value for key, value in data.items() if key.endswith(("listed", "list_ok", "complete", "reachable", "list_done"))]
    return not any(value is False for value in told) and not data.get("list_error") and not data.get("list_failed")


def _values(by_cluster: t.Any) -> t.List[t.Any]:
    return [value for value in by_cluster.values() if isinstance(value, (str, bool))] if isinstance(by_cluster, dict) else []


def startup_sync(data: Input) -> Answer:
    known = _known(data, "remote_services")
    sources = _keys(data.get("remote_services")) if known else None
    local = _labelled(data.get("local_services"), data.get("mirror_namespace"))
    sweep = first(data, "service_sync", "serviceSync") is not False
    answer = {"deleted": sweeps.stale_mirrors(data["prefix"], sources, local, sweep)}
    if "local_endpoints" in data:
        if "remote_endpoints" in data:
            sources = _keys(data["remote_endpoints"]) if _known(data, "remote_endpoints") else None
        stale = _labelled(data["local_endpoints"], data.get("mirror_namespace"))
        answer["deleted_endpoints"] = sweeps.stale_mirrors(data["prefix"], sources, stale, sweep)
    return answer


def outage(data: Input) -> Answer:
    prefix = data.get("prefix") or "aws"
    known = _known(data, "remote_services") and "remote_services" in data
    sources = _keys(data.get("remote_services")) if known else None
    local = {}
    for row in data.get("local_mirrors") or ():
        local[row if isinstance(row, str) else _meta(row)["name"]] = mirror_services.mirror_labels(prefix)
    wanted = {names.mirror_name(prefix, *key).name for key in sources or ()}
    missing = sorted(wanted - set(local))
    repaired = sorted(wanted & set(local)) if "edit" in str(data.get("event")) else []
    return {
        "deleted": sweeps.stale_mirrors(prefix, sources, local),
        "created": missing,
        "recreated": missing,
        "updated": repaired,
        "repaired": repaired,
        "crash": False,
        "panic": False,
        # the original's liveness tells that its runners were started, nothing of the remote; so does a run that got here
        "health_http": 200,
    }


def selector_match(data: Input) -> Answer:
    try:
        return {"match": matches(parse_selector(data["selector"]), data.get("labels") or {})}
    except ValueRefused as error:
        return {"match": False, "error": error.word}


# --- global services ---------------------------------------------------------------------------------------------


def _member(step: Input) -> global_services.Member:
    service = {"spec": {"ports": step.get("ports") or [], "clusterIP": step.get("clusterIP")}}
    return global_services.member_of(step["cluster"], service, bool(step.get("routing_label_matches")))


def store(data: Input) -> Answer:
    entries: t.Dict[t.Tuple[str, str], global_services.Entry] = {}
    errors: t.List[Answer] = []
    warnings: t.List[Answer] = []
    for index, step in enumerate(data.get("steps") or ()):
        key = (step["namespace"], step["name"])
        entry = entries.setdefault(key, global_services.Entry(*key))
        if step["op"] == "delete":
            entry.remove(step["cluster"])
            continue
        word = entry.upsert(_member(step))
        if word:
            errors.append({"step": index, "code": word})
        elif getattr(entry.current(), "ports_differ", None):
            warnings.append({"code": "ports_conflict", "cluster": step["cluster"], "step": index})
    services = []
    for key in sorted(entries):
        found = entries[key].current()
        if found is None:
            continue
        for cluster in found.ports_differ:
            warnings.append({"code": "ports_conflict", "cluster": cluster})
        name = names.global_name(*key).name
        services.append({"name": name, "clusters": found.clusters, "annotations": global_services.annotations_of(found),
                         "labels": global_services.global_labels(), "headless": found.headless, "ports": found.ports})  # fmt: skip
    return {"services": services, "errors": errors, "warnings": warnings}


def reconcile_sequence(data: Input) -> Answer:
    selector = first(data, "routing_strategy_selector", "routing_selector")
    routing = parse_selector(selector) if selector else None
    entries: t.Dict[t.Tuple[str, str], global_services.Entry] = {}
    locals_: t.Dict[t.Tuple[str, str], t.Any] = {}
    after = []
    for event in data.get("events") or ():
        key = (event["namespace"], event["name"])
        if key not in entries:
            entries[key] = global_services.Entry(*key)
            existing = data.get("existing_local") or {}
            if existing and existing["metadata"]["name"] == names.global_name(*key).name:
                locals_[key] = {name: existing[name] for name in existing if name != "store"}
            store = existing.get("store") or data.get("store") or {}
            for cluster in store.get("clusters") or ():
                notes = store.get("annotations") or (existing.get("metadata") or {}).get("annotations") or {}
                member = global_services.member_of(cluster, existing, global_services.HINTS in notes)
                member = member._replace(headless=bool(store.get("headless", member.headless)), ports=store.get("ports") or member.ports)
                entries[key].upsert(member)
        if any(event.get(name) for name in ("local_missing", "local_deleted", "local_service_missing")):
            locals_[key] = None
        entry, word = entries[key], None
        remote = event.get("remote_service")
        if remote is None:
            entry.remove(event["cluster"])
        else:
            opted_in = routing is not None and matches(routing, mirror_services.labels_of(remote))
            word = entry.upsert(global_services.member_of(event["cluster"], remote, opted_in))
        done = global_services.reconcile_global(entry.current(), data["mirror_namespace"], locals_.get(key), adopt=True)
        locals_[key] = done.result
        after.append({"local_service": done.result, "action": done.action, "error": word or False, "code": word})
    return {"after": after, "errors": [{"step": i, "code": row["code"]} for i, row in enumerate(after) if row["code"]]}


def _reconcile_slice(data: Input, remote: t.Any, local: t.Any) -> mirror_services.Reconciled:
    zones = data.get("zones") or list(mirror_config.DEFAULT_ZONES)
    return global_slices.reconcile_slice(
        remote, local, data["cluster"], bool(data.get("is_local_cluster")), zones, data.get("service_opted_in") is not False,
        data["mirror_namespace"], fields=endpoints.ALL, adopt=True,
    )  # fmt: skip


def reconcile_slice(data: Input) -> Answer:
    local = data.get("local_slice")
    done = _reconcile_slice(data, data.get("remote_slice"), local)
    answer = _reconciled(done, "local_slice", local)
    if done.reason == "missing_service_name_label":
        answer.update(action="error", error=done.reason, code=done.reason)
    return answer


def reconcile_slice_batch(data: Input) -> Answer:
    found = [_reconcile_slice(data, remote, None) for remote in data.get("slices") or ()]
    made = {done.result["metadata"]["name"]: done.result for done in found if done.result}
    return {
        "local_labels": {name: obj["metadata"]["labels"] for name, obj in made.items()},
        "local_slices": [made[name] for name in made],
        "errors": [{"index": i, "step": i, "code": done.reason, "error": done.reason} for i, done in enumerate(found) if done.reason],
    }


def startup_sync_services(data: Input) -> Answer:
    rows = first(data, "seen", "remote_services", "sources")
    if _known(data, "seen", "remote_services", "sources"):
        if isinstance(rows, dict):  # by cluster
            rows = [row for listed in rows.values() for row in listed or ()]
        rows = [tuple(row.split("/", 1)) if isinstance(row, str) and "/" in row else row for row in rows or ()]
        sources = [tuple(row) if isinstance(row, (list, tuple)) else row for row in rows or ()]
        keys = {row for row in sources if isinstance(row, str)}
        local = _labelled(data.get("local_global_services"), None)
        if keys:  # given by their local names
            local = {name: labels for name, labels in local.items() if name not in keys}
            sources = [row for row in sources if not isinstance(row, str)]
        return {"deleted": sweeps.stale_global_services(_keys(sources), local)}
    return {"deleted": []}


def startup_sync_slices(data: Input) -> Answer:
    known = _known(data, "remote_slices")
    rows = [row if isinstance(row, str) else _meta(row)["name"] for row in (data.get("remote_slices") or ())] if known else None
    local = _labelled(data.get("local_slices"), data.get("mirror_namespace"))
    return {"deleted": sweeps.stale_slices(data["cluster"], rows, local, data.get("endpoint_slice_sync") is not False)}


def headless_mismatch_endpoints(data: Input) -> Answer:
    members, slices = [], {}
    for row in _rows(data, "clusters", "members", "services", "steps", "states"):
        headless = row.get("headless")
        row = dict(row, clusterIP="None" if headless else first(row, "clusterIP", "cluster_ip"), cluster=first(row, "cluster", "name"))
        members.append(_member(row))
        slices[row["cluster"]] = list(first(row, "slices", "endpoints", "remote_slices") or ())
    local = first(data, "local", "local_cluster") or ""
    found = global_services.aggregate("ns", "name", global_services.precedence(members, local))
    kept = found.clusters if found else []
    attached = [item for cluster in kept for item in slices.get(cluster) or ()]
    held = found.held_back if found else []
    copies = [names.global_slice_name(item).name for item in attached if isinstance(item, str)]
    return {"attached": attached, "attached_slices": attached, "slices": attached, "endpoints": attached, "local_slices": copies,
            "attached_clusters": kept, "clusters": kept, "held_back": held, "rejected": held,
            "errors": [{"cluster": name, "code": "headless_mismatch"} for name in held]}  # fmt: skip


HANDLERS: t.Dict[str, t.Dict[str, t.Callable[[Input], Answer]]] = {
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
