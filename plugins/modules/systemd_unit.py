#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: systemd_unit
short_description: Manage the systemd units that repeat playbooks
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Writes units of systemd below C(/etc/systemd/system), or removes them, for the roles playbook_timer, reconciler and tenants_runner.
  - A unit that has a section C([Install]) is enabled and started, and restarted when its file, or one of O(reads), was written after it was started. Other
    units are only written, since a timer or another unit starts them.
extends_documentation_fragment:
  - multicluster.network._node
attributes:
  action_group:
    description: The modules that are internal to the playbooks and roles of this collection.
    support: full
    membership:
      - multicluster.network.internal
options:
  units:
    description: The units.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the unit with its suffix, C(.service) or C(.timer).
        type: str
        required: true
      content:
        description: Its text. Required unless O(state) is V(absent).
        type: str
  state:
    description: V(absent) stops, disables and removes the units.
    type: str
    choices: [present, absent]
    default: present
  reads:
    description: Files that the units read when they start.
    type: list
    elements: path
    default: []
  remove:
    description: Names of further units that are removed, whatever O(state) is.
    type: list
    elements: str
    default: []
  playbook:
    description:
      - The playbook that the units run, without the name of the collection. Units that carry a name which that playbook had before are removed, too.
        The controller knows these names and adds the units to O(remove).
    type: str
"""

EXAMPLES = r"""
- name: Run a playbook every five minutes
  multicluster.network.systemd_unit:
    playbook: status
    units:
      - name: multicluster-status.service
        content: "{{ lookup('ansible.builtin.template', 'status.service.j2') }}"
      - name: multicluster-status.timer
        content: "{{ lookup('ansible.builtin.template', 'status.timer.j2') }}"

- name: Run that playbook no more
  multicluster.network.systemd_unit:
    state: absent
    units:
      - name: multicluster-status.service
      - name: multicluster-status.timer
"""

RETURN = r"""
plan:
  description: Counts of what is created, updated, deleted and unchanged, and the first 200 changes.
  type: dict
  returned: success
  sample: {"create": 2, "update": 0, "delete": 0, "unchanged": 0, "changes": [{"action": "create", "kind": "file",
    "id": "/etc/systemd/system/multicluster-status.timer", "fields": []},
    {"action": "create", "kind": "unit", "id": "multicluster-status.timer", "fields": []}]}
refused:
  description: Always empty. A unit that cannot be written or started fails the task.
  type: list
  elements: dict
  returned: success
  sample: []
stats:
  description: Reads, writes and seconds.
  type: dict
  returned: success
  sample: {"reads": 4, "wireguard_writes": 0, "netlink_writes": 0, "file_writes": 2, "seconds": 0.2}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import systemd_units
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with, fail_on_refused_spec
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def argument_spec() -> dict[str, Any]:
    """Fresh argument specification."""
    unit = {"name": {"type": "str", "required": True}, "content": {"type": "str"}}
    return dict(
        fail_on_refused_spec(),
        units={"type": "list", "elements": "dict", "required": True, "options": unit},
        state={"type": "str", "choices": ["present", "absent"], "default": "present"},
        reads={"type": "list", "elements": "path", "default": []},
        remove={"type": "list", "elements": "str", "default": []},
        playbook={"type": "str"},
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = systemd_units.run(module.params, module.check_mode)
    except ValueRefused as error:
        module.fail_json(msg=error.message, reason=error.reason)
    except LinuxError as error:
        module.fail_json(msg=str(error), **error.fields())
    exit_with(module, result)


if __name__ == "__main__":
    main()
