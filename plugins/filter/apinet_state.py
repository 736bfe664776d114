# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of an interface from that of its twin."""

from __future__ import annotations

DOCUMENTATION = r"""
name: apinet_state
short_description: State that an interface of a tenant shows
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Gives the state of an interface on the tenant-facing side from the state of its twin on the network side.
  - C(Ready) is shown as C(Available) and C(Error) as it is. Everything else is C(Pending).
options:
  _input:
    description: The state of the twin.
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Show Available
  ansible.builtin.debug:
    msg: "{{ 'Ready' | multicluster.network.apinet_state }}"
"""

RETURN = r"""
_value:
  description: C(Pending), C(Available) or C(Error).
  type: str
"""

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._tenants.links import interface_state


def apinet_state(twin_state: t.Any) -> str:
    """The state."""
    return interface_state(twin_state)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"apinet_state": apinet_state}
