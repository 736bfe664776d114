# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names: clusters, Kubernetes objects, Linux devices."""

from __future__ import annotations

import re

from .refused import ValueRefused, quoted

_CLUSTER = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?\Z")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*\Z")


def parse_cluster_name(text: object, reason: str = "cluster_name_not_dns_label") -> str:
    """A cluster's name: it becomes part of annotation keys, labels, object, DNS and device names (semaphore 2.1)."""
    if not isinstance(text, str) or len(text) > 63 or not _CLUSTER.match(text):
        raise ValueRefused(reason, "{0} is not a DNS label that begins with a letter".format(quoted(text)))
    return text


def parse_subdomain(text: object, reason: str = "name_invalid") -> str:
    """A Kubernetes object name: a DNS subdomain of at most 253 characters."""
    if not isinstance(text, str) or len(text) > 253 or not _SUBDOMAIN.match(text):
        raise ValueRefused(reason, "{0} is not a DNS subdomain".format(quoted(text)))
    return text


def check_interface_name(name: object) -> str:
    """A Linux device name: 1 to 15 bytes, no white space, slash or colon, not ``.`` or ``..`` (semaphore 3.2, 11.2).

    The first failing check names the reason, in the specification's order: length, space, slash, other characters.
    """
    if not isinstance(name, str):
        raise ValueRefused("device_name_invalid_char", "{0} is not a device name".format(quoted(name)))
    if not 1 <= len(name.encode("utf-8", "surrogatepass")) <= 15:
        raise ValueRefused("device_name_too_long", "{0} is not 1 to 15 bytes long".format(quoted(name)))
    if " " in name:
        raise ValueRefused("device_name_has_space", "{0} contains a space".format(quoted(name)))
    if "/" in name:
        raise ValueRefused("device_name_has_slash", "{0} contains a slash".format(quoted(name)))
    if name in (".", "..") or ":" in name or any(ch.isspace() or ord(ch) < 32 or ord(ch) == 127 for ch in name):
        raise ValueRefused("device_name_invalid_char", "{0} has a character that Linux refuses".format(quoted(name)))
    return name
