# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proposal as the text of an inventory file. Text of others is quoted, and marked so that Ansible never takes it for a template."""

from __future__ import annotations

import json
import re
import typing as t

from .._values.text import lower
from .programs import LOST, MAPPED, NOT_NEEDED, UNKNOWN
from .proposal import Proposal, Row, Vault

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*\Z")
_WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
_TEMPLATE = re.compile(r"\{[{%#]")
HEAD = """# Proposal of an inventory, made from the settings of other programs. Nothing was changed, and nothing reads this file before you use it.
# Put it alongside your inventory (-i inventory -i this file) or copy what you want of it. Then: validate, adopt -e adopt_step=plan --check --diff,
# adopt -e adopt_step=take.
"""
_TITLES = (
    (UNKNOWN, "Keys that the reader does not know"),
    (LOST, "Keys without a counterpart, and what is lost with them"),
    (NOT_NEEDED, "Keys that nothing needs any more"),
    (MAPPED, "Keys that variables say now"),
)


def text(proposal: Proposal) -> str:
    """The file. The same proposal gives the same bytes."""
    lines = ["---", *HEAD.splitlines()]
    lines += _comment(
        "Findings: look at each before you go on",
        [f"{row.object}: {row.message} [{row.reason}]" for row in proposal.findings],
    )
    lines += _comment(
        "Secrets, which nobody read: put each into a vault under this name",
        [f"{name}: {place}" for name, place in sorted(proposal.secrets.items())],
    )
    inventory: dict[str, t.Any] = {}
    if proposal.clusters:
        inventory["clusters"] = {"hosts": {name: proposal.clusters[name] for name in sorted(proposal.clusters)}}
    if proposal.fabric:
        inventory["all"] = {"vars": proposal.fabric}
    lines += _mapping(inventory, 0) if inventory else ["{}"]
    for fate, title in _TITLES:
        lines += _comment(title, [_row(row) for row in proposal.rows if row.fate == fate])
    return "\n".join(lines) + "\n"


def _row(row: Row) -> str:
    owned = ": " + ", ".join(row.variables) if row.variables else ""
    return f"{row.key}{owned}{'; ' + row.remark if row.remark else ''} ({row.program}, {row.where})"


def _comment(title: str, rows: t.Sequence[str]) -> list[str]:
    """Lines that no reader of YAML sees: whatever is in a row, it stays on its line."""
    return ["#", f"# {title}:", *("#   " + ascii(row)[1:-1] for row in rows), "#"] if rows else []


def scalar(value: t.Any) -> str:
    """One value: text in quotes unless it is plain, untrusted templates marked as data."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        if isinstance(value, Vault):
            return _quoted(str(value))
        if _TEMPLATE.search(value):
            return "!unsafe " + _quoted(value)
        return value if _PLAIN.match(value) and lower(value) not in _WORDS else _quoted(value)
    return "[" + ", ".join(scalar(one) for one in value) + "]"


def _quoted(text_of: str) -> str:
    """A text in YAML's double quotes: as in JSON, but for what JSON writes as two halves of a character."""
    return "".join(f"\\U{ord(char):08x}" if ord(char) > 0xFFFF else json.dumps(char)[1:-1] for char in text_of).join(
        '""'
    )


def _mapping(values: t.Mapping[str, t.Any], depth: int) -> list[str]:
    lines = []
    for key, value in values.items():
        head = f"{'  ' * depth}{scalar(str(key))}:"
        if isinstance(value, dict):
            lines += [head, *_mapping(value, depth + 1)] if value else [head + " {}"]
        else:
            lines.append(f"{head} {scalar(value)}")
    return lines
