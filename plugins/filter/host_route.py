# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An address as a route."""

from __future__ import annotations

DOCUMENTATION = r"""
name: host_route
short_description: An address as a route to it alone
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - The canonical text with /32 or /128. Fails with C(invalid-ip).
options:
  _input:
    description: An address without prefix.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Route of a host
  ansible.builtin.debug:
    msg: "{{ '192.0.2.1' | multicluster.network.host_route }}"
"""

RETURN = r"""
_value:
  description: The route.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._kilo.values import host_route as route, parse_ip
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def host_route(text: t.Any) -> t.Any:
    """See DOCUMENTATION."""
    try:
        return route(parse_ip(text))
    except ValueRefused as err:
        # the message begins with the reason word
        raise AnsibleFilterError(str(err)) from err


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"host_route": host_route}
