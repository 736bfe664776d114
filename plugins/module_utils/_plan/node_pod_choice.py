# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of the pods that an API server lists is the one of a node. Pure (threat T50)."""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused, quoted
from .node_pod_edits import EDITED, edit_of
from .node_pod_manifests import CONTAINER, LABEL, NodePod
from .objects import inside


def choose_pod(
    items: t.Iterable[t.Mapping[str, t.Any]], fabric: str, node: str, image: str = ""
) -> tuple[NodePod | None, str]:
    """Of what a server lists, the newest pod that runs on the node, or None and why there is none.

    image: the one that the inventory names, or empty. A pod of another image is not taken: the DaemonSet may be about to replace it.
    Raises ValueRefused where the server lists what was not asked for: it may lie, or the selector be lost on the way. So it does for a pod
    that the role has not written as it is, whoever made it.
    """
    found: list[tuple[str, NodePod]] = []
    why = f"there is no pod with the label {LABEL}={fabric} on the node {quoted(node)}"
    for item in items:
        metadata, spec, status = (inside(item, part) for part in ("metadata", "spec", "status"))
        labels = inside(metadata, "labels")
        name, uid = metadata.get("name"), metadata.get("uid")
        if spec.get("nodeName") != node or labels.get(LABEL) != fabric:
            raise ValueRefused(
                "not_the_node",
                f"the server lists the pod {quoted(name)} of the node {quoted(spec.get('nodeName'))} for {quoted(node)}",
            )
        if not isinstance(name, str) or not isinstance(uid, str) or not uid:
            continue
        if metadata.get("deletionTimestamp"):
            why = f"the pod {quoted(name)} is being deleted"
            continue
        edit = edit_of(spec, fabric)
        if edit:
            raise ValueRefused(
                EDITED,
                f"the pod {quoted(name)} is not as the role node_access writes it: {edit}; see who wrote it, delete it and its DaemonSet, and run again",
            )
        edit = edit_of(spec, fabric, image) if image else ""
        if edit:
            why = f"the pod {quoted(name)} has {edit}"
            continue
        state = _not_running(status)
        if state:
            why = f"the pod {quoted(name)} does not run: {state}"
            continue
        found.append((str(metadata.get("creationTimestamp")), NodePod(name, uid, node)))
    return (max(found)[1], "") if found else (None, why)


def _not_running(status: t.Mapping[str, t.Any]) -> str:
    """Why the container of a pod does not run; empty where it does."""
    rows = status.get("containerStatuses")
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("name") == CONTAINER:
            state = row.get("state")
            if isinstance(state, dict) and "running" in state:
                return ""
            for kind in ("waiting", "terminated"):
                detail = state.get(kind) if isinstance(state, dict) else None
                if isinstance(detail, dict):
                    return quoted(f"{detail.get('reason') or kind} {detail.get('message') or ''}".strip())
    return quoted(status.get("reason") or status.get("phase") or "no status")
