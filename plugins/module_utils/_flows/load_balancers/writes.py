# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that others also write (Services, MetalLB's): only the differing fields are sent, on condition of what was read (ccm 9.3).

And the record of addresses as it is kept in a cluster. Two programs write it, each its own entries, and neither waits for the other: the pass over
Services holds a lease for as long as a provider takes to answer, and the control plane's address must be able to move meanwhile. So there are two
leases, and the record itself is written under its version: what somebody else changed in the meantime is read and kept.
"""

from __future__ import annotations

import contextlib
import itertools
import typing as t

from ..._kubernetes.client import Client, Resource, segment
from ..._kubernetes.errors import Conflict, KubeError, NotFound
from ..._kubernetes.objects import send_all
from ..._loadbalancers.bgp.remembered import REMEMBERED
from ..._loadbalancers.ledger import NAMESPACE, Ledger, manifest, merged, parse_ledger
from ..._loadbalancers.reservations import Reservation
from ..._loadbalancers.service_plan import CLEAR_ADDRESS, LET_GO, REPORT, SET_ADDRESS, Action
from ..._loadbalancers.services import FINALIZER
from ..._loadbalancers.settings import KUBE_VIP, METALLB
from ..._loadbalancers.setup import Setup
from ..._plan.objects import redacted
from ..._plan.plan import CREATE, DELETE, UPDATE, Change, Refusal, is_pending
from ..._plan.sole_owner import Path, transferred, writers_of
from ..._values.keys import fingerprint

CONFIGMAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
TRIES = 5


def read_ledger(client: Client, name: str) -> tuple[Ledger, dict[str, t.Any] | None]:
    """The record, and the object in which it is. Raises KubeErrors, and ValueRefused ``config_parse`` for a damaged one."""
    rows = client.list(CONFIGMAPS, field_selector="metadata.name=" + name).items
    actual = rows[0] if rows else None
    return parse_ledger((actual or {}).get("data")), actual


def notes_of(actual: t.Mapping[str, t.Any] | None) -> dict[str, str | None]:
    """What we keep in annotations of the record."""
    found = ((actual or {}).get("metadata") or {}).get("annotations") or {}
    return {REMEMBERED: found.get(REMEMBERED)}


def keep_ledger(
    client: Client,
    name: str,
    before: Ledger,
    ledger: Ledger,
    actual: dict[str, t.Any] | None,
    manager: str,
    check: t.Callable[[], None] = lambda: None,
    notes: t.Mapping[str, str | None] | None = None,
) -> dict[str, t.Any] | None:
    """Write what became of ``before``; ``ledger`` is then what is stored there. Raises KubeErrors, ValueRefused ``claimed_twice conflict``.

    ``notes``: annotations that go with it, None to remove one.
    """
    for attempt in range(TRIES):
        check()
        try:
            return _write(client, name, ledger, actual, manager, notes or {})
        except (Conflict, NotFound):
            if attempt == TRIES - 1:
                raise
        theirs, actual = read_ledger(client, name)
        together = merged(before, ledger, theirs)
        before = theirs
        ledger.clear()
        ledger.update(together)
    return None


def _write(
    client: Client,
    name: str,
    ledger: Ledger,
    actual: dict[str, t.Any] | None,
    manager: str,
    notes: t.Mapping[str, str | None],
) -> dict[str, t.Any] | None:
    path = f"{CONFIGMAPS}/{name}"
    if actual is None:
        made = manifest(name, ledger)
        made["metadata"]["annotations"] = {key: text for key, text in notes.items() if text is not None}
        return client.create(CONFIGMAPS, made, manager) if ledger else None
    meta = actual["metadata"]
    if not ledger:
        with contextlib.suppress(NotFound):  # nothing is left of it, as desired
            client.request_deletion(path, meta.get("uid"), meta["resourceVersion"])
        return None
    data: dict[str, t.Any] = dict.fromkeys(actual.get("data") or {})
    data.update(manifest(name, ledger)["data"])
    noted = {"annotations": dict(notes)} if notes else {}
    return client.merge_patch(
        path, {"metadata": {"resourceVersion": meta["resourceVersion"], **noted}, "data": data}, manager
    )


Object = t.Mapping[str, t.Any]


class Put(t.NamedTuple):
    """One write. ``body``: the object to make, the merge patch, or None to delete; ``stage``: lower ones are done first.

    ``again`` is asked, with the object as it is now, after a conflict: it gives a fresh patch, or None to give up.
    """

    change: Change
    path: str
    body: dict[str, t.Any] | None
    uid: str = ""
    stage: int = 0
    again: t.Callable[[Object], dict[str, t.Any] | None] | None = None
    parent: str = ""


class Written(t.NamedTuple):
    changes: list[Change]
    refused: list[Refusal]
    failed: list[KubeError]


def merge_patch(before: t.Any, after: t.Any) -> dict[str, t.Any]:
    """The RFC 7386 patch between two mappings; lists are replaced whole."""
    patch: dict[str, t.Any] = {}
    for key in sorted(set(before) | set(after)):
        if key not in after:
            patch[key] = None
        elif key not in before:
            patch[key] = after[key]
        elif isinstance(before[key], dict) and isinstance(after[key], dict):
            inner = merge_patch(before[key], after[key])
            if inner:
                patch[key] = inner
        elif before[key] != after[key]:
            patch[key] = after[key]
    return patch


def record_taken(
    kind: str,
    ident: str,
    path: str,
    obj: Object,
    theirs: t.Callable[[Object], bool],
    within: t.Callable[[Path], bool],
    manager: str,
) -> list[Put]:
    """The write after which ``manager`` is on record for fields that others wrote, equal values too; none where nothing is due.

    ``theirs``: whether an entry of the record is of those others; ``within``: whether a field, as its path in a fieldsV1 tree, is taken.
    """

    def patch(now: Object) -> dict[str, t.Any]:
        record = transferred(now, theirs, manager, within=within)
        return (
            {"metadata": {"resourceVersion": now["metadata"].get("resourceVersion"), "managedFields": record}}
            if record is not None
            else {}
        )

    body = patch(obj)
    change = Change(UPDATE, kind, ident, {"owner": ", ".join(writers_of(obj, theirs, within))}, {"owner": manager})
    return [Put(change, path, body, stage=2, again=patch)] if body else []


def difference(
    cluster: str,
    resource: Resource,
    namespace: str,
    name: str,
    before: Object | None,
    after: Object | None,
    stage: int = 0,
) -> Put | None:
    """The write that makes one object of the other, None when they are the same. Values of Secrets are not shown."""
    ident = f"{cluster}/{namespace}/{name}"
    shown = [redacted(obj, fingerprint) if obj is not None else None for obj in (before, after)]
    if before is None and after is not None:
        return Put(
            Change(CREATE, resource.kind, ident, None, shown[1]),
            resource.path(namespace, name),
            dict(after),
            "",
            stage,
            parent=resource.path(namespace),
        )
    if before is None:
        return None
    meta = before.get("metadata") or {}
    if after is None:
        return Put(
            Change(DELETE, resource.kind, ident, shown[0], None),
            resource.path(namespace, name),
            None,
            str(meta.get("uid") or ""),
            stage,
        )
    patch = merge_patch(before, after)
    if not patch:
        return None
    patch.setdefault("metadata", {})["resourceVersion"] = meta.get("resourceVersion")
    return Put(
        Change(UPDATE, resource.kind, ident, _part(shown[0], patch), _part(shown[1], patch)),
        resource.path(namespace, name),
        patch,
        "",
        stage,
    )


def _part(shown: t.Any, patch: t.Mapping[str, t.Any]) -> t.Any:
    found = {}
    for key, inner in patch.items():
        if not isinstance(shown, dict) or key not in shown:
            continue
        deeper = isinstance(inner, dict) and isinstance(shown[key], dict)
        value = _part(shown[key], inner) if deeper else shown[key]
        if value != {} or not deeper:
            found[key] = value
    return found


def put_all(
    client: Client,
    puts: t.Sequence[Put],
    manager: str,
    before_each: t.Callable[[], None] = lambda: None,
    leave_conflicts: bool = False,
) -> Written:
    """Who came between makes a write fail, or refused with leave_conflicts.

    Stage after stage, a few at a time. ``before_each`` raises when nothing may be written any more (a lost lease).
    """
    result = Written([], [], [])
    gone: list[KubeError] = []

    def send(put: Put) -> None:
        before_each()
        _put(client, put, manager)

    ordered = sorted(puts, key=lambda put: put.stage)
    for dummy, group in itertools.groupby(ordered, lambda put: put.stage):
        batch = list(group)
        for put, error in zip(batch, send_all(client, batch, lambda put: "write " + put.path, send, gone)):
            if error is None:
                result.changes.append(put.change)
            elif isinstance(error, Conflict) and (put.parent or leave_conflicts):
                label = f"{put.change.kind} {put.change.id}"
                result.refused.append(Refusal(label, "conflict" if put.parent else "kubernetes", error.message))
            else:
                result.failed.append(error)
    return result


def _put(client: Client, put: Put, manager: str) -> None:
    if put.body is None:
        client.delete(put.path, uid=put.uid or None)
    elif put.parent:
        client.create(put.parent, put.body, manager)
    else:
        try:
            client.merge_patch(put.path, put.body, manager)
        except Conflict:
            # once more on what is there now, if what we desired to change is still as we saw it (ccm 13)
            body = (
                put.again(client.get(put.path.rpartition("/status")[0] or put.path)) if put.again is not None else None
            )
            if body is None:
                raise
            client.merge_patch(put.path, body, manager)
        except NotFound:
            if put.again is None:
                raise
            # a Service that has just gone needs no address


class DryRun:
    """How a stage of a reconciler takes effect: here nothing is written. A provider that predicts works in memory, so it may be asked."""

    writes = False

    def put(self, puts: t.Sequence[Put]) -> Written:
        """Writes to objects of the cluster."""
        return Written([put.change for put in puts], [], [])

    def keep_ledger(
        self,
        name: str,
        before: Ledger,
        ledger: Ledger,
        actual: dict[str, t.Any] | None,
        notes: t.Mapping[str, str | None],
    ) -> dict[str, t.Any] | None:
        """Write the record of addresses; the object in which it is then."""
        return dict(actual or {"metadata": {"resourceVersion": ""}})

    def reserve(self, provider: t.Any, request: t.Mapping[str, t.Any], service: str) -> Reservation | None:
        """Order an address; None for one that only the provider can tell."""
        return provider.reserve_address(request, service) if provider.predicts else None

    def release(self, provider: t.Any, ident: str) -> None:
        if provider.predicts:
            provider.release_address(ident)


class CarriedOut(DryRun):
    """Everything is written. ``check`` is called before each write and raises when nothing may be written any more (a lost lease)."""

    writes = True

    def __init__(self, client: Client, manager: str, check: t.Callable[[], None], leave_conflicts: bool) -> None:
        self.client, self.manager, self.check, self.leave_conflicts = client, manager, check, leave_conflicts

    def put(self, puts: t.Sequence[Put]) -> Written:
        return put_all(self.client, puts, self.manager, self.check, self.leave_conflicts)

    def keep_ledger(
        self,
        name: str,
        before: Ledger,
        ledger: Ledger,
        actual: dict[str, t.Any] | None,
        notes: t.Mapping[str, str | None],
    ) -> dict[str, t.Any] | None:
        return keep_ledger(self.client, name, before, ledger, actual, self.manager, self.check, notes)

    def reserve(self, provider: t.Any, request: t.Mapping[str, t.Any], service: str) -> Reservation | None:
        self.check()
        return t.cast(Reservation, provider.reserve_address(request, service))

    def release(self, provider: t.Any, ident: str) -> None:
        self.check()
        provider.release_address(ident)


ANNOTATIONS = {METALLB: "metallb.io/loadBalancerIPs", KUBE_VIP: "kube-vip.io/loadbalancerIPs"}


def path_of(obj: Object) -> str:
    """Where the API server has a Service."""
    meta = obj["metadata"]
    return f"/api/v1/namespaces/{segment(str(meta['namespace']))}/services/{segment(str(meta['name']))}"


def service_puts(setup: Setup, state: t.Any, actions: t.Iterable[Action]) -> list[Put]:
    """One patch for each Service and sub-resource."""
    found = []
    for action in actions:
        obj = state.objects.get(action.service)
        if obj is None or action.action not in (SET_ADDRESS, CLEAR_ADDRESS, REPORT, LET_GO):
            continue
        ident = f"{setup.cluster}/{action.service}"
        path = path_of(obj)
        if is_pending(action.address):
            if action.action == SET_ADDRESS:
                found.append(
                    Put(Change("update", "Service", ident, {"address": ""}, {"address": str(action.address)}), path, {})
                )
            continue
        if action.action == LET_GO:
            found.append(let_go(obj, ident, path))
            continue
        if action.action == REPORT:
            found.append(_report(obj, ident, path, str(action.address)))
            continue
        put = _address(setup, obj, ident, path, str(action.address) if action.action == SET_ADDRESS else "")
        if put.change.before != put.change.after:
            found.append(put)
        if (
            action.action == CLEAR_ADDRESS
            and setup.balancer.type not in ANNOTATIONS
            and (obj.get("status") or {}).get("loadBalancer")
        ):
            change = Change(
                "update",
                "Service status",
                ident,
                {"ingress": obj["status"]["loadBalancer"].get("ingress")},
                {"ingress": []},
            )
            found.append(
                Put(
                    change,
                    path + "/status",
                    {"status": {"loadBalancer": {"ingress": None}}},
                    stage=1,
                    again=lambda now: None,
                )
            )
    return found


def _report(obj: Object, ident: str, path: str, address: str) -> Put:
    after = [{"ip": one} for one in address.split(",")]
    before = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    body = {"status": {"loadBalancer": {"ingress": after}}}
    change = Change("update", "Service status", ident, {"ingress": before}, {"ingress": after})
    return Put(change, path + "/status", body, stage=1, again=lambda now: body)


def let_go(obj: Object, ident: str, path: str) -> Put:
    """The write that takes a cloud controller's finalizer from a Service that has it."""

    def patch(now: Object) -> dict[str, t.Any] | None:
        meta = now["metadata"]
        rest = [name for name in meta.get("finalizers") or () if name != FINALIZER]
        same = meta.get("uid") == obj["metadata"].get("uid") and FINALIZER in (meta.get("finalizers") or ())
        return {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": rest or None}} if same else None

    change = Change("update", "Service", ident, {"finalizers": [FINALIZER]}, {"finalizers": []})
    return Put(change, path, patch(obj), stage=2, again=patch)


def _address(setup: Setup, obj: Object, ident: str, path: str, address: str) -> Put:
    """The write of a Service's address, or of both with a comma between: those are in the annotation, which the field alongside it would contradict."""
    known = ANNOTATIONS.get(setup.balancer.type, "")
    annotation = known if setup.in_annotation or "," in address or known and _in_annotation(obj, known) else ""
    if "," in address and not annotation:
        address = address.partition(",")[0]
    before = _held(obj, annotation)
    field = str((obj.get("spec") or {}).get("loadBalancerIP") or "")

    def patch(version: str) -> dict[str, t.Any]:
        meta: dict[str, t.Any] = {"resourceVersion": version}
        if annotation:
            meta["annotations"] = {annotation: address or None}
            moved = bool(field) and field in address.split(",")
            return dict({"metadata": meta}, **({"spec": {"loadBalancerIP": None}} if moved else {}))
        return {"metadata": meta, "spec": {"loadBalancerIP": address or None}}

    def again(now: Object) -> dict[str, t.Any] | None:
        same = now["metadata"].get("uid") == obj["metadata"].get("uid") and _held(now, annotation) == before
        same = same and (now.get("spec") or {}).get("type") == (obj.get("spec") or {}).get("type")
        return patch(now["metadata"]["resourceVersion"]) if same else None

    change = Change(
        "update", "Service", ident, {"address": before or field if annotation else before}, {"address": address}
    )
    return Put(change, path, patch(obj["metadata"]["resourceVersion"]), again=again)


def _in_annotation(obj: Object, annotation: str) -> bool:
    """Whether the address is there and not in the field."""
    return bool(_held(obj, annotation)) and not (obj.get("spec") or {}).get("loadBalancerIP")


def _held(obj: Object, annotation: str) -> str:
    if annotation:
        return str((obj["metadata"].get("annotations") or {}).get(annotation) or "")
    return str((obj.get("spec") or {}).get("loadBalancerIP") or "")
