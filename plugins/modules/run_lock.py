#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_lock
short_description: Take or release the lock of a fabric
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Takes the lock of a fabric for the running C(ansible-playbook). It is given back when that ends, in whatever way. A second
    run waits, or fails with the name of the first, the time since when it runs, its processes and what frees the lock.
  - In a run that has the lock already the task does nothing, so every playbook can ask for it.
  - Fails, in check mode too, where C(-e) gave a variable with a name of this collection that has a typo, since nothing may be written then.
  - Runs on the controller, once for a play. It never reports a change.
options:
  fabric:
    description: Name of the fabric.
    type: str
    required: true
  scope:
    description:
      - V(controller) excludes runs of the same user on this machine, by a file in a folder that only this user can enter, and costs
        no request.
      - V(fabric) excludes runs from everywhere by a Lease in every cluster, which is made and removed by each run. A cluster that
        does not answer is left out with a warning. A Lease of a run that was killed is free after 30 seconds.
      - V(none) takes no lock.
    type: str
    choices: [controller, fabric, none]
    default: controller
  lock_wait:
    description: Seconds to wait for another run. V(0) fails at once.
    type: float
    default: 600
  namespace:
    description: Namespace of the Leases.
    type: str
    default: kube-system
  workflow:
    description:
      - Text that all jobs of one workflow have in common, and nobody else. They hold the Leases of V(fabric) together, whatever O(scope) is but
        V(none), side by side too. Each joins them and renews them while it runs, and they remain when it ends.
      - Such a job takes no lock of the controller, so runs alongside it are excluded only where they have V(fabric), too.
    type: str
    default: ""
  of_workflow:
    description: Take O(workflow) from the variable C(multicluster_workflow), or from the number that AWX gives its workflows.
    type: bool
    default: false
  between:
    description: Seconds for which the Leases of a workflow hold without a running job, from 30 to 3600. After that another run may take them.
    type: float
    default: 900
  give_back:
    description: This job is the last one of its workflow. The Leases are removed when it ends.
    type: bool
    default: false
  clusters:
    description:
      - The clusters, with the options of M(multicluster.network.mesh_plan). Two runs on one controller are of one fabric when its name
        and its clusters are the same. The default is what the inventory has.
    type: list
    elements: dict
  clusters_group:
    description: Group of the clusters' hosts in the inventory, where O(clusters) is not given.
    type: str
    default: clusters
extends_documentation_fragment:
  - multicluster.network._attributes.internal
attributes:
  check_mode:
    description: Takes no lock.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
  idempotent:
    description: Never reports a change.
    support: full
notes:
  - On controllers other than Linux there is no lock of V(controller); V(fabric) works.
seealso:
  - module: multicluster.network.mesh_plan
"""

EXAMPLES = r"""
- name: Take the lock of the fabric, wherever it is started
  multicluster.network.run_lock:
    fabric: demo
    scope: fabric
    lock_wait: 60
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
      - {name: gcp, kubeconfig: ~/.kube/gcp}
"""

RETURN = r"""
held:
  description: Whether this run has the lock; false in check mode and with V(none).
  type: bool
  returned: success
  sample: true
leases:
  description: Clusters in which it holds a Lease.
  type: list
  elements: str
  returned: success
  sample: [aws, gcp]
unlocked:
  description: Clusters that gave no Lease, each with C(cluster), C(operation), C(reason), C(message) and C(status).
  type: list
  elements: dict
  returned: success
  sample: []
"""
