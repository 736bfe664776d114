# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether two networks share an address."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cidr_overlaps
short_description: Whether two networks share an address
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Host bits are masked. Fails with C(invalid-cidr).
options:
  _input:
    description: A network in CIDR form.
    type: str
    required: true
  other:
    description: Another one.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Compare two ranges
  ansible.builtin.debug:
    msg: "{{ '10.0.0.0/16' | multicluster.network.cidr_overlaps('10.0.5.0/24') }}"
"""

RETURN = r"""
_value:
  description: Whether they share an address. Networks of different families never do.
  type: bool
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._kilo.values import cidr_overlaps as compare, parse_cidr
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def cidr_overlaps(text: t.Any, other: t.Any) -> t.Any:
    """See DOCUMENTATION."""
    try:
        return compare(parse_cidr(text).network, parse_cidr(other).network)
    except ValueRefused as err:
        # the message begins with the reason word
        raise AnsibleFilterError(str(err)) from err


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"cidr_overlaps": cidr_overlaps}
