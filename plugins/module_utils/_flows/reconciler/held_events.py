# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events about pairs that the reconciler does not lose: on its Lease, in the cluster where they stay. Nothing waits for them or fails by them."""

from __future__ import annotations

import hashlib
import time
import typing as t

from ..._io.structured_log import Log
from ..._kubernetes.client import Client, segment
from ..._kubernetes.errors import Conflict, KubeError
from ..._plan.objects import field_manager
from .leadership import lease_name

REASON = "PairsLost"
#: An Event is forgotten by the cluster after an hour; one that still holds is written again after so many seconds.
AGAIN = 1800.0
#: Of one plan; what a message may be long.
MOST, LONGEST = 20, 1000
_TEXT = (
    "{0} keeps what would lose {1}: {2}. Correct the inventory or the objects, or confirm with {0}_confirm_lost: [{3}]"
)

Row = t.Mapping[str, t.Any]


def event_of(capability: str, row: Row, fabric: str, namespace: str, now: str) -> dict[str, t.Any]:
    """The Event of a class of pairs, about the reconciler's Lease. Its name is the same for the same class. now: RFC 3339 in UTC, whole seconds."""
    name = lease_name(fabric)
    digest = hashlib.sha256(f"{capability}\n{row['class']}".encode("utf-8", "surrogatepass")).hexdigest()
    pairs = "1 pair" if row["pairs"] == 1 else f"{row['pairs']:,} pairs"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{digest[:16]}", "namespace": namespace},
        "involvedObject": {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "namespace": namespace,
            "name": name,
        },
        "type": "Warning",
        "reason": REASON,
        "message": _TEXT.format(capability, pairs, row["message"], row["class"])[:LONGEST],
        "source": {"component": field_manager(fabric)},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


class HeldEvents:
    """Called from one thread for each capability. clients: of all clusters."""

    def __init__(self, clients: t.Mapping[str, Client], fabric: str, namespace: str, log: Log) -> None:
        self._clients, self._fabric, self._namespace, self._log = clients, fabric, namespace, log
        self._written_at: dict[tuple[str, str], float] = {}

    def report(self, capability: str, rows: t.Sequence[Row]) -> None:
        """rows: the classes that are held now. What is held no more may be written anew later."""
        now = time.monotonic()
        classes = {row["class"] for row in rows}
        for key in [key for key in self._written_at if key[0] == capability and key[1] not in classes]:
            self._written_at.pop(key, None)
        for row in rows[:MOST]:
            key = capability, str(row["class"])
            client = self._clients.get(str(row["cluster"]))
            if client is None or now - self._written_at.get(key, float("-inf")) < AGAIN:
                continue
            self._written_at[key] = now
            try:
                self._write(client, capability, row)
            except KubeError as error:
                text = "no Event of lost pairs could be written ({0}); create and patch of events in {1} are what that needs"
                self._log.once(
                    capability, "warning", cluster=row["cluster"], message=text.format(error.message, self._namespace)
                )

    def _write(self, client: Client, capability: str, row: Row) -> None:
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        body = event_of(capability, row, self._fabric, self._namespace, moment)
        path, manager = f"/api/v1/namespaces/{segment(self._namespace)}/events", field_manager(self._fabric)
        try:
            client.create(path, body, manager)
        except Conflict:
            latest = {"lastTimestamp": moment, "message": body["message"]}
            client.merge_patch(f"{path}/{segment(body['metadata']['name'])}", latest, manager)
