# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether this user of this host can do what the service and the timer do.

Arguments: inventory, path of ansible-playbook, and follow where the kubeconfigs, a line each on standard input, are needed.
"""

import importlib
import os
import sys

REASONS = [
    ("ansible", "ansible-core is not installed for this Python (reconciler_python)"),
    ("urllib3", "the Python library urllib3 is not installed for this Python (reconciler_python)"),
    ("netaddr", "the Python library netaddr is not installed for this Python (reconciler_python)"),
    (
        "ansible_collections.multicluster.network.plugins.module_utils._flows.reconciler.program",
        "the collection is not below reconciler_collections_path, or the user may not read it",
    ),
]


def wrong(inventory, command, *kubeconfigs):
    """What is missing, each with the variable of its place."""
    found = []
    for name, reason in REASONS:
        try:
            importlib.import_module(name)
        except ImportError:
            found.append(reason)
    if not os.access(inventory, os.R_OK):
        found.append("{0} (reconciler_inventory) is not there, or the user may not read it".format(inventory))
    if not os.access(command, os.X_OK):
        found.append("{0} (reconciler_command) is not there, or the user may not run it".format(command))
    for path in sorted(set(kubeconfigs)):
        if not os.access(os.path.expanduser(path), os.R_OK):
            found.append("the kubeconfig {0} (of reconciler_clusters) is not there, or the user may not read it".format(path))
    return found


if __name__ == "__main__":
    inventory, command, way = sys.argv[1:]
    lines = [line.strip() for line in sys.stdin] if way == "follow" else []
    sys.stdout.write("; ".join(wrong(inventory, command, *[line for line in lines if line])))
