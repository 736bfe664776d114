# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services that come from another controller, and that are left to one: what that wrote on them alongside the address, and what we did.

Addresses themselves are the reconciler's. What a former controller left goes only when it is at work no more: it would write it again, and it shows
people truly who else announces the address.
"""

from __future__ import annotations

import typing as t

from ..._kubernetes import workloads
from ..._kubernetes.client import Client
from ..._kubernetes.errors import KubeError
from ..._loadbalancers.previous import FORMERS, Former, Marks, at_work, former_of, ingress_of, marks_of, without
from ..._loadbalancers.service_plan import LEAVE, Action
from ..._loadbalancers.settings import KUBE_VIP, METALLB
from ..._plan.objects import owners
from ..._plan.plan import Change
from ..._plan.sole_owner import Path
from ..._upstream.programs import EQUINIX
from ..._values.addresses import readable_address
from ..._values.refused import ValueRefused
from ..._values.text import in_short
from .writes import Object, Put, path_of, record_taken

STATUS, FIELD = "status", "field"
#: What the next controller reads: the status alone, the field of the Service, or its own annotation.
ANNOTATION = {
    "metallb": "metallb.io/loadBalancerIPs",
    "kube-vip": "kube-vip.io/loadbalancerIPs",
    "cilium": "lbipam.cilium.io/ips",
}
KEEP = ("", STATUS, FIELD, *ANNOTATION)
_STILL = (
    "{0} is at work ({1}): it announces the addresses of {2} for as long, and they have more than one way to here where our nodes do, too; what it wrote on "
    "Services stays until it is gone"
)
_UNSEEN = "whether {0} is still at work could not be seen ({1}); what it wrote on Services stays; cluster_access with load_balancers_moving grants the look"


class Moved(t.NamedTuple):
    """Rows for the result, what to write, and what the user should know."""

    rows: list[dict[str, t.Any]]
    puts: list[Put]
    notes: list[str]


def take_marks(
    client: Client, cluster: str, objects: t.Mapping[str, Object], taken: t.Collection[str], balancer: str
) -> Moved:
    """Of the Services (``namespace/name``) with addresses that we own: who gave them, and the writes that take what he left.

    Where none has anything of a former controller's nothing is asked. ``balancer``: the back end, which is at work for us and no former one.
    """
    rows, puts, notes = t.cast(list[dict[str, t.Any]], []), t.cast(list[Put], []), t.cast(list[str], [])
    found = [(key, former) for key in sorted(taken) for former in [former_of(objects[key])] if former is not None]
    for former in FORMERS:
        keys = [key for key, other in found if other is former]
        if not keys or former.name == balancer:
            continue
        there, why = _there(client, former)
        if there:
            services = keys[0] if len(keys) == 1 else f"{len(keys)} Services"
            notes.append(_STILL.format(former.title, in_short(there, 3), services))
        for key in keys:
            marks = marks_of(objects[key], former)
            goes = bool(marks.names) and not there and not why
            rows.append({"service": key, "from": former.name, "at_work": there, "left": marks.names, "removed": goes})
            puts += _put(cluster, key, objects[key], marks) if goes else []
        if why and any(row["left"] for row in rows if row["from"] == former.name):
            notes.append(_UNSEEN.format(former.title, why))
    return Moved(rows, puts, notes)


def take_records(cluster: str, objects: t.Mapping[str, Object], taken: t.Collection[str], manager: str) -> list[Put]:
    """The writes after which we are on record for the addresses of these Services (``namespace/name``) that a cloud controller wrote, equal values too.

    What anybody else wrote there stays on record as his: a user's own address is the user's.
    """

    def theirs(entry: Object) -> bool:
        return entry.get("manager") in EQUINIX.images

    def within(leaf: Path) -> bool:
        return leaf == ("f:spec", "f:loadBalancerIP")

    puts: list[Put] = []
    for key in sorted(taken):
        puts += record_taken(
            "Service", f"{cluster}/{key}", path_of(objects[key]), objects[key], theirs, within, manager
        )
    return puts


def _there(client: Client, former: Former) -> tuple[list[str], str]:
    """What of it is at work, and why that cannot be known, or nothing."""
    try:
        versions, kind = former.pools
        resources = [
            resource for resource in (client.resource(version, kind) for version in versions) if resource is not None
        ]
        pools = {
            str(item["metadata"].get("name"))
            for item in (client.list(resources[0].path()).items if resources else ())
            if not (item.get("spec") or {}).get("disabled")
        }
        return at_work(former, workloads.at_work(client) if former.images else (), pools), ""
    except KubeError as error:
        return [], error.message


def _put(cluster: str, key: str, obj: Object, marks: Marks) -> list[Put]:
    meta, status = without(obj, marks)
    ident, found = f"{cluster}/{key}", []

    def again(now: Object, of_status: bool) -> dict[str, t.Any] | None:
        if now["metadata"].get("uid") != obj["metadata"].get("uid"):
            return None
        rest, conditions = without(now, marks)
        return _patch(now, {}, conditions) if of_status else _patch(now, rest, None)

    if meta:
        names = [*marks.annotations, *marks.labels]
        change = Change(
            "update", "Service", ident, {"left by " + marks.former.name: names}, {"left by " + marks.former.name: []}
        )
        found.append(Put(change, path_of(obj), _patch(obj, meta, None), stage=3, again=lambda now: again(now, False)))
    if status:
        change = Change("update", "Service status", ident, {"conditions": list(marks.conditions)}, {"conditions": []})
        found.append(
            Put(change, path_of(obj) + "/status", _patch(obj, {}, status), stage=4, again=lambda now: again(now, True))
        )
    return found


def _patch(obj: Object, meta: t.Mapping[str, t.Any], status: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    """On condition of what was read."""
    body: dict[str, t.Any] = {"metadata": dict(meta, resourceVersion=obj["metadata"]["resourceVersion"])}
    return dict(body, status=dict(status)) if status is not None else body


# -- and back ------------------------------------------------------------------------------------------------------


def check_keep(keep: str, balancer: str) -> None:
    """Raises ValueRefused where what announces takes the address with it."""
    if keep and balancer == METALLB:
        text = (
            "keep_addresses (load_balancers_keep_addresses): MetalLB takes the address from a Service when its pool goes, so it cannot be kept; "
            'write load_balancer: "empty://" into load_balancers_settings first, which moves the Services to our record alone'
        )
        raise ValueRefused("bad_setting", text)
    if keep and keep != "kube-vip" and balancer == KUBE_VIP:
        text = "keep_addresses (load_balancers_keep_addresses): kube-vip announces the address of its annotation; write kube-vip, or empty it"
        raise ValueRefused("bad_setting", text)


def leave_puts(
    cluster: str,
    objects: t.Mapping[str, Object],
    actions: t.Iterable[Action],
    keep: str,
    is_owned: t.Callable[[str], bool],
    owned: t.Mapping[str, t.Collection[str]],
) -> list[Put]:
    """Which owned fields go from Services that keep their addresses, and what asks the next controller for them.

    ``is_owned``: whether a field manager is a fabric's. ``owned``: the annotations that we wrote on each. The status stays as it is.
    """
    found: list[Put] = []
    for action in actions:
        if action.action == LEAVE and action.service in objects:
            found += _left(
                cluster, action.service, objects[action.service], keep, is_owned, owned.get(action.service) or ()
            )
    return found


def _left(
    cluster: str, key: str, obj: Object, keep: str, is_owned: t.Callable[[str], bool], owned: t.Collection[str]
) -> list[Put]:
    ident, addresses = f"{cluster}/{key}", _addresses(obj)
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    field = str((obj.get("spec") or {}).get("loadBalancerIP") or "")
    # what its owner wrote into the field stays, and asks for the address: MetalLB wants the one or the other
    after = "" if any(map(is_owned, owners(obj, "spec", "loadBalancerIP"))) else field
    if keep == FIELD and addresses:
        after = after or addresses[0]
    desired: dict[str, str | None] = dict.fromkeys(owned)
    if keep in ANNOTATION and addresses and not after:
        desired[ANNOTATION[keep]] = ",".join(addresses)
    changed = {name: text for name, text in desired.items() if annotations.get(name) != text}
    found = []

    def patch(now: Object) -> dict[str, t.Any] | None:
        same = (
            now["metadata"].get("uid") == obj["metadata"].get("uid")
            and str((now.get("spec") or {}).get("loadBalancerIP") or "") == field
        )
        meta = {"resourceVersion": now["metadata"]["resourceVersion"], **({"annotations": changed} if changed else {})}
        return (
            dict({"metadata": meta}, **({"spec": {"loadBalancerIP": after or None}} if field != after else {}))
            if same
            else None
        )

    if changed or field != after:
        before = {
            "address": field,
            "annotations": {name: annotations[name] for name in sorted(changed) if name in annotations},
        }
        shown = {
            "address": after,
            "annotations": {name: text for name, text in sorted(changed.items()) if text},
            "status": addresses,
        }
        found.append(
            Put(Change("update", "Service", ident, before, shown), path_of(obj), patch(obj), stage=1, again=patch)
        )

    def forget(now: Object) -> dict[str, t.Any] | None:
        """Nothing shows any more that we own a field of it: our next run would take it as owned."""
        if now["metadata"].get("uid") != obj["metadata"].get("uid"):
            return None
        rest = [row for row in now["metadata"].get("managedFields") or () if not is_owned(str(row.get("manager")))]
        return {"metadata": {"resourceVersion": now["metadata"]["resourceVersion"], "managedFields": rest or [{}]}}

    managers = sorted(
        {
            str(row.get("manager"))
            for row in obj["metadata"].get("managedFields") or ()
            if is_owned(str(row.get("manager")))
        }
    )
    if managers or found:
        change = Change("update", "Service", ident, {"managers": managers}, {"managers": []})
        found.append(Put(change, path_of(obj), forget(obj), stage=5, again=forget))
    return found


def _addresses(obj: Object) -> list[str]:
    texts = [str(row.get("ip")) for row in ingress_of(obj) if isinstance(row, dict) and row.get("ip")]
    return [text for text in texts if readable_address(text) is not None]
