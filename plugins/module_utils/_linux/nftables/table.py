# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One table of nftables: reading it whole, and applying steps to it as one transaction.

A table as read::

    {"family", "name", "handle", "flags", "owner": text|None, "generation": int,
     "sets": [{"name", "type", "length", "flags": [name], "elements": [(first, last)]|None}],
     "chains": [{"name", "type", "hook", "priority", "policy", "device", "owner", "rules": [[statement]]}]}

Statements are kubespan_nft's; see nft_rules for what is none. Steps, in the order in which they are sent:

    {"op": "new_table", "owner"}, {"op": "flush_chain", "chain": name}, {"op": "delete_set", "set": name},
    {"op": "delete_chain", "chain": name}, {"op": "new_set", "set": {name, type, flags}},
    {"op": "new_chain", "chain": {name, type, hook, priority, policy}, "owner"}, {"op": "set_policy", "chain": {...}},
    {"op": "delete_elements" | "add_elements", "set": {name, type, flags}, "spans": [(first, last)]},
    {"op": "add_rule", "chain": name, "rule": [statement]}, {"op": "delete_table"}
"""

from __future__ import annotations

import errno
import typing as t

from ..._values.gc_pause import gc_paused
from ..errors import LinuxError
from ..netlink.messages import NetlinkRefused, attribute
from . import codec
from .netlink import NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, BatchRefused, GenerationChanged, Message, NetfilterSocket
from .rules import RULE_CHAIN, RULE_TABLE, decode_rule, encode_rule

Data = dict[str, t.Any]
Step = t.Mapping[str, t.Any]

__all__ = ["GenerationChanged", "apply_steps", "list_base_chains", "list_tables", "read_table"]

_READ_TRIES = 5


def list_tables() -> list[Data]:
    """All tables of this namespace: ``[{family, name, handle, flags, owner}]``, sorted. Raises LinuxError."""
    try:
        with _open("list") as netlink:
            found = [codec.decode_table(body, family) for family, body in netlink.dump(codec.GETTABLE)]
    except NetlinkRefused as error:
        raise LinuxError("list", "nftables", _reason(error)) from None
    return sorted(found, key=lambda table: (table["family"], table["name"]))


def list_base_chains() -> list[Data]:
    """All tables with the chains that packets meet first: ``[{family, name, owner, chains: [{name, type, hook, priority, policy, device}]}]``.

    Sorted, the chains as packets meet them. Raises LinuxError.
    """
    try:
        with _open("list") as netlink:
            tables = [codec.decode_table(body, family) for family, body in netlink.dump(codec.GETTABLE)]
            found = [(family, *codec.decode_chain(body)) for family, body in netlink.dump(codec.GETCHAIN)]
    except NetlinkRefused as error:
        raise LinuxError("list", "nftables", _reason(error)) from None
    names = {number: name for name, number in codec.FAMILIES.items()}
    chains: dict[tuple[str, str], list[Data]] = {}
    for family, of, chain in found:
        if chain["hook"] is not None:
            row = {name: chain[name] for name in ("name", "type", "hook", "priority", "policy", "device")}
            if family == codec.FAMILIES["netdev"]:
                row["hook"] = codec.NETDEV_HOOKS.get(chain["hook"], chain["hook"])
            chains.setdefault((names.get(family, str(family)), of), []).append(row)
    rows = [{"family": table["family"], "name": table["name"], "owner": table["owner"]} for table in tables]
    for row in rows:
        row["chains"] = sorted(
            chains.get((row["family"], row["name"]), ()),
            key=lambda chain: (chain["hook"], chain["priority"], chain["name"]),
        )
    return sorted(rows, key=lambda row: (row["family"], row["name"]))


@gc_paused()
def read_table(family: str, name: str, elements: t.Container[str] | None = None) -> Data | None:
    """A table as above, or None. Everything in it is of one generation. Raises LinuxError.

    elements: names of the sets of which the elements are read, None for all; the others have None for them.
    """
    try:
        with _open("read") as netlink:
            for _attempt in range(_READ_TRIES):
                generation = netlink.generation()
                try:
                    table = _read(netlink, family, name, elements)
                except NetlinkRefused as error:
                    if error.errno != errno.ENOENT:
                        raise
                    table = None
                if netlink.generation() == generation:
                    return dict(table, generation=generation) if table is not None else None
    except NetlinkRefused as error:
        raise LinuxError("read", f"nftables table {family} {name}", _reason(error)) from None
    message = f"it changed during each of {_READ_TRIES} reads"
    raise LinuxError("read", f"nftables table {family} {name}", message)


def _read(netlink: NetfilterSocket, family: str, name: str, elements: t.Container[str] | None) -> Data:
    number = codec.FAMILIES[family]
    body = codec.encode_table(name)
    table = codec.decode_table(netlink.get(codec.GETTABLE, number, body)[1], number)
    table["sets"], table["chains"] = [], []
    for _family, answer in netlink.dump(codec.GETSET, number, attribute(codec.SET_TABLE, codec.text(name))):
        owner, item = codec.decode_set(answer)
        if owner == name:
            desired = (elements is None or item["name"] in elements) and _plain(item)
            item["elements"] = _elements(netlink, number, name, item) if desired else None
            table["sets"].append(item)
    for _family, answer in netlink.dump(codec.GETCHAIN, number):
        owner, chain = codec.decode_chain(answer)
        if owner == name:
            table["chains"].append(dict(chain, rules=[]))
    chains = {chain["name"]: chain for chain in table["chains"]}
    for _family, answer in netlink.dump(codec.GETRULE, number, attribute(RULE_TABLE, codec.text(name))):
        rule = decode_rule(answer)
        if rule["table"] == name and rule["chain"] in chains:
            chains[rule["chain"]]["rules"].append(rule["rule"])
    return table


def _plain(item: t.Mapping[str, t.Any]) -> bool:
    """Sets of single keys of a known type; maps, concatenations and anonymous sets of rules are left out."""
    return item["type"] in codec.SET_TYPES and not {"map", "object", "concatenation"} & set(item["flags"])


def _elements(netlink: NetfilterSocket, number: int, table: str, item: t.Mapping[str, t.Any]) -> list[codec.Span]:
    answers = netlink.dump(codec.GETSETELEM, number, codec.encode_flush(table, item["name"]))
    return codec.decode_elements((body for _family, body in answers), item["length"], "interval" in item["flags"])


@gc_paused()
def apply_steps(family: str, name: str, steps: t.Sequence[Step], generation: int | None = None) -> int:
    """Apply steps as one transaction: all of them or none. Returns the number of messages; no steps, nothing sent.

    generation: the one that read_table gave. When anybody changed nftables since, GenerationChanged is raised and nothing
    was written: read, plan and apply again. None: apply whatever happened meanwhile. Raises LinuxError, which names the
    object that the kernel refused.
    """
    messages = encode_steps(name, steps)
    if not messages:
        return 0
    try:
        with _open("write") as netlink:
            netlink.commit(family, messages, generation)
            return netlink.writes
    except BatchRefused as error:
        where = f"{error.what} of nftables table {family} {name}"
        raise LinuxError("set", where, _reason(error) + (": " + error.text if error.text else "")) from None


def encode_steps(name: str, steps: t.Iterable[Step]) -> list[Message]:
    """The messages of a batch."""
    messages: list[Message] = []
    sets = 0
    for step in steps:
        operation = step["op"]
        if operation in ("add_elements", "delete_elements"):
            item = step["set"]
            length = codec.SET_TYPES[item["type"]][1]
            bodies = codec.encode_elements(name, item["name"], length, "interval" in item["flags"], step["spans"])
            kind, flags = (codec.NEWSETELEM, NLM_F_CREATE) if operation == "add_elements" else (codec.DELSETELEM, 0)
            messages.extend([Message(kind, flags, body, f"elements of set {item['name']}") for body in bodies])
            continue
        if operation == "new_set":
            sets += 1
            what = f"set {step['set']['name']}"
            messages.append(Message(codec.NEWSET, NLM_F_CREATE, codec.encode_set(name, step["set"], sets), what))
        else:
            messages.append(_message(name, operation, step))
    return messages


def _message(name: str, operation: str, step: Step) -> Message:
    if operation == "new_table":
        return Message(
            codec.NEWTABLE, NLM_F_CREATE | NLM_F_EXCL, codec.encode_table(name, step.get("owner")), "table itself"
        )
    if operation == "delete_table":
        return Message(codec.DELTABLE, 0, codec.encode_table(name), "table itself")
    if operation == "delete_set":
        return Message(codec.DELSET, 0, codec.encode_flush(name, step["set"]), f"set {step['set']}")
    if operation in ("new_chain", "set_policy"):
        what = f"chain {step['chain']['name']}"
        flags = NLM_F_CREATE if operation == "new_chain" else 0
        return Message(codec.NEWCHAIN, flags, codec.encode_chain(name, step["chain"], step.get("owner")), what)
    what = f"chain {step['chain']}"
    if operation == "delete_chain":
        return Message(codec.DELCHAIN, 0, codec.encode_chain(name, {"name": step["chain"]}), what)
    if operation == "flush_chain":
        body = attribute(RULE_TABLE, codec.text(name)) + attribute(RULE_CHAIN, codec.text(step["chain"]))
        return Message(codec.DELRULE, 0, body, what)
    if operation == "add_rule":
        return Message(
            codec.NEWRULE,
            NLM_F_CREATE | NLM_F_APPEND,
            encode_rule(name, step["chain"], step["rule"]),
            "rule in " + what,
        )
    raise ValueError(f"no step {operation}")


def _open(operation: str) -> NetfilterSocket:
    try:
        return NetfilterSocket()
    except LinuxError as error:
        raise LinuxError(operation, "nftables", error.message) from None


def _reason(error: NetlinkRefused) -> str:
    hint = (
        " (does this kernel have nf_tables with chains of this type?)"
        if error.errno in (errno.EOPNOTSUPP, errno.EAFNOSUPPORT)
        else ""
    )
    return str(error) + hint
