# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events on Services. One list of owned ones where a cluster has something to report, and a write for what is new; nothing waits for or fails by them."""

from __future__ import annotations

import typing as t

from ..._kubernetes.client import Client, segment
from ..._kubernetes.errors import Conflict, KubeError, NotFound
from ..._loadbalancers.service_events import COMPONENT, Notice, plan_events

EVENTS = "/api/v1/events"
#: Owned Events about Services; servers of every age know these fields.
_OWNED = "involvedObject.kind=Service,source=" + COMPONENT


def forget(client: Client) -> tuple[int, str]:
    """Delete the owned Events about Services, where nothing else owned is left. How many went, and why no more did, or nothing."""
    gone = 0
    try:
        for item in client.list(EVENTS, field_selector=_OWNED).items:
            meta = item["metadata"]
            gone += client.delete(
                f"/api/v1/namespaces/{segment(str(meta['namespace']))}/events/{segment(str(meta['name']))}",
                meta.get("uid"),
            )
    except KubeError as error:
        return gone, f"what Services were notified of us stays until the cluster forgets its Events ({error.message})"
    return gone, ""


def tell(client: Client, notices: t.Sequence[Notice], manager: str, now: str) -> tuple[int, str]:
    """How many were written, and why no more were, or nothing."""
    written = 0
    try:
        for one in plan_events(notices, client.list(EVENTS, field_selector=_OWNED).items if notices else (), now):
            path = f"/api/v1/namespaces/{segment(one.notice.namespace)}/events"
            try:
                if one.is_new:
                    client.create(path, one.body, manager)
                else:
                    client.merge_patch(f"{path}/{segment(one.notice.event)}", one.body, manager)
            except (Conflict, NotFound):
                continue  # another run wrote it, or its namespace is going, or it has just ended
            written += 1
    except KubeError as error:
        return (
            written,
            f"Events of Services could not be written ({error.message}); cluster_access grants what that needs, load_balancers_events: false ends it",
        )
    return written, ""
