# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of mirrored objects: prefix, namespace, separator, name, joined and nothing else (semaphore 4.2).

Kubernetes 1.36 takes Service names that begin with a digit, and older releases do not. A Service that is there may have such a name. Whatever
is made of it begins with a letter, by its prefix, so that every release takes it: no version is asked for.
"""

from __future__ import annotations

import functools
import re
import typing as t

from .._values.refused import ValueRefused, quoted

#: Names of global Services begin with it.
GLOBAL_PREFIX = "gl"
_SERVICE_LENGTH, _OBJECT_LENGTH = 63, 253
_SERVICE = re.compile(r"[a-z](?:[a-z0-9-]*[a-z0-9])?\Z")
_PREFIX = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\Z")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*\Z")


#: Whatever claims a name; sources have an order.
Source = t.TypeVar("Source", bound=tuple[t.Any, ...])


class Name(t.NamedTuple):
    """A built name. ``reason`` is None when the API server would take it, else name_too_long or name_invalid."""

    name: str
    reason: str | None

    @property
    def valid(self) -> bool:
        """True when the API server would take it."""
        return self.reason is None

    def checked(self) -> str:
        """The name. Raises ValueRefused with the reason."""
        if self.reason == "name_too_long":
            fix = "shorten the namespace, the name or the cluster's prefix (service_mirror_prefixes)"
            text = f"the name {quoted(self.name)} would have {len(self.name)} characters; {fix}"
            raise ValueRefused(self.reason, text)
        if self.reason:
            text = "{0} would be no Service's name: those are lower-case letters, digits and dashes, and begin with a letter"
            raise ValueRefused(self.reason, text.format(quoted(self.name)))
        return self.name


def is_service_name(text: str) -> bool:
    """True for a text that every release of Kubernetes takes as a Service's name: what is made has such a name."""
    return len(text) <= _SERVICE_LENGTH and bool(_SERVICE.match(text))


def may_name_service(text: str) -> bool:
    """True for a text that some release of Kubernetes takes as a Service's name: what is found may have such a name."""
    return len(text) <= _SERVICE_LENGTH and bool(_LABEL.match(text))


def is_object_name(text: str) -> bool:
    """True for a text that the API server takes as the name of a slice and most other objects."""
    return len(text) <= _OBJECT_LENGTH and bool(_SUBDOMAIN.match(text))


def separator(text: str) -> str:
    """The separator of a text: lower-case hexadecimal digits of its bytes."""
    return text.encode("utf-8").hex()


#: Between namespace and name, as semaphore-service-mirror has it.
SEPARATOR = separator("ssm")


@functools.lru_cache(maxsize=65536)
def mirror_name(prefix: str, namespace: str, name: str) -> Name:
    """Name of the mirror of a Service, of its Endpoints, and the beginning of its slices' names."""
    parts_valid = bool(_SERVICE.match(prefix) and _LABEL.match(namespace) and _LABEL.match(name))
    text = f"{prefix}-{namespace}-{SEPARATOR}-{name}"
    if len(text) > _SERVICE_LENGTH:
        return Name(text, "name_too_long")
    return Name(text, None if parts_valid and is_service_name(text) else "name_invalid")


def global_name(namespace: str, name: str) -> Name:
    """Name of the global Service of a namespace and name."""
    return mirror_name(GLOBAL_PREFIX, namespace, name)


def global_slice_name(name: str) -> Name:
    """Name of the copy of a slice of a global service."""
    text = f"{GLOBAL_PREFIX}-{name}"
    if len(text) > _OBJECT_LENGTH:
        return Name(text, "name_too_long")
    return Name(text, None if is_object_name(text) and is_object_name(name) else "name_invalid")


def collisions(named: t.Iterable[tuple[str, Source]]) -> dict[str, list[Source]]:
    """{name: [sources, sorted]} of every name that two or more different sources share."""
    by_name: dict[str, set[Source]] = {}
    for name, source in named:
        by_name.setdefault(name, set()).add(source)
    return {name: sorted(sources) for name, sources in sorted(by_name.items()) if len(sources) > 1}


def name_holder(sources: t.Sequence[Source], live: t.Sequence[Source]) -> Source:
    """Who keeps a shared name: the live holder, else the first in sorted order (decision 39)."""
    return (live or sources)[0]


def check_prefixes(prefixes: t.Iterable[str]) -> None:
    """Raises ValueRefused for a prefix that makes no names, or the same names as another cluster's."""
    seen: set[str] = set()
    for prefix in prefixes:
        if prefix == GLOBAL_PREFIX:
            raise ValueRefused("reserved_service_prefix", "prefix gl is taken by the names of global services")
        if prefix and not _PREFIX.match(prefix):
            text = "prefix {0} cannot begin a Service's name on every release of Kubernetes: lower-case letters, digits and dashes, a letter first"
            raise ValueRefused("service_prefix_invalid", text.format(quoted(prefix)))
        if prefix and prefix in seen:
            raise ValueRefused(
                "duplicate_service_prefix",
                f"two remotes have prefix {quoted(prefix)} and would delete each other's mirrors",
            )
        seen.add(prefix)
