# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Mirror Services: what of a remote Service becomes the local one, and what happens to one that exists (semaphore 4.3)."""

from __future__ import annotations

import typing as t

from .._plan.objects import differences
from .._values.refused import ValueRefused
from .names import mirror_name

Object = t.Mapping[str, t.Any]
Manifest = t.Dict[str, t.Any]

MIRRORED, PREFIX_LABEL = "mirrored-svc", "mirror-svc-prefix-sync"
#: All that is copied of a port: a nodePort belongs to the source cluster.
_PORT_FIELDS = ("name", "protocol", "appProtocol", "port", "targetPort")


class Reconciled(t.NamedTuple):
    """``action``: create, update, recreate, delete, skip, conflict or none; ``result``: the local object after it."""

    action: str
    result: t.Optional[Manifest]
    reason: t.Optional[str] = None


def mirror_labels(prefix: str) -> t.Dict[str, str]:
    """The labels by which a mirror is known."""
    return {MIRRORED: "true", PREFIX_LABEL: prefix}


def labels_of(obj: t.Optional[Object]) -> t.Dict[str, str]:
    """Labels of an object that anybody may have written."""
    try:
        labels = obj["metadata"]["labels"]  # type: ignore[index]
    except (KeyError, TypeError):
        return {}
    if not isinstance(labels, dict):
        return {}
    for value in labels.values():
        if not isinstance(value, str):
            return {key: value for key, value in labels.items() if isinstance(value, str)}
    return labels


def is_mirror(labels: t.Mapping[str, str], prefix: t.Optional[str] = None) -> bool:
    """True when the labels are those of a mirror (of this prefix)."""
    return labels.get(MIRRORED) == "true" and (labels.get(PREFIX_LABEL) == prefix if prefix else PREFIX_LABEL in labels)


def is_headless(service: Object) -> bool:
    """True for a Service without an address of its own."""
    return _spec(service).get("clusterIP") == "None"


def _spec(obj: Object) -> t.Mapping[str, t.Any]:
    spec = obj.get("spec")
    return spec if isinstance(spec, dict) else {}


def copied_ports(service: Object) -> t.List[Manifest]:
    """The ports of a Service without what belongs to its own cluster."""
    ports = _spec(service).get("ports") or []
    return [{field: port[field] for field in _PORT_FIELDS if port.get(field) is not None} for port in ports]


def mirror_service(
    prefix: str, namespace: str, remote: Object, session_affinity: bool = True
) -> Manifest:
    """The local Service of a remote one. Raises ValueRefused unsupported_type, name_too_long, name_invalid.

    Nothing is copied but ports, headlessness and (unless switched off) session affinity: other fields steer traffic or
    controllers of the cluster that they land in.
    """
    spec = _spec(remote)
    meta = remote["metadata"]
    if spec.get("type") == "ExternalName" or spec.get("externalName"):
        raise ValueRefused("unsupported_type", "a Service of type ExternalName has no endpoints to mirror")
    name = mirror_name(prefix, meta["namespace"], meta["name"]).checked()
    return service_manifest(name, namespace, mirror_labels(prefix), service_spec(remote, session_affinity))


def service_spec(remote: Object, session_affinity: bool = True) -> Manifest:
    """The copied part of a Service's specification."""
    spec = _spec(remote)
    wanted: Manifest = {"ports": copied_ports(remote)}
    if is_headless(remote):
        wanted["clusterIP"] = "None"
    if session_affinity and spec.get("sessionAffinity") == "ClientIP":
        wanted["sessionAffinity"] = "ClientIP"
        seconds = spec.get("sessionAffinityConfig")
        if isinstance(seconds, dict):
            wanted["sessionAffinityConfig"] = seconds
    return wanted


def _sticky(service: Object) -> bool:
    return _spec(service).get("sessionAffinity") == "ClientIP"


def service_manifest(
    name: str, namespace: str, labels: t.Dict[str, str], spec: Manifest, annotations: t.Optional[t.Dict[str, str]] = None
) -> Manifest:
    """A Service with these contents."""
    meta: Manifest = {"name": name, "namespace": namespace, "labels": labels}
    if annotations:
        meta["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def must_recreate(wanted: Object, actual: Object) -> bool:
    """True when a Service has to be made anew.

    It cannot become headless, or stop being so, in place. And applying does not take away what others added: with a
    selector, Kubernetes would replace our endpoints by local ones.
    """
    return is_headless(wanted) != is_headless(actual) or bool(_spec(actual).get("selector"))


def may_adopt(actual: Object, labels: t.Mapping[str, str]) -> bool:
    """True for a Service that the original program may have made (adoption is still asked for).

    Its labels say so; or it has a mirror's name, no selector and no labels at all, as after somebody took them off. With
    a selector or labels of its own it is somebody's Service, which no option takes over.
    """
    found = labels_of(actual)
    if all(found.get(key) == value for key, value in labels.items()):
        return True
    return not found and not _spec(actual).get("selector")


def reconcile_service(
    prefix: str,
    namespace: str,
    key: t.Tuple[str, str],
    remote: t.Optional[Object],
    local: t.Optional[Object],
    adopt: bool = False,
    session_affinity: bool = True,
) -> Reconciled:
    """What happens to one mirror; ``key`` is the (namespace, name) of the remote Service, which may be None: gone.

    Here a local object is ours by its labels, or by may_adopt with ``adopt``; the module knows its own by their field
    manager before it comes to that.
    """
    labels = mirror_labels(prefix)
    ours = local is not None and (is_mirror(labels_of(local), prefix) or (adopt and may_adopt(local, labels)))
    if remote is None:
        if local is None:
            return Reconciled("none", None)
        return Reconciled("delete", None) if ours else Reconciled("none", dict(local), "not_ours")
    try:
        remote = dict(remote, metadata=dict(remote["metadata"], namespace=key[0], name=key[1]))
        wanted = mirror_service(prefix, namespace, remote, session_affinity)
    except ValueRefused as error:
        return Reconciled("skip", dict(local) if local is not None else None, error.word)
    return reconcile_to(wanted, local, ours)


def reconcile_to(wanted: Manifest, local: t.Optional[Object], ours: bool) -> Reconciled:
    """A wanted Service against the local one. What the manifest does not speak of stays as it was found."""
    if local is None:
        return Reconciled("create", wanted)
    same = not must_recreate(wanted, local) and not differences(wanted["spec"], _spec(local))
    same = same and _sticky(local) == _sticky(wanted)
    annotations = wanted["metadata"].get("annotations")
    if same and (annotations is None or annotations == (local["metadata"].get("annotations") or {})):
        return Reconciled("none", dict(local))
    if not ours:
        return Reconciled("conflict", dict(local), "not_ours")
    if is_headless(wanted) != is_headless(local):
        return Reconciled("recreate", wanted)
    spec = {field: value for field, value in _spec(local).items() if field not in ("selector", "sessionAffinity", "sessionAffinityConfig")}
    spec.update(wanted["spec"])
    meta = dict(local["metadata"])
    if annotations is not None:
        meta["annotations"] = annotations
    return Reconciled("update", {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})
