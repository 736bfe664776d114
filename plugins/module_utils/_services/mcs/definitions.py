# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The definitions of ServiceExport and ServiceImport, for clusters that have none (mcs 1). Pure.

The fields are those of release v0.5.0 of kubernetes-sigs/mcs-api, without its texts, and ``status.endpointSliceObjects``, which KEP-1645 has since
2026; both versions have the same.
"""

from __future__ import annotations

import typing as t

from ..._values.text import lower
from .names import EXPORT, GROUP, IMPORT, VERSIONS

Data = dict[str, t.Any]
#: The release that has these fields; by the labels, others know which release is installed.
RELEASE = "v0.5.0"
LABELS = {GROUP + "/release-version": RELEASE, GROUP + "/crd-schema-revision": "0"}
_TEXT: Data = {"type": "string"}
_NUMBER: Data = {"type": "integer", "format": "int32"}
_REASON = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
_TYPE = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)


def _object(properties: Data, required: t.Sequence[str] = ()) -> Data:
    made: Data = {"type": "object", "properties": properties}
    return dict(made, required=list(required)) if required else made


def _list(items: Data, key: str = "", most: int = 0) -> Data:
    made: Data = {"type": "array", "items": items}
    if key:
        made.update({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]})
    return dict(made, maxItems=most) if most else made


def _texts() -> Data:
    return {"type": "object", "additionalProperties": dict(_TEXT)}


def _conditions() -> Data:
    condition = {
        "lastTransitionTime": dict(_TEXT, format="date-time"),
        "message": dict(_TEXT, maxLength=32768),
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        "reason": dict(_TEXT, maxLength=1024, minLength=1, pattern=_REASON),
        "status": dict(_TEXT, enum=["True", "False", "Unknown"]),
        "type": dict(_TEXT, maxLength=316, pattern=_TYPE),
    }
    return _list(_object(condition, ("lastTransitionTime", "message", "reason", "status", "type")), "type")


def _export() -> Data:
    spec = _object({"exportedAnnotations": _texts(), "exportedLabels": _texts()})
    return {"spec": spec, "status": _object({"conditions": _conditions()})}


def _import() -> Data:
    port = {"appProtocol": dict(_TEXT), "name": dict(_TEXT), "port": dict(_NUMBER), "protocol": dict(_TEXT)}
    ports = dict(_list(_object(port, ("port",))), **{"x-kubernetes-list-type": "atomic"})
    affinity = _object({"clientIP": _object({"timeoutSeconds": dict(_NUMBER)})})
    spec = {
        "internalTrafficPolicy": dict(_TEXT),
        "ipFamilies": _list(dict(_TEXT), most=2),
        "ips": _list(dict(_TEXT), most=2),
        "ports": ports,
        "sessionAffinity": dict(_TEXT),
        "sessionAffinityConfig": affinity,
        "trafficDistribution": dict(_TEXT),
        "type": dict(_TEXT, enum=["ClusterSetIP", "Headless"]),
    }
    clusters = _list(_object({"cluster": dict(_TEXT)}, ("cluster",)), "cluster")
    return {
        "spec": _object(spec, ("ports", "type")),
        "status": _object(
            {
                "clusters": clusters,
                "conditions": _conditions(),
                "endpointSliceObjects": dict(_TEXT, enum=["Present", "Absent"]),
            }
        ),
    }


_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
_COLUMNS = [
    {"name": "Type", "type": "string", "description": "The type of this ServiceImport", "jsonPath": ".spec.type"},
    {"name": "IP", "type": "string", "description": "The VIP for this ServiceImport", "jsonPath": ".spec.ips"},
]


def _definition(kind: str, short: t.Sequence[str], fields: t.Callable[[], Data], columns: t.Sequence[Data]) -> Data:
    singular = lower(kind)
    versions = []
    for api_version in reversed(VERSIONS):
        schema = _object(dict(fields(), apiVersion=dict(_TEXT), kind=dict(_TEXT), metadata={"type": "object"}))
        versions.append(
            {
                "name": api_version.rpartition("/")[2],
                "served": True,
                "storage": api_version == VERSIONS[0],
                "subresources": {"status": {}},
                "additionalPrinterColumns": [*columns, _AGE],
                "schema": {"openAPIV3Schema": schema},
            }
        )
    names = {
        "kind": kind,
        "listKind": kind + "List",
        "plural": singular + "s",
        "singular": singular,
        "shortNames": list(short),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{GROUP}", "labels": dict(LABELS)},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions},
    }


def definitions() -> list[Data]:
    """Both manifests."""
    return [
        _definition(EXPORT, ("svcex", "svcexport"), _export, ()),
        _definition(IMPORT, ("svcim", "svcimport"), _import, _COLUMNS),
    ]
