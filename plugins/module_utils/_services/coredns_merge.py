# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our server blocks inside another owner's Corefile: an owned section between two comments, all else left byte for byte."""

from __future__ import annotations

import re
import typing as t

from .._values.refused import ValueRefused, quoted
from .._values.text import lower
from .coredns_corefile import Block, Plugin, corefile_text
from .coredns_rules import rule_problem

#: No Corefile that anybody runs comes near it; what does is not read (T21).
LONGEST = 1_000_000
_BEGIN, _END = "# BEGIN multicluster.network/", "# END multicluster.network/"
_FABRIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]*\Z")
#: A port as a number or as an environment variable, which CoreDNS fills in: ``{$DNS_PORT}``, ``{$DNS_PORT:1053}``, ``{%DNS_PORT%}``.
_PORT = re.compile(r":([0-9]{1,5}|\{\$[^{}\s]*\}|\{%[^{}\s]*%\})\Z", re.ASCII)
#: The plugins that send queries on, of today and of CoreDNS before 1.5.
_SENDS_ON = ("forward", "proxy")


class ServerBlock(t.NamedTuple):
    """A server block as it was read: its addresses, the directives at its first level, and the words of each line at any."""

    addresses: tuple[str, ...]
    directives: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...] = ()


class Split(t.NamedTuple):
    """A Corefile in three parts; ``section`` None where it has no owned one."""

    before: str
    section: str | None
    after: str


def markers(fabric: str) -> tuple[str, str]:
    """The comments around the section of one fabric."""
    if not _FABRIC.match(fabric):
        raise ValueRefused("name_invalid", f"{quoted(fabric)} cannot be in a Corefile's comment")
    return _BEGIN + fabric, _END + fabric


def split(text: str, fabric: str) -> Split:
    """Find our section. Raises ValueRefused ``corefile_broken`` for markers that do not pair."""
    begin, end = markers(fabric)
    lines = text.splitlines(keepends=True)
    first = [index for index, line in enumerate(lines) if line.strip() == begin]
    last = [index for index, line in enumerate(lines) if line.strip() == end]
    if not first and not last:
        return Split(text, None, "")
    if len(first) != 1 or len(last) != 1 or first[0] > last[0]:
        raise ValueRefused("corefile_broken", f"the comments {begin} and {end} do not occur once each, in this order")
    return Split("".join(lines[: first[0]]), "".join(lines[first[0] : last[0] + 1]), "".join(lines[last[0] + 1 :]))


def merge(text: str, fabric: str, blocks: t.Sequence[Block]) -> str:
    """The Corefile with our section as it should be; with no blocks, without it.

    Raises ValueRefused: ``corefile_broken`` when it cannot be read, ``not_ours`` when another owner's server block has
    one of our zones (CoreDNS would refuse to load the whole file).
    """
    if len(text) > LONGEST:
        raise ValueRefused("corefile_broken", f"it is longer than {LONGEST} characters")
    parts = split(text, fabric)
    theirs = server_blocks(parts.before) + server_blocks(parts.after)
    if not blocks:
        return parts.before + parts.after
    owned = {key_of(zone) for block in blocks for zone in block.zones}
    for block in theirs:
        for address in block.addresses:
            if key_of(address) in owned:
                raise ValueRefused(
                    "not_ours",
                    f"a server block of another owner has the zone {quoted(address)}; remove it, we leave it alone",
                )
    begin, end = markers(fabric)
    section = f"{begin}\n{corefile_text(blocks)}{end}\n"
    if parts.section is not None:
        return parts.before + section + parts.after
    # in front, so that taking it away leaves the very bytes there were, even without a newline at their end
    return section + text


def key_of(address: str) -> tuple[str, str]:
    """(zone, port) of a server block's address, as CoreDNS distinguishes them; the transport is left out of it."""
    text = lower(address).rpartition("://")[2]
    found = _PORT.search(text)
    zone = text[: found.start()] if found else text
    return zone.rstrip(".") or ".", _port(found.group(1) if found else "53")


def _port(text: str) -> str:
    """A number without leading zeros; an environment variable as it is written."""
    return text if text.startswith("{") else str(int(text))


def has_multicluster(text: str, fabric: str) -> bool:
    """Whether our section answers from ServiceImports."""
    return bool(_multicluster_lines(split(text, fabric).section or ""))


def multicluster_elsewhere(text: str, fabric: str, zone: str) -> str | None:
    """How an unowned part answers from ServiceImports below the zone already, or None: as a plugin, or as an option of ``kubernetes``."""
    parts = split(text, fabric)
    for tokens in _multicluster_lines(parts.before + parts.after):
        if zone in [key_of(token)[0] for token in tokens[1:] if token != "{"]:
            return " ".join(tokens)
    return None


def _multicluster_lines(text: str) -> list[list[str]]:
    return [tokens for tokens in _lines(text) if tokens[0] == "multicluster"]


def serves_zone(text: str, fabric: str, zone: str) -> str | None:
    """The address of an unowned server block that has the zone, on the port of the root; or None."""
    parts = split(text, fabric)
    ports = {lower(port) for port in root_ports(text, fabric)} or {"53"}
    for block in server_blocks(parts.before) + server_blocks(parts.after):
        for address in block.addresses:
            if key_of(address)[0] == zone and key_of(address)[1] in ports:
                return address
    return None


def root_ports(text: str, fabric: str) -> tuple[str, ...]:
    """The ports at which the root is asked by plain DNS, as they are written, each once: our zones must listen where it does.

    None where no block serves the root. Raises ValueRefused ``corefile_broken`` where it is served by TLS, gRPC or HTTPS alone, for our
    zones would have to say by which keys.
    """
    parts = split(text, fabric)
    found: list[str] = []
    others: list[str] = []
    for block in server_blocks(parts.before) + server_blocks(parts.after):
        for address in block.addresses:
            if key_of(address)[0] != ".":
                continue
            transport = lower(address).rpartition("://")[0]
            match = _PORT.search(address)
            if transport in ("", "dns"):
                found.append(_port(match.group(1) if match else "53"))
            else:
                others.append(address)
    if others and not found:
        raise ValueRefused(
            "corefile_broken",
            f"its root is served by {quoted(others[0])} alone, and our zones are asked by plain DNS; add .:53",
        )
    return tuple(dict.fromkeys(found))


def root_forwards(text: str, fabric: str) -> tuple[Plugin, ...]:
    """How the root sends on what it does not know, with all options and as often as it does; what it imports from snippets counts.

    Lines for other zones than the root do not concern our blocks. The contents of a file outside of the Corefile are not known.
    """
    found: list[Plugin] = []
    for plugins in _root_plugins(text, fabric):
        found += [
            plugin
            for plugin in plugins
            if plugin.name in _SENDS_ON and plugin.arguments[:1] == (".",) and plugin not in found
        ]
    return tuple(found)


def root_binds(text: str, fabric: str) -> tuple[Plugin, ...]:
    """The addresses on which the root listens, as its lines say; none where a block of the root listens on all of them.

    CoreDNS asks the blocks of the address that a query came to: zones that listen on all addresses never see what comes to one of the root's own.
    """
    found: list[Plugin] = []
    for plugins in _root_plugins(text, fabric):
        binds = [plugin for plugin in plugins if plugin.name == "bind"]
        if not binds:
            return ()
        found += [plugin for plugin in binds if plugin not in found]
    return tuple(found)


def _root_plugins(text: str, fabric: str) -> list[list[Plugin]]:
    """The plugins of each block that serves the root by plain DNS, with those of the snippets that it imports in their place."""
    parts = split(text, fabric)
    theirs = parts.before + parts.after
    snippets = {
        address[1:-1]: plugins
        for addresses, plugins in sections(theirs)
        for address in addresses
        if address[:1] == "(" and address[-1:] == ")"
    }

    def spread(plugins: t.Iterable[Plugin], within: tuple[str, ...] = ()) -> t.Iterator[Plugin]:
        for plugin in plugins:
            name = plugin.arguments[0] if plugin.name == "import" and plugin.arguments else ""
            if name and name not in within:  # CoreDNS does not load snippets that import each other
                yield from spread(snippets.get(name, ()), (*within, name))
            else:
                yield plugin

    return [
        list(spread(plugins))
        for addresses, plugins in sections(theirs)
        if any(
            key_of(address)[0] == "." and lower(address).rpartition("://")[0] in ("", "dns") for address in addresses
        )
    ]


def sections(text: str) -> list[tuple[tuple[str, ...], tuple[Plugin, ...]]]:
    """(addresses, plugins) of every server block and snippet, with what is in each plugin's own block, as it would be written again.

    Raises ValueRefused ``corefile_broken`` for braces that do not pair.
    """
    found: list[tuple[tuple[str, ...], tuple[Plugin, ...]]] = []
    addresses: list[str] = []
    plugins: list[Plugin] = []
    body: list[str] = []
    depth = 0
    for tokens in _lines(text):
        opens = tokens[-1] == "{"
        words = tokens[:-1] if opens else tokens
        if depth == 0:
            if tokens[0] == "import":
                continue
            addresses += [token.rstrip(",") for token in words if token.strip(",")]
            depth = int(opens)
            continue
        if tokens == ["}"]:
            depth -= 1
            if depth == 0:
                found.append((tuple(addresses), tuple(plugins)))
                addresses, plugins = [], []
            elif depth == 1:
                plugins[-1] = plugins[-1]._replace(body=tuple(body))
            else:
                body.append("}")
            continue
        written = " ".join(_written(token) for token in words)
        if depth == 1:
            plugins.append(Plugin(words[0] if words else "", tuple(_written(token) for token in words[1:])))
            body = []
        else:
            body.append(written + (" {" if opens else ""))
        depth += int(opens)
    if depth or addresses:
        raise ValueRefused("corefile_broken", "its braces do not pair")
    return found


def _written(token: str) -> str:
    """A token as it stood in the file: quoted ones begin with a quotation mark here."""
    return '"{0}"'.format(token[1:].replace('"', '\\"')) if token.startswith('"') else token


def warnings(text: str, fabric: str) -> list[str]:
    """What keeps a correct section from having an effect."""
    parts = split(text, fabric)
    theirs = server_blocks(parts.before) + server_blocks(parts.after)
    found = [
        f"CoreDNS does not load a Corefile with {quoted(' '.join(rule))}: {problem}"
        for rule, problem in ((rule, rule_problem(*rule[-2:])) for rule in _name_rules(parts.before + parts.after))
        if problem
    ]
    if not any("reload" in block.directives for block in theirs):
        found.append("the Corefile has no reload of its own; CoreDNS must be restarted to see the first change")
    return found


def _name_rules(text: str) -> t.Iterator[tuple[str, ...]]:
    """Rules that rewrite names by a pattern, and those for the answers to them, each with pattern and template last."""
    for tokens in _lines(text):
        words = [token[1:] if token.startswith('"') else token for token in tokens]
        words = words[1:] if words[:1] == ["rewrite"] else words
        words = words[1:] if words[:1] in (["stop"], ["continue"]) else words
        for index in range(len(words)):
            if (
                words[index : index + 2] == ["name", "regex"]
                and len(words) >= index + 4
                or words[index : index + 2] == ["answer", "name"]
                and len(words) >= index + 4
            ):
                yield tuple(words[index : index + 4])


def server_blocks(text: str) -> list[ServerBlock]:
    """The server blocks of a Corefile. Raises ValueRefused ``corefile_broken`` for braces that do not pair.

    Snippets, in parentheses, and imports outside of blocks are left out.
    """
    blocks: list[ServerBlock] = []
    addresses: list[str] = []
    directives: list[str] = []
    lines: list[tuple[str, ...]] = []
    depth = 0
    for tokens in _lines(text):
        opens = tokens[-1] == "{"
        if depth == 0:
            if tokens[0] == "import":
                continue
            addresses += [token.rstrip(",") for token in (tokens[:-1] if opens else tokens) if token.strip(",")]
            if opens:
                depth, directives, lines = 1, [], []
            elif not tokens[-1].endswith(","):
                raise ValueRefused("corefile_broken", f"{quoted(' '.join(tokens))} is outside of a server block")
            continue
        if tokens == ["}"]:
            depth -= 1
            if depth == 0:
                if not (len(addresses) == 1 and addresses[0].startswith("(")):
                    blocks.append(ServerBlock(tuple(addresses), tuple(directives), tuple(lines)))
                addresses = []
            continue
        if depth == 1:
            directives.append(tokens[0])
        lines.append(tuple(tokens[:-1] if opens else tokens))
        if opens:
            depth += 1
    if depth or addresses:
        raise ValueRefused("corefile_broken", "its braces do not pair")
    return blocks


def _lines(text: str) -> t.Iterator[list[str]]:
    """Lines of tokens, without comments; a closing brace ends the line before it."""
    tokens: list[str] = []
    for newline, token in _tokens(text):
        if newline and tokens:
            yield tokens
            tokens = []
        if token == "}" and tokens:
            yield tokens
            tokens = []
        if token:
            tokens.append(token)
    if tokens:
        yield tokens


def _tokens(text: str) -> t.Iterator[tuple[bool, str]]:
    """(begins a line, token). Quoted text is one token, in which a backslash protects the next character."""
    newline, index = True, 0
    while index < len(text):
        char = text[index]
        if char == "\n":
            newline, index = True, index + 1
        elif char.isspace():
            index += 1
        elif char == "#":
            end = text.find("\n", index)
            index = len(text) if end < 0 else end
        else:
            token, index = _quoted(text, index) if char == '"' else _bare_token(text, index)
            yield newline, token
            newline = False


def _bare_token(text: str, index: int) -> tuple[str, int]:
    end = index
    while end < len(text) and not text[end].isspace():
        end += 1
    return text[index:end], end


def _quoted(text: str, index: int) -> tuple[str, int]:
    found = []
    index += 1
    while index < len(text):
        if text[index] == "\\" and text[index + 1 : index + 2] == '"':
            found.append('"')
            index += 2
        elif text[index] == '"':
            return '"' + "".join(found), index + 1
        else:
            found.append(text[index])
            index += 1
    raise ValueRefused("corefile_broken", "a quotation does not end")
