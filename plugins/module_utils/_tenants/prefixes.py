# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses and prefixes of a source object: written out, or allocated in a Prefix of its own (11.3, 14.3)."""

from __future__ import annotations

import typing as t

from .fields import Object, controller, get, items, name, namespace, text, uid
from .profile import PREFIX
from .view import View


def allocated_prefix(view: View, within: str, called: str, owner: str = "") -> t.Optional[t.Dict[str, t.Any]]:
    """The Prefix of a name once it is allocated; with ``owner`` only if it is controlled by the object of that uid."""
    prefix = view.source(PREFIX, within, called)
    if prefix is None or get(prefix, "status", "phase") != "Allocated" or not text(prefix, "spec", "prefix"):
        return None
    if owner and (controller(prefix) or {}).get("uid") != owner:
        return None
    return prefix


def interface_prefixes(view: View, source: Object) -> t.Tuple[t.List[str], t.List[str]]:
    """(prefixes of an interface in their order, names of those that are not allocated yet)."""
    found, missing = [], []
    for index, entry in enumerate(items(source, "spec", "prefixes")):
        if text(entry, "value"):
            found.append(text(entry, "value"))
        elif get(entry, "ephemeral") is not None:
            called = "{0}-pf-{1}".format(name(source), index)
            prefix = allocated_prefix(view, namespace(source), called)
            if prefix is None:
                missing.append(called)
            else:
                found.append(text(prefix, "spec", "prefix"))
    return found, missing


def balancer_addresses(view: View, source: Object) -> t.Tuple[t.List[t.Dict[str, t.Any]], t.List[str]]:
    """(sources of an internal load balancer's addresses as {index, ip, ipFamily}, Prefixes that are not there yet)."""
    found: t.List[t.Dict[str, t.Any]] = []
    missing = []
    for index, entry in enumerate(items(source, "spec", "ips")):
        if text(entry, "value"):
            found.append({"index": index, "ip": text(entry, "value"), "ipFamily": None})
        elif get(entry, "ephemeral") is not None:
            called = "{0}-{1}".format(name(source), index)
            prefix = allocated_prefix(view, namespace(source), called, uid(source))
            if prefix is None:
                missing.append(called)
                continue
            address = text(prefix, "spec", "prefix").partition("/")[0]
            found.append({"index": index, "ip": address, "ipFamily": text(prefix, "spec", "ipFamily") or None})
    return found, missing
