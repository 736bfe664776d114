# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A CIDR text in its parts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: parse_cidr
short_description: Read an address with prefix length strictly
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Host bits are kept in C(host_ip) and masked in C(network). An IPv4-mapped IPv6 address is the IPv4 address.
  - Fails with C(invalid-cidr). A bare address, a netmask and a zone are refused.
options:
  _input:
    description: The text.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: What does Kilo announce for this annotation
  ansible.builtin.debug:
    msg: "{{ ('100.66.0.3/16' | multicluster.network.parse_cidr).host_route }}"
"""

RETURN = r"""
_value:
  description: C(host_ip), C(network) and C(host_route).
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._kilo.values import parse_cidr as parse
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def parse_cidr(text: t.Any) -> t.Any:
    """See DOCUMENTATION."""
    try:
        cidr = parse(text)
        return {"host_ip": str(cidr.host), "network": str(cidr.network), "host_route": cidr.host_route}
    except ValueRefused as err:
        # the message begins with the reason word
        raise AnsibleFilterError(str(err)) from err


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"parse_cidr": parse_cidr}
