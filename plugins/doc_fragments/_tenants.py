# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Documentation of the options in _flows/tenants/converge.py."""

from __future__ import annotations


class ModuleDocFragment:
    """The network side; SOURCE for modules that also use the tenant-facing side; RUNNER for modules that write."""

    DOCUMENTATION = r"""
options:
  apinet:
    description: The cluster in O(clusters) with the API server of the network side.
    type: str
    required: true
  apinet_namespace:
    description: The namespace of the network side that holds every twin. It has to exist. Two tenant-facing servers must not share one.
    type: str
    required: true
  profile:
    description: Which generation of the project the API groups, labels and finalizers are of.
    type: str
    choices: [onmetal, ironcore]
    default: onmetal
"""

    SOURCE = r"""
options:
  source:
    description: The cluster in O(clusters) with the API server of the tenant-facing side. It may be that of O(apinet).
    type: str
    required: true
"""

    RUNNER = r"""
options:
  fabric:
    description: Name of the fabric. Everything is written, and known again, by the field manager C(multicluster.network/FABRIC).
    type: str
    required: true
  lock_wait:
    description:
      - Seconds to wait for another run that writes to the same O(apinet_namespace).
      - While something is written there, the Lease C(multicluster-network-tenants) in it is held. It is gone afterwards, and a run
        that has nothing to write never takes it. The Lease of a run that died counts no more after 15 seconds.
    type: float
    default: 30
  fail_on_failures:
    description: >-
      Whether the task fails when a server could not be read or an object could not be written. Everything else is done first, and
      the result lists RV(failures) either way.
    type: bool
    default: true
attributes:
  check_mode:
    description:
      - Reads and plans like a real run, and writes nothing.
      - Shows the first pass, as what the network side would allocate is not known.
    support: full
  diff_mode:
    description: Shows every changed object before and after.
    support: full
"""
