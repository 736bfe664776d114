#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: support_bundle
short_description: Create a bundle for a bug report, without secrets
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Writes one tar.gz with the fabric's status, what M(multicluster.network.node_info) with C(support) said of every node, the plans,
    the inventory's variables and versions of programs.
  - Secrets are taken out by the names of fields, by the shapes that secrets have, and wherever a known one is found, as text, base64
    or hexadecimal digits. Known are the credentials of the clusters, secret variables of the inventory, and O(secrets).
  - Addresses and names stay, since nothing can be understood without them.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes
  - multicluster.network._fabric
  - multicluster.network._attributes
options:
  path:
    description: The archive. Only its owner may read it.
    type: path
    required: true
  definition:
    description: The variables of C(clusters) and C(nodes). The default is what the inventory has.
    type: dict
  files:
    description: Names in the archive to files on the host that runs the module, such as those of M(multicluster.network.fabric_status).
    type: dict
    default: {}
  secrets:
    description: Texts that must not be in the archive, in any spelling.
    type: list
    elements: str
    default: []
  versions:
    description: Programs and their versions.
    type: dict
    default: {}
attributes:
  check_mode:
    description: In check mode no file is written.
    support: full
  diff_mode:
    description: A report is no change, so there is no diff.
    support: none
  idempotent:
    description: Never reports a change.
    support: full
"""

EXAMPLES = r"""
- name: Pack what the status playbook wrote
  multicluster.network.support_bundle:
    fabric: default
    clusters:
      - {name: aws, kubeconfig: /etc/multicluster/aws.kubeconfig}
    files:
      status.json: /var/www/fabric.json
    path: ~/support.tar.gz
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
path:
  description: The archive.
  type: str
  returned: success
  sample: /tmp/support.tar.gz
files:
  description: What is in it.
  type: list
  elements: str
  returned: success
  sample: [README.txt, inventory.json, nodes/aws-node-1.json, plans.json, status.json, versions.json]
redacted:
  description: How many places were blanked.
  type: int
  returned: success
  sample: 12
"""

from ansible_collections.multicluster.network.plugins.module_utils._flows.reports import support_bundle
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import inventory_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with


def main() -> None:
    module = KubeModule(
        argument_spec={
            "fabric": {"type": "str", "required": True},
            "path": {"type": "path", "required": True},
            "definition": {"type": "dict"},
            "nodes": {"type": "dict", "default": {}},
            "node_plans": {"type": "dict", "default": {}},
            "plans": {"type": "dict", "default": {}},
            "facts": {"type": "str"},
            "hosts": {"type": "list", "elements": "str", "default": []},
            "files": {"type": "dict", "default": {}},
            "secrets": {"type": "list", "elements": "str", "default": [], "no_log": True},
            "versions": {"type": "dict", "default": {}},
            **inventory_spec(),
        },
        supports_check_mode=True,
    )
    try:
        result = support_bundle.run(module.params, module.check_mode)
    except OSError as err:
        module.fail_json(msg=f"cannot write the bundle: {err}")
    exit_with(module, result)


if __name__ == "__main__":
    main()
