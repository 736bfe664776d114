# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Groups with names out of what a cluster reports, such as a node's label: none of them is a group of another source (threat T46).

A node in the group ``clusters`` would be a cluster, and one in ``bastions`` would get the bastions' variables and tasks.
"""

from __future__ import annotations

import typing as t
import weakref

#: {inventory: names of groups that were made here}: several sources may share those, and no other.
_MADE: t.MutableMapping[t.Any, set[str]] = weakref.WeakKeyDictionary()


class ClaimedGroups:
    """The groups of one source. reserved: {name: what it is} of names that no group takes."""

    def __init__(self, inventory: t.Any, reserved: t.Mapping[str, str]) -> None:
        self._inventory, self._reserved = inventory, reserved
        self._made = _MADE.setdefault(inventory, set())
        self._refused: dict[str, tuple[str, list[str]]] = {}

    def of(self, host: str, sanitize: t.Callable[[str], str], entry: t.Any) -> _Guarded:
        """The inventory as one entry of ``keyed_groups`` may change it for one host. A parent group that is written out is the operator's."""
        parent = entry.get("parent_group") if isinstance(entry, dict) else None
        said = {sanitize(parent)} if isinstance(parent, str) and parent and "{" not in parent else set()
        return _Guarded(self._inventory, self, host, said)

    def refused(self) -> list[str]:
        """One sentence for each group that nodes did not join."""
        text = "{0} {1} not join the group {2} of keyed_groups: {3} [name_reserved]; write a group that nodes may join in groups"
        found = []
        for name, (why, hosts) in sorted(self._refused.items()):
            more = f" and {len(hosts) - 3} more" if len(hosts) > 3 else ""
            found.append(text.format(", ".join(hosts[:3]) + more, "does" if len(hosts) == 1 else "do", name, why))
        return found

    def problem(self, name: str) -> str | None:
        """Why nodes may not make or join a group of this name; None where they may."""
        if name in self._made:
            return None
        if name in self._inventory.hosts:
            return "it is the name of a host"
        if name in self._inventory.groups:
            return "the inventory has one of its own"
        return f"it is {self._reserved[name]}" if name in self._reserved else None

    def refuse(self, name: str, why: str, host: str) -> None:
        """Note that a host did not join."""
        hosts = self._refused.setdefault(name, (why, []))[1]
        if host not in hosts:
            hosts.append(host)

    def note(self, name: str) -> None:
        """Note that a group was made here."""
        self._made.add(name)


class _Guarded:
    """What Constructable calls of an inventory, without the groups that are refused."""

    def __init__(self, inventory: t.Any, claimed: ClaimedGroups, host: str, said: t.Collection[str]) -> None:
        self._inventory, self._claimed, self._host, self._said = inventory, claimed, host, said

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._inventory, name)

    def _may(self, group: str) -> bool:
        why = None if group in self._said else self._claimed.problem(group)
        if why is not None:
            self._claimed.refuse(group, why, self._host)
        return why is None

    def add_group(self, group: str) -> str:
        """As Ansible's; a group that is refused is not made."""
        if not self._may(group):
            return group
        made = group not in self._inventory.groups
        name = str(self._inventory.add_group(group))
        if made:
            self._claimed.note(name)
        return name

    def add_host(self, host: str, group: str) -> None:
        """As Ansible's; a host does not join a group that is refused."""
        if self._may(group):
            self._inventory.add_host(host, group)

    def add_child(self, group: str, child: str) -> None:
        """As Ansible's; a group that is refused has no parent or child here."""
        if self._may(group) and self._may(child):
            self._inventory.add_child(group, child)
