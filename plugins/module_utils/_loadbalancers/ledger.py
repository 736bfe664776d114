# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our record of addresses, in a ConfigMap of the cluster: who owns each, and that we made it (decision 40, T15, T17).

With the provider static this record is also the pool's state (ccm 15). One entry for each reservation.
"""

from __future__ import annotations

import hashlib
import json
import typing as t

from .._values.addresses import parse_address
from .._values.refused import ValueRefused, quoted
from .._values.text import parse_json
from .pools import Pool, Reserved, refuse_unowned
from .reservations import CREATED, Assignment, Reservation, carries

NAMESPACE = "kube-system"
#: etcd takes 1.5 MiB; an entry has about 400 bytes.
MOST = 3000


class Entry(t.NamedTuple):
    """One reservation. ``service`` is ``namespace/name``, ``device`` whom the address is assigned to, ``time`` for people.

    ``retain``: its Service desired the address kept when we saw it last; when it is gone, nobody else can say so. ``sharers``: the other
    Services that had the address then: the first of them holds it when its Service is gone. ``group``: in which nodes of a segment are backups for it,
    where its number cannot be found anew (layer2/groups.py).
    """

    id: str
    address: str
    cidr: int
    tags: tuple[str, ...]
    service: str = ""
    device: str = ""
    time: str = ""
    retain: bool = False
    sharers: tuple[str, ...] = ()
    group: int = 0

    def reservation(self) -> Reservation:
        assigned = (Assignment(self.id + "-assignment", self.address, self.device),) if self.device else ()
        return Reservation(self.id, self.address, self.cidr, self.tags, CREATED, assigned)


Ledger = dict[str, Entry]

#: What begins the id of an entry for an order that is under way: it has no address, and its reservation's own entry takes its place.
ORDERING = "ordering-"


def ordering(tags: t.Iterable[str], service: str, time: str) -> Entry:
    """Written before a provider is asked: who is killed between the order and its record would else have ordered something that nobody may release."""
    return Entry(
        ORDERING + hashlib.sha256(service.encode("utf-8")).hexdigest()[:32], "", 32, tuple(tags), service, "", time
    )


def ordered(ledger: Ledger, held: t.Iterable[Reservation]) -> list[tuple[str, Entry]]:
    """Orders that took place without being recorded: the id under which each was begun, and the entry of its reservation. None where two could be it."""
    free = [item for item in held if item.id not in ledger]
    found: list[tuple[str, Entry]] = []
    for ident, entry in sorted(ledger.items()):
        if ident.startswith(ORDERING):
            mine = [item for item in free if carries(item.tags, entry.tags)]
            if len(mine) == 1:
                found.append(
                    (
                        ident,
                        entry._replace(id=mine[0].id, address=mine[0].address, cidr=mine[0].cidr, tags=mine[0].tags),
                    )
                )
    return found


def ledger_name(identity: str, static: bool) -> str:
    return f"{identity}-{'static-pool' if static else 'reservations'}"


def parse_ledger(data: t.Mapping[str, t.Any] | None) -> Ledger:
    """Entries by id. Raises ValueRefused ``config_parse``: with half a record an address could be given out twice."""
    found: Ledger = {}
    for key, text in (data or {}).items():
        try:
            row = parse_json(text, "config_parse")
            tags = row.get("tags") if isinstance(row, dict) else None
            if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
                raise ValueRefused("config_parse", "it has no tags")
            texts = [row.get(name, "") for name in ("id", "service", "device", "time")]
            if not all(isinstance(item, str) for item in texts) or not texts[0] or texts[0] in found:
                raise ValueRefused("config_parse", "it has no id of its own")
            address = str(parse_address(row["address"])) if row.get("address") else ""
            cidr = row.get("cidr", 32)
            if isinstance(cidr, bool) or not isinstance(cidr, int) or not 0 < cidr <= 128:
                raise ValueRefused("config_parse", "it has no prefix length")
            if not isinstance(row.get("retain", False), bool):
                raise ValueRefused("config_parse", "it does not say whether it is kept")
            sharers = row.get("sharers", [])
            if not isinstance(sharers, list) or not all(isinstance(one, str) for one in sharers):
                raise ValueRefused("config_parse", "it does not say who shares it")
            group = row.get("group", 0)
            if isinstance(group, bool) or not isinstance(group, int) or not 0 <= group <= 255:
                raise ValueRefused("config_parse", "its group is no number up to 255")
        except ValueRefused as error:
            raise ValueRefused(
                "config_parse", f"the record of addresses is damaged at {quoted(key)}: {error.message}"
            ) from None
        found[texts[0]] = Entry(
            texts[0],
            address,
            cidr,
            tuple(tags),
            texts[1],
            texts[2],
            texts[3],
            row.get("retain", False),
            tuple(sharers),
            group,
        )
    return found


def merged(before: Ledger, mine: Ledger, theirs: Ledger) -> Ledger:
    """``theirs`` with what I made of ``before``. Raises ValueRefused ``conflict`` where both changed one entry, ``claimed_twice`` where
    two entries would have one address."""
    found = dict(theirs)
    for ident in {**before, **mine}:
        old, new, now = before.get(ident), mine.get(ident), theirs.get(ident)
        if new == old:
            continue
        if now not in (old, new):
            raise ValueRefused("conflict", f"somebody else changed the record of {quoted(ident)} meanwhile")
        if new is None:
            found.pop(ident, None)
        else:
            found[ident] = new
    holders_of: dict[str, str] = {}
    for entry in found.values():
        if entry.address and holders_of.setdefault(entry.address, entry.id) != entry.id:
            raise ValueRefused("claimed_twice", f"{entry.address} was given to somebody else meanwhile")
    return found


def believed(
    ledger: Ledger, others: t.Mapping[str, Pool], reserved: Reserved = Reserved(), besides: t.Container[str] = ()
) -> tuple[Ledger, list[tuple[str, ValueRefused]]]:
    """What of a pool's record may be true: whoever may write it in the cluster may write anything there.

    Entries are single addresses, none of another cluster's pool (``others``, by name) and none that is for something else than
    Services (``reserved``); those with a tag of ``besides`` are no Service's. Returns them, and (address, why) of those left out.
    """
    found: Ledger = {}
    refused = []
    for ident, entry in ledger.items():
        try:
            if entry.address:
                refuse_unowned(entry.address, others)
                if any(tag.startswith("service=") for tag in entry.tags) or not any(
                    tag in besides for tag in entry.tags
                ):
                    reserved.refuse(entry.address)
                entry = entry._replace(cidr=parse_address(entry.address).max_prefixlen)
        except ValueRefused as error:
            refused.append((entry.address, error))
            continue
        found[ident] = entry
    return found, refused


def ledger_data(ledger: Ledger) -> dict[str, str]:
    """The inverse. Raises ValueRefused ``quota`` when there are more than a ConfigMap holds."""
    if len(ledger) > MOST:
        raise ValueRefused("quota", f"the record of addresses holds at most {MOST}")
    return {
        _key(entry): json.dumps(
            {name: value for name, value in entry._asdict().items() if value not in ("", (), False)}, sort_keys=True
        )
        for entry in ledger.values()
    }


def _key(entry: Entry) -> str:
    """Ids and addresses as keys of a ConfigMap, which have no colons."""
    return (entry.address if entry.id == entry.address else entry.id).replace(":", "-")


def manifest(name: str, ledger: Ledger) -> dict[str, t.Any]:
    meta = {"name": name, "namespace": NAMESPACE, "labels": {"app.kubernetes.io/managed-by": "multicluster.network"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": ledger_data(ledger)}


def holders(ledger: Ledger) -> dict[str, str]:
    """Address -> ``namespace/name``."""
    return {entry.address: entry.service for entry in ledger.values() if entry.address and entry.service}
