# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of the inventory that are secret."""

from __future__ import annotations

DOCUMENTATION = r"""
name: secret_values
short_description: Collect the secret texts of hosts' variables
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Finds texts in variables whose names say that they are secret, such as passwords, tokens and private keys, at any depth.
  - It is for M(multicluster.network.support_bundle), which takes them out of everything it packs. Never show the result.
options:
  _input:
    description: The variable C(hostvars).
    type: dict
    required: true
  hosts:
    description: The hosts whose variables are looked at.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: How many secrets does the inventory have
  ansible.builtin.debug:
    msg: "{{ hostvars | multicluster.network.secret_values(groups['all']) | length }}"
"""

RETURN = r"""
_value:
  description: The texts, sorted.
  type: list
  elements: str
"""

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._status.redact import secrets_of


def secret_values(hostvars: t.Any, hosts: t.Sequence[str]) -> t.List[str]:
    """See DOCUMENTATION."""
    found: t.Set[str] = set()
    for host in hosts:
        given = hostvars[host]
        for name in list(given):
            if name.startswith("__") or name in ("hostvars", "vars", "groups"):
                continue
            try:
                value = given[name]
            except Exception:  # pylint: disable=broad-except
                continue  # a variable that is no value here, such as one that refers to another play's
            found |= secrets_of(value, str(name))
    return sorted(found)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"secret_values": secret_values}
