# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Answers of AWX's surveys as values of roles' variables. A survey has no booleans, lists or dictionaries."""

from __future__ import annotations

import typing as t

import yaml

#: An answer by which a choice, or yes and no, is left to the inventory; of other types an empty answer does it.
INVENTORY = "inventory"


def values(mapping: t.Mapping[str, t.Mapping[str, str]], answers: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """{variable of a role: value} of those answers that are not left to the inventory.

    mapping: {variable of the survey: {argument, type}}, as playbooks/files/awx/mapping.yml has it. Raises ValueError with the answer's name.
    """
    found: dict[str, t.Any] = {}
    for name, row in mapping.items():
        given = answers.get(name)
        if _is_left(row["type"], given):
            continue
        try:
            found[row["argument"]] = _KINDS[row["type"]](given)
        except (TypeError, ValueError, yaml.YAMLError):
            raise ValueError(
                f"{name}: {str(given)[:80]!r} is no {row['type']}; answer it again, or leave it empty"
            ) from None
    return found


def _is_left(kind: str, given: t.Any) -> bool:
    if given is None or (isinstance(given, str) and not given.strip()):
        return True
    if kind in ("bool", "choice"):
        return bool(given == INVENTORY)
    return isinstance(given, (list, tuple, dict)) and not given


def _names(given: t.Any) -> list[str]:
    """A list, or names separated by commas."""
    if isinstance(given, (list, tuple)):
        return [str(item) for item in given]
    return [item.strip() for item in str(given).split(",") if item.strip()]


def _table(given: t.Any) -> dict[str, t.Any]:
    found = yaml.safe_load(given) if isinstance(given, str) else given
    if not isinstance(found, dict):
        raise ValueError
    return found


_KINDS: dict[str, t.Callable[[t.Any], t.Any]] = {
    "bool": lambda given: given is True or given == "yes",
    "choice": str,
    "dict": _table,
    "float": float,
    "int": int,
    "list": _names,
    "str": str,
}
