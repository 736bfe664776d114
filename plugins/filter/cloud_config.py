# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings as the upstream cloud controller reads them."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cloud_config
short_description: Settings of the upstream cloud controller as the text of its configuration file
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Gives the JSON text that the upstream cloud controller reads from the key C(cloud-sa.json) of the Secret C(kube-system/metal-cloud-config), and that
    M(multicluster.network.load_balancers) reads back with O(multicluster.network.load_balancers#module:settings[].config_secret).
options:
  _input:
    description: Settings by the names of the module's options, such as C(api_key), C(project_id), C(metro) and C(loadbalancer).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Write the Secret
  multicluster.network.cluster_objects:
    fabric: demo
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
    objects:
      - apiVersion: v1
        kind: Secret
        metadata: {name: metal-cloud-config, namespace: kube-system}
        data:
          cloud-sa.json: "{{ {'api_key': vault_token, 'project_id': project} | multicluster.network.cloud_config | b64encode }}"
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: The text.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.multicluster.network.plugins.module_utils._loadbalancers.settings import settings_text
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def cloud_config(values: t.Any) -> str:
    """See DOCUMENTATION."""
    if not isinstance(values, t.Mapping):
        raise AnsibleFilterError("cloud_config: the settings are no dictionary")
    try:
        return settings_text(dict(values))
    except ValueRefused as error:
        raise AnsibleFilterError(f"cloud_config: {error.message}") from None


class FilterModule:
    """Ansible's way to find the filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Name to function."""
        return {"cloud_config": cloud_config}
