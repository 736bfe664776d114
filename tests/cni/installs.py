# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network plugins as their manifests install them: objects, configuration, arguments and environment are the manifest's; no image is pulled."""

from __future__ import annotations

from cni_fabric import WORKLOADS

FLANNEL = ("flannel", "flanneld", "kube-flannel.yml")


def of_kind(items, kind, name):
    return next(item for item in items if item["kind"] == kind and item["metadata"]["name"] == name)


def container(workload, name):
    (found,) = [one for one in workload["spec"]["template"]["spec"]["containers"] if one["name"] == name]
    return found


def environment(container, items, node):
    """The variables of a container on a node."""
    found = {}
    for one in container.get("env", []):
        source = one.get("valueFrom", {})
        if "fieldRef" in source:
            found[one["name"]] = node
        elif "configMapKeyRef" in source:
            key = source["configMapKeyRef"]
            found[one["name"]] = of_kind(items, "ConfigMap", key["name"])["data"][key["key"]]
        else:
            found[one["name"]] = one.get("value", "")
    return found


def install_flannel(fabric, cluster):
    items = fabric.manifest("kube-flannel.yml")
    fabric.apply(cluster, *[item for item in items if item["kind"] not in WORKLOADS])
    settings = of_kind(items, "ConfigMap", "kube-flannel-cfg")["data"]
    arguments = container(of_kind(items, "DaemonSet", "kube-flannel-ds"), "kube-flannel")["args"]
    for node in fabric.nodes_of(cluster):
        fabric.program(node, "flannel")
        start_flannel(fabric, node, settings, arguments)
        fabric.configure(node, "10-flannel.conflist", settings["cni-conf.json"])
    fabric.ready(cluster)
    fabric.ran(f"flannel in {cluster}")


def start_flannel(fabric, node, settings, arguments):
    config = fabric.write(node, "net-conf.json", settings["net-conf.json"])
    own = [f"--net-config-path={config}", f"--kubeconfig-file={fabric.access(node)}"]
    fabric.daemon(node, "flanneld", fabric.program(node, "flanneld"), *arguments, *own, NODE_NAME=node)
