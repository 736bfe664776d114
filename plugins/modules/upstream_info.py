#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: upstream_info
short_description: Gather information about upstream programs, and propose an inventory from their settings
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Looks in every cluster for Semaphore (semaphore-wireguard, semaphore-service-mirror, semaphore-policy), Kilo and its cluster-mesh operator,
    the Equinix Metal cloud controller and apinetlet, by the images and commands of Deployments, DaemonSets and StatefulSets.
  - Reads their flags, their environment, the ConfigMaps that they mount, and C(ClusterMesh) objects. It writes nothing, and asks for no Secret.
  - The proposal is the text of an inventory file. For each secret it names a variable of a vault, and where the value is stored now.
  - Every setting of a program is in RV(keys), with what becomes of it here. One that the reader does not know is named there, too.
  - Only values that a strict parser accepted get into the proposal. What cannot be used is left out and named in RV(findings), without its value.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes
  - multicluster.network._kubernetes.reader
  - multicluster.network._attributes
  - multicluster.network._attributes.reads
options:
  files:
    description: Configuration in files on the host that runs the module, for what no cluster's API has or lets be read.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The file.
        type: path
        required: true
      program:
        description:
          - The program of this configuration. V(semaphore-wireguard), V(semaphore-service-mirror) and V(equinix) have a JSON file, V(kubespan) a machine
            configuration, V(kilo-clustermesh) C(ClusterMesh) objects.
          - The file of V(semaphore-policy), V(kilo) and V(apinetlet) has their flags, and variables as C(NAME=VALUE), in words.
          - V(manifests) are objects as C(kubectl) writes them, of any of these programs.
        type: str
        required: true
        choices: [semaphore-wireguard, semaphore-service-mirror, semaphore-policy, kilo, kilo-clustermesh, equinix, apinetlet, kubespan, manifests]
      cluster:
        description: The cluster in which the program runs. Semaphore's own files say it themselves.
        type: str
  keep_clustermeshes:
    description: Whether C(ClusterMesh) objects stay and are read by runs, so that they, their Secrets and their kind are no leftovers.
    type: bool
    default: false
  capabilities:
    description: The capabilities of the inventory, for RV(running).
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: What runs in two clusters, and with which settings
  multicluster.network.upstream_info:
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
      - {name: gcp, kubeconfig: ~/.kube/gcp}
  register: found

- name: Of files alone
  multicluster.network.upstream_info:
    clusters: []
    files:
      - {path: /root/semaphore-wireguard-config.json, program: semaphore-wireguard}
      - {path: /root/controlplane.yaml, program: kubespan, cluster: aws}
"""

RETURN = r"""
proposal:
  description: The text of an inventory file, with findings, secrets to fill in and what became of every key as comments.
  type: str
  returned: always
  sample: "---\n"
programs:
  description: >-
    The programs that were found, each with where it runs, how many copies are desired (0 is one that was stopped), and the capability that takes its
    place. That is empty for one that goes on running.
  type: list
  elements: dict
  returned: always
  sample: [{program: semaphore-wireguard, capability: mesh, where: DaemonSet kube-system/semaphore-wireguard of cluster aws, copies: 2}]
running:
  description: Where programs run that would write the same things as O(capabilities).
  type: list
  elements: str
  returned: always
  sample: []
owners:
  description: Of the objects that such programs write, how many each field manager is on record for.
  type: list
  elements: dict
  returned: always
  sample: [{cluster: aws, program: semaphore-service-mirror, kind: Service, manager: semaphore-service-mirror, objects: 4, owned: false}]
keys:
  description: >-
    Every setting of a program, with its fate C(mapped) (the variables in C(variables) have it), C(not needed), C(lost) (nothing here does it) or
    C(unknown).
  type: list
  elements: dict
  returned: always
  sample:
    - {program: semaphore-wireguard, where: DaemonSet kube-system/semaphore-wireguard of cluster aws, key: "remotes[].podSubnet", fate: mapped,
       variables: [pod_cidrs], remark: of the other cluster}
findings:
  description: What somebody has to look at, each with the object, a reason and a message.
  type: list
  elements: dict
  returned: always
  sample: [{object: cluster aws, reason: pod_subnet_missing, message: "its pod ranges are unknown: write pod_cidrs"}]
secrets:
  description: Variables that a vault has to hold, and where their values lie now.
  type: list
  elements: dict
  returned: always
  sample: [{variable: vault_gcp_token, where: "Secret kube-system/semaphore-wireguard-token-gcp, key token"}]
leftovers:
  description: >-
    At most 200 objects of the programs that nothing needs once their place is taken, each with the command that removes it: workloads, and the ConfigMaps,
    Secrets and accounts that no other workload uses; bindings of such accounts alone, roles that nothing else binds, leases that they held, Services that
    select their pods alone, and webhooks that ask these; the only C(ClusterMesh), its kubeconfig Secrets and its kind. RV(leftovers_count) counts all of
    them. Nothing here removes them.
  type: list
  elements: dict
  returned: always
  sample:
    - {cluster: aws, program: semaphore-wireguard, kind: ConfigMap, namespace: kube-system, name: semaphore-wireguard-config,
       command: kubectl --namespace kube-system delete configmap semaphore-wireguard-config}
leftovers_count:
  description: How many such objects there are.
  type: int
  returned: always
  sample: 4
fields:
  description: >-
    Fields for which a program is still on record in objects that are owned as well, at most 200 rows. Before anything is taken over there are none.
  type: list
  elements: dict
  returned: always
  sample: [{cluster: aws, program: equinix, kind: Node, manager: cloud-provider-equinix-metal, fields: [spec.taints], objects: 3}]
lines:
  description: Programs, owners, findings and what is not needed any more as lines of text.
  type: list
  elements: str
  returned: always
  sample: ["semaphore-wireguard: DaemonSet kube-system/semaphore-wireguard of cluster aws, running"]
failures:
  description: What could not be read, each with C(cluster), C(operation), C(reason), C(message) and C(status).
  type: list
  elements: dict
  returned: always
  sample: []
unread:
  description: The clusters of RV(failures).
  type: list
  elements: str
  returned: always
  sample: []
stats:
  description: Requests to each cluster by verb, and seconds.
  type: dict
  returned: always
  sample: {requests: {aws: {list: 8}}, seconds: 0.2}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.upstream import inspection
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.argspec import (
    inventory_spec,
    reader_spec,
)
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube
from ansible_collections.multicluster.network.plugins.module_utils._upstream.programs import PROGRAMS


def argument_spec() -> dict[str, Any]:
    """All options."""
    files = {
        "path": {"type": "path", "required": True},
        "program": {"type": "str", "required": True, "choices": [*PROGRAMS, inspection.MANIFESTS]},
        "cluster": {"type": "str"},
    }
    return {
        "files": {"type": "list", "elements": "dict", "options": files, "default": []},
        "keep_clustermeshes": {"type": "bool", "default": False},
        "capabilities": {"type": "list", "elements": "str", "default": []},
        **inventory_spec(),
        **reader_spec(),
    }


def main() -> None:
    """Entry point."""
    module = KubeModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = inspection.run(module.params)
    except ValueError as err:
        module.fail_json(msg=str(err))
    asked = module.params["capabilities"]
    running = [row["where"] for row in result["programs"] if row["capability"] in asked and row["copies"] != 0]
    exit_kube(module, dict(result, running=running))


if __name__ == "__main__":
    main()
