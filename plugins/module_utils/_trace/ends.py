# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What trace_from and trace_to mean: texts of a user, parsed once. Pure.

Three parts between slashes may be a pod or a Service, which only the cluster's objects can decide; a fourth one in front of the name is the kind.
"""

from __future__ import annotations

import typing as t

from .._values.addresses import Address, parse_address, parse_endpoint
from .._values.refused import ValueRefused, quoted
from .._values.text import is_alnum, is_digits, lower, parse_cluster_name, parse_port, parse_subdomain

FROM, TO = "trace_from", "trace_to"
ANY, NODE, POD, SERVICE, IMPORT, OBJECT, ADDRESS, NAME = (
    "any",
    "node",
    "pod",
    "service",
    "serviceimport",
    "object",
    "address",
    "name",
)
#: Words that say what a name between slashes is of.
KINDS = {
    "pod": POD,
    "pods": POD,
    "service": SERVICE,
    "services": SERVICE,
    "svc": SERVICE,
    "serviceimport": IMPORT,
    "serviceimports": IMPORT,
}
TCP, UDP, ICMP = "tcp", "udp", "icmp"
PROTOCOLS = (TCP, UDP, ICMP)
#: As objects of Kubernetes call them.
UPPER = {TCP: "TCP", UDP: "UDP", ICMP: "ICMP"}
REASON = "trace_end_invalid"
_LONGEST = 300
_FORMS = {
    FROM: "cluster/namespace/pod, cluster/node or any",
    TO: "cluster/namespace/pod-or-Service, cluster/namespace/kind/name, cluster/node, an address, a DNS name, or any",
}


class End(t.NamedTuple):
    """One end. ``kind`` OBJECT: a pod, Service or ServiceImport, whichever there is. ``port``: what was written behind an address or a name.

    ``name`` of NAME is a DNS name as the source would ask it, in lower case, with its final dot if it was written.
    """

    kind: str
    cluster: str = ""
    namespace: str = ""
    name: str = ""
    address: Address | None = None
    port: int | None = None

    def __str__(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        if self.kind == ADDRESS:
            text = str(self.address)
            return (f"[{text}]" if ":" in text and port else text) + port
        if self.kind in (ANY, NAME):
            return (self.name or ANY) + port
        middle = [self.kind] if self.kind in (POD, SERVICE, IMPORT) else []
        return "/".join([part for part in (self.cluster, self.namespace) if part] + middle + [self.name])


def _refused(variable: str, text: object, why: str) -> ValueRefused:
    return ValueRefused(REASON, f"{variable} is {quoted(text)}: {why}; write {_FORMS[variable]}")


def parse_end(text: object, variable: str) -> End:
    """The end that a user wrote. variable: trace_from or trace_to. Raises ValueRefused ``trace_end_invalid``."""
    if not isinstance(text, str) or not text or len(text) > _LONGEST:
        raise _refused(variable, text, "it is no end")
    if text == ANY:
        return End(ANY)
    try:
        found = _object(text) if "/" in text else _place(text)
    except ValueRefused as error:
        raise _refused(variable, text, error.message) from None
    if variable == FROM and found.kind == OBJECT:
        found = found._replace(kind=POD)
    if variable == FROM and found.kind not in (POD, NODE):
        raise _refused(variable, text, "packets are sent from a pod or a node of the inventory")
    return found


def _object(text: str) -> End:
    parts = text.split("/")
    if not 2 <= len(parts) <= 4:
        raise ValueRefused(REASON, f"it has {len(parts)} parts")
    cluster = parse_cluster_name(parts[0])
    name = parse_subdomain(parts[-1])
    if len(parts) == 2:
        return End(NODE, cluster, "", name)
    namespace = parse_subdomain(parts[1])
    if len(parts) == 3:
        return End(OBJECT, cluster, namespace, name)
    kind = KINDS.get(lower(parts[2]))
    if kind is None:
        raise ValueRefused(REASON, f"{quoted(parts[2])} is none of pod, service, serviceimport")
    return End(kind, cluster, namespace, name)


def _place(text: str) -> End:
    """An address or a name, each perhaps with a port."""
    try:
        return End(ADDRESS, address=parse_address(text))
    except ValueRefused:
        pass
    if text.startswith("["):
        found = parse_endpoint(text)
        return End(ADDRESS, address=found.address, port=found.port)
    host, colon, port = text.partition(":")
    number = parse_port(port) if colon else None
    try:
        return End(ADDRESS, address=parse_address(host), port=number)
    except ValueRefused:
        pass
    name = lower(host)
    if is_digits(name.replace(".", "")):
        raise ValueRefused(REASON, "it looks like an address and is none")
    for label in (name[:-1] if name.endswith(".") else name).split("."):
        if not 1 <= len(label) <= 63 or not is_alnum(label.replace("-", "").replace("_", "")):
            raise ValueRefused(REASON, "it is no DNS name")
    return End(NAME, name=name, port=number)


class Question(t.NamedTuple):
    """What a trace is about. ``port`` None: ICMP, or what the target has; ``family`` 4, 6, or 0 for any; ``given``: whether the protocol was said."""

    source: End
    target: End
    port: int | None
    protocol: str
    family: int
    given: bool = False


def parse_question(
    source: object, target: object, port: object = None, protocol: object = None, family: object = None
) -> Question:
    """The variables of a trace. Raises ValueRefused."""
    start, end = parse_end(source, FROM), parse_end(target, TO)
    number = None if port in (None, "", 0) else parse_port(port)
    if end.port is not None:
        if number is not None and number != end.port:
            raise ValueRefused("trace_port_twice", f"trace_to has port {end.port} and trace_port {number}")
        number = end.port
    chosen = protocol or (ICMP if number is None else TCP)
    if chosen not in PROTOCOLS:
        raise ValueRefused(
            "trace_protocol_invalid", f"trace_protocol is {quoted(chosen)} and should be one of {', '.join(PROTOCOLS)}"
        )
    if chosen == ICMP and number is not None:
        raise ValueRefused(
            "trace_protocol_invalid", f"trace_protocol is icmp, which has no ports, and the port is {number}"
        )
    if chosen != ICMP and number is None and end.kind not in (SERVICE, IMPORT, OBJECT, NAME):
        raise ValueRefused("trace_port_missing", f"trace_protocol is {chosen}, which needs trace_port")
    version = {"4": 4, "6": 6, "any": 0, "": 0}.get(str("" if family is None else family))
    if version is None:
        raise ValueRefused("trace_family_invalid", f"trace_family is {quoted(family)} and should be 4, 6 or any")
    for one in (start, end):
        if one.address is not None and version and one.address.version != version:
            raise ValueRefused("trace_family_invalid", f"trace_family is {version}, and {one} is of the other family")
    return Question(start, end, number, str(chosen), version, bool(protocol))
