# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a cluster's inventory variables: types, defaults and near misses."""

from __future__ import annotations

import difflib
import typing as t

from ..._values.addresses import parse_network
from ..._values.refused import ValueRefused, quoted
from ..._values.text import parse_decimal

#: What a cluster's host may carry for this collection, all capabilities together.
CLUSTER_VARIABLES = (
    "pod_cidrs",
    "service_cidrs",
    "node_cidrs",
    "wireguard_cidrs",
    "floating_cidrs",
    "wireguard_port",
    "wireguard_ports",
    "wireguard_mtu",
    "wireguard_mtus",
    "device_alias",
    "endpoint_address_type",
    "allowed_ips_source",
    "pod_ranges",
    "pod_ranges_limit",
    "keep_pod_addresses",
    "exported_pod_cidrs",
    "exported_node_cidrs",
    "translation_pool",
    "calico_ippools",
    "key_dir",
    "allow",
    "kubeconfig",
    "context",
    "multicluster_cluster",
    "multicluster_cluster_id",
    "mcs_namespaces",
    "node_name",
)
#: Names that are near to the collection's, belong to other programs, and are common.
_UNOWNED_PREFIXES = ("ansible_", "kube_", "k8s_", "calico_", "bgp_", "metallb_", "kubespan_", "kilo_", "group_")


class Finding(t.NamedTuple):
    """One thing to fix in the inventory: where (``clusters/aws``), which variable, reason, what to write."""

    where: str
    variable: str
    reason: str
    message: str
    level: str = "error"


def read_findings(given: object) -> list[Finding]:
    """Findings that were made where the whole inventory is known, as dictionaries."""
    rows = given if isinstance(given, (list, tuple)) else ()
    return [
        Finding(*(str(row.get(key) or "") for key in ("where", "variable", "reason", "message")))._replace(
            level=str(row.get("level") or "error")
        )
        for row in rows
        if isinstance(row, dict)
    ]


class Variables:
    """The variables of one inventory host. A value of the wrong form becomes a finding and its default."""

    def __init__(self, where: str, values: t.Mapping[str, t.Any], findings: list[Finding]) -> None:
        self._where, self._values, self._findings = where, values, findings

    def given(self, variable: str) -> bool:
        """True when the variable has any value but null, an empty text or an empty list."""
        return self._values.get(variable) not in (None, "", [], {})

    def _report(self, variable: str, reason: str, message: str) -> None:
        self._findings.append(Finding(self._where, variable, reason, message))

    def networks(self, variable: str, reason: str) -> list[str]:
        """A list of networks with host bits masked; a single one may be written as text."""
        value = self._values.get(variable)
        if not self.given(variable):
            return []
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, (list, tuple)):
            self._report(variable, reason, f"{variable} is a list of networks, not {quoted(value)}")
            return []
        found: list[str] = []
        for text in texts:
            try:
                network = str(parse_network(text, reason))
            except ValueRefused as error:
                self._report(variable, reason, f"{error.message}; write networks such as 10.2.0.0/16")
                continue
            if network not in found:
                found.append(network)
        return found

    def integer(self, variable: str, reason: str) -> int:
        """A number, 0 when it is not given or is none. Its range is checked with the rules of the capability."""
        return self._integer(variable, self._values.get(variable), reason)

    def _integer(self, variable: str, value: object, reason: str) -> int:
        if value is None or value == "":
            return 0
        if isinstance(value, int) and not isinstance(value, bool) and value < 0:
            return value  # for the range check, which knows the limits
        try:
            return parse_decimal(value, reason)
        except ValueRefused as error:
            self._report(variable, reason, f"{error.message}; write a number")
            return 0

    def integers(self, variable: str, reason: str) -> dict[str, int]:
        """A mapping of remote cluster to number."""
        value = self._values.get(variable)
        if not self.given(variable):
            return {}
        if not isinstance(value, dict):
            self._report(variable, "bad_type", f"{variable} maps remote clusters to numbers")
            return {}
        return {str(remote): self._integer(variable, value[remote], reason) for remote in value}

    def text(self, variable: str, default: str | None) -> str | None:
        """A text, or its default when it is not given."""
        value = self._values.get(variable)
        if not self.given(variable):
            return default
        if not isinstance(value, str):
            self._report(variable, "bad_type", f"{variable} is text, not {quoted(value)}")
            return default
        return value

    def texts(self, variable: str) -> list[str]:
        """A list of texts; a single one may be written as it is."""
        value = self._values.get(variable)
        if not self.given(variable):
            return []
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
            self._report(variable, "bad_type", f"{variable} is a list of texts")
            return []
        return list(items)

    def boolean(self, variable: str) -> bool:
        """True or False; False when it is not given."""
        value = self._values.get(variable)
        if not self.given(variable) or isinstance(value, bool):
            return bool(value)
        self._report(variable, "bad_type", f"{variable} is true or false, not {quoted(value)}")
        return False

    def boolean_or(self, variable: str, other: str) -> bool | str:
        """True, False, or one text, which is the default."""
        if not self.given(variable) or self._values[variable] == other:
            return other
        if isinstance(self._values[variable], bool):
            return bool(self._values[variable])
        message = f"{variable} is true, false or {other}, not {quoted(self._values[variable])}"
        self._report(variable, "bad_type", message)
        return other

    def choice(self, variable: str, choices: t.Sequence[str]) -> str:
        """One of the choices; the first is the default."""
        value = self._values.get(variable)
        if not self.given(variable):
            return choices[0]
        if value not in choices:
            self._report(variable, "bad_choice", f"{variable} is one of {', '.join(choices)}, not {quoted(value)}")
            return choices[0]
        return str(value)


def misspelt(where: str, values: t.Mapping[str, t.Any], known: t.Sequence[str] = CLUSTER_VARIABLES) -> list[Finding]:
    """Warnings for variables that look like the collection's and are not: they would have no effect, silently.

    Names that begin with ``multicluster_`` are judged by check_names, which knows also those of runs.
    """
    found = []
    for name in sorted(map(str, values)):
        if (
            name in known
            or name in CLUSTER_VARIABLES
            or name.startswith((*_UNOWNED_PREFIXES, "multicluster_"))
            or len(name) > 64
        ):
            continue
        near = difflib.get_close_matches(name.lower().replace("-", "_"), known, 1, 0.85)
        if near:
            message = f"{quoted(name)} is no variable of this collection; did you mean {near[0]}?"
            found.append(Finding(where, name, "misspelt_variable", message, "warning"))
    return found
