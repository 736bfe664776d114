#!/usr/bin/python
# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_changes
short_description: Record what a run has changed, before it is read again
version_added: 1.0.0
author:
  - multicluster.network authors (@multicluster-network)
description:
  - Internal to the playbooks and roles of this collection. Options and return values may change with any release.
  - Looks at the results that the roles of capabilities registered on a host. One that changed nothing has read everything and found it
    as desired, so it is its own proof. One that wrote must be compared again, since an accepted write proves nothing.
  - What failed is reported by its result, and is not compared again.
  - Runs on the controller, without a connection.
options:
  capabilities:
    description: The capabilities that the inventory asks for.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - multicluster.network._attributes.internal
  - multicluster.network._attributes.reads
"""

EXAMPLES = r"""
- name: Note what must be compared again
  multicluster.network.run_changes:
    capabilities: [service_mirror, coredns_rewrite]
  register: noted
"""

RETURN = r"""
capabilities:
  description: What was asked for.
  type: list
  elements: str
  returned: success
  sample: [service_mirror, coredns_rewrite]
applied:
  description: >-
    Name of each result to C(again), whether it wrote and must be read again, and C(written), what it wrote, each as kind and name; null where
    that is too much to tell.
  type: dict
  returned: success
  sample: {service_mirror: {again: true, written: [Service gcp/sys-semaphore/aws-web]}}
again:
  description: Names of the results that wrote.
  type: list
  elements: str
  returned: success
  sample: [service_mirror]
unread:
  description: Capabilities that this run has not read, or has written since.
  type: list
  elements: str
  returned: success
  sample: [service_mirror, coredns_rewrite]
"""
