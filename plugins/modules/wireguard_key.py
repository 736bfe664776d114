#!/usr/bin/python

# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wireguard_key
version_added: 1.0.0
short_description: Manage a WireGuard private key on its host
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Makes a private key once, in one step, with mode V(0600), and returns its public key. The private key never leaves
    the host and is in no result, diff or log.
  - A file that exists is never overwritten. When it holds no key, it is refused as C(bad_private_key).
  - Needs neither wireguard-tools nor a cryptographic library on the host.
extends_documentation_fragment:
  - multicluster.network._node
options:
  path:
    description:
      - Absolute path of the file. A missing directory is made with mode V(0755).
      - A symbolic link is refused, and so is a directory into which other users than root may write.
    type: str
    required: true
  state:
    description:
      - V(absent) deletes the file when it holds a key, and refuses it otherwise.
    type: str
    choices: [present, absent]
    default: present
  rotate_from:
    description:
      - Put a new key in place of the one with this public key. Once that is done the public key is another one, so the
        next run with the same value changes nothing.
    type: str
seealso:
  - module: multicluster.network.wireguard_device
"""

EXAMPLES = r"""
- name: Keep a private key for the device towards the cluster gcp
  multicluster.network.wireguard_key:
    path: /var/lib/semaphore-wireguard/wireguard.gcp.key
  register: key_gcp

- name: Replace a key that may have leaked, once
  multicluster.network.wireguard_key:
    path: /var/lib/semaphore-wireguard/wireguard.gcp.key
    rotate_from: HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=

- name: Forget the key of a cluster that is gone
  multicluster.network.wireguard_key:
    path: /var/lib/semaphore-wireguard/wireguard.merit.key
    state: absent
"""

RETURN = r"""
public_key:
  description: The public key. In check mode, before the key exists, C({"__pending__"}) with a text.
  type: raw
  returned: success
  sample: HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=
path:
  description: The file.
  type: str
  returned: success
  sample: /var/lib/semaphore-wireguard/wireguard.gcp.key
plan:
  description: Counts of what is created, updated, deleted and unchanged, and the first 200 changes.
  type: dict
  returned: success
  sample: {"create": 1, "update": 0, "delete": 0, "unchanged": 0, "changes": [{"action": "create", "kind": "key",
    "id": "/var/lib/semaphore-wireguard/wireguard.gcp.key", "fields": []}]}
refused:
  description: What was left alone, with a reason and a message.
  type: list
  elements: dict
  returned: success
  sample: []
stats:
  description: Reads, writes and seconds.
  type: dict
  returned: success
  sample: {"reads": 2, "wireguard_writes": 0, "netlink_writes": 0, "file_writes": 1, "seconds": 0.004}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.multicluster.network.plugins.module_utils._flows.node import wireguard_key
from ansible_collections.multicluster.network.plugins.module_utils._linux.errors import LinuxError
from ansible_collections.multicluster.network.plugins.module_utils._module import exit_with, fail_on_refused_spec
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused


def argument_spec() -> dict[str, Any]:
    """Fresh argument specification."""
    return dict(
        fail_on_refused_spec(),
        path={"type": "str", "required": True},
        state={"type": "str", "choices": ["present", "absent"], "default": "present"},
        rotate_from={"type": "str"},
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = wireguard_key.run(module.params, module.check_mode)
    except ValueRefused as error:
        module.fail_json(msg=error.message, reason=error.reason)
    except LinuxError as error:
        module.fail_json(msg=str(error), **error.fields())
    exit_with(module, result)


if __name__ == "__main__":
    main()
