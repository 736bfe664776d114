# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the discovery service, read into members: who is there, since when, and what was refused (kubespan 5.3, threat T52).

The service keeps sealed rows ``(id, data, endpoints)`` and gives no times. A snapshot is everything it has; a change is one row, or that
one has gone. What a snapshot lacks is kept for a lifetime of a record, since a service that was started again knows nothing until its
members announce themselves anew; what was taken away is gone at once.
"""

from __future__ import annotations

import hashlib
import re
import typing as t

from ..._plan.plan import Refusal
from ..._values.refused import ValueRefused, quoted
from .annotations import Affiliate
from .generations import MAX_ENDPOINTS
from .sealing import open_affiliate, open_endpoint

#: Seconds that an own record holds without being renewed, the most that the service allows, and when it is renewed.
LIFETIME, RENEWED_AFTER = 1800, 900
#: As the service has them. A node takes no more from any service.
MAX_MEMBERS = 1024
#: How many records that a member replaced are known as old ones.
KEPT_DIGESTS = 16
#: Refusals of one reading that are shown.
SHOWN_REFUSALS = 50
VERSION = 1
_ID = re.compile(r"[A-Za-z0-9._-]{1,256}\Z", re.ASCII)


class Row(t.NamedTuple):
    """One affiliate as the service has it."""

    id: str
    data: bytes
    endpoints: t.Sequence[bytes] = ()


class Member(t.NamedTuple):
    """One affiliate that was read. ``since``: first seen; ``missing``: since when no snapshot has it; ``digest`` of its sealed record and
    ``old``, those of records that it has replaced."""

    affiliate: Affiliate
    since: float
    digest: str
    old: tuple[str, ...] = ()
    missing: float | None = None


Members = dict[str, Member]


class Reading(t.NamedTuple):
    """``members`` by node id after what was read; ``refused``; ``problem``: wrong_secret, or nothing; ``own_lost``: the service has our
    own node id with another record."""

    members: Members
    refused: list[Refusal]
    problem: str = ""
    own_lost: bool = False


def read_rows(
    rows: t.Sequence[Row],
    secret: bytes,
    known: t.Mapping[str, Member],
    own: tuple[str, str],
    now: float,
    snapshot: bool,
) -> Reading:
    """Members after a snapshot, or after changed rows. own: node id and public key of this node."""
    refused: list[Refusal] = []
    members: Members = {}
    own_lost, unread, opened = False, 0, 0
    for row in _limited(rows, known, refused, 0 if snapshot else len(known)):
        before = known.get(row.id)
        try:
            if row.id == own[0]:
                own_lost |= bool(row.data) and _is_anothers(row, secret, own[1])
                if own_lost:
                    raise ValueRefused(
                        "own_id", "somebody else announced the node id of this node; it is announced again"
                    )
                continue
            member = _read(row, secret, before, now, refused)
            opened += member is not None
        except ValueRefused as error:
            unread += error.reason == "sealed_otherwise"
            refused.append(_refusal(row.id, error))
            member = before  # what worked is kept until it is replaced by something that works
        if member is not None:
            members[row.id] = member._replace(missing=None)
    if snapshot:
        members.update(_missing(known, members, now))
    else:
        members = {**known, **members}
    if unread and not opened:
        message = f"none of the {unread} records that the service has of this mesh can be opened with mesh_secret"
        return Reading(members, [Refusal("discovery", "wrong_secret", message)], "wrong_secret", own_lost)
    return Reading(members, capped(refused), "", own_lost)


def capped(refused: list[Refusal]) -> list[Refusal]:
    """At most SHOWN_REFUSALS, and how many there are besides: a member can make as many as it likes."""
    if len(refused) <= SHOWN_REFUSALS:
        return refused
    more = Refusal("discovery", "too_many", f"{len(refused) - SHOWN_REFUSALS} more records of the service were refused")
    return [*refused[:SHOWN_REFUSALS], more]


def without(known: t.Mapping[str, Member], gone: t.Iterable[str]) -> Members:
    """Members without those that were taken away."""
    names = set(gone)
    return {node_id: member for node_id, member in known.items() if node_id not in names}


def aged(known: t.Mapping[str, Member], now: float) -> Members:
    """Members without those that no snapshot has had for a lifetime."""
    return {node_id: one for node_id, one in known.items() if one.missing is None or 0 <= now - one.missing < LIFETIME}


def _missing(known: t.Mapping[str, Member], members: t.Mapping[str, Member], now: float) -> Members:
    lacking = {node_id: member for node_id, member in known.items() if node_id not in members}
    return aged({node_id: one._replace(missing=one.missing or now) for node_id, one in lacking.items()}, now)


def _limited(rows: t.Sequence[Row], known: t.Container[str], refused: list[Refusal], there: int) -> list[Row]:
    """Rows with an id that can be one, those that are known first, so that there are at most MAX_MEMBERS. there: members that stay anyhow."""
    good = [row for row in rows if _ID.match(row.id)]
    if len(good) < len(rows):
        bad = next(row.id for row in rows if not _ID.match(row.id))
        message = f"{len(rows) - len(good)} records have an id that no node has, such as {quoted(bad)}"
        refused.append(Refusal("discovery", "name_invalid", message))
    new = sorted((row for row in good if row.id not in known), key=lambda row: row.id)
    old = [row for row in good if row.id in known]
    room = max(0, MAX_MEMBERS - (there or len(old)))
    if len(new) > room:
        message = f"the service has {(there or len(old)) + len(new)} members of this mesh, and at most {MAX_MEMBERS} are taken"
        refused.append(Refusal("discovery", "too_many", message))
    return [*old, *new[:room]]


def _refusal(node_id: str, error: ValueRefused) -> Refusal:
    return Refusal(f"discovery/{node_id}", error.reason, f"discovery/{node_id}: {error.message}")


def _is_anothers(row: Row, secret: bytes, public_key: str) -> bool:
    try:
        return bool(open_affiliate(secret, row.data)["public_key"] != public_key)
    except ValueRefused:
        return True


def _read(row: Row, secret: bytes, before: Member | None, now: float, refused: list[Refusal]) -> Member | None:
    """Raises ValueRefused: bad_record, sealed_otherwise, replayed."""
    if not row.data:  # endpoints that others have seen of a node that has not announced itself
        return None
    digest = hashlib.sha256(row.data).hexdigest()[:24]
    if before is not None and digest in before.old:
        raise ValueRefused("replayed", "the service has a record again that a later one has replaced")
    if before is not None and before.digest == digest:
        affiliate = dict(before.affiliate)
    else:
        affiliate = open_affiliate(secret, row.data)
        if affiliate["node_id"] != row.id:
            raise ValueRefused("bad_record", f"the record is of node id {quoted(affiliate['node_id'])}")
    texts: dict[str, None] = {}
    failed: ValueRefused | None = None
    for sealed in row.endpoints[:MAX_ENDPOINTS]:
        try:
            texts[str(open_endpoint(secret, sealed))] = None
        except ValueRefused as error:
            failed = error
    if len(row.endpoints) > MAX_ENDPOINTS:
        failed = ValueRefused(
            "bad_endpoint", f"it has {len(row.endpoints)} endpoints, and at most {MAX_ENDPOINTS} are taken"
        )
    if failed is not None:
        refused.append(_refusal(row.id, failed))
    affiliate["endpoints"] = list(texts)
    if before is None:
        return Member(affiliate, now, digest)
    old = before.old if before.digest == digest else (*before.old, before.digest)[-KEPT_DIGESTS:]
    return Member(affiliate, before.since, digest, old)


def to_json(members: t.Mapping[str, Member], own_addresses: t.Iterable[str] = ()) -> dict[str, t.Any]:
    """The form of the file that a node keeps. own_addresses: at which the service has seen this node."""
    rows = {node_id: dict(members[node_id]._asdict(), old=list(members[node_id].old)) for node_id in sorted(members)}
    return {"version": VERSION, "members": rows, "own_addresses": list(own_addresses)}


def of_json(content: t.Mapping[str, t.Any] | None) -> tuple[Members, list[str]]:
    """Members and own addresses of that file; none where there is none, or another version's."""
    if not content or content.get("version") != VERSION:
        return {}, []
    found: Members = {}
    try:
        for node_id, row in content["members"].items():
            values = {name: row.get(name) for name in Member._fields}
            found[node_id] = Member(**{**values, "old": tuple(row.get("old") or ())})
        return found, [str(text) for text in content.get("own_addresses") or ()]
    except (AttributeError, KeyError, TypeError):
        return {}, []  # cut short; the next snapshot has them all


def is_announced(rows: t.Iterable[Row], secret: bytes, affiliate: Affiliate) -> bool:
    """Whether the service has the affiliate as it is, with all of its endpoints."""
    for row in rows:
        if row.id != affiliate["node_id"] or not row.data:
            continue
        try:
            found = open_affiliate(secret, row.data)
            endpoints = {str(open_endpoint(secret, sealed)) for sealed in row.endpoints}
        except ValueRefused:
            return False
        same = all((found.get(name) or None) == (affiliate.get(name) or None) for name in found if name != "endpoints")
        return same and set(affiliate["endpoints"]) <= endpoints
    return False


def backoff(attempt: int, chance: float) -> float:
    """Seconds until the next attempt: doubled from 1 to 60, and a half to one and a half of that. chance: from 0 to 1."""
    return float(min(60.0, 2.0 ** min(attempt, 6)) * (0.5 + chance))
