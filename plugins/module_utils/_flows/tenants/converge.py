# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mapping of tenants' networks between two API servers: read both once, plan, write, report (8): one change an object, why each waits, what failed."""

from __future__ import annotations

import collections
import threading
import time
import typing as t

from ..._kubernetes.clusters import Clusters, seconds_of
from ..._kubernetes.errors import KubeError
from ..._kubernetes.lease import Lease
from ..._plan.objects import field_manager, stripped
from ..._plan.plan import CREATE, DELETE, SHOWN_CHANGES, UPDATE, Change, Plan
from ..._tenants.claims import apply_claims
from ..._tenants.converge import Done, Outcome, Result, converge, predict
from ..._tenants.options import APINET, KINDS, PROFILES, SOURCE, SWITCHES, Options, parse_options
from ..._values.refused import ValueRefused, quoted
from .store import ApiStore, Writer, gather


def side_spec(source: bool | None = None) -> dict[str, t.Any]:
    """The network side; with ``source`` (required or not) the tenant-facing side as well."""
    found: dict[str, t.Any] = {
        "apinet": {"type": "str", "required": True},
        "apinet_namespace": {"type": "str", "required": True},
        "profile": {"type": "str", "choices": list(PROFILES), "default": "onmetal"},
    }
    if source is not None:
        found["source"] = {"type": "str", "required": True} if source else {"type": "str"}
    return found


def runner_spec() -> dict[str, t.Any]:
    return {
        "fabric": {"type": "str", "required": True},
        "lock_wait": {"type": "float", "default": 30.0},
        "fail_on_failures": {"type": "bool", "default": True},
        "fail_on_refused": {"type": "bool", "default": False},
    }


def mapping_spec() -> dict[str, t.Any]:
    return {
        "watch_namespace": {"type": "str"},
        "watch_filter": {"type": "str"},
        "kinds": {"type": "list", "elements": "str", "choices": sorted(KINDS)},
        "switches": {"type": "list", "elements": "str", "choices": sorted(SWITCHES), "default": []},
        "collect": {"type": "bool", "default": True},
        "min_public_ips": {"type": "int", "default": 1},
        "max_public_ips": {"type": "int", "default": 10},
        "adopt": {"type": "bool", "default": False},
        "use_original_manager": {"type": "bool", "default": False},
        "max_deletes": {"type": "int"},
        "confirm_empty": {"type": "list", "elements": "str", "default": []},
    }


Rows = list[dict[str, t.Any]]


def plan_of(result: Result, names: t.Mapping[str, str]) -> Plan:
    """Writes as changes: those of one object together, in the order of its first. ``names``: side -> cluster."""
    plan = Plan()
    first: dict[t.Any, Done] = {}
    last: dict[t.Any, Done] = {}
    for entry in result.done:
        place = (entry.step.side, _key(entry))
        first.setdefault(place, entry)
        last[place] = entry
    for place, entry in first.items():
        side, key = place
        before, after = entry.before, last[place].after
        if before is None and after is None:
            continue  # made and taken away again
        action = CREATE if before is None else DELETE if after is None else UPDATE
        shown = [None if obj is None else _shown(obj) for obj in (before, after)]
        plan.changes.append(Change(action, key.kind, f"{names[side]}/{key.short}", *shown))
    plan.unchanged = counts(result.outcomes).get("unchanged", 0)
    plan.refused = sorted(set(result.refused))
    return plan


def _key(entry: Done) -> t.Any:
    """The key of a write; a generated name is known only afterwards."""
    if not entry.step.key.name and entry.after is not None:
        return entry.step.key._replace(name=str(entry.after["metadata"].get("name")))
    return entry.step.key


def _shown(obj: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    shown = stripped(obj)
    if obj.get("status"):
        shown["status"] = obj["status"]
    if obj["metadata"].get("deletionTimestamp"):
        shown["metadata"]["deletionTimestamp"] = obj["metadata"]["deletionTimestamp"]
    return shown


def counts(outcomes: t.Sequence[Outcome]) -> dict[str, int]:
    return dict(sorted(collections.Counter(outcome.action for outcome in outcomes).items()))


def object_rows(outcomes: t.Sequence[Outcome]) -> Rows:
    """One row an object: kind, namespace, name, action and reasons."""
    rows = [
        {
            "kind": outcome.key.kind,
            "namespace": outcome.key.namespace,
            "name": outcome.key.name,
            "action": outcome.action,
            "reasons": [condition._asdict() for condition in outcome.reasons],
        }
        for outcome in outcomes
    ]
    return sorted(rows, key=lambda row: (row["kind"], row["namespace"], row["name"]))


def pending_rows(outcomes: t.Sequence[Outcome]) -> Rows:
    """The objects that wait for something, each with its reasons; as many as a result carries."""
    waiting = [outcome for outcome in outcomes if outcome.reasons]
    rows = object_rows(waiting)[:SHOWN_CHANGES]
    for row in rows:
        del row["action"]
    return rows


def add_failures(clusters: Clusters, outcomes: t.Sequence[Outcome], name: str, operation: str = "map") -> None:
    """Objects that failed, as failures of a cluster. A list that could not be read is reported already, once."""
    reported = bool(clusters.failures)
    for outcome in outcomes:
        for reason, message in outcome.failures:
            if not (reported and reason == "source_incomplete"):
                clusters.fail_for(name, f"{operation} {outcome.key.kind} {outcome.key.short}", reason, message)


#: The Lease in the namespace of the twins that every run which writes there holds.
LEASE = "multicluster-network-tenants"


def run(request: t.Mapping[str, t.Any], check: bool = False) -> dict[str, t.Any]:
    """The module's result. ``request`` has the module's options. Raises ValueRefused for options that make no sense."""
    opened = open_run(request)
    clusters, stores, options = opened.clusters, opened.stores, opened.options
    if len(stores) < len(opened.names):
        return report(clusters)
    view = gather(clusters, stores, options)
    if check:
        result = predict(view, now(), apply_claims)
    else:
        lease = lease_of(stores[APINET], options)
        try:
            writer = Writer(stores, options, lease, float(request.get("lock_wait") or 0))
            result = converge(view, now(), writer, apply_claims)
        except KubeError as error:
            clusters.fail(error)
            return report(clusters)
        finally:
            lease.release()
    return report(clusters, mapped(opened, result), result)


def mapped(opened: OpenRun, result: Result) -> Plan:
    """The plan of a mapping's result; what failed is noted."""
    add_failures(opened.clusters, result.outcomes, opened.names[SOURCE])
    plan = plan_of(result, opened.names)
    if not result.settled and result.passes > 1:
        plan.warnings.append(f"after {result.passes} passes there was still something to write; run it again")
    return plan


# -- what the runs of this capability share ---------------------------------------------------------------------------


class OpenRun(t.NamedTuple):
    """What every run begins with. ``names``: side -> cluster; ``stores`` only of sides with usable access."""

    options: Options
    clusters: Clusters
    names: dict[str, str]
    stores: dict[str, ApiStore]


def open_run(request: t.Mapping[str, t.Any], desired: t.Sequence[str] = (SOURCE, APINET)) -> OpenRun:
    """Options and access of a run that needs these sides. Raises ValueRefused."""
    options = read_options(request)
    clusters = Clusters(request["clusters"], seconds_of(request))
    names = sides(request, desired)
    manager = options.profile.field_manager
    stores = {
        side: ApiStore(clusters.clients[name], manager) for side, name in names.items() if name in clusters.clients
    }
    return OpenRun(options, clusters, names, stores)


def read_options(request: t.Mapping[str, t.Any]) -> Options:
    """The mapping's options from a module's. Raises ValueRefused."""
    given = {key: value for key, value in request.items() if key in Options._fields}
    profile = PROFILES.get(given.get("profile") or "onmetal")
    if profile is None:
        raise ValueRefused("unknown_profile", f"profile is none of {', '.join(PROFILES)}")
    if not request.get("use_original_manager"):
        profile = profile._replace(field_manager=field_manager(request["fabric"]))
    leaving = request.get("state") == "absent"
    empty = request.get("source") in (request.get("confirm_empty") or ())
    given.update(profile=profile, confirm_empty=empty or leaving, leaving=leaving)
    if leaving:
        given["max_deletes"] = -1
    return parse_options(given)


def sides(request: t.Mapping[str, t.Any], desired: t.Sequence[str]) -> dict[str, str]:
    """Side -> name of its cluster. Raises ValueRefused for one to which clusters gives no access."""
    known = [str(entry.get("name")) for entry in request["clusters"]]
    found = {}
    for side in desired:
        name = request.get(side)
        if not name:
            continue
        if name not in known:
            text = "tenants_{0} names {1}, to which clusters gives no access; it is one of {2}"
            raise ValueRefused("unknown_cluster", text.format(side, quoted(name), ", ".join(sorted(known)) or "none"))
        found[side] = name
    return found


class TwinsLease(Lease):
    """The lock of the network side, in the namespace of the twins: who has not got that one gets a message with what makes it."""

    def acquire(self, wait: float = 0.0, stop: threading.Event | None = None) -> None:
        try:
            super().acquire(wait, stop)
        except KubeError as error:
            if error.status != 404:
                raise
            text = "the namespace {0} for the network side's objects does not exist; make it, or set tenants_create_namespace: true"
            missing = KubeError(error.cluster, "write to the network side", text.format(self.namespace), error.status)
            missing.reason = "not_found"
            raise missing from None


def lease_of(store: ApiStore, options: Options) -> Lease:
    return TwinsLease(store.client, options.apinet_namespace, LEASE, store.manager)


def now() -> str:
    """RFC 3339, UTC, seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def report_turns(opened: OpenRun, result: Result | None, side: str, operation: str) -> dict[str, t.Any]:
    """The keys of a module's result, with objects that failed as failures of a side. None: nothing was looked at."""
    if result is None:
        return report(opened.clusters)
    add_failures(opened.clusters, result.outcomes, opened.names[side], operation)
    return report(opened.clusters, plan_of(result, opened.names), result)


def report(clusters: Clusters, plan: Plan | None = None, result: Result | None = None) -> dict[str, t.Any]:
    """The keys of a module's result, and ``whole`` for its plan file."""
    plan = Plan() if plan is None else plan
    outcomes = result.outcomes if result is not None else []
    return clusters.result(
        plan,
        objects=counts(outcomes),
        pending=pending_rows(outcomes),
        passes=result.passes if result is not None else 0,
        settled=result is None or result.settled,
        whole=object_rows(outcomes),
    )
