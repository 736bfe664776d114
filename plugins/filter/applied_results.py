# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run has carried out before it judges itself."""

from __future__ import annotations

DOCUMENTATION = r"""
name: applied_results
short_description: What a run has carried out, and what of it must be read again
version_added: 0.1.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Looks at the results that the roles of capabilities registered on a host. One that changed nothing has read everything and found it
    as wanted, so it is its own proof. One that wrote must be compared again, since an accepted write proves nothing.
options:
  _input:
    description: The variables of one host, of C(hostvars).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Which capabilities must be compared again
  ansible.builtin.debug:
    msg: "{{ hostvars[inventory_hostname] | multicluster.network.applied_results | dict2items | selectattr('value.again') | map(attribute='key') }}"
"""

RETURN = r"""
_value:
  description: >-
    Capability to C(again), whether it wrote and must be read again, and C(written), what it wrote, each as kind and name; null where that
    is too much to tell. What failed is told by its result, and is not compared again. Capabilities without a result are missing.
  type: dict
"""

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._status import collected


def applied_results(given: t.Any) -> t.Dict[str, t.Any]:
    """See DOCUMENTATION."""
    return collected.applied(given)


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"applied_results": applied_results}
