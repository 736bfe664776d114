# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""host:port as a Kilo Peer has it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: parse_endpoint
short_description: Turn host:port into the endpoint of a Kilo Peer
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - An IPv6 address needs brackets, a DNS name may have them. The host is not examined any further.
  - Fails with C(NodeEndpointInvalid).
options:
  _input:
    description: The text.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: As a Peer has it
  ansible.builtin.debug:
    msg: "{{ '[2001:db8::1]:51820' | multicluster.network.parse_endpoint }}"
"""

RETURN = r"""
_value:
  description: C(dnsOrIP) with C(ip) or C(dns), and C(port).
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._mesh.kilo.endpoints import parse_endpoint as parse
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def parse_endpoint(text: t.Any) -> t.Any:
    """See DOCUMENTATION."""
    try:
        return parse(text)
    except ValueRefused as err:
        # the message begins with the reason
        raise AnsibleFilterError(str(err)) from err


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"parse_endpoint": parse_endpoint}
