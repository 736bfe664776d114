# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What somebody else changed in the node pods: a DaemonSet's template, or a pod, compared with what the role writes. Pure (threat T50).

Whatever could run another program in the pod, or give another one a look into it, is a difference. What only decides where and when a pod
runs (tolerations, priority, resources, pull secrets) is none, since admission of a cluster may set it.
"""

from __future__ import annotations

import typing as t

from .._values.refused import quoted
from .node_pod_manifests import CONTAINER, node_pod_manifests

#: Reason of a refusal.
EDITED = "node_pod_edited"

# Fields that the role leaves out, and with which more runs than the role asks for, or elsewhere.
_POD_FIELDS = (
    "initContainers",
    "ephemeralContainers",
    "shareProcessNamespace",
    "hostIPC",
    "runtimeClassName",
    "resourceClaims",
)
_CONTAINER_FIELDS = (
    "args",
    "envFrom",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "restartPolicy",
    "volumeDevices",
    "workingDir",
    "stdin",
    "tty",
)


def edit_of(spec: t.Any, fabric: str, image: str = "") -> str:
    """The first thing in a pod's spec that the role has not written, as text for a message; empty where there is none.

    image: the one that the inventory names; empty to accept any.
    """
    if not isinstance(spec, dict):
        return "it has no spec"
    desired = node_pod_manifests(fabric, image or "any")[-1]["spec"]["template"]["spec"]
    for name in _POD_FIELDS:
        if spec.get(name) not in (None, [], {}, False):
            return f"{name} {_names(spec[name])}".strip()
    for name in ("hostNetwork", "hostPID", "automountServiceAccountToken"):
        if spec.get(name) is not desired[name]:
            return f"{name} is not {'true' if desired[name] else 'false'}"
    return (
        _of_names("container", spec.get("containers"), [CONTAINER])
        or _of_container(spec["containers"][0], desired["containers"][0], bool(image))
        or _of_rows("volume", spec.get("volumes"), desired["volumes"])
    )


def _of_container(found: t.Mapping[str, t.Any], desired: t.Mapping[str, t.Any], compare_image: bool) -> str:
    for name in _CONTAINER_FIELDS:
        if found.get(name) not in (None, [], {}, False, ""):
            return f"{name} of the container"
    for name in ("command", "securityContext"):
        if found.get(name) != desired[name]:
            return f"{name} of the container"
    if compare_image and found.get("image") != desired["image"]:
        return f"the image {quoted(found.get('image'))} instead of {quoted(desired['image'])} (node_access_image)"
    return _of_rows("variable", found.get("env"), desired["env"]) or _of_rows(
        "mount", found.get("volumeMounts"), desired["volumeMounts"]
    )


def _of_names(what: str, found: t.Any, desired: t.Sequence[str]) -> str:
    """That a list of maps has exactly these names, each once."""
    rows = found if isinstance(found, list) else []
    names = [row.get("name") if isinstance(row, dict) else None for row in rows]
    for name in names:
        if name not in desired or names.count(name) > 1:
            return f"{what} {quoted(name)}"
    missing = sorted(set(desired) - set(names))
    return f"no {what} {quoted(missing[0])}" if missing else ""


def _of_rows(what: str, found: t.Any, desired: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """That a list has these rows by their names, and each has the same content."""
    wrong = _of_names(what, found, [row["name"] for row in desired])
    if wrong:
        return wrong
    by_name = {row["name"]: _plain(row) for row in found}
    for row in desired:
        if by_name[row["name"]] != _plain(row):
            return f"{what} {quoted(row['name'])}"
    return ""


def _plain(row: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Without what a server fills in: the version of a reference to a field, and what is empty."""
    found = {}
    for name, value in row.items():
        if isinstance(value, dict):
            value = _plain(value)
        if value not in (None, "", [], {}, False) and (name, value) != ("apiVersion", "v1"):
            found[name] = value
    return found


def _names(value: t.Any) -> str:
    """The names of a list's maps."""
    rows = value if isinstance(value, list) else []
    return ", ".join(quoted(row.get("name")) for row in rows[:3] if isinstance(row, dict))


def template_spec(obj: t.Any) -> t.Any:
    """The spec of a DaemonSet's pods; None where there is none, since others may have sent anything."""
    for name in ("spec", "template", "spec"):
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def writers(obj: t.Mapping[str, t.Any], manager: str) -> list[str]:
    """Who else than ``manager`` is on record for a part of the object's spec, sorted."""
    entries = (obj.get("metadata") or {}).get("managedFields")
    found = {
        str(entry.get("manager"))
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict)
        and entry.get("manager") != manager
        and not entry.get("subresource")
        and isinstance(entry.get("fieldsV1"), dict)
        and "f:spec" in entry["fieldsV1"]
    }
    return sorted(found)
