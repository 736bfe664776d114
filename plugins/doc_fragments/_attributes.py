# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""What many modules say of check mode, idempotence and action groups."""

from __future__ import annotations


class ModuleDocFragment:
    """The group of modules that speak to clusters; NODE: that of modules for nodes; INTERNAL: that of modules of
    this collection's own playbooks; READS and WRITES: what they do in check mode;
    CONTROLLER: those that may run inside ansible-playbook."""

    DOCUMENTATION = r"""
attributes:
  action_group:
    description: Use C(group/multicluster.network.kube) in C(module_defaults) to set options once.
    support: full
    membership:
      - multicluster.network.kube
      - multicluster.network.all
"""

    NODE = r"""
attributes:
  action_group:
    description: Use C(group/multicluster.network.node) in C(module_defaults) to set options once.
    support: full
    membership:
      - multicluster.network.node
      - multicluster.network.all
"""

    INTERNAL = r"""
attributes:
  action_group:
    description: The modules that are internal to the playbooks and roles of this collection.
    support: full
    membership:
      - multicluster.network.internal
"""

    READS = r"""
attributes:
  check_mode:
    description: Only reads, so check mode is the same.
    support: full
  diff_mode:
    description: Nothing is changed, so there is no diff.
    support: none
  idempotent:
    description: Never reports a change.
    support: full
"""

    WRITES = r"""
attributes:
  check_mode:
    description: Reads and plans like a real run, and writes nothing.
    support: full
  idempotent:
    description: The second run changes nothing and sends no write.
    support: full
"""

    CONTROLLER = r"""
attributes:
  action:
    description:
      - With a local connection and the Python that runs ansible-playbook, the task takes place inside ansible-playbook, which saves the
        start of a process. With another Python, C(become), C(async) or C(environment), and on other hosts, the module runs as ever.
    support: full
"""
