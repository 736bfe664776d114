# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading API objects that may be incomplete, and comparing what they say (5.3, 8.3)."""

from __future__ import annotations

import ipaddress
import typing as t

from .._values.addresses import Address, parse_address
from .._values.refused import ValueRefused

Object = t.Mapping[str, t.Any]


def get(obj: t.Any, *path: str) -> t.Any:
    """The value at a path; None where anything on the way is missing or of another type."""
    for name in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(name)
    return obj


def text(obj: t.Any, *path: str) -> str:
    """The text at a path, "" for anything else."""
    value = get(obj, *path)
    return value if isinstance(value, str) else ""


def items(obj: t.Any, *path: str) -> t.List[t.Any]:
    """The list at a path, [] for anything else."""
    value = get(obj, *path)
    return value if isinstance(value, list) else []


def entries(obj: t.Any, *path: str) -> t.List[t.Dict[str, t.Any]]:
    """The objects in the list at a path."""
    return [item for item in items(obj, *path) if isinstance(item, dict)]


def uid(obj: Object) -> str:
    return text(obj, "metadata", "uid")


def name(obj: Object) -> str:
    return text(obj, "metadata", "name")


def namespace(obj: Object) -> str:
    return text(obj, "metadata", "namespace")


def labels(obj: Object) -> t.Dict[str, t.Any]:
    return get(obj, "metadata", "labels") or {}


def deleting(obj: Object) -> bool:
    return bool(get(obj, "metadata", "deletionTimestamp"))


def controller(obj: Object) -> t.Optional[t.Dict[str, t.Any]]:
    """The owner reference that controls the object."""
    return next((ref for ref in entries(obj, "metadata", "ownerReferences") if ref.get("controller") is True), None)


def show_address(address: Address) -> str:
    """An address as the API servers write it: IPv4 inside IPv6 keeps its dotted form, on every Python."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return "::ffff:{0}".format(address.ipv4_mapped)
    return str(address)


def address_or_none(value: t.Any) -> t.Optional[str]:
    """The canonical text of an address; None when it is missing, null, empty or no address."""
    try:
        return show_address(parse_address(value))
    except ValueRefused:
        return None


def family_of(value: t.Any) -> str:
    """``IPv4`` or ``IPv6``. Raises ValueRefused."""
    return "IPv{0}".format(parse_address(value).version)


def addresses(obj: t.Any, *path: str) -> t.List[str]:
    """The canonical addresses in the ``ip`` fields of a list of entries, those without address left out."""
    found = (address_or_none(entry.get("ip")) for entry in entries(obj, *path))
    return [address for address in found if address is not None]


def canonical_prefix(value: t.Any) -> t.Any:
    """A prefix with its address in canonical form; host bits stay as they are written."""
    if isinstance(value, str) and value.count("/") == 1:
        address, length = value.split("/")
        shown = address_or_none(address)
        if shown is not None:
            return "{0}/{1}".format(shown, length)
    return value


def plain(value: t.Any, key: str = "") -> t.Any:
    """A value for comparing: nothing empty, addresses in canonical form."""
    if isinstance(value, dict):
        inner = {name: plain(item, name) for name, item in value.items()}
        return {name: item for name, item in inner.items() if item is not None and item != "" and item != {} and item != []}
    if isinstance(value, (list, tuple)):
        return [plain(item, key) for item in value]
    if key in ("ip", "ips", "virtualIP", "value") and isinstance(value, str):
        return address_or_none(value) or value
    if key in ("prefix", "prefixes") and isinstance(value, str):
        return canonical_prefix(value)
    return value


def same(first: t.Any, second: t.Any, key: str = "") -> bool:
    """Equal after leaving out what is empty."""
    one, other = plain(first, key), plain(second, key)
    return _empty(one) and _empty(other) or one == other


def _empty(value: t.Any) -> bool:
    return value is None or value == "" or value == {} or value == []
