# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The names of every variable of the collection, from the two places that declare them: argument specs, and playbooks/vars."""

from __future__ import annotations

import functools
import pathlib
import typing as t

import yaml
from ansible_collections.multicluster.network.plugins.module_utils._mesh.fabric.names import Known

#: The collection as it is installed.
ROOT = pathlib.Path(__file__).resolve().parents[2]
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def run_variables(root: pathlib.Path = ROOT) -> dict[str, t.Any]:
    """``{prefixes, unowned, former, internal, variables: {name: {description, default, of, command_line, choices, type}}}``."""
    table: dict[str, t.Any] = _load(root / "playbooks" / "vars" / "run_variables.yml")
    return table


def role_options(root: pathlib.Path = ROOT) -> dict[str, dict[str, t.Any]]:
    """``{role: {option: its specification}}``, all entry points together."""
    found: dict[str, dict[str, t.Any]] = {}
    for path in sorted((root / "roles").glob("*/meta/argument_specs.yml")):
        options = found.setdefault(path.parts[-3], {})
        for entry in _load(path)["argument_specs"].values():
            options.update(entry.get("options") or {})
    return found


@functools.cache
def known_variables(root: pathlib.Path = ROOT) -> Known:
    """Everything that an inventory may say to us."""
    table, roles = run_variables(root), role_options(root)
    rows, former = table["variables"], table["former"]
    prefixes = {role + "_" for role in roles} | set(table["prefixes"])
    names = frozenset((*rows, *table["internal"], *(name for options in roles.values() for name in options)))
    return Known(
        names=names,
        prefixes=tuple(sorted(prefixes)),
        unowned=frozenset(table["unowned"]),
        command_line=frozenset(name for name, row in rows.items() if row.get("command_line")),
        choices={name: tuple(row["choices"]) for name, row in rows.items() if row.get("choices")},
        types={name: str(row["type"]) for name, row in rows.items() if row.get("type")},
        former={
            old + name[len(new) :]: name
            for old, new in former["prefixes"].items()
            for name in names
            if name.startswith(new)
        },
        shared=frozenset(former["shared"]),
        former_words={**former["capabilities"], **former["playbooks"]},
        words_in=frozenset(former["said_in"]),
        of_hosts=frozenset(name for name, row in rows.items() if row.get("of") in ("node", "cluster")),
    )


@functools.cache
def option_specs(root: pathlib.Path = ROOT) -> dict[str, dict[str, t.Any]]:
    """``{variable: its specification}`` of all roles."""
    return {name: option for options in role_options(root).values() for name, option in options.items()}


@functools.cache
def read_once(root: pathlib.Path = ROOT) -> dict[str, str]:
    """``{variable: clusters or both}`` of the options that a run reads once for the fabric, and at hosts of which group it does."""
    table, roles = run_variables(root)["read_at"], role_options(root)
    own = set(table["host"]["options"])
    return {
        name: where
        for where, names in table["fabric"].items()
        for role in names
        for name in roles[role]
        if name not in own
    }


def _load(path: pathlib.Path) -> t.Any:
    with path.open("rb") as stream:
        return yaml.load(stream, Loader=_Loader)
