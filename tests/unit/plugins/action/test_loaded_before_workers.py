# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workers of Ansible are forks: what the process that forks them has loaded, none of them loads again for each host."""

import subprocess
import sys

PACKAGE = "ansible_collections.multicluster.network.plugins.module_utils."
LOADS = """
import sys
from ansible.plugins.loader import action_loader, init_plugin_loader
init_plugin_loader([])
assert action_loader.get("multicluster.network.node_dataplane", class_only=True) is not None
print(*sorted(name for name in sys.modules if name.startswith({0!r})))
"""


def test_the_action_of_nodes_brings_what_its_part_of_the_plan_needs():
    done = subprocess.run([sys.executable, "-c", LOADS.format(PACKAGE)], stdout=subprocess.PIPE, text=True, check=True)
    loaded = {name[len(PACKAGE) :] for name in done.stdout.split()}
    assert {"_mesh.topology.semaphore", "_mesh.topology.kubespan", "_status.report", "_status.collected"} <= loaded
