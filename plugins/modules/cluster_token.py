#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_token
short_description: Manage kubeconfig files with short-lived tokens of a ServiceAccount
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Mints a token of a ServiceAccount in each cluster (TokenRequest) and writes it, with the cluster's address and CA, to a
    kubeconfig file of mode 0600 on the host that runs the module.
  - A file is left alone until its token has less than O(renew_before) seconds to live. The token that it held before stays
    valid until its own end, so whoever still uses it is not cut off.
  - The token appears nowhere but in the file.
extends_documentation_fragment:
  - multicluster.network._kubernetes
  - multicluster.network._refused
  - multicluster.network._attributes
options:
  fabric:
    description: Name of the fabric. It marks the files as owned by this fabric.
    type: str
    required: true
  path:
    description: Path of the file. C({cluster}) in it is replaced by the name of the cluster.
    type: path
    required: true
  service_account:
    description: Name of the ServiceAccount.
    type: str
    required: true
  namespace:
    description: Namespace of the ServiceAccount.
    type: str
    default: kube-system
  expires:
    description: Seconds for which a token is asked for. The API server may give less.
    type: int
    default: 86400
  renew_before:
    description: A token with fewer seconds left is replaced.
    type: int
    default: 43200
  audiences:
    description: Audiences of the token. The default is the API server.
    type: list
    elements: str
    default: []
  state:
    description: V(absent) removes the files. Tokens end with their ServiceAccount.
    type: str
    choices: [present, absent]
    default: present
  adopt:
    description: Replace or remove files without the mark of this fabric.
    type: bool
    default: false
  fail_on_failures:
    description: Whether the task fails when a cluster could not be asked. The other clusters are always finished first.
    type: bool
    default: true
attributes:
  check_mode:
    description: Returns which files would be renewed, and asks no cluster.
    support: full
  diff_mode:
    description: Shows accounts, addresses and fingerprints, never a token.
    support: full
  idempotent:
    description: Changes nothing until a token is about to expire.
    support: full
seealso:
  - module: multicluster.network.cluster_objects
"""

EXAMPLES = r"""
- name: A day's access for the mesh
  multicluster.network.cluster_token:
    fabric: demo
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws-admin}
      - {name: gcp, kubeconfig: ~/.kube/gcp-admin}
    service_account: multicluster-mesh
    path: ~/.config/multicluster/{cluster}-mesh.kubeconfig
"""

RETURN = r"""
kubeconfigs:
  description: Cluster name to the path of its file.
  type: dict
  returned: always
  sample: {aws: /home/ops/.config/multicluster/aws-mesh.kubeconfig}
plan:
  description: Counts of files that were (or, in check mode, would be) written or removed.
  type: dict
  returned: always
  sample: {create: 1, update: 0, delete: 0, unchanged: 1, changes: []}
refused:
  description: What was left out, each with the object, a reason and a message.
  type: list
  elements: dict
  returned: always
  sample: []
failures:
  description: What went wrong, each with C(cluster), C(operation), C(reason), C(message) and C(status).
  type: list
  elements: dict
  returned: always
  sample: []
stats:
  description: Requests by verb for each cluster, and seconds.
  type: dict
  returned: always
  sample: {requests: {aws: {token: 1}}, seconds: 0.02}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.access import cluster_token
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import clusters_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube
from ansible_collections.multicluster.network.plugins.module_utils._module import fail_on_refused_spec


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "fabric": {"type": "str", "required": True},
        "path": {"type": "path", "required": True},
        "service_account": {"type": "str", "required": True},
        "namespace": {"type": "str", "default": "kube-system"},
        "expires": {"type": "int", "default": 86400},
        "renew_before": {"type": "int", "default": 43200},
        "audiences": {"type": "list", "elements": "str", "default": []},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "adopt": {"type": "bool", "default": False},
        "fail_on_failures": {"type": "bool", "default": True},
        **clusters_spec(),
        **fail_on_refused_spec(),
    }


def main() -> None:
    """Entry point."""
    module = KubeModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = cluster_token.run(module.params, check=module.check_mode)
    except (ValueError, OSError) as err:
        module.fail_json(msg=str(err))
    exit_kube(module, result)


if __name__ == "__main__":
    main()
