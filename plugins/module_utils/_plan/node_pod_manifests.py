# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods by which nodes without SSH are reached: a namespace and a DaemonSet, and how one of its pods is asked who it is. Pure.

Nothing of these objects changes with a release of the collection, and nothing in them is secret: code, state and keys come by the play
and stay in folders of the node (threat T50).
"""

from __future__ import annotations

import typing as t

from .._values.refused import ValueRefused, quoted
from .._values.text import parse_cluster_name
from .objects import MANAGED_BY, MANAGED_BY_US

#: The label of namespace, DaemonSet and pods; its value is the fabric.
LABEL = "multicluster.network/node-pods"
CONTAINER = "node"
#: The folders of a node that its pod sees, by the same paths: state with programs, and keys where a host that is reached otherwise has them.
FOLDERS = {"state": "/var/lib/multicluster-network", "keys": "/var/lib/semaphore-wireguard"}
#: Without a request, a container has the least weight of all that run on a node, and a busy node starves it: wireguard-go and every change with it.
REQUESTS = {"cpu": "100m", "memory": "50Mi"}
#: What a pod knows of itself: its node and its UID by the downward API, and its fabric.
NODE_VARIABLE, UID_VARIABLE, FABRIC_VARIABLE = "MULTICLUSTER_NODE", "MULTICLUSTER_POD_UID", "MULTICLUSTER_NODE_POD"
#: The first line of every answer, without which the pod is not the one that was asked for, and gets no input.
PROOF = b"multicluster node pod\n"
#: How another pod ends.
OTHER_POD = 213
OTHER_POD_TEXT = "multicluster node pod: not the one that was asked for"

# It never changes with a release. ``boot``: the program was there when the container began, so nobody waits for a confirmation any more.
_LOOP = """\
import os, subprocess, sys, time
fabric = sys.argv[1]
agent = "/var/lib/multicluster-network/" + fabric + "/agent"
boot = ["boot"] if os.path.exists(agent) else []
while True:
    if os.path.exists(agent):
        subprocess.call([sys.executable, agent, "pod", fabric] + boot)
        boot = []
    time.sleep(1)
"""

# $1 UID and $2 node of the pod, $3 the node's machine id, $4 how many bytes to read, $5 the command line; "-" for nothing, since an empty
# argument may be lost on the way. Input is never closed, so the number is where it ends; all of it is read, whatever the command leaves.
_SCRIPT = f"""\
if [ "${UID_VARIABLE}" != "$1" ] || [ "${NODE_VARIABLE}" != "$2" ] ||
{{ [ "$3" != - ] && [ "$(cat /proc/1/root/etc/machine-id 2>/dev/null)" != "$3" ]; }}; then
echo "{OTHER_POD_TEXT}: ${NODE_VARIABLE}" >&2
exit {OTHER_POD}
fi
echo "{PROOF.decode("ascii").strip()}"
if [ "$4" = - ]; then exec /bin/sh -c "$5"; fi
head -c "$4" | {{ /bin/sh -c "$5"; code=$?; cat >/dev/null; exit $code; }}"""


def object_name(fabric: str) -> str:
    """Name of namespace and DaemonSet. Raises ValueRefused where the fabric's name cannot be a part of it."""
    try:
        return parse_cluster_name("multicluster-node-" + fabric)
    except ValueRefused:
        raise ValueRefused(
            "name_invalid",
            f"multicluster_fabric is {quoted(fabric)}, and node pods need a name of at most 45 lower-case letters, digits and hyphens",
        ) from None


def node_pod_manifests(
    fabric: str,
    image: str,
    namespace: str = "",
    node_selector: t.Mapping[str, str] | None = None,
    pull_secrets: t.Sequence[str] = (),
) -> list[dict[str, t.Any]]:
    """The manifests of one cluster. Raises ValueRefused."""
    if not image:
        raise ValueRefused(
            "image_missing", "node_access_image is not set; name an image with /bin/sh and Python 3.9 or newer"
        )
    name = object_name(fabric)
    labels = {LABEL: fabric, MANAGED_BY: MANAGED_BY_US}
    namespaces = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "labels": {
                    **labels,
                    "pod-security.kubernetes.io/enforce": "privileged",
                    "pod-security.kubernetes.io/audit": "privileged",
                    "pod-security.kubernetes.io/warn": "privileged",
                },
            },
        }
    ]
    pod = {
        "hostNetwork": True,
        "hostPID": True,
        "dnsPolicy": "Default",
        "priorityClassName": "system-node-critical",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {"kubernetes.io/os": "linux", **(node_selector or {})},
        "containers": [
            {
                "name": CONTAINER,
                "image": image,
                "command": ["python3", "-c", _LOOP, fabric],
                "env": [
                    {"name": FABRIC_VARIABLE, "value": fabric},
                    {"name": NODE_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": UID_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
                ],
                "securityContext": {"privileged": True, "runAsUser": 0},
                "resources": {"requests": REQUESTS},
                "volumeMounts": [{"name": name, "mountPath": path} for name, path in FOLDERS.items()],
            }
        ],
        "volumes": [
            {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}} for name, path in FOLDERS.items()
        ],
    }
    if pull_secrets:
        pod["imagePullSecrets"] = [{"name": secret} for secret in pull_secrets]
    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace or name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": {LABEL: fabric}},
            # the dataplane is the kernel's and stays while a pod is replaced
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}},
            "template": {"metadata": {"labels": {LABEL: fabric}}, "spec": pod},
        },
    }
    return [*([] if namespace else namespaces), daemon_set]


class NodePod(t.NamedTuple):
    """The pod through which a node is reached."""

    name: str
    uid: str
    node: str


def command_words(pod: NodePod, command: str, size: int | None, machine_id: str = "") -> tuple[str, ...]:
    """The words of a command line in the pod, which first proves to be the right one. size: bytes of its input, None for no input."""
    length = "-" if size is None else str(size)
    return ("/bin/sh", "-c", _SCRIPT, "sh", pod.uid, pod.node, machine_id or "-", length, command)
