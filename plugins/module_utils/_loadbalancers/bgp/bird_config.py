# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's BGP speaker as BIRD's text. It takes no route from anybody, and has no protocol that would put one into the kernel."""

from __future__ import annotations

import typing as t

from ..._values.refused import ValueRefused
from .speaker import Attributes, Neighbour, Speaker

HEADER = "# Written by multicluster.network, module bgp_speaker. Changes are overwritten."
#: BIRD listens wherever it has a session: not where a BIRD or FRR of the node's own does.
PORT = 1790
FAMILIES = ((4, "announced4"), (6, "announced6"))
_PREFIX = "  route "
#: To another autonomous system goes no MED but one that was set on the way out.
_EXPORT = (
    "    export filter {",
    "      if source != RTS_STATIC then reject;",
    "      if defined(bgp_med) then bgp_med = bgp_med;",
    "      accept;",
    "    };",
)


def check_speaker(speaker: Speaker) -> None:
    """What only BIRD cannot have. Raises ValueRefused ``bad_format``."""
    for one in speaker.neighbours:
        if '"' in one.password:
            raise ValueRefused(
                "bad_format",
                f"the password of {one.address} has a quotation mark, which BIRD's configuration cannot have",
            )


def render(speaker: Speaker) -> str:
    """The whole configuration. The same speaker gives the same bytes."""
    check_speaker(speaker)
    lines = [HEADER, "log syslog all;", f"router id {speaker.router_id};", "protocol device {", "}"]
    if any(one.bfd for one in speaker.neighbours):
        lines += [
            "protocol bfd {",
            '  interface "*" {',
            "    interval 300 ms;",
            "    multiplier 3;",
            "  };",
            "  multihop {",
            "    interval 300 ms;",
            "    multiplier 3;",
            "  };",
            "}",
        ]
    for version, name in FAMILIES:
        lines += [f"protocol static {name} {{", f"  ipv{version};"]
        for prefix in speaker.prefixes:
            if (":" in prefix) == (version == 6):
                lines += _route(prefix, speaker.attributes_of(prefix))
        lines.append("}")
    for one in speaker.neighbours:
        lines += _session(speaker, one)
    return "\n".join(lines) + "\n"


def _route(prefix: str, attributes: Attributes) -> list[str]:
    sets = [f"bgp_community.add(({text.replace(':', ',')}));" for text in attributes.communities]
    sets += [f"bgp_large_community.add(({text.replace(':', ',')}));" for text in attributes.large_communities]
    if attributes.local_preference is not None:
        sets.append(f"bgp_local_pref = {attributes.local_preference};")
    if attributes.med is not None:
        sets.append(f"bgp_med = {attributes.med};")
    head = f"{_PREFIX}{prefix} unreachable"
    return [head + " {", *("    " + text for text in sets), "  };"] if sets else [head + ";"]


def session_name(address: str) -> str:
    """Of the protocol of a session with a router."""
    return "router_" + address.replace(".", "_").replace(":", "_")


def _session(speaker: Speaker, one: Neighbour) -> list[str]:
    lines = [
        f"protocol bgp {session_name(one.address)} {{",
        f"  local {one.source} port {PORT} as {speaker.asn};",
        f"  neighbor {one.address} as {one.asn};",
        f"  keepalive time {speaker.keepalive_s};",
        f"  hold time {speaker.hold_s};",
        "  connect retry time 3;",
        "  connect delay time 1;",
        "  error wait time 1, 10;",
        f"  graceful restart {'on' if speaker.graceful_restart else 'aware'};",
    ]
    if one.password:
        lines.append(f'  password "{one.password}";')
    if one.ttl_hops > 1:
        lines.append(f"  multihop {one.ttl_hops};")
    elif one.multihop:
        lines.append(f"  multihop {one.multihop};")
    else:
        lines.append("  direct;")
    if one.ttl_hops:
        lines.append("  ttl security on;")
    if one.bfd:
        lines.append("  bfd on;")
    for version in one.versions:
        lines += [f"  ipv{version} {{", "    import none;", *_EXPORT]
        if version == 4 and one.version == 6:
            lines.append("    extended next hop on;")
        if version == 6 and one.next_hop:
            lines.append(f"    next hop address {one.next_hop};")
        lines.append("  };")
    return [*lines, "}"]


def read_prefixes(text: str) -> tuple[str, ...]:
    """What a configuration of the collection announces."""
    return tuple(line.split()[1] for line in text.splitlines() if line.startswith(_PREFIX))


def changes(before: str, after: str) -> list[str]:
    """Commands for a running speaker: BIRD compares its file itself, and touches what differs. What a session carries is agreed when it begins."""
    old, new = _carried(before), _carried(after)
    begun = ["restart " + name for name in sorted(new) if name in old and old[name] != new[name]]
    return ["configure", *begun] if before != after else []


def _carried(text: str) -> dict[str, list[str]]:
    """Session -> the lines that say which families it carries."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("protocol "):
            name = line.split()[2] if line.startswith("protocol bgp ") else ""
        elif name and line.strip().startswith(("ipv4 {", "ipv6 {", "extended next hop", "next hop ")):
            found.setdefault(name, []).append(line.strip())
    return found


def shown(text: str, fingerprint: t.Callable[[str], str]) -> list[str]:
    """The lines for a diff, passwords as fingerprints."""
    rows = []
    for line in text.splitlines():
        head, keyword, secret = line.partition('  password "')
        rows.append(f'{head}{keyword}{fingerprint(secret[:-2])}";' if keyword and not head else line)
    return rows
