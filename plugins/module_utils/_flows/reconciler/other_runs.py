# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a play is at work that writes what the reconciler writes, too: then it waits for its end.

The lock of such a play is followed, not taken: a change would cost three requests more in every cluster. A play that begins reads
everything after it has its lock, and by then the reconciler has heard of the lock.
"""

from __future__ import annotations

import functools
import threading
import time
import typing as t

from ..._kubernetes.client import Listing
from ..._kubernetes.lease import holder_of
from ..._kubernetes.watch import Follower, Settings
from ..._values.text import mapping
from ..runs import run_lock

Data = dict[str, t.Any]
PREFIX = "multicluster.network."
#: Playbooks that write nothing of what the reconciler writes: it goes on alongside them.
ELSEWHERE = frozenset(
    (
        "mesh",
        "awx.mesh",
        "clustermesh",
        "kilo.migrate",
        "kilo.teardown",
        "tenants",
        "tenant.teardown",
        "ccm.control_plane_address",
        "ccm.nodes",
        "preflight",
        "validate",
        "verify",
        "status",
        "support_bundle",
        "reconciler",
    )
)


#: The same of what it changes on nodes, which are the peers of the mesh.
NODES_ELSEWHERE = ELSEWHERE - {"mesh", "awx.mesh"}


def concerns(holder: str, elsewhere: t.Collection[str] = ELSEWHERE) -> bool:
    """Whether the holder of a lock may write what the reconciler writes, by the playbooks that it names; who names none may."""
    books = [part for part in holder.split(" ")[1:] if part.endswith((".yml", ".yaml")) or part.startswith(PREFIX)]
    return not books or any(_name(book) not in elsewhere for book in books)


def _name(book: str) -> str:
    """Of a file, ``awx/mesh.yml``, or of a playbook of the collection, ``multicluster.network.awx.mesh``: ``awx.mesh``."""
    return book.removeprefix(PREFIX).removesuffix(".yml").removesuffix(".yaml").replace("/", ".")


class OtherRuns:
    """``turned`` is called when a play has ended. ``namespace``: of the locks."""

    def __init__(
        self,
        entries: t.Sequence[t.Mapping[str, t.Any]],
        fabric: str,
        namespace: str,
        status: t.Callable[[str], None],
        turned: t.Callable[[], None],
        stop: threading.Event,
    ) -> None:
        self._key, self._turned = run_lock.key_of(fabric, entries), turned
        self._lock = threading.Lock()
        #: by cluster: the lock as it was last seen, and when
        self._locks: dict[str, tuple[Data, float]] = {}
        place = ("leases", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
        self._names = [str(entry["name"]) for entry in entries]
        self._followers = [
            Follower(
                entry,
                [place],
                "",
                functools.partial(self._listed, name),
                functools.partial(self._heard, name),
                status,
                stop,
                Settings(),
                fields="metadata.name=" + run_lock.lease_name(fabric),
            )
            for name, entry in zip(self._names, entries)
        ]

    def start(self) -> None:
        """Begin; returns at once."""
        for follower in self._followers:
            follower.start()

    def at_work(self, elsewhere: t.Collection[str] = ELSEWHERE) -> str:
        """Who is at work; "" when nobody is. As for plays, fewer than half of the clusters cannot say that somebody is.

        elsewhere: playbooks that count for nothing.
        """
        record = run_lock.ask(self._key)
        if record and concerns(str(record.get("holder")), elsewhere):
            return run_lock.describe(record)
        now = time.monotonic()
        with self._lock:
            live = {
                name: lease
                for name, (lease, since) in self._locks.items()
                if now - since < run_lock.LEASE_SECONDS and concerns(_holder(lease), elsewhere)
            }
        if not live or run_lock.is_outnumbered(len(live), len(self._names)):
            return ""
        name = min(live)
        return f"cluster {name}: {holder_of(live[name])}"

    def _listed(self, name: str, kind: str, listing: Listing) -> None:
        self._put(name, listing.items[0] if listing.items else None)

    def _heard(self, name: str, kind: str, event: str, obj: Data) -> None:
        self._put(name, None if event == "DELETED" else obj)

    def _put(self, name: str, lease: Data | None) -> None:
        with self._lock:
            ended = lease is None and self._locks.pop(name, None) is not None
            if lease is not None:
                self._locks[name] = (lease, time.monotonic())
        if ended:
            self._turned()


def _holder(lease: Data) -> str:
    return str(mapping(lease, "spec").get("holderIdentity", ""))
