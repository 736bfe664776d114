# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workers of Ansible are forks: what the process that forks them has loaded, none of them loads again for each host."""

import subprocess
import sys

PACKAGE = "ansible_collections.multicluster.network.plugins.filter."
LOADS = """
import sys
from ansible.plugins.loader import action_loader, init_plugin_loader
init_plugin_loader([])
assert action_loader.get("multicluster.network.node_dataplane", class_only=True) is not None
print(*sorted(name for name in sys.modules if name.startswith({0!r})))
"""


def test_the_action_of_nodes_brings_every_filter_of_the_collection():
    done = subprocess.run([sys.executable, "-c", LOADS.format(PACKAGE)], stdout=subprocess.PIPE, text=True, check=True)
    loaded = {name[len(PACKAGE) :] for name in done.stdout.split()}
    assert {"node_devices", "node_kubespan", "mesh_targets", "mesh_pods"} <= loaded
