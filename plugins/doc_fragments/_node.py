# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""What the documentation of all modules that run on nodes has in common."""

from __future__ import annotations


class ModuleDocFragment:
    """Attributes and options of node modules."""

    DOCUMENTATION = r"""
options:
  fail_on_refused:
    description:
      - Fail the task when anything was refused, after everything else was done.
      - Otherwise each refusal is a warning and is in RV(ignore:refused).
    type: bool
    default: false
attributes:
  action_group:
    description: Use C(group/multicluster.network.node) in C(module_defaults) to set options of all node modules at once.
    support: full
    membership:
      - multicluster.network.node
      - multicluster.network.all
  check_mode:
    description: Can run in check mode and return the change that would be made, without making it.
    support: full
  diff_mode:
    description: Returns every object that changes, before and after. Secrets show as fingerprints only.
    support: full
  idempotent:
    description: The second run with the same options changes nothing and sends nothing but reads.
    support: full
  platform:
    description: Where the module runs.
    support: full
    platforms: linux
"""
