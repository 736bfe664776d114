# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Variables of many hosts for one task: each host is looked at once, and what our own plays registered is taken as it is.

Ansible merges the variables of a host at each ``hostvars[host]``, and makes a copy of a value at each look, template or not. A plan is registered
on every host of a play, so a task that looks for it host by host would copy the plan of the whole fabric as many times as the fabric has nodes.
"""

from __future__ import annotations

import collections.abc
import typing as t

#: Registered results and facts of our roles. A module's result is never a template, and a fact was one before it was set.
OURS = "__"


class OfHost(collections.abc.Mapping[str, t.Any]):
    """The variables of one host."""

    def __init__(self, given: t.Any) -> None:
        self._given = given
        self._raw = getattr(given, "_vars", given)

    def __getitem__(self, name: str) -> t.Any:
        return self._raw[name] if name.startswith(OURS) else self._given[name]

    def __contains__(self, name: object) -> bool:
        return name in self._given

    def __iter__(self) -> t.Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


class Registered:
    """``hostvars`` of a task: what is not asked for by host is that of Ansible."""

    def __init__(self, hostvars: t.Any) -> None:
        self._hostvars = hostvars
        self._seen: dict[str, OfHost] = {}

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._hostvars, name)

    def __getitem__(self, host: str) -> OfHost:
        if host not in self._seen:
            given = self._hostvars[host]
            if not isinstance(given, collections.abc.Mapping):
                raise KeyError(host)
            self._seen[host] = OfHost(given)
        return self._seen[host]

    def __contains__(self, host: object) -> bool:
        return host in self._hostvars

    def __iter__(self) -> t.Iterator[str]:
        return iter(self._hostvars)

    def __len__(self) -> int:
        return len(self._hostvars)


def registered(hostvars: t.Any) -> t.Any:
    """The same for a task that looks at many hosts; of an empty value an empty one."""
    return hostvars if isinstance(hostvars, Registered) else Registered(hostvars or {})
