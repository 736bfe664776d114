# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules as nft's own text: what they mean to this kernel, and steps that have them as one script of nft.

Two texts may mean one rule, and nft prints neither as it was written. So the desired chains are loaded into a network
namespace that exists for this alone and listed there; that listing and the one of the real table come from the same
program on the same kernel, and are compared. On the host itself nothing is written for it.
"""

from __future__ import annotations

import re
import typing as t

from ..._values.prefix_sets import address_text
from ..errors import LinuxError
from ..programs import FAILURES, find_program, run
from .codec import FAMILIES, SET_TYPES

Listing = dict[str, list[str]]

_TIMEOUT = 120
#: For what people only look at.
_SHORT_TIMEOUT = 5
_LIST = ("-s", "-n", "-t", "list", "table")
#: Fed on standard input, in a fresh namespace; the words after it are nft's path, a family and a table.
_TRY = '"$1" -f - && exec "$1" -s -n list table "$2" "$3"'
_ERROR = re.compile(r":(\d+):\d+(?:-\d+)?: Error: (.*)", re.ASCII)
#: Names that nft's grammar cannot take for anything else: it joins its arguments and reads them as a script.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./\\-]{0,127}\Z", re.ASCII)
_HANDLE = re.compile(r" # handle ([0-9]{1,18})\Z", re.ASCII)
_CHAIN = re.compile(r"\tchain (\S+) \{\Z", re.ASCII)


def list_chains(family: str, name: str) -> Listing:
    """Chain to its rules, as nft prints them, of a table that is there. Raises LinuxError."""
    return _chains(_run([_nft(), *_LIST, family, name], "list nftables table", f"{family} {name}"))


def list_rules(family: str, table: str, chain: str) -> dict[int, str]:
    """Handle to text of the rules of one chain, whoever made it; empty for a name that nft could take for something else. Raises LinuxError."""
    if family not in FAMILIES or not _NAME.match(table) or not _NAME.match(chain):
        return {}
    words = [_nft(), "-a", "-n", "-s", "-t", "list", "chain", family, table, chain]
    listing = _run(words, "list nftables chain", f"{family} {table} {chain}", seconds=_SHORT_TIMEOUT)
    found: dict[int, str] = {}
    begun = ""
    for line in listing.splitlines():
        if not line.startswith("\t\t"):
            begun = ""
            continue
        begun = (begun + " " + line.strip()).strip()
        match = _HANDLE.search(begun)
        if match:
            found[int(match.group(1))] = begun[: match.start()]
            begun = ""
        elif begun.startswith("type ") and " hook " in begun:
            begun = ""
    return found


def compile_chains(table: t.Mapping[str, t.Any]) -> Listing:
    """The same for a desired table (its sets without elements). LinuxError names the rule that nft does not take."""
    program, isolate = _nft(), find_program("unshare")
    if isolate is None:
        raise LinuxError("check", "rules", "the program unshare is missing (package util-linux)", "util-linux")
    lines, names = ["add table {family} {name}".format(**table)], ["table " + table["name"]]
    for item in table["sets"]:
        lines.append(_add_set(table, item))
        names.append("set " + item["name"])
    for chain in table["chains"]:
        lines.append(_add_chain(table, chain))
        names.append("chain " + chain["name"])
    for index, chain in enumerate(table["chains"]):
        for number, rule in enumerate(chain["rules"]):
            lines.append(f"add rule {table['family']} {table['name']} {chain['name']} {rule}")
            names.append(f"chains[{index}].rules[{number}] of chain {chain['name']}")
    words = [isolate, "--net", "sh", "-c", _TRY, "sh", program, table["family"], table["name"]]
    return _chains(_run(words, "check", "rules", lines, names))


def apply_text(table: t.Mapping[str, t.Any], steps: t.Sequence[t.Mapping[str, t.Any]]) -> int:
    """Steps of _linux.nftables.table with rules as text, as one transaction of nft. The table has to be there. Returns their number."""
    lines = [_line(table, step) for step in steps]
    names = [f"step {step['op']}" for step in steps]
    if lines:
        _run([_nft(), "-f", "-"], "set", "nftables table {family} {name}".format(**table), lines, names)
    return len(lines)


def _line(table: t.Mapping[str, t.Any], step: t.Mapping[str, t.Any]) -> str:
    where = "{family} {name}".format(**table)
    operation = step["op"]
    if operation in ("flush_chain", "delete_chain"):
        return f"{operation.split('_', maxsplit=1)[0]} chain {where} {step['chain']}"
    if operation == "delete_set":
        return f"delete set {where} {step['set']}"
    if operation == "new_set":
        return _add_set(table, step["set"])
    if operation in ("new_chain", "set_policy"):
        return _add_chain(table, step["chain"])
    if operation == "add_rule":
        return f"add rule {where} {step['chain']} {step['rule']}"
    verb = {"add_elements": "add", "delete_elements": "delete"}[operation]
    elements = ", ".join(_element(step["set"]["type"], span) for span in step["spans"])
    return f"{verb} element {where} {step['set']['name']} {{ {elements} }}"


def _add_set(table: t.Mapping[str, t.Any], item: t.Mapping[str, t.Any]) -> str:
    flags = f" flags {', '.join(item['flags'])};" if item["flags"] else ""
    return f"add set {table['family']} {table['name']} {item['name']} {{ type {item['type']};{flags} }}"


def _add_chain(table: t.Mapping[str, t.Any], chain: t.Mapping[str, t.Any]) -> str:
    text = f"add chain {table['family']} {table['name']} {chain['name']}"
    if chain.get("hook"):
        text += " {{ type {type} hook {hook} priority {priority}; policy {policy}; }}".format(**chain)
    return text


def _element(kind: str, span: tuple[int, int]) -> str:
    version = {4: 4, 16: 6}.get(SET_TYPES[kind][1])
    texts = [address_text(version, value) if version else str(value) for value in span]
    return texts[0] if texts[0] == texts[1] else "-".join(texts)


def _chains(listing: str) -> Listing:
    """Chain to its lines, without that of its hook and policy, which are read through netlink."""
    found: Listing = {}
    current: list[str] | None = None
    for line in listing.splitlines():
        match = _CHAIN.match(line)
        if match:
            current = found.setdefault(match.group(1), [])
        elif line == "\t}":
            current = None
        elif current is not None and not (not current and line.startswith("\t\ttype ") and " hook " in line):
            current.append(line.strip())
    return found


def _nft() -> str:
    program = find_program("nft")
    if program is None:
        raise LinuxError("find", "nft", "the program nft is missing (package nftables)", "nftables")
    return program


def _run(
    words: t.Sequence[str],
    operation: str,
    obj: str,
    lines: t.Sequence[str] = (),
    names: t.Sequence[str] = (),
    seconds: float = _TIMEOUT,
) -> str:
    """Output of a command. names: of the things on each line of its input, for messages."""
    try:
        done = run(
            words,
            seconds,
            input="".join(line + "\n" for line in lines).encode("utf-8"),
            env={"LC_ALL": "C", "PATH": "/usr/sbin:/sbin:/usr/bin:/bin"},
        )
    except FAILURES as error:
        raise LinuxError(operation, obj, str(error)) from None
    if done.returncode == 0:
        return done.stdout.decode("utf-8", "replace")
    text = done.stderr.decode("utf-8", "replace").strip()
    match = _ERROR.search(text)
    if match and 1 <= int(match.group(1)) <= len(names):
        raise LinuxError(operation, names[int(match.group(1)) - 1], match.group(2))
    raise LinuxError(operation, obj, (text.splitlines() or [f"exit code {done.returncode}"])[0][:500])
