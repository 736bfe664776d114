#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: control_plane_address
short_description: Move a control plane's address to a healthy API server
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Probes the address that carries the tag O(settings[].eip_tag). While its holder answers, nothing happens. When it does not, several
    times in a row, the address moves to the first control-plane node, by name, with a healthy API server.
  - Probes verify the API servers' certificates. Only status 200 of C(/healthz) counts as healthy.
  - Also writes the Service without selector, and its endpoints, through which kube-proxy accepts the address on every node.
  - The cluster is read through the first of its API servers that answers, so the address itself may be down.
  - One call is one pass. The role of the same name repeats it on a timer.
  - A Service and endpoints of these names that another program wrote are refused as C(adoptable), and nothing of them is written, without
    O(adopt=true).
  - With O(state=absent) the Service, its endpoints and the record go. The address stays with its holder.
extends_documentation_fragment:
  - multicluster.network._kubernetes.inventory
  - multicluster.network._kubernetes
  - multicluster.network._load_balancers
  - multicluster.network._load_balancers.writer
  - multicluster.network._refused
  - multicluster.network._attributes
  - multicluster.network._attributes.writes
options:
  state:
    description:
      - Whether the address is kept, or what was written for that is taken back. With V(released) it stays as it is and is no longer on record as owned,
        so the upstream program finds its own.
    type: str
    choices: [present, absent, released]
    default: present
  adopt:
    description: Take over the Service and the endpoints that another program wrote. The collection alone owns them afterwards.
    type: bool
    default: false
  address:
    description: The address, for O(settings[].provider=static). It is recorded under the tag when nothing is yet,
      and a record of another address is refused.
    type: str
  assign_command:
    description:
      - What makes a node the holder, for O(settings[].provider=static). A program with its arguments, run on the host that runs the
        module without any shell. C({address}), C({node}) and C({previous}) are replaced by the address, the new holder and the former one.
    type: list
    elements: str
    default: []
  api_urls:
    description: URLs of the single API servers, tried in this order when the cluster's own does not answer.
    type: list
    elements: str
    default: []
  probe_server_name:
    description: Name that the API servers' certificates have in common. Empty verifies the address that is asked.
    type: str
    default: kubernetes
  probe_verify_tls:
    description: V(false) takes any certificate, as the upstream program does.
    type: bool
    default: true
  probe_ca:
    description: CA certificates of the API servers, in PEM. The default are those of the access.
    type: str
  probe_timeout:
    description: Seconds for one probe.
    type: float
    default: 5
  probe_failures:
    description: How many probes of the holder in a row must fail before the address moves.
    type: int
    default: 3
  probe_interval:
    description: Seconds between these.
    type: float
    default: 2
  rest_seconds:
    description: Seconds for which the address stays after a move, so that a server that flaps does not make it bounce.
    type: float
    default: 60
  external_service:
    description: Write the Service and its endpoints.
    type: bool
    default: true
  endpoints_as:
    description: Whether Endpoints or EndpointSlices are written. V(auto) is the latter from Kubernetes 1.33 on.
    type: str
    choices: [auto, endpoints, slices]
    default: auto
  lock_wait:
    description: Seconds to wait for another run on the same cluster to end.
    type: float
    default: 30
seealso:
  - module: multicluster.network.load_balancers
"""

EXAMPLES = r"""
- name: Keep 10.0.0.100 with a healthy API server
  multicluster.network.control_plane_address:
    fabric: demo
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
    settings:
      - {cluster: aws, eip_tag: control-plane}
    address: 10.0.0.100
    assign_command: [/usr/local/bin/move-address, "{address}", "{node}"]
    api_urls: ["https://10.0.0.1:6443", "https://10.0.0.2:6443", "https://10.0.0.3:6443"]

- name: Leave the address where it is, and take back what was written for it
  multicluster.network.control_plane_address:
    fabric: demo
    clusters:
      - {name: aws, kubeconfig: ~/.kube/aws}
    settings:
      - {cluster: aws, eip_tag: control-plane}
    state: absent
"""

RETURN = r"""
plan:
  description: Counts of what was (or, in check mode, would be) created, updated and deleted, and the first 200 changes.
  type: dict
  returned: always
  sample: {create: 0, update: 1, delete: 0, unchanged: 0, changes: [{action: update, kind: Address, id: aws/10.0.0.100, fields: [holder]}]}
refused:
  description: Why nothing was done where something should have been, each with the object, a reason and a message.
  type: list
  elements: dict
  returned: always
  sample: []
control_planes:
  description: For each cluster the address, its holder, whether that is healthy, whether it was moved, and how many probes were sent.
  type: dict
  returned: always
  sample: {aws: {address: 10.0.0.100, holder: cp-2, healthy: true, moved: true, probes: 4}}
failures:
  description: What could not be read or written, each with C(cluster), C(operation), C(reason), C(message) and C(status).
  type: list
  elements: dict
  returned: always
  sample: []
stats:
  description: Requests by verb for each cluster.
  type: dict
  returned: always
  sample: {requests: {aws: {get: 5, list: 2}}}
"""

from typing import Any

from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers import control_plane_address
from ansible_collections.multicluster.network.plugins.module_utils._flows.load_balancers.arguments import writer_spec
from ansible_collections.multicluster.network.plugins.module_utils._kubernetes.module import KubeModule, exit_kube


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "state": {"type": "str", "choices": ["present", "absent", "released"], "default": "present"},
        "adopt": {"type": "bool", "default": False},
        "address": {"type": "str"},
        "assign_command": {"type": "list", "elements": "str", "default": []},
        "api_urls": {"type": "list", "elements": "str", "default": []},
        "probe_server_name": {"type": "str", "default": "kubernetes"},
        "probe_verify_tls": {"type": "bool", "default": True},
        "probe_ca": {"type": "str"},
        "probe_timeout": {"type": "float", "default": 5.0},
        "probe_failures": {"type": "int", "default": 3},
        "probe_interval": {"type": "float", "default": 2.0},
        "rest_seconds": {"type": "float", "default": 60.0},
        "external_service": {"type": "bool", "default": True},
        "endpoints_as": {"type": "str", "choices": ["auto", "endpoints", "slices"], "default": "auto"},
        "lock_wait": {"type": "float", "default": 30.0},
        **writer_spec(),
    }


def main() -> None:
    """Entry point."""
    module = KubeModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = control_plane_address.run(module.params, check=module.check_mode)
    except ValueError as err:
        module.fail_json(msg=str(err))
    exit_kube(module, result)


if __name__ == "__main__":
    main()
