# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``kubectl describe service`` shows of a Service's address: given, refused and why, no address left. The reasons are those of controllers that
people know: EnsuredLoadBalancer and SyncLoadBalancerFailed of cloud controllers, AllocationFailed of MetalLB.

An Event that is the last one of its Service is not created again; one that comes back after another is counted, under the name that it has.
"""

from __future__ import annotations

import hashlib
import typing as t

NORMAL, WARNING = "Normal", "Warning"
GIVEN, REFUSED, EXHAUSTED = "EnsuredLoadBalancer", "SyncLoadBalancerFailed", "AllocationFailed"
COMPONENT = "multicluster.network"
#: Of one run and cluster; what a message may be long.
MOST, LONGEST = 100, 1000
Object = t.Mapping[str, t.Any]


class Notice(t.NamedTuple):
    """One Event of a Service."""

    namespace: str
    name: str
    uid: str
    kind: str
    reason: str
    message: str

    @property
    def event(self) -> str:
        """The name of its object: the same for the same words about the same Service."""
        digest = hashlib.sha256(
            "\n".join((self.uid, self.kind, self.reason, self.message)).encode("utf-8", "surrogatepass")
        ).hexdigest()
        return f"{self.name}.{digest[:16]}"


def given_text(addresses: t.Sequence[tuple[str, str]]) -> str:
    """``addresses`` with the pool of each, or nothing where it is of none."""
    return "It has " + " and ".join(f"{address}{' of the pool ' + pool if pool else ''}" for address, pool in addresses)


def refused(namespace: str, name: str, uid: str, reason: str, message: str) -> Notice:
    """Why a Service gets no address."""
    return Notice(
        namespace, name, uid, WARNING, EXHAUSTED if reason == "quota" else REFUSED, f"{reason}: {message}"[:LONGEST]
    )


class Writing(t.NamedTuple):
    """One write: ``body`` of a new Event, or the merge patch of the one that counts up."""

    notice: Notice
    body: dict[str, t.Any]
    is_new: bool


def plan_events(notices: t.Iterable[Notice], there: t.Iterable[Object], now: str) -> list[Writing]:
    """What to write. ``there``: the Events that we wrote and that the cluster still has; ``now`` as RFC 3339 in UTC, whole seconds."""
    known: dict[str, Object] = {}
    latest: dict[str, str] = {}
    for one_owned in there:
        uid = str((one_owned.get("involvedObject") or {}).get("uid") or "")
        known[f"{one_owned['metadata'].get('namespace')}/{one_owned['metadata'].get('name')}"] = one_owned
        latest[uid] = max(latest.get(uid, ""), str(one_owned.get("lastTimestamp") or ""))
    found = []
    for one in sorted(set(notices))[:MOST]:
        event = known.get(f"{one.namespace}/{one.event}")
        if event is None:
            found.append(Writing(one, _new(one, now), True))
        elif str(event.get("lastTimestamp") or "") < latest.get(one.uid, ""):
            count = event.get("count")
            found.append(
                Writing(one, {"count": (count if isinstance(count, int) else 1) + 1, "lastTimestamp": now}, False)
            )
    return found


def _new(notice: Notice, now: str) -> dict[str, t.Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": notice.event, "namespace": notice.namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Service",
            "namespace": notice.namespace,
            "name": notice.name,
            "uid": notice.uid,
        },
        "type": notice.kind,
        "reason": notice.reason,
        "message": notice.message,
        "source": {"component": COMPONENT},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
