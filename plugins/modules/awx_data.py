#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: awx_data
short_description: Load templates, surveys and credential types into AWX
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Brings AWX to what data files say, through AWX's own API. The playbook C(multicluster.network.awx.load) uses it with the data that this
    collection ships.
  - Every kind is listed once, and only differences are written. What was loaded is known again by the end of its description.
    Other objects are neither changed nor deleted without O(adopt=true).
  - Credentials are not made, since they hold secrets. Templates refer to them by name.
  - What people decide in AWX stays. A schedule's rule and whether it is enabled are only set when it is made.
extends_documentation_fragment:
  - multicluster.network._refused
options:
  url:
    description: URL of AWX.
    type: str
    required: true
  token:
    description: OAuth2 token of a user that may write what the data name. Credential types need an administrator.
    type: str
    required: true
  organization:
    description: Organization that gets the objects. It has to exist.
    type: str
    default: Default
  data:
    description:
      - Kind to a list of objects, each with its C(name) and AWX's fields. Kinds are C(credential_types), C(execution_environments),
        C(projects), C(inventories), C(inventory_sources), C(job_templates), C(workflow_job_templates) and C(schedules).
      - References are names. Templates may have C(survey) and C(credentials), of which C(optional_credentials) may be missing, workflows
        have C(nodes), and schedules C(job_template).
    type: dict
    default: {}
  surveys:
    description: Name to a survey as AWX's API takes it.
    type: dict
    default: {}
  site:
    description: Kind to fields that every object of it gets, for what differs between sites.
    type: dict
    default: {}
  state:
    description: V(absent) deletes what O(data) name, in the reverse order.
    type: str
    choices: [present, absent]
    default: present
  adopt:
    description: Take over objects of these names that were not loaded by this module.
    type: bool
    default: false
  allow_plain_http:
    description: Allow a URL without TLS, over which the token is sent in clear text.
    type: bool
    default: false
  timeout:
    description: Seconds for one request with its repetitions.
    type: float
    default: 120
  project_wait:
    description:
      - Seconds to wait for the first update of a new project, which AWX starts by itself. Before it was successful AWX takes no template of its playbooks;
        those are refused then (C(project_not_updated)).
    type: float
    default: 300
attributes:
  check_mode:
    description: Reads and plans like a real run, and writes nothing.
    support: full
  diff_mode:
    description: Shows the fields of every object that differ.
    support: full
  idempotent:
    description: The second run changes nothing.
    support: full
"""

EXAMPLES = r"""
- name: One template
  multicluster.network.awx_data:
    url: https://awx.example.com
    token: "{{ lookup('ansible.builtin.env', 'CONTROLLER_OAUTH_TOKEN') }}"
    data:
      job_templates:
        - name: Multicluster / Verify
          playbook: playbooks/verify.yml
          project: Multicluster
          inventory: Multicluster
          credentials: [Multicluster clusters]
"""

RETURN = r"""
plan:
  description: Counts of what was (or, in check mode, would be) created, updated and deleted, and the first 200 changes.
  type: dict
  returned: always
  sample: {create: 1, update: 0, delete: 0, unchanged: 0, changes: [{action: create, kind: job template, id: Multicluster / Verify, fields: []}]}
refused:
  description: What was left out, each with the object, a reason and a message.
  type: list
  elements: dict
  returned: always
  sample: [{object: job template Multicluster / Verify, reason: not_ours, message: exists and was not loaded by this collection}]
failures:
  description: What AWX refused, each with C(object), C(operation), C(reason), C(message) and C(status).
  type: list
  elements: dict
  returned: always
  sample: []
stats:
  description: How many requests were sent, and seconds.
  type: dict
  returned: always
  sample: {requests: 10, seconds: 0.4}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.multicluster.network.plugins.module_utils._flows.runs import awx_data
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with, fail_on_refused_spec


def argument_spec() -> dict[str, Any]:
    """All options."""
    return {
        "url": {"type": "str", "required": True},
        "token": {"type": "str", "required": True, "no_log": True},
        "organization": {"type": "str", "default": "Default"},
        "data": {"type": "dict", "default": {}},
        "surveys": {"type": "dict", "default": {}},
        "site": {"type": "dict", "default": {}},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "adopt": {"type": "bool", "default": False},
        "allow_plain_http": {"type": "bool", "default": False},
        "timeout": {"type": "float", "default": 120.0},
        "project_wait": {"type": "float", "default": awx_data.PROJECT_SECONDS},
        **fail_on_refused_spec(),
    }


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = awx_data.run(module.params, module.check_mode)
    except ValueError as err:
        module.fail_json(msg=str(err))
    if result["failures"]:
        first = result["failures"][0]
        shown = {name: value for name, value in result.items() if name not in ("diff", "warnings")}
        module.fail_json(msg="cannot {operation}: {message} [{reason}]".format(**first), **shown)
    exit_with(module, result)


if __name__ == "__main__":
    main()
