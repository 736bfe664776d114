# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of the Equinix Metal API as the collection's types. A record that is not what it should be is left out, never guessed (ccm 14)."""

from __future__ import annotations

import typing as t

from .._values.addresses import parse_address
from .._values.refused import ValueRefused, quoted
from .._values.text import dicts_of, is_alnum, mapping
from .instances import Device
from .reservations import Assignment, Reservation

Record = t.Mapping[str, t.Any]


def reservation(record: Record) -> Reservation:
    """One of ``ip_addresses``. Raises ValueRefused ``api``."""
    ident, cidr = record.get("id"), record.get("cidr", 32)
    tags = record.get("tags") or []
    if not isinstance(ident, str) or not _path_safe(ident) or not isinstance(tags, list):
        raise ValueRefused("api", f"a reservation has no usable id or tags: {quoted(ident)}")
    address = str(record.get("address") or "")
    if address:
        parsed = parse_address(address, "api")
        if isinstance(cidr, bool) or not isinstance(cidr, int) or not 0 < cidr <= parsed.max_prefixlen:
            raise ValueRefused("api", f"the reservation {ident} has the prefix length {quoted(cidr)}")
    metro = record.get("metro") or record.get("facility") or {}
    return Reservation(
        ident,
        address,
        cidr if isinstance(cidr, int) else 32,
        tuple(str(tag) for tag in tags),
        str(record.get("state") or ("created" if address else "pending")),
        tuple(assignment(item) for item in dicts_of(record.get("assignments"))),
        str(metro.get("code") or "") if isinstance(metro, dict) else "",
    )


def reservations(records: t.Iterable[Record]) -> tuple[list[Reservation], list[str]]:
    """All that can be read, and messages about those that cannot: such a list is complete, but not everybody's."""
    kept, notes = [], []
    for record in records:
        try:
            kept.append(reservation(record))
        except ValueRefused as error:
            notes.append(error.message)
    return kept, notes


def assignment(record: Record) -> Assignment:
    """One assignment; without expansion it is a link only."""
    device = record.get("assigned_to") or record.get("device") or {}
    link = device.get("id") or device.get("href") if isinstance(device, dict) else device
    return Assignment(_ident(record), str(record.get("address") or ""), str(link or "").rpartition("/")[2])


def device(record: Record) -> Device:
    """One of ``devices``."""
    plan = mapping(record.get("plan"))
    return Device(
        _ident(record),
        str(record.get("hostname") or ""),
        str(record.get("state") or ""),
        str(plan.get("slug") or plan.get("name") or ""),
        str(plan.get("name") or plan.get("slug") or ""),
        str(mapping(record.get("metro")).get("code") or ""),
        str(mapping(record.get("facility")).get("code") or ""),
        tuple(dicts_of(record.get("ip_addresses"))),
    )


def error_message(body: t.Any) -> str:
    """The texts of an error answer, all of them."""
    if not isinstance(body, dict):
        return ""
    errors = body.get("errors")
    texts = errors if isinstance(errors, list) else [body.get("error")]
    return "; ".join(str(text)[:500] for text in texts[:20] if text)


def _ident(record: Record) -> str:
    ident = record.get("id") or str(record.get("href") or "").rpartition("/")[2]
    if not isinstance(ident, str) or not _path_safe(ident):
        raise ValueRefused("api", f"a record has no usable id: {quoted(ident)}")
    return ident


def _path_safe(ident: str) -> bool:
    """Ids become parts of paths of later calls."""
    return 0 < len(ident) <= 128 and all(is_alnum(char) or char in "-_" for char in ident)
