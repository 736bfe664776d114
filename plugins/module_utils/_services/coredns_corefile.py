# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Corefiles: the whole one as the seed shows it, and the server blocks that are merged into another owner's (decision 20)."""

from __future__ import annotations

import re
import typing as t

from .._values.refused import ValueRefused, quoted
from .._values.text import parse_cluster_name
from .coredns_rules import DEFAULT_DOMAIN, GLOBAL_ZONE, Rule, parse_domain, rewrite_rules, zone_of

Version = tuple[int, int, int]
#: What is rendered when no version of CoreDNS is given: every option of today, none that was removed.
CURRENT: Version = (1, 12, 0)
#: The first one that answers from ServiceImports.
FIRST_MULTICLUSTER: Version = (1, 12, 2)
REVERSE_ZONES = ("in-addr.arpa", "ip6.arpa")
#: (plugin, option) -> first version that has it, first version that refuses it.
_SPANS: dict[tuple[str, str], tuple[Version, Version | None]] = {
    ("kubernetes", "upstream"): ((0, 0, 0), (1, 7, 0)),
    ("kubernetes", "resyncperiod"): ((0, 0, 0), (1, 6, 0)),
    ("kubernetes", "multicluster"): (FIRST_MULTICLUSTER, None),
    ("rewrite", "answer value"): ((1, 8, 2), None),
    ("ready", ""): ((1, 5, 0), None),
    ("proxy", ""): ((0, 0, 0), (1, 5, 0)),
    ("forward", ""): ((1, 0, 5), None),
}
#: Plugins of which one server block of a process may have them: they open a port of their own.
ONCE = ("health", "ready")
_VERSION = re.compile(r"v?([0-9]{1,3})\.([0-9]{1,3})(?:\.([0-9]{1,3}))?(?:[-+][0-9A-Za-z.+-]*)?\Z", re.ASCII)


def parse_version(text: str | None) -> Version:
    """``1.11.1`` or ``v1.11.1-eksbuild.4`` as numbers; nothing means a current one."""
    if not text:
        return CURRENT
    found = _VERSION.match(text) if isinstance(text, str) and len(text) < 64 else None
    if not found:
        raise ValueRefused(
            "version_invalid", f"{quoted(text)} is not a version of CoreDNS; write coredns_rewrite_version as 1.11.1"
        )
    return int(found.group(1)), int(found.group(2)), int(found.group(3) or 0)


def accepts(version: Version, plugin: str, option: str = "") -> bool:
    """Whether a CoreDNS of this version loads a Corefile with the option; True for options that are not known here.

    The option may come with its arguments, as it is in the file.
    """
    known = (plugin, option) if (plugin, option) in _SPANS else (plugin, option.partition(" ")[0])
    first, refused = _SPANS.get(known, ((0, 0, 0), None))
    return version >= first and (refused is None or version < refused)


class Plugin(t.NamedTuple):
    """One line of a server block, with the lines of its own block."""

    name: str
    arguments: tuple[str, ...] = ()
    body: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Indented text."""
        head = "    " + " ".join((self.name,) + self.arguments)
        return [head + " {"] + ["        " + line for line in self.body] + ["    }"] if self.body else [head]


class Block(t.NamedTuple):
    """A server block: its zones (``cluster.aws``, ``.:53``) and plugins."""

    zones: tuple[str, ...]
    plugins: tuple[Plugin, ...]

    def text(self) -> str:
        """As it is in a Corefile."""
        lines = [" ".join(self.zones) + " {"]
        for plugin in self.plugins:
            lines += plugin.lines()
        return "\n".join(lines + ["}"]) + "\n"


class Options(t.NamedTuple):
    """What the blocks of one cluster depend on. ``remotes`` are the other clusters; ``port`` is that of a whole Corefile.

    ``ports`` of our zones in another owner's, as its root has them, such as ``1053`` and ``{$DNS_PORT}``; none is the usual one. ``forwards``:
    where its root sends what it does not know. ``binds``: the lines with the addresses on which its root listens; none is all of them.
    ``ready`` of a whole Corefile: the seed has none, the readiness probe of today's deployments asks for it.
    ``multicluster``: the zone of the Multi-Cluster Services API, for the merged blocks.
    """

    local: str | None
    remotes: tuple[str, ...]
    mirror_namespace: str
    global_zone: bool = False
    prefixes: t.Mapping[str, str] = {}
    cluster_domain: str = DEFAULT_DOMAIN
    version: Version = CURRENT
    port: int | None = None
    ready: bool = False
    multicluster: str | None = None
    ports: tuple[str, ...] = ()
    forwards: tuple[Plugin, ...] = ()
    binds: tuple[Plugin, ...] = ()


def rules_of(options: Options) -> list[Rule]:
    """The rewrite rules of a cluster; its own zone is served and not rewritten."""
    if options.local is not None:
        if zone_of(parse_cluster_name(options.local)) == options.cluster_domain or options.local == GLOBAL_ZONE:
            raise ValueRefused("name_invalid", f"a cluster cannot be called {options.local} in DNS")
        if options.local in options.remotes:
            raise ValueRefused("remote_is_local", f"{options.local} cannot be its own remote")
    return rewrite_rules(
        options.remotes, options.mirror_namespace, options.global_zone, options.prefixes, options.cluster_domain
    )


def owned_blocks(options: Options) -> list[Block]:
    """The server blocks to merge into a Corefile: one for the rewritten zones, one for the cluster's own alias, one for ServiceImports."""
    rules = rules_of(options)
    # all rewritten zones share a block, since each block with kubernetes in it watches the API server anew
    blocks = [_rewriting(rules, options, _merged_tail(options))] if rules else []
    if options.local is not None:
        zone = zone_of(options.local)
        alias = (
            *options.binds,
            Plugin("errors"),
            _kubernetes((zone,), options.version),
            Plugin("cache", ("30",)),
            Plugin("loadbalance"),
        )
        blocks.append(Block(_addresses(zone, options), alias))
    if options.multicluster is not None:
        blocks.append(_multicluster(parse_domain(options.multicluster), options))
    return blocks


def _multicluster(zone: str, options: Options) -> Block:
    """The block of the zone that is answered from ServiceImports.

    One of its own, though the option could be in the block that serves the cluster's domain: that one has another owner. ServiceImports
    and their slices are watched apart from the cluster's own, so ``noendpoints`` keeps it from following all pods once more.
    """
    taken = [
        options.cluster_domain,
        *(rule.zone for rule in rules_of(options)),
        *([zone_of(options.local)] if options.local is not None else []),
    ]
    if zone in taken:
        raise ValueRefused("name_invalid", f"the zone {quoted(zone)} of ServiceImports is another's already")
    served = Plugin("kubernetes", (zone,), ("noendpoints", "multicluster " + zone))
    return Block(
        _addresses(zone, options),
        (*options.binds, Plugin("errors"), served, Plugin("cache", ("30",)), Plugin("loadbalance")),
    )


def whole_corefile(options: Options) -> list[Block]:
    """A complete Corefile: a block for each rewritten zone, and the root, which also serves the cluster's own zone."""
    blocks = [_rewriting([rule], options, _tail()) for rule in rules_of(options)]
    own = () if options.local is None else (zone_of(options.local),)
    served = _kubernetes((options.cluster_domain,) + own + REVERSE_ZONES, options.version)
    once = tuple(Plugin(name) for name in ONCE if accepts(options.version, name) and (name != "ready" or options.ready))
    root = (Plugin("errors"),) + once + (served, Plugin("prometheus", (":9153",))) + _tail()
    return blocks + [Block((f".:{options.port or 53}",), root)]


def _rewriting(rules: t.Sequence[Rule], options: Options, tail: tuple[Plugin, ...]) -> Block:
    zones = tuple(address for rule in rules for address in _addresses(rule.zone, options))
    rewrites = tuple(_rewrite(rule, options.version) for rule in rules)
    served = _kubernetes((options.cluster_domain,) + REVERSE_ZONES, options.version)
    return Block(zones, options.binds + (Plugin("errors"),) + rewrites + (served,) + tail)


def corefile_text(blocks: t.Iterable[Block]) -> str:
    """Server blocks as text, with an empty line between them."""
    return "\n".join(block.text() for block in blocks)


def _addresses(zone: str, options: Options) -> tuple[str, ...]:
    ports = options.ports or (str(options.port or 53),)
    return tuple(zone if port == "53" else f"{zone}:{port}" for port in ports)


def _rewrite(rule: Rule, version: Version) -> Plugin:
    body = [f"name regex {rule.name_regex} {rule.name_to}"]
    for what in ("name", "value"):
        if accepts(version, "rewrite", "answer " + what):
            body.append(f"answer {what} {rule.answer_regex} {rule.answer_to}")
    # the zones are disjoint, so that no second rule could apply
    return Plugin("rewrite", ("stop",), tuple(body))


def _kubernetes(zones: tuple[str, ...], version: Version) -> Plugin:
    body = ["pods insecure", "endpoint_pod_names"]
    if accepts(version, "kubernetes", "upstream"):
        body.append("upstream")
    if any(zone in REVERSE_ZONES for zone in zones):
        body.append("fallthrough " + " ".join(REVERSE_ZONES))
    return Plugin("kubernetes", zones, tuple(body))


def _merged_tail(options: Options) -> tuple[Plugin, ...]:
    """The end of a block in another owner's Corefile: names that no rule matches go where its root sends them, and nowhere else.

    ``forward . /etc/resolv.conf`` would lead back to CoreDNS itself where the pod's resolver is a stub or a node's cache, and ``loop``, which
    is the root's, ends the whole server then.
    """
    return (*options.forwards, Plugin("cache", ("30",)), Plugin("reload"), Plugin("loadbalance"))


def _tail() -> tuple[Plugin, ...]:
    return (
        Plugin("forward", (".", "/etc/resolv.conf")),
        Plugin("cache", ("30",)),
        Plugin("loop"),
        Plugin("reload"),
        Plugin("loadbalance"),
    )
