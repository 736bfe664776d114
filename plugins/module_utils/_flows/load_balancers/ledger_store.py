# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of addresses as it is kept in a cluster. Two programs write it, each its own entries, and neither waits for the other.

The pass over Services holds a lease for as long as a provider takes to answer; the control plane's address must be able to
move meanwhile. So there are two leases, and the record itself is written under its version: what somebody else changed in
the meantime is read and kept.
"""

from __future__ import annotations

import typing as t

from ..._kubernetes.client import Client
from ..._kubernetes.errors import Conflict, NotFound
from ..._loadbalancers.ledger import NAMESPACE, Ledger, manifest, merged, parse_ledger

CONFIGMAPS = "/api/v1/namespaces/{0}/configmaps".format(NAMESPACE)
TRIES = 5
Object = t.Dict[str, t.Any]


def read_ledger(client: Client, name: str) -> t.Tuple[Ledger, t.Optional[Object]]:
    """The record, and the object in which it stands. Raises KubeErrors, and ValueRefused ``config_parse`` for a damaged one."""
    rows = client.list(CONFIGMAPS, field_selector="metadata.name=" + name).items
    actual = rows[0] if rows else None
    return parse_ledger((actual or {}).get("data")), actual


def keep_ledger(
    client: Client, name: str, before: Ledger, ledger: Ledger, actual: t.Optional[Object], manager: str,
    check: t.Callable[[], None] = lambda: None,
) -> t.Optional[Object]:
    """Write what became of ``before``; ``ledger`` is then what stands there. Raises KubeErrors, ValueRefused ``claimed_twice conflict``."""
    for attempt in range(TRIES):
        check()
        try:
            return _write(client, name, ledger, actual, manager)
        except (Conflict, NotFound):
            if attempt == TRIES - 1:
                raise
        theirs, actual = read_ledger(client, name)
        together = merged(before, ledger, theirs)
        before = theirs
        ledger.clear()
        ledger.update(together)
    return None


def _write(client: Client, name: str, ledger: Ledger, actual: t.Optional[Object], manager: str) -> t.Optional[Object]:
    path = "{0}/{1}".format(CONFIGMAPS, name)
    if actual is None:
        return client.create(CONFIGMAPS, manifest(name, ledger), manager) if ledger else None
    meta = actual["metadata"]
    if not ledger:
        try:
            client.request_deletion(path, meta.get("uid"), meta["resourceVersion"])
        except NotFound:
            pass  # nothing is left of it, as wanted
        return None
    data: t.Dict[str, t.Any] = dict.fromkeys(actual.get("data") or {})
    data.update(manifest(name, ledger)["data"])
    return client.merge_patch(path, {"metadata": {"resourceVersion": meta["resourceVersion"]}, "data": data}, manager)
