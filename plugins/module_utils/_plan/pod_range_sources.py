# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How messages call the objects from which the ranges of pods on nodes are read (pod_ranges 2). Pure."""

from __future__ import annotations

#: Source, as ``pod_ranges`` has it -> its objects.
OBJECTS = {
    "node": "spec.podCIDRs of Nodes",
    "calico": "BlockAffinities and IPAMBlocks of Calico",
    "cilium": "CiliumNodes",
    "ovn": "the annotation k8s.ovn.org/node-subnets of Nodes",
    "pods": "Pods",
    "inventory": "node_pod_cidrs of hosts",
}
