# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of nftables as lists of statements (those of kubespan_nft), to the kernel's expressions and back.

Rules are compared as statements: what a rule of the kernel means is worked out from its expressions, whatever program
wrote it and however it spelt it. Expressions that mean none of the statements become ``{"unknown": name, "data": hex}``,
which equals nothing that anybody wants.
"""

from __future__ import annotations

import struct
import typing as t

from ..netlink.messages import attribute, attributes, from_kernel
from .codec import DATA_VALUE, DATA_VERDICT, VERDICT_CHAIN, VERDICT_CODE, nest, read_text, read_u32, text, u32

Data = dict[str, t.Any]
Rule = list[Data]
#: An expression: its name, and its fields by name.
Expression = tuple[str, dict[str, t.Any]]

RULE_TABLE, RULE_CHAIN, RULE_HANDLE, RULE_EXPRESSIONS, RULE_USERDATA = 1, 2, 3, 4, 7
_LIST_ELEMENT, _EXPRESSION_NAME, _EXPRESSION_DATA = 1, 1, 2

#: Fields of the expressions that we read and write: name -> (attribute, form).
_FIELDS: t.Mapping[str, t.Mapping[str, tuple[int, str]]] = {
    "meta": {"dreg": (1, "u32"), "key": (2, "u32"), "sreg": (3, "u32")},
    "cmp": {"sreg": (1, "u32"), "op": (2, "u32"), "data": (3, "data")},
    "bitwise": {
        "sreg": (1, "u32"),
        "dreg": (2, "u32"),
        "len": (3, "u32"),
        "mask": (4, "data"),
        "xor": (5, "data"),
        "op": (6, "u32"),
    },
    "payload": {"dreg": (1, "u32"), "base": (2, "u32"), "offset": (3, "u32"), "len": (4, "u32")},
    "lookup": {"set": (1, "text"), "sreg": (2, "u32"), "dreg": (3, "u32"), "flags": (5, "u32")},
    "immediate": {"dreg": (1, "u32"), "data": (2, "data")},
    "exthdr": {
        "dreg": (1, "u32"),
        "type": (2, "u8"),
        "offset": (3, "u32"),
        "len": (4, "u32"),
        "flags": (5, "u32"),
        "op": (6, "u32"),
        "sreg": (7, "u32"),
    },
}
_NAMES = {name: {number: (field, form) for field, (number, form) in fields.items()} for name, fields in _FIELDS.items()}
#: Fields that a kernel dumps though they say nothing but the default; and the set's number within a batch.
_DEFAULTS: t.Mapping[str, t.Mapping[str, int]] = {"bitwise": {"op": 0}, "lookup": {"flags": 0}, "exthdr": {"flags": 0}}
_NOTHING = {"lookup": (4,)}

_REGISTER, _VERDICT_REGISTER = 1, 0
_META_MARK, _META_OIFNAME, _META_NFPROTO, _META_L4PROTO = 3, 7, 15, 16
_EQUAL, _GREATER = 0, 4
_NETWORK_HEADER, _TRANSPORT_HEADER = 1, 2
_MSS = {"type": 2, "offset": 2, "len": 2, "op": 1}
#: Where the destination is in a header: (offset, bytes).
_DESTINATION = {4: (16, 4), 6: (24, 16)}
_PROTOCOL_FAMILY = {4: b"\x02", 6: b"\x0a"}
_TCP = b"\x06"
_NAME_BYTES = 16
_VERDICTS = {"drop": 0, "accept": 1, "return": -5 & 0xFFFFFFFF}
_VERDICT_NAMES = {number: name for name, number in _VERDICTS.items()}


# --- expressions and bytes -----------------------------------------------------------------------------------------


def encode_rule(table: str, chain: str, rule: t.Sequence[t.Mapping[str, t.Any]]) -> bytes:
    """The body of NEWRULE."""
    body = attribute(RULE_TABLE, text(table)) + attribute(RULE_CHAIN, text(chain))
    parts = [nest(_LIST_ELEMENT, _encode(item)) for item in compile_rule(rule)]
    return body + nest(RULE_EXPRESSIONS, b"".join(parts))


def _encode(expression: Expression) -> bytes:
    name, values = expression
    fields = sorted((_FIELDS[name][field], value) for field, value in values.items())
    data = b"".join(_encode_field(number, form, value) for (number, form), value in fields)
    return attribute(_EXPRESSION_NAME, text(name)) + nest(_EXPRESSION_DATA, data)


def _encode_field(number: int, form: str, value: t.Any) -> bytes:
    if form == "u32":
        return attribute(number, u32(value))
    if form == "u8":
        return attribute(number, bytes([value]))
    if form == "text":
        return attribute(number, text(value))
    if isinstance(value, bytes):
        return nest(number, attribute(DATA_VALUE, value))
    return nest(number, nest(DATA_VERDICT, attribute(VERDICT_CODE, u32(value[0]))))


@from_kernel("a rule of nftables")
def decode_rule(body: bytes) -> Data:
    """``{table, chain, handle, rule: [statement]}``."""
    found: Data = {"table": "", "chain": "", "handle": 0, "rule": []}
    for kind, value in attributes(body):
        if kind == RULE_TABLE:
            found["table"] = read_text(value)
        elif kind == RULE_CHAIN:
            found["chain"] = read_text(value)
        elif kind == RULE_HANDLE:
            found["handle"] = int.from_bytes(value, "big")
    found["rule"] = decompile(decode_expressions(body))
    return found


@from_kernel("a rule of nftables")
def decode_expressions(body: bytes) -> list[Expression]:
    """A rule's expressions themselves, for those who ask for single ones."""
    for kind, value in attributes(body):
        if kind == RULE_EXPRESSIONS:
            return [_decode(item) for _index, item in attributes(value)]
    return []


def _decode(item: bytes) -> Expression:
    name, raw = "", b""
    for kind, value in attributes(item):
        if kind == _EXPRESSION_NAME:
            name = read_text(value)
        elif kind == _EXPRESSION_DATA:
            raw = value
    values: dict[str, t.Any] = {}
    for number, value in attributes(raw):
        if number in _NOTHING.get(name, ()):
            continue
        if number not in _NAMES.get(name, ()):
            return name, {"unknown": raw.hex()}
        field, form = _NAMES[name][number]
        values[field] = _decode_field(form, value)
    for field, default in _DEFAULTS.get(name, {}).items():
        if values.get(field) == default:
            del values[field]
    return name, values


def _decode_field(form: str, raw: bytes) -> t.Any:
    if form == "u32":
        return read_u32(raw)
    if form == "u8":
        return raw[0]
    if form == "text":
        return read_text(raw)
    value: t.Any = None
    for kind, inner in attributes(raw):
        if kind == DATA_VALUE:
            value = inner
        elif kind == DATA_VERDICT:
            parts = dict(attributes(inner))
            value = (read_u32(parts[VERDICT_CODE]),)
            if VERDICT_CHAIN in parts:
                value += (read_text(parts[VERDICT_CHAIN]),)
    return value


# --- statements and expressions ------------------------------------------------------------------------------------


def compile_rule(rule: t.Iterable[t.Mapping[str, t.Any]]) -> list[Expression]:
    """All expressions of a rule, as the nft tool would send them."""
    return [expression for item in rule for expression in _compile(item)]


def _mark(value: int) -> bytes:
    return struct.pack("=I", value)  # registers hold a mark in the machine's own order


def _load(key: int) -> Expression:
    return "meta", {"dreg": _REGISTER, "key": key}


def _compare(data: bytes, operator: int = _EQUAL) -> Expression:
    return "cmp", {"sreg": _REGISTER, "op": operator, "data": data}


def _mask(mask: bytes, xor: bytes) -> Expression:
    return "bitwise", {"sreg": _REGISTER, "dreg": _REGISTER, "len": len(mask), "mask": mask, "xor": xor}


def _payload(base: int, offset: int, length: int) -> Expression:
    return "payload", {"dreg": _REGISTER, "base": base, "offset": offset, "len": length}


def _compile(item: t.Mapping[str, t.Any]) -> list[Expression]:
    kind = item.get("match")
    if kind == "mark":
        return [_load(_META_MARK), _mask(_mark(item["mask"]), _mark(0)), _compare(_mark(item["value"]))]
    if kind == "oifname":
        return [_load(_META_OIFNAME), _compare(item["value"].encode("utf-8").ljust(_NAME_BYTES, b"\0"))]
    if kind == "daddr":
        lookup: Expression = ("lookup", {"set": item["set"], "sreg": _REGISTER})
        family = [_load(_META_NFPROTO), _compare(_PROTOCOL_FAMILY[item["family"]])]
        return family + [_payload(_NETWORK_HEADER, *_DESTINATION[item["family"]]), lookup]
    if kind == "tcp_flags":
        flags = [
            _payload(_TRANSPORT_HEADER, 13, 1),
            _mask(bytes([item["mask"]]), b"\0"),
            _compare(bytes([item["value"]])),
        ]
        return [_load(_META_L4PROTO), _compare(_TCP)] + flags
    if kind == "mss_above":
        return [("exthdr", dict(_MSS, dreg=_REGISTER)), _compare(struct.pack(">H", item["value"]), _GREATER)]
    if item.get("set") == "mss":
        value: Expression = ("immediate", {"dreg": _REGISTER, "data": struct.pack(">H", item["value"])})
        return [value, ("exthdr", dict(_MSS, sreg=_REGISTER))]
    if item.get("set") == "mark":
        store: Expression = ("meta", {"key": _META_MARK, "sreg": _REGISTER})
        return [_load(_META_MARK), _mask(_mark(item["mask"]), _mark(item["xor"])), store]
    return [("immediate", {"dreg": _VERDICT_REGISTER, "data": (_VERDICTS[item["verdict"]],)})]


def decompile(expressions: t.Sequence[Expression]) -> Rule:
    """The statements that a rule's expressions mean: a guess from the fields that vary, which must compile to the same."""
    rule: Rule = []
    position = 0
    while position < len(expressions):
        for guess in _GUESSES:
            length, make = guess
            part = expressions[position : position + length]
            try:
                item = make(part) if len(part) == length else None
                found = item is not None and _compile(item) == list(part)
            except (KeyError, TypeError, ValueError, AttributeError, struct.error):
                found = False
            if found and item is not None:
                rule.append(item)
                position += length
                break
        else:
            name, values = expressions[position]
            shown = values.get("unknown") or _encode((name, values)).hex()
            rule.append({"unknown": name, "data": shown})
            position += 1
    return rule


def _number(raw: bytes) -> int:
    number: int = struct.unpack("=I", raw)[0]
    return number


def _guess_daddr(part: t.Sequence[Expression]) -> Data:
    family = {raw: version for version, raw in _PROTOCOL_FAMILY.items()}[part[1][1]["data"]]
    return {"match": "daddr", "family": family, "set": part[3][1]["set"]}


def _guess_flags(part: t.Sequence[Expression]) -> Data:
    return {"match": "tcp_flags", "mask": part[3][1]["mask"][0], "value": part[4][1]["data"][0]}


def _guess_mark(part: t.Sequence[Expression]) -> Data:
    mask = part[1][1]
    if "key" in part[2][1]:
        return {"set": "mark", "mask": _number(mask["mask"]), "xor": _number(mask["xor"])}
    return {"match": "mark", "mask": _number(mask["mask"]), "value": _number(part[2][1]["data"])}


def _guess_pair(part: t.Sequence[Expression]) -> Data:
    (first, values), (_second, others) = part
    if first == "immediate":
        return {"set": "mss", "value": struct.unpack(">H", values["data"])[0]}
    if first == "exthdr":
        return {"match": "mss_above", "value": struct.unpack(">H", others["data"])[0]}
    return {"match": "oifname", "value": others["data"].rstrip(b"\0").decode("utf-8")}


def _guess_verdict(part: t.Sequence[Expression]) -> Data:
    return {"verdict": _VERDICT_NAMES[part[0][1]["data"][0]]}


_GUESSES: tuple[tuple[int, t.Callable[[t.Sequence[Expression]], Data]], ...] = (
    (5, _guess_flags),
    (4, _guess_daddr),
    (3, _guess_mark),
    (2, _guess_pair),
    (1, _guess_verdict),
)
