# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The load-balancer setting: a text that looks like a URL and is read by hand, since URL parsers refuse one form (ccm 5)."""

from __future__ import annotations

import typing as t

from .._values.ascii_text import lower
from .._values.names import parse_subdomain
from .._values.refused import ValueRefused, quoted
from .settings import parse_boolean

DISABLED, METALLB, KUBE_VIP, EMPTY, MANAGED = "disabled", "metallb", "kube-vip", "empty", "emlb"
#: What a person may write.
KNOWN = "empty://, kube-vip://, metallb:///NAMESPACE/CONFIGMAP, metallb:///NAMESPACE?crdConfiguration=true"
CONFIGMAP, CUSTOM_RESOURCES = "configmap", "crd"
DEFAULT_NAMESPACE, DEFAULT_CONFIGMAP = "metallb-system", "config"


class LoadBalancer(t.NamedTuple):
    """A load balancer's kind and, for MetalLB, where its configuration is."""

    type: str
    namespace: str = ""
    mode: str = ""
    configmap: str = ""
    metro: str = ""
    warnings: t.Tuple[str, ...] = ()

    @property
    def enabled(self) -> bool:
        """Whether anything of BGP and load balancing happens."""
        return self.type in (METALLB, KUBE_VIP, EMPTY)

    @property
    def uses_bgp(self) -> bool:
        """Whether BGP facts matter: wherever anything happens at all."""
        return self.enabled


def parse_load_balancer(text: object) -> LoadBalancer:
    """The setting's meaning. Raises ValueRefused ``bad_boolean``; what is not known is disabled, with a warning."""
    if not isinstance(text, str):
        raise ValueRefused("bad_format", "{0} is no load-balancer setting".format(quoted(text)))
    if not text:
        return LoadBalancer(DISABLED)
    kind, colon, rest = text.partition(":")
    kind = lower(kind)
    if colon and kind in (KUBE_VIP, EMPTY):
        return LoadBalancer(kind)
    if colon and kind == MANAGED:
        warning = "the managed load balancer no longer exists; load balancing is disabled"
        return LoadBalancer(MANAGED, metro=rest.strip("/").partition("?")[0].partition("/")[0], warnings=(warning,))
    if not colon or kind != METALLB:
        return _disabled("{0} names no load balancer".format(quoted(text)))
    rest, _mark, query = rest.partition("#")[0].partition("?")
    authority, path = "", rest
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        path = slash + path
    return _metallb(text, authority, path, _custom_resources(query))


def known_load_balancer(text: object) -> LoadBalancer:
    """The same for what a person wrote: raises ValueRefused ``bad_choice`` for text that would switch everything off without being empty."""
    balancer = parse_load_balancer(text)
    if text and balancer.type == DISABLED:
        reason = "; ".join(warning.partition("; ")[0] for warning in balancer.warnings)
        raise ValueRefused("bad_choice", "{0}: write {1}, or nothing for no load balancing".format(reason, KNOWN))
    return balancer


def _metallb(text: str, authority: str, path: str, custom: bool) -> LoadBalancer:
    warnings: t.List[str] = []
    if ":" in authority:
        namespace, _colon, name = authority.partition(":")
    else:
        if authority:
            warnings.append("{0} stands where a host would; write metallb:///{0}".format(quoted(authority)))
        # one slash at each end is decoration, a further one an empty namespace or name
        path = path[1:] if path.startswith("/") else path
        path = path[:-1] if path.endswith("/") else path
        namespace, _slash, name = path.partition("/")
        name, _slash, more = name.partition("/")
        if more:
            warnings.append("{0} has more parts than a namespace and a name".format(quoted(text)))
    namespace, name = namespace or DEFAULT_NAMESPACE, name or DEFAULT_CONFIGMAP
    try:
        parse_subdomain(namespace)
        parse_subdomain(name)
    except ValueRefused as refused:
        return _disabled("{0}: {1}".format(quoted(text), refused.message))
    if custom:
        return LoadBalancer(METALLB, namespace, CUSTOM_RESOURCES, warnings=tuple(warnings))
    return LoadBalancer(METALLB, namespace, CONFIGMAP, name, warnings=tuple(warnings))


def _custom_resources(query: str) -> bool:
    for part in query.split("&"):
        key, _equals, value = part.partition("=")
        if key == "crdConfiguration" and value:
            return parse_boolean(value, "bad_boolean")
    return False


def _disabled(reason: str) -> LoadBalancer:
    return LoadBalancer(DISABLED, warnings=(reason + "; load balancing is disabled",))
