# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The name of a mirror, before anything is mirrored."""

from __future__ import annotations

DOCUMENTATION = r"""
name: mirror_name
short_description: Name of the mirror of a Service, checked
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Gives the name that M(multicluster.network.service_mirror) gives the mirror of a Service, or fails with the reason why there
    cannot be one, C(name_too_long) or C(name_invalid).
  - Use it in the source cluster's pipelines, before a Service is labelled for mirroring.
options:
  _input:
    description: Name of the Service.
    type: str
    required: true
  namespace:
    description: Namespace of the Service.
    type: str
    required: true
  prefix:
    description: Prefix of the source cluster, which is its name unless chosen otherwise. C(gl) gives the name of a global Service.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Refuse Services that could not be mirrored
  ansible.builtin.assert:
    that: (item.metadata.name | multicluster.network.mirror_name(item.metadata.namespace, 'aws')) is string
  loop: "{{ manifests | selectattr('kind', 'eq', 'Service') }}"

- name: Show aws-sys-log-73736d-fluentd
  ansible.builtin.debug:
    msg: "{{ 'fluentd' | multicluster.network.mirror_name('sys-log', 'aws') }}"
"""

RETURN = r"""
_value:
  description: The name.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._services import names
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def mirror_name(name: t.Any, namespace: t.Any, prefix: t.Any) -> str:
    """The checked name."""
    for text in (name, namespace, prefix):
        if not isinstance(text, str):
            raise AnsibleFilterError("mirror_name: name, namespace and prefix are texts")
    try:
        return names.mirror_name(prefix, namespace, name).checked()
    except ValueRefused as error:
        raise AnsibleFilterError(f"mirror_name: {error.message} [{error.reason}]") from error


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"mirror_name": mirror_name}
