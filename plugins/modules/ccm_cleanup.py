#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ccm_cleanup
short_description: List or release the addresses that a deleted cluster left behind
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - A cluster that is deleted before its Services leaves their addresses behind at the provider, where they go on to cost money.
  - This lists every reservation that carries both the tag of a cloud controller of this collection and the tag of that one cluster, and releases them
    with O(confirm=true). Nothing else of the project is touched; without a UID nothing is done.
  - Check mode shows what a confirmed run would release. A list that is not complete releases nothing.
  - For clusters that still exist, M(multicluster.network.load_balancers) does this by itself, with a record of what it ordered.
extends_documentation_fragment:
  - multicluster.network._kubernetes
  - multicluster.network._refused
  - multicluster.network._attributes
options:
  clusters:
    description:
      - Clusters that still exist. If one of them has the UID, nothing is released, and neither if one of them cannot be asked.
    required: false
    default: []
  cluster_uid:
    description: UID of the namespace C(kube-system) of the cluster that is gone. It is in the tag C(cluster=UID).
    type: str
    required: true
  confirm:
    description: Release what was found, and do not only list it.
    type: bool
    default: false
  force:
    description: Also release addresses that are still assigned to a device.
    type: bool
    default: false
  project_id:
    description: Project at the provider.
    type: str
  api_key:
    description: Token of the provider's API.
    type: str
  base_url:
    description: URL of an API of the shape of Equinix Metal's, which itself ended on 30 June 2026.
    type: str
  allow_plain_http:
    description: Allow a O(base_url) that sends the token in clear text.
    type: bool
    default: false
  config_file:
    description: A JSON file with the settings of the upstream cloud controller, on the host that runs the module.
    type: path
  use_environment:
    description: Whether the variables C(METAL_*) of the environment count, below options and above the file.
    type: bool
    default: false
  identity:
    description: The name in tags.
    type: str
    choices: [cloud-provider-equinix-metal, metal-ccm, packet-ccm]
    default: metal-ccm
  adopt_identities:
    description: Names with reservations that count too. The default is all three.
    type: list
    elements: str
    choices: [cloud-provider-equinix-metal, metal-ccm, packet-ccm]
  fail_on_failures:
    description: Whether the task fails when the provider or one of O(clusters) could not be asked.
    type: bool
    default: true
attributes:
  check_mode:
    description: Reads and shows what would be released, with or without O(confirm).
    support: full
  diff_mode:
    description: Shows every reservation that is released.
    support: full
  idempotent:
    description: What was released once is gone.
    support: full
seealso:
  - module: multicluster.network.load_balancers
  - module: multicluster.network.ccm_info
"""

EXAMPLES = r"""
- name: What did the cluster leave behind
  multicluster.network.ccm_cleanup:
    cluster_uid: 5a3e0c4e-6a1f-4a55-9d0c-3b2d2f6b1c11
    base_url: https://metal.example.net/metal/v1
    project_id: 0d9f3c5e-5a3c-4d1e-9d5a-4f6d2f3b8a11
    api_key: "{{ vault_metal_token }}"
  register: left

- name: Give it back
  multicluster.network.ccm_cleanup:
    cluster_uid: 5a3e0c4e-6a1f-4a55-9d0c-3b2d2f6b1c11
    confirm: true
    base_url: https://metal.example.net/metal/v1
    project_id: 0d9f3c5e-5a3c-4d1e-9d5a-4f6d2f3b8a11
    api_key: "{{ vault_metal_token }}"
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
"""

RETURN = r"""
release:
  description: Reservations of that cluster, released or not, each with the tags that say so.
  type: list
  elements: dict
  returned: always
  sample:
    - id: 4e470000-0000-4000-8000-000000000000
      address: 147.75.10.1
      state: created
      location: da
      tags: ["cluster=5a3e0c4e-6a1f-4a55-9d0c-3b2d2f6b1c11", "service=l7RnKS8k48oG3Qv3Pxx8FzEMj3X3E5c8JPOIzyLWWdY=", usage=metal-ccm-auto]
      assigned_to: []
blocked:
  description: Those that still point at a device and stay without O(force).
  type: list
  elements: dict
  returned: always
  sample: []
kept:
  description: How many other reservations the project has.
  type: int
  returned: always
  sample: 3
plan:
  description: Counts of what was (or, in check mode, would be) released, and the first 200 changes.
  type: dict
  returned: always
  sample: {create: 0, update: 0, delete: 1, unchanged: 0, changes: [{action: delete, kind: Reservation, id: 4e470000-0000-4000-8000-000000000000}]}
refused:
  description: What stays, each with a reason and a message.
  type: list
  elements: dict
  returned: always
  sample: [{object: cluster aws, reason: cluster_alive, message: the addresses of this cluster itself would be released}]
failures:
  description: What could not be read, each with C(cluster), C(operation), C(reason), C(message) and C(status).
  type: list
  elements: dict
  returned: always
  sample: []
stats:
  description: Requests by verb for each of O(clusters), and calls of the provider.
  type: dict
  returned: always
  sample: {requests: {}, provider_calls: 2}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import ccm_cleanup
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers.arguments import cleanup_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube


def argument_spec() -> dict[str, Any]:
    """All options."""
    return cleanup_spec()


def main() -> None:
    """Entry point."""
    module = KubeModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = ccm_cleanup.run(module.params, check=module.check_mode)
    except ValueError as err:
        module.fail_json(msg=str(err))
    exit_kube(module, result)


if __name__ == "__main__":
    main()
