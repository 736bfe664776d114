# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's BGP speaker as FRR's text: what it announces and to whom. It takes no route from anybody (ccm 15).

Every value is parsed before it becomes a word of a line, so that none can start another line (T16, T20).
"""

from __future__ import annotations

import re
import typing as t

from ..._values.addresses import parse_address, parse_network, special_kind
from ..._values.refused import ValueRefused, quoted
from .values import BgpGrants, NodeBgp, check_bgp_claims

HEADER = "! Written by multicluster.network, module bgp_speaker. Changes are overwritten."
_PASSWORD = re.compile(r"[!-~]{1,80}\Z")
#: More than any router of ours takes in; a typing error, not a plan.
MOST_PREFIXES = 4096


class Neighbour(t.NamedTuple):
    address: str
    asn: int
    password: str = ""
    multihop: int = 0


class Speaker(t.NamedTuple):
    """A node's part. ``prefixes`` are sorted; ``hold_s`` after which a router forgets a silent node."""

    asn: int
    source: str
    neighbours: t.Tuple[Neighbour, ...]
    prefixes: t.Tuple[str, ...] = ()
    keepalive_s: int = 3
    hold_s: int = 9
    router_id: str = ""


def parse_speaker(given: t.Mapping[str, t.Any], grants: BgpGrants = BgpGrants()) -> Speaker:
    """From a module's options. Raises ValueRefused with the words of the claims stage."""
    neighbours = []
    for row in given["neighbors"]:
        multihop = row.get("multihop") or 0
        if not 0 <= multihop <= 255:
            raise ValueRefused("bad_format", "multihop is a number of hops up to 255")
        neighbours.append(Neighbour(str(parse_address(row["address"])), row["asn"], row.get("password") or "", multihop))
    source = str(parse_address(given["source_ip"]))
    for one in neighbours:
        facts = NodeBgp("this node", source, given["asn"], one.asn, tuple(other.address for other in neighbours), one.password)
        unused, refused = check_bgp_claims([facts], grants)
        if refused:
            raise ValueRefused(refused[0].reason, refused[0].message)
        if one.password and not _PASSWORD.match(one.password):
            raise ValueRefused("bad_format", "the password of {0} is not up to 80 printable characters without blanks".format(one.address))
        if parse_address(one.address).version != parse_address(source).version:
            raise ValueRefused("bad_address", "{0} and {1} are of different families".format(source, one.address))
    if not neighbours:
        raise ValueRefused("no_ipv4_neighbor", "no router is named")
    keepalive, hold = given.get("keepalive_time") or 3, given.get("hold_time") or 9
    if not 1 <= keepalive <= hold // 3 or hold > 65535:
        raise ValueRefused("bad_format", "hold_time is at least three times keepalive_time, and both are seconds")
    router = given.get("router_id") or (source if ":" not in source else "")
    if not router or parse_address(router).version != 4:
        raise ValueRefused("bad_address", "router_id has to be an IPv4 address")
    return Speaker(given["asn"], source, tuple(sorted(neighbours)), parse_prefixes(given.get("prefixes") or ()), keepalive, hold, router)


def parse_prefixes(texts: t.Iterable[object]) -> t.Tuple[str, ...]:
    """Networks to announce, each once, sorted. Raises ValueRefused."""
    found = set()
    for text in texts:
        network = parse_network(text if "/" in str(text) else "{0}/{1}".format(text, 128 if ":" in str(text) else 32))
        kind = special_kind(network[0])
        if kind is not None or network.prefixlen == 0:
            raise ValueRefused("special_address", "{0} must not be announced".format(quoted(str(network))))
        found.add(network)
    if len(found) > MOST_PREFIXES:
        raise ValueRefused("prefix_limit", "{0} prefixes; a node announces at most {1}".format(len(found), MOST_PREFIXES))
    return tuple(str(network) for network in sorted(found, key=lambda one: (one.version, int(one[0]), one.prefixlen)))


def _families(speaker: Speaker) -> t.List[t.Tuple[str, str]]:
    """(FRR's name, what a list of prefixes is called) of the families that are in use."""
    found = [("ipv4", "ip")]
    if any(":" in one.address for one in speaker.neighbours) or any(":" in one for one in speaker.prefixes):
        found.append(("ipv6", "ipv6"))
    return found


def render(speaker: Speaker) -> str:
    """The whole configuration. The same speaker gives the same bytes."""
    lines = [HEADER, "frr defaults traditional", "log syslog informational", "router bgp {0}".format(speaker.asn)]
    lines += [" bgp router-id " + speaker.router_id, " bgp log-neighbor-changes", " no bgp default ipv4-unicast",
              " no bgp ebgp-requires-policy", " no bgp network import-check"]  # fmt: skip
    for one in speaker.neighbours:
        name = " neighbor " + one.address
        lines += ["{0} remote-as {1}".format(name, one.asn), "{0} update-source {1}".format(name, speaker.source),
                  "{0} timers {1} {2}".format(name, speaker.keepalive_s, speaker.hold_s), name + " timers connect 3"]  # fmt: skip
        if one.password:
            lines.append("{0} password {1}".format(name, one.password))
        if one.multihop:
            lines.append("{0} ebgp-multihop {1}".format(name, one.multihop))
        elif one.asn != speaker.asn:
            lines.append(name + " disable-connected-check")
    for family, unused in _families(speaker):
        lines.append(" address-family {0} unicast".format(family))
        lines += ["  network " + prefix for prefix in speaker.prefixes if (":" in prefix) == (family == "ipv6")]
        for one in speaker.neighbours:
            if (":" in one.address) == (family == "ipv6"):
                name = "  neighbor " + one.address
                lines += [name + " activate", name + " prefix-list nothing in"]
        lines.append(" exit-address-family")
    lines += ["exit", "ip prefix-list nothing seq 5 deny any"]
    if len(_families(speaker)) > 1:
        lines.append("ipv6 prefix-list nothing seq 5 deny any")
    return "\n".join(lines) + "\n"


def read_prefixes(text: str) -> t.Tuple[str, ...]:
    """What a configuration of ours announces."""
    return tuple(line.strip()[len("network ") :] for line in text.splitlines() if line.startswith("  network "))


def without_prefixes(text: str) -> t.List[str]:
    """All but that: where these are equal, sessions can stay while prefixes come and go."""
    return [line for line in text.splitlines() if not line.startswith("  network ")]


def commands(asn: int, before: t.Iterable[str], after: t.Iterable[str]) -> t.List[str]:
    """What turns one set of prefixes into the other on a running speaker; those that go, go first."""
    old, new = set(before), set(after)
    found = ["configure terminal", "router bgp {0}".format(asn)]
    for family in ("ipv4", "ipv6"):
        rows = ["no network " + one for one in sorted(old - new)] + ["network " + one for one in sorted(new - old)]
        rows = [row for row in rows if (":" in row) == (family == "ipv6")]
        if rows:
            found += ["address-family {0} unicast".format(family), *rows, "exit-address-family"]
    return found


def shown(text: str, fingerprint: t.Callable[[str], str]) -> t.List[str]:
    """The lines for a diff, passwords as fingerprints."""
    rows = []
    for line in text.splitlines():
        head, word, secret = line.partition(" password ")
        rows.append(head + word + fingerprint(secret) if word else line)
    return rows


def established(summary: t.Any) -> t.Dict[str, bool]:
    """Router -> whether its session stands, from ``show bgp summary json``."""
    found: t.Dict[str, bool] = {}
    for family in ("ipv4Unicast", "ipv6Unicast"):
        part = summary.get(family) if isinstance(summary, dict) else None
        peers = part.get("peers") if isinstance(part, dict) else None
        for address, row in (peers or {}).items():
            found[str(address)] = isinstance(row, dict) and row.get("state") == "Established"
    return found
