#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rotation_wait
short_description: Wait for the tunnels of a node between two steps of a rotation of keys
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Waits until the node has a session with each peer that the next step needs, or until its bypass devices have received nothing for a while, and fails with
    the names of those that did not come.
extends_documentation_fragment:
  - multicluster.network._attributes.node
  - multicluster.network._attributes.reads
options:
  step:
    description: The step of rotate_keys that has just been done. The action plugin takes the tunnels from the plan of the run.
    type: str
    choices: [prepare, aside, renew, back, done]
  tunnels:
    description: Devices, each with C(device) and C(peers), the public keys of its peers.
    type: list
    elements: dict
    default: []
  quiet:
    description: Whether to wait until the devices receive nothing, in place of handshakes.
    type: bool
    default: false
  quiet_seconds:
    description: For how many seconds a device must have received nothing.
    type: float
    default: 50
  timeout:
    description: After how many seconds the module gives up.
    type: float
    default: 60
"""

EXAMPLES = r"""
- name: Wait for the handshakes of the next step
  multicluster.network.rotation_wait:
    step: prepare
"""

RETURN = r"""
missing:
  description: Peers without a session.
  type: list
  elements: dict
  returned: always
  sample: []
busy:
  description: Devices that still receive.
  type: list
  elements: str
  returned: always
  sample: []
seconds:
  description: How long it took.
  type: float
  returned: always
  sample: 0.512
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import handshakes


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "step": {"type": "str", "choices": ["prepare", "aside", "renew", "back", "done"]},
            "tunnels": {"type": "list", "elements": "dict", "default": []},
            "quiet": {"type": "bool", "default": False},
            "quiet_seconds": {"type": "float", "default": 50},
            "timeout": {"type": "float", "default": 60},
        },
        supports_check_mode=True,
    )
    try:
        result = handshakes.run(module.params)
    except (OSError, ValueError) as err:
        module.fail_json(msg=f"cannot wait for the tunnels: {err}")
    if result["missing"] or result["busy"]:
        module.fail_json(msg="the tunnels are not as the next step needs them", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
